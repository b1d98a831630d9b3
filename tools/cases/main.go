// Command cases writes the committed answers of Go's libraries that the unit tests of crates/golibs and crates/go-encoding compare with.
//
//	cd tools/cases && go run . ../../crates
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/Masterminds/semver/v3"
	"github.com/gobwas/glob"
	"sigs.k8s.io/yaml"
)

type entry map[string]any

func main() {
	write("golibs/src/glob/cases.jsonl", globs())
	write("golibs/src/regex/cases.jsonl", regexes())
	write("golibs/src/semver/cases.jsonl", constraints())
	write("go-encoding/src/yaml/parse-cases.jsonl", documents())
	write("go-encoding/src/yaml/emit-cases.jsonl", values())
}

func write(name string, entries []entry) {
	file, err := os.Create(filepath.Join(os.Args[1], name))
	if err != nil {
		panic(err)
	}
	defer file.Close()
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	for _, e := range entries {
		if err := encoder.Encode(e); err != nil {
			panic(err)
		}
	}
}

func globs() (all []entry) {
	patterns := []string{"*", "**", "?", "*.json", "**/*.json", "dash/**", "dash/*/x", "{a,b}.json", "[a-c]*", "[!a-c]*", "dash/{x,y*}", "\\*", "x[", "[z-a]", "*a*b"}
	paths := []string{"", "a.json", "dash/a.json", "dash/x", "dash/yy", "dash/b/x", "*", "é", "caab"}
	for _, pattern := range patterns {
		compiled, err := glob.Compile(pattern, '/')
		if err != nil {
			all = append(all, entry{"pattern": pattern, "path": "a", "error": err.Error()})
			continue
		}
		for _, path := range paths {
			all = append(all, entry{"pattern": pattern, "path": path, "out": compiled.Match(path)})
		}
	}
	return all
}

func regexes() (all []entry) {
	patterns := []string{"", "b+", "(?i)ab|c", "^x?", "$", "[[:digit:]]{2,}", "\\bw", "(?m)^\\w", "(a)(b)?", "\\pL\\d", "[^a-f\\s]", "a{2,1}", "(", "*", "[b-a]", "\\Qa.b\\E", "(?s).", "é*?"}
	texts := []string{"", "abbaABc", "x12 345 w7", "line\nwörd é4", "a.b a-b"}
	for _, pattern := range patterns {
		for _, text := range texts {
			compiled, err := regexp.Compile(pattern)
			if err != nil {
				all = append(all, entry{"regex": pattern, "text": text, "error": "ERR", "errtext": err.Error()})
				break
			}
			all = append(all, entry{"regex": pattern, "text": text, "find_all": compiled.FindAllString(text, -1),
				"replace_all": compiled.ReplaceAllString(text, "<$0>"), "split": compiled.Split(text, -1)})
		}
	}
	return all
}

func constraints() (all []entry) {
	constraint := []string{">=1.2.3", "~1.2", "^0.3.1", "1.x", "*", ">1.0.0-alpha <2", "1.2 - 1.4.5", "!=1.3", "=1.2 || >3", "~>1.2.0", "=> 1", "", ">= 1.2.3-0, < 2", "1.2.3.4", "abc"}
	version := []string{"1.2.3", "v1.3.0", "2.0.0-rc.1", "0.3.9", "1.2", "3.1.0+build", "01.2", "x"}
	for _, c := range constraint {
		for _, v := range version {
			parsed, err := semver.NewConstraint(c)
			var candidate *semver.Version
			if err == nil {
				candidate, err = semver.NewVersion(v)
			}
			if err != nil {
				all = append(all, entry{"constraint": c, "version": v, "error": "error calling semverCompare: " + err.Error()})
				continue
			}
			all = append(all, entry{"constraint": c, "version": v, "out": fmt.Sprint(parsed.Check(candidate))})
		}
	}
	return all
}

func documents() (all []entry) {
	texts := []string{
		"a: 1\nb: [x, 'y', \"z\\n\"]\n", "on: off\ny: ~\n", "n: 0x1F\no: 017\nb: 0b101\nf: 1e3\nu: 1_000\n", "d: 2024-02-30\nt: 2024-02-29\n",
		"base: &b {k: v}\nuse:\n  <<: *b\n  k2: v2\n", "lit: |\n  one\n   two\n\nfold: >-\n  a\n  b\n\n  c\n", "- - a\n  - b\n- c: d\n", "k: 'it''s'\n", "a: b: c\n", "a:\n\tb\n",
		"[1, 2", "a: *nope\n", "k: !!str 1\nn: !!int '7'\n", "? x\n: y\n", "# only a comment\n", "", "k: \"\\u00e9\\x41\"\n", "a: 1\na: 2\n", "{a: {b: [c]}}\n", "k: -.inf\n",
		"big: 18446744073709551615\nhuge: 18446744073709551616\n", "- .5\n- 5.\n- +1\n- -0\n", "k: |2\n   x\n", "%YAML 1.1\n---\nx\n", "'a': {'b' : 1}\n", "a: @x\n", "k: >+\n  x\n\n", "1: one\ntrue: yes\nnull: z\n",
	}
	for _, text := range texts {
		var value any
		e := entry{"yaml": text}
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			e["error"] = err.Error()
		} else if out, err := json.Marshal(value); err != nil {
			e["error"] = err.Error()
		} else {
			e["out"] = string(out)
		}
		all = append(all, e)
	}
	return all
}

func values() (all []entry) {
	texts := []string{
		`{"b":1,"a":[true,null,"x"]}`, `{"k":"yes","l":"12","m":"1.5","n":"0x1f","o":"~","p":"null"}`, `"multi\nline\n"`, `"trailing \n space"`, `{"k":"# no","l":"a: b","m":"- x","n":"it's","o":"\"q\""}`,
		`[[1,[2,{"a":[]}]],{}]`, `{"f":1.5,"g":1e21,"h":-0.000001,"i":100000000}`, `""`, `"\u0007\u00e9\u2028\ud83d\ude00"`, `{"":"", " ":" "}`, `"2024-02-29"`, `{"10":1,"9":2,"a10":3,"a9":4}`,
		`"0o17 is text"`, `"1:30"`, `"=x"`, `"long words that go on and on for much more than eighty columns so that a folding emitter would break this line"`, `{"k":"\n"}`, `{"k":"a\n\nb"}`, `{"k":"\ttab"}`, `{"k":"%x","l":"@x","m":"x:","n":"x #y"}`,
	}
	for _, text := range texts {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			panic(err)
		}
		out, err := yaml.Marshal(value)
		if err != nil {
			panic(err)
		}
		all = append(all, entry{"value": value, "out": string(out)})
	}
	return all
}
