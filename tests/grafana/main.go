// Reads a dashboard with Grafana's own types, and prints a line for each value that they do not accept.
//
// The strict readers of Grafana's SDK reject unknown fields, missing fields and wrong types. They neither read a panel's
// fieldConfig strictly, nor look at enumerations and units, nor at panels and queries of unknown kinds: the checks for
// these are here. The values of enumerations and the units are read from the SDK's sources, which Go does not keep in a
// program.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	_ "github.com/grafana/grafana-foundation-sdk/go/units"
)

const module = "github.com/grafana/grafana-foundation-sdk/go/"

// The values of a type's constants, by "package.type"; of constants without a type, by "package.".
type constants map[string]map[string]bool

// Reads the constants of Go files whose names are those of their packages.
func constantsOf(folder string) (constants, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	found := constants{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range tree.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.CONST {
				for _, spec := range general.Specs {
					found.add(tree.Name.Name, spec.(*ast.ValueSpec))
				}
			}
		}
	}
	if len(found["units."]) == 0 || len(found["common.LegendPlacement"]) == 0 {
		return nil, errors.New("no constants of the SDK in " + folder)
	}
	return found, nil
}

func (found constants) add(name string, spec *ast.ValueSpec) {
	key := name + "."
	if kind, ok := spec.Type.(*ast.Ident); ok {
		key += kind.Name
	}
	if found[key] == nil {
		found[key] = map[string]bool{}
	}
	for _, value := range spec.Values {
		if literal, ok := value.(*ast.BasicLit); ok {
			text := literal.Value
			if literal.Kind == token.STRING {
				text, _ = strconv.Unquote(text)
			}
			found[key][text] = true
		}
	}
}

// Adds a problem for each value below this one whose type is an enumeration that lacks the value.
func (found constants) walk(at string, value reflect.Value, problems *[]string) {
	kind := value.Type()
	switch value.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !value.IsNil() {
			found.walk(at, value.Elem(), problems)
		}
	case reflect.Struct:
		for i := 0; i < kind.NumField(); i++ {
			name, below := strings.Split(kind.Field(i).Tag.Get("json"), ",")[0], at
			if name != kind.Field(i).Name { // fields of a union of types are not in the text
				below += "." + name
			}
			found.walk(below, value.Field(i), problems)
		}
	case reflect.Slice:
		for i := 0; i < value.Len(); i++ {
			found.walk(fmt.Sprintf("%s[%d]", at, i), value.Index(i), problems)
		}
	case reflect.String, reflect.Int64:
		if !strings.HasPrefix(kind.PkgPath(), module) {
			return
		}
		allowed := found[path.Base(kind.PkgPath())+"."+kind.Name()]
		if text := fmt.Sprint(value); !allowed[text] {
			*problems = append(*problems, fmt.Sprintf("%s: %q is no %s", at, text, kind.Name()))
		}
	}
}

// Problems of a panel that the SDK's readers pass over. raw: its fieldConfig.
func (found constants) ofPanel(panel *dashboard.Panel, raw json.RawMessage) []string {
	var problems []string
	if _, known := cog.ConfigForPanelcfgVariant(panel.Type); !known {
		problems = append(problems, fmt.Sprintf("type: %q is no panel", panel.Type))
	}
	for i, target := range panel.Targets {
		switch target.(type) {
		case variants.UnknownDataquery, *variants.UnknownDataquery:
			problems = append(problems, fmt.Sprintf("targets[%d]: of no data source that the SDK knows", i))
		}
	}
	if raw == nil {
		return problems
	}
	problems = append(problems, lines("fieldConfig", new(dashboard.FieldConfigSource).UnmarshalJSONStrict(raw))...)
	if unit := panel.FieldConfig.Defaults.Unit; unit != nil && !found["units."][*unit] {
		problems = append(problems, fmt.Sprintf("fieldConfig.defaults.unit: %q is no unit", *unit))
	}
	return problems
}

// The lines of an error. The SDK's readers return a list, which is empty where all is well, and then not nil.
func lines(at string, err error) []string {
	var list cog.BuildErrors
	if err == nil {
		return nil
	}
	if !errors.As(err, &list) {
		return []string{at + ": " + err.Error()}
	}
	var problems []string
	for _, problem := range list {
		problems = append(problems, at+"."+problem.Error())
	}
	return problems
}

func check(found constants, text []byte) ([]string, error) {
	plugins.RegisterDefaultPlugins()
	if problems := lines("dashboard", new(dashboard.Dashboard).UnmarshalJSONStrict(text)); problems != nil {
		return problems, nil
	}
	// The strict reader leaves out what it has read below panels, so the values come from the other one.
	var read dashboard.Dashboard
	var raw struct {
		Panels []struct {
			FieldConfig json.RawMessage `json:"fieldConfig"`
		} `json:"panels"`
	}
	if err := errors.Join(json.Unmarshal(text, &read), json.Unmarshal(text, &raw)); err != nil {
		return nil, err
	}
	if len(read.Panels) == 0 {
		return nil, errors.New("no panels")
	}
	problems := lines("dashboard", read.Validate())
	found.walk("dashboard", reflect.ValueOf(read), &problems)
	for i, panel := range read.Panels {
		if panel.Panel == nil {
			continue
		}
		for _, problem := range found.ofPanel(panel.Panel, raw.Panels[i].FieldConfig) {
			problems = append(problems, fmt.Sprintf("dashboard.panels[%d].%s", i, problem))
		}
	}
	return problems, nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: grafana SOURCES DASHBOARD")
		os.Exit(2)
	}
	found, err := constantsOf(os.Args[1])
	text, unread := os.ReadFile(os.Args[2])
	var problems []string
	if err = errors.Join(err, unread); err == nil {
		problems, err = check(found, text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	sort.Strings(problems)
	for i, problem := range problems {
		if i == 0 || problem != problems[i-1] {
			fmt.Println(problem)
		}
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}
