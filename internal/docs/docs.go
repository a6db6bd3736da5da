// Package docs writes the reference of all metrics, docs/metrics.md, from what the plugins' READMEs say. Its tests hold the
// whole documentation to the truth: links, command lines, configurations and names of metrics.
package docs

import (
	"io"
	"strings"

	"telegraf-hpc/internal/catalogue"
)

// Reference is docs/metrics.md.
//
//go:generate go test -count=1 -run ^TestReference$ . -update
const Reference = "docs/metrics.md"

const introduction = `# All metrics

Each measurement of each plugin, as the plugins' READMEs have them; ` + "`go generate ./internal/docs`" + ` writes this page.
` + "`telegraf-hpc list`" + ` shows the same on a terminal, and ` + "`telegraf-hpc list --json`" + ` to programs.

A name with a word of capital letters in it stands for all names that have anything in its place. Telegraf adds the tag
` + "`host`" + `, and what a site adds itself. A value that is not known is left out, and is never 0.

`

// WriteReference writes the page, with the plugins and measurements in the order that they come in. readmes are the READMEs of
// plugins, by the plugins' names, as links from the page.
func WriteReference(w io.Writer, all []catalogue.Measurement, readmes map[string]string) error {
	var b strings.Builder
	b.WriteString(introduction)
	index(&b, all)
	plugin := ""
	for i := range all {
		m := &all[i]
		if m.Plugin != plugin {
			plugin = m.Plugin
			b.WriteString("\n## " + plugin + "\n\n[What it is, and how it is configured.](" + readmes[plugin] + ")\n")
		}
		measurement(&b, m)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// index writes a table of the measurements of each plugin.
func index(b *strings.Builder, all []catalogue.Measurement) {
	b.WriteString("| plugin | measurements |\n|---|---|\n")
	for i := range all {
		name := all[i].Name
		switch {
		case i == 0 || all[i-1].Plugin != all[i].Plugin:
			b.WriteString("| [" + all[i].Plugin + "](#" + all[i].Plugin + ") | ")
		default:
			b.WriteString(", ")
		}
		b.WriteString("[" + name + "](#" + name + suffix(all, i) + ")")
		if i == len(all)-1 || all[i+1].Plugin != all[i].Plugin {
			b.WriteString(" |\n")
		}
	}
}

// suffix gives what the anchor of a measurement has behind its name: that of a plugin's name is taken by the plugin.
func suffix(all []catalogue.Measurement, i int) string {
	for j := range all {
		// A heading counts its forerunners, and a measurement stands below its plugin's name or that of an earlier one.
		if all[j].Plugin == all[i].Name {
			return "-1"
		}
	}
	return ""
}

func measurement(b *strings.Builder, m *catalogue.Measurement) {
	b.WriteString("\n### " + m.Name + "\n\n" + sentence(m.Text))
	if m.Optional {
		b.WriteString(" Not by default.")
	}
	b.WriteString("\n")
	if len(m.Tags) > 0 {
		b.WriteString("\n| tag | |\n|---|---|\n")
	}
	for _, t := range m.Tags {
		b.WriteString("| `" + t.Name + "` | " + cell(t.Text) + " |\n")
	}
	b.WriteString("\n| field | type | unit | |\n|---|---|---|---|\n")
	for _, f := range m.Fields {
		b.WriteString("| `" + f.Name + "` | " + f.Type + " | " + cell(f.Unit) + " | " + cell(f.Text) + " |\n")
	}
}

// sentence gives a text with a capital in front and a full stop behind.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// cell gives a text that may stand in a table: there a bar ends a cell, in code as well.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
