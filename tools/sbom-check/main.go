// Sbom-check validates a CycloneDX document against the standard's own JSON schema.
//
//	sbom-check SCHEMAS FILE
//
// SCHEMAS is the folder of schemas of the module cyclonedx-go, which go.mod pins; the document says which version it is of.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	// Brings the schemas; tools/part finds its folder.
	_ "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom-check SCHEMAS FILE")
		os.Exit(2)
	}
	if err := check(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(path string) (any, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	document, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return document, nil
}

func field(document any, name string) string {
	fields, _ := document.(map[string]any)
	text, _ := fields[name].(string)
	return text
}

func check(schemas, path string) error {
	document, err := read(path)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(schemas, "*.json"))
	if err != nil {
		return err
	}
	version := field(document, "specVersion")
	wanted := "bom-" + version + ".schema.json"
	standard, err := read(filepath.Join(schemas, wanted))
	if err != nil {
		return err
	}
	id := field(standard, "$id")
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(id, standard); err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "bom-") {
			continue
		}
		schema, err := read(file)
		if err != nil {
			return err
		}
		// They refer to each other by these names, of which none is asked on the network.
		if err := compiler.AddResource(field(schema, "$id"), schema); err != nil {
			return err
		}
	}
	schema, err := compiler.Compile(id)
	if err != nil {
		return err
	}
	if err := schema.Validate(document); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	components, _ := document.(map[string]any)["components"].([]any)
	summary, err := json.Marshal(map[string]any{"specVersion": version, "components": len(components)})
	fmt.Println(string(summary))
	return err
}
