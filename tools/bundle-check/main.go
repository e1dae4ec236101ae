// bundle-check runs the validators of operator-framework over a bundle directory, and reads the scorecard's
// configuration as strictly as the scorecard does. It prints each finding and fails on any.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bundle-check DIR")
		os.Exit(2)
	}
	findings := check(os.Args[1])
	for _, finding := range findings {
		fmt.Println(finding)
	}
	fmt.Printf("%d findings\n", len(findings))
	if len(findings) > 0 {
		os.Exit(1)
	}
}

func check(dir string) (findings []string) {
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return []string{fmt.Sprintf("Error: the bundle cannot be loaded: %v", err)}
	}
	objects := bundle.ObjectsToValidate()
	leftOut := 0
	for _, validator := range validation.AllValidators {
		if isLeftOut(validator) {
			leftOut++
			continue
		}
		for _, result := range validator.Validate(objects...) {
			for _, err := range append(result.Errors, result.Warnings...) {
				findings = append(findings, fmt.Sprintf("%s: %s", result.Name, err.Error()))
			}
		}
	}
	if leftOut != 1 || len(validation.AllValidators) < 13 {
		findings = append(findings, fmt.Sprintf("Error: of %d validators %d were left out, and not 1 of 13 or more: this version of the module has others",
			len(validation.AllValidators), leftOut))
	}
	if err := scorecard(filepath.Join(dir, "tests", "scorecard", "config.yaml")); err != nil {
		findings = append(findings, fmt.Sprintf("Error: the scorecard's configuration: %v", err))
	}
	return findings
}

// MultipleArchitecturesValidator pulls images from registries. OperatorHubValidator, of which OperatorHubV2Validator and
// two others take the place and which always says so, is not in this version's list any more.
func isLeftOut(validator any) bool {
	return reflect.ValueOf(validator).Pointer() == reflect.ValueOf(validation.MultipleArchitecturesValidator).Pointer()
}

func scorecard(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.DisallowUnknownFields()
	config := v1alpha3.Configuration{}
	if err := decoder.Decode(&config); err != nil {
		return err
	}
	if config.Kind != v1alpha3.ConfigurationKind || config.APIVersion != v1alpha3.GroupVersion.String() {
		return fmt.Errorf("is %s %s, not %s %s", config.APIVersion, config.Kind, v1alpha3.GroupVersion, v1alpha3.ConfigurationKind)
	}
	for _, stage := range config.Stages {
		for _, test := range stage.Tests {
			if test.Image == "" || len(test.Entrypoint) == 0 {
				return errors.New("a test without image or entrypoint")
			}
		}
	}
	if len(config.Stages) == 0 {
		return errors.New("no stages")
	}
	return nil
}
