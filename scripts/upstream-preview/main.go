// Prints what upstream's evaluator finds in template folders, as one line of JSON for each line of JSON on standard
// input. The tests of packages/hcl compare this project's evaluator with it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/zclconf/go-cty/cty"

	"github.com/coder/preview"
	"github.com/coder/preview/types"
)

type question struct {
	Dir    string               `json:"dir"`
	Plan   string               `json:"plan"`
	Inputs map[string]string    `json:"inputs"`
	Owner  types.WorkspaceOwner `json:"owner"`
	Vars   map[string]string    `json:"vars"`
}

type answer struct {
	Parameters  []types.Parameter `json:"parameters"`
	Presets     []types.Preset    `json:"presets"`
	Tags        map[string]string `json:"tags"`
	UnknownTags []string          `json:"unknown_tags"`
	Diagnostics types.Diagnostics `json:"diagnostics"`
}

func ask(line []byte) (answer, error) {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return answer{}, err
	}
	vars := map[string]cty.Value{}
	for name, value := range q.Vars {
		vars[name] = cty.StringVal(value)
	}
	input := preview.Input{PlanJSONPath: q.Plan, ParameterValues: q.Inputs, Owner: q.Owner, TFVars: vars}
	output, diags := preview.Preview(context.Background(), input, os.DirFS(q.Dir))
	found := answer{Diagnostics: types.Diagnostics(diags)}
	if output != nil {
		found.Parameters = output.Parameters
		found.Presets = output.Presets
		found.Tags = output.WorkspaceTags.Tags()
		found.UnknownTags = output.WorkspaceTags.UnusableTags().SafeNames()
	}
	return found, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		found, err := ask(lines.Bytes())
		if err == nil {
			err = out.Encode(found)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

