// Command patches writes what kustomize makes of the cases of crates/helm-operator/src/rendering/patches, with which unit tests compare ours, and which lists
// of built-in kinds merge by keys, from what the API server's OpenAPI says (crates/memory-api/types.txt).
//
//	cd tools/patches && go run . ../../crates
package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

type testCase struct {
	Name    string `json:"name"`
	Objects []any  `json:"objects"`
	Patches []any  `json:"patches"`
}

func main() {
	crate := filepath.Join(os.Args[1], "helm-operator")
	folder := filepath.Join(crate, "src", "rendering", "patches")
	types, err := os.ReadFile(filepath.Join(os.Args[1], "memory-api", "types.txt"))
	check(err)
	check(os.WriteFile(filepath.Join(crate, "assets", "merge-keys.txt"), []byte(keys(string(types))), 0o644))
	text, err := os.ReadFile(filepath.Join(folder, "cases.yaml"))
	check(err)
	var cases []testCase
	check(yaml.UnmarshalStrict(text, &cases))
	file, err := os.Create(filepath.Join(folder, "cases.jsonl"))
	check(err)
	defer file.Close()
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	for _, c := range cases {
		row := map[string]any{"name": c.Name, "objects": c.Objects, "patches": c.Patches}
		if out, err := build(c); err != nil {
			row["error"] = err.Error()
		} else {
			row["out"] = out
		}
		check(encoder.Encode(row))
	}
}

// build runs kustomize on files in memory.
func build(c testCase) ([]any, error) {
	disk := filesys.MakeFsInMemory()
	var objects []byte
	for _, object := range c.Objects {
		text, err := yaml.Marshal(object)
		check(err)
		objects = append(append(objects, "---\n"...), text...)
	}
	check(disk.WriteFile("/objects.yaml", objects))
	kustomization, err := yaml.Marshal(map[string]any{"resources": []string{"objects.yaml"}, "patches": c.Patches})
	check(err)
	check(disk.WriteFile("/kustomization.yaml", kustomization))
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/")
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, resource := range built.Resources() {
		text, err := resource.AsYAML()
		check(err)
		var object any
		check(yaml.Unmarshal(text, &object))
		out = append(out, object)
	}
	return out, nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
