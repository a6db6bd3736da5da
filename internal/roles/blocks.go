package roles

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// block is a part of sample.conf without an empty line: a table or a few, with the comments above.
type block struct {
	section string // The heading that it stands below.
	lines   []string
}

// parseBlocks takes sample.conf apart.
func parseBlocks(text string) []block {
	var blocks []block
	section, current := "", []string(nil)
	end := func() {
		if len(current) > 0 {
			blocks = append(blocks, block{section: section, lines: current})
		}
		current = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		heading, isHeading := strings.CutPrefix(line, "# ---")
		switch {
		case isHeading:
			end()
			section = strings.TrimSpace(strings.TrimLeft(heading, "-"))
		case line == "":
			end()
		default:
			current = append(current, line)
		}
	}
	end()
	return blocks
}

// on tells whether the block's tables are in force: none is commented out.
func (b *block) on() bool {
	for _, line := range b.lines {
		if strings.HasPrefix(line, "[") {
			return true
		}
	}
	return false
}

// has tells whether a table stands in the block, in force or not.
func (b *block) has(table string) bool {
	for _, line := range b.lines {
		if strings.TrimPrefix(line, "# ") == "[["+table+"]]" || strings.TrimPrefix(line, "# ") == "["+table+"]" {
			return true
		}
	}
	return false
}

// program gives which of our programs the block's table runs; empty if none.
func (b *block) program() string {
	found := regexp.MustCompile(`\{TELEGRAF_HPC_BIN:-[^}]*\}/([a-z0-9_]+)"`).FindStringSubmatch(strings.Join(b.lines, "\n"))
	if found == nil {
		return ""
	}
	return path.Base(found[1])
}

// text gives the block in force.
func (b *block) text() string {
	var out strings.Builder
	for _, line := range b.lines {
		out.WriteString(strings.TrimPrefix(line, "# "))
		out.WriteByte('\n')
	}
	return out.String()
}

// set gives an option of a plugin's sample configuration another value: the lines that show its default, commented out,
// become what change makes of that, in TOML.
func set(text, key string, change func(usual string) string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		usual, ok := strings.CutPrefix(line, "  # "+key+" = ")
		if !ok {
			continue
		}
		last := i
		for open := depth(usual); open > 0 && last+1 < len(lines); {
			last++
			open += depth(lines[last])
			usual += strings.Replace(lines[last], "  # ", "  ", 1)
		}
		return strings.Join(lines[:i], "") + "  " + key + " = " + change(strings.TrimSuffix(usual, "\n")) + "\n" + strings.Join(lines[last+1:], ""), nil
	}
	return "", fmt.Errorf("the sample configuration has no option %s", key)
}

// to is a change to another value.
func to(value string) func(string) string { return func(string) string { return value } }

// more is a change of a list to one that has more.
func more(values string) func(string) string {
	return func(usual string) string { return strings.TrimSuffix(usual, "]") + ", " + values + "]" }
}

// depth counts the brackets that a line opens and does not close.
func depth(line string) int { return strings.Count(line, "[") - strings.Count(line, "]") }
