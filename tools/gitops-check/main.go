// gitops-check says what Argo CD and Flux make of objects: it runs a health check in Lua and health expressions in CEL in
// the engines of both, with the libraries that both allow. It reads JSON with `lua`, `cel` and `objects`, and prints an
// answer for each object.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	lua "github.com/yuin/gopher-lua"
)

type input struct {
	Lua     string
	CEL     struct{ Current, Failed, InProgress string }
	Objects []map[string]any
}

type answer struct {
	Argo map[string]string `json:"argo"`
	Flux string            `json:"flux"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return err
	}
	var answers []answer
	for _, object := range given.Objects {
		argo, err := argo(given.Lua, object)
		if err != nil {
			return fmt.Errorf("Lua: %w", err)
		}
		flux, err := flux(given, object)
		if err != nil {
			return fmt.Errorf("CEL: %w", err)
		}
		answers = append(answers, answer{argo, flux})
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// argo runs the script with the global obj. Of Lua's libraries, scripts get package, base and table, and one second.
func argo(script string, object map[string]any) (map[string]string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(within)
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return nil, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script returns no table but %s", state.Get(-1).Type())
	}
	health := map[string]string{}
	table.ForEach(func(key, value lua.LValue) { health[key.String()] = value.String() })
	return health, nil
}

func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case bool:
		return lua.LBool(of)
	case float64:
		return lua.LNumber(of)
	case string:
		return lua.LString(of)
	case []any:
		table := state.NewTable()
		for _, item := range of {
			table.Append(value(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range of {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}

// flux evaluates the expressions, in this order, over the fields of the object. It goes on waiting if none holds, if the
// status is of another generation, or if an expression needs a field that is not there.
func flux(given input, object map[string]any) (string, error) {
	status, _ := object["status"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	if observed, ok := status["observedGeneration"]; ok && observed != metadata["generation"] {
		return "InProgress", nil
	}
	env, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders(),
	)
	if err != nil {
		return "", err
	}
	for _, each := range []struct{ name, expression string }{
		{"InProgress", given.CEL.InProgress}, {"Failed", given.CEL.Failed}, {"Current", given.CEL.Current},
	} {
		if each.expression == "" {
			continue
		}
		parsed, issues := env.Parse(each.expression)
		if issues.Err() != nil {
			return "", issues.Err()
		}
		program, err := env.Program(parsed)
		if err != nil {
			return "", err
		}
		result, _, err := program.Eval(object)
		if err != nil {
			return "Unknown", nil
		}
		holds, ok := result.Value().(bool)
		if !ok {
			return "", fmt.Errorf("%s is not a boolean", each.expression)
		}
		if holds {
			return each.name, nil
		}
	}
	return "InProgress", nil
}
