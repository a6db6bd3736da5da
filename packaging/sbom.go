package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The parts of CycloneDX 1.6 that are used here (https://cyclonedx.org/docs/1.6/json/).
type (
	cdx struct {
		Format       string          `json:"bomFormat"`
		SpecVersion  string          `json:"specVersion"`
		Version      int             `json:"version"`
		Metadata     cdxMetadata     `json:"metadata"`
		Components   []cdxComponent  `json:"components"`
		Dependencies []cdxDependency `json:"dependencies"`
	}
	cdxMetadata struct {
		Timestamp string       `json:"timestamp"`
		Component cdxComponent `json:"component"`
	}
	cdxComponent struct {
		Type       string        `json:"type"`
		Ref        string        `json:"bom-ref"`
		Name       string        `json:"name"`
		Version    string        `json:"version"`
		URL        string        `json:"purl,omitempty"`
		Properties []cdxProperty `json:"properties,omitempty"`
	}
	cdxProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	cdxDependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
)

// bill lists what is in the programs of an architecture, as the programs themselves say: each program, the Go it was built
// with, and each module that is linked into it, with its checksum in go.sum.
func (p *packager) bill(arch string, programs []program, bin string) ([]byte, error) {
	whole := cdxComponent{Type: "application", Ref: "telegraf-hpc", Name: "telegraf-hpc", Version: p.version,
		Properties: []cdxProperty{{"architecture", arch}, {"revision", p.describe}}}
	b := cdx{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: cdxMetadata{p.time.Format(time.RFC3339), whole}}
	modules := make(map[string]cdxComponent)
	top := cdxDependency{Ref: whole.Ref, On: []string{}}
	for _, one := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(bin, one.name))
		if err != nil {
			return nil, err
		}
		ref := "/" + one.path()
		b.Components = append(b.Components, cdxComponent{Type: "application", Ref: ref, Name: one.name, Version: p.version})
		top.On = append(top.On, ref)
		needs := cdxDependency{Ref: ref, On: []string{}}
		compiler := debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, module := range append(info.Deps, &compiler) {
			component := componentOf(module)
			modules[component.Ref] = component
			needs.On = append(needs.On, component.Ref)
		}
		slices.Sort(needs.On)
		b.Dependencies = append(b.Dependencies, needs)
	}
	b.Dependencies = append(b.Dependencies, top)
	slices.SortFunc(b.Dependencies, func(a, b cdxDependency) int { return cmp.Compare(a.Ref, b.Ref) })
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		b.Components = append(b.Components, modules[ref])
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// componentOf describes a module. One that is replaced is what it is replaced by.
func componentOf(module *debug.Module) cdxComponent {
	if module.Replace != nil {
		module = module.Replace
	}
	url := "pkg:golang/" + module.Path + "@" + strings.ReplaceAll(module.Version, "+", "%2B")
	component := cdxComponent{Type: "library", Ref: url, Name: module.Path, Version: module.Version, URL: url}
	if module.Sum != "" {
		component.Properties = []cdxProperty{{"go.sum", module.Sum}}
	}
	return component
}
