package main

import (
	"regexp"
	"slices"
	"strings"
)

// structure is a type with its fields that are lists with merge keys, or lead to some.
type structure struct {
	name   string
	fields []field
}

type field struct {
	// name, the type of the value or element, and for lists the merge keys.
	name, of, keys string
}

var (
	// list matches `env:[@core.v1.EnvVar]name~merge:name`, with further fields of the element that identify it.
	list = regexp.MustCompile(`^([^:]+):\[@?([^\]]*)\]([^~]*)~merge(?:\+retainKeys)?(?::(.*))?$`)
	// one matches `spec:@core.v1.PodSpec`.
	one = regexp.MustCompile(`^([^:]+):@([A-Za-z0-9.]+)`)
)

// keys returns a line for each kind and structure that matters: `kind GROUP/VERSION KIND STRUCTURE` and
// `STRUCTURE FIELD:TYPE[:KEYS]…`.
func keys(types string) string {
	var kinds [][]string
	structures := map[string]structure{}
	for line := range strings.Lines(types) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "kind":
			kinds = append(kinds, words)
		default:
			structures[words[0]] = parse(words)
		}
	}
	for prune(structures) {
	}
	var lines []string
	for _, words := range kinds {
		if _, ok := structures[words[5]]; ok {
			lines = append(lines, strings.Join([]string{"kind", words[1], words[2], words[5]}, " "))
		}
	}
	for _, s := range structures {
		line := s.name
		for _, f := range s.fields {
			line += " " + f.name + ":" + f.of
			if f.keys != "" {
				line += ":" + f.keys
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func parse(words []string) structure {
	s := structure{name: words[0]}
	for _, word := range words[1:] {
		if m := list.FindStringSubmatch(word); m != nil {
			s.fields = append(s.fields, field{m[1], m[2], mergeKeys(m[4], strings.ReplaceAll(m[3], "*", ""))})
		} else if m := one.FindStringSubmatch(word); m != nil {
			s.fields = append(s.fields, field{m[1], m[2], ""})
		}
	}
	return s
}

// mergeKeys returns the patch's key, then the others that identify an element together with it; `=` stands for the whole element.
func mergeKeys(key, identity string) string {
	if key == "" {
		return "="
	}
	keys := []string{key}
	for other := range strings.SplitSeq(identity, ",") {
		if other != "" && other != key {
			keys = append(keys, other)
		}
	}
	return strings.Join(keys, ",")
}

// prune drops fields that lead to nothing, and structures without fields; it reports whether there were any.
func prune(structures map[string]structure) (changed bool) {
	for name, s := range structures {
		kept := slices.DeleteFunc(slices.Clone(s.fields), func(f field) bool {
			_, known := structures[f.of]
			return f.keys == "" && !known
		})
		if len(kept) == 0 {
			delete(structures, name)
			changed = true
		} else if len(kept) < len(s.fields) {
			structures[name] = structure{name, kept}
			changed = true
		}
	}
	return changed
}
