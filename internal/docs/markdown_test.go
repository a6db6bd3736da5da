package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// page is what the tests want to know of a Markdown file.
type page struct {
	path    string          // from the repository's root
	anchors map[string]bool // of headings, as GitHub makes them
	links   []link
	blocks  []block
	spans   []span
}

// link leads somewhere.
type link struct {
	line   int
	target string
}

// block is a fenced code block.
type block struct {
	line int    // of its first line of text
	info string // what stands behind the fence
	text string
}

// span is code within a line.
type span struct {
	line int
	text string
}

var (
	linkPattern      = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	referencePattern = regexp.MustCompile(`^\[[^\]]+\]: (\S+)$`)
	spanPattern      = regexp.MustCompile("`([^`]+)`")
)

// parse reads a Markdown file.
func parse(path, text string) *page {
	p := &page{path: path, anchors: make(map[string]bool)}
	var open *block
	for i, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open = &block{line: i + 2, info: strings.TrimSpace(line)[3:]}
		case fence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		default:
			p.line(i+1, line)
		}
	}
	return p
}

func (p *page) line(number int, line string) {
	if level := len(line) - len(strings.TrimLeft(line, "#")); level > 0 && strings.HasPrefix(line[level:], " ") {
		anchor := slug(line[level+1:])
		for n := 1; p.anchors[anchor]; n++ {
			anchor = slug(line[level+1:]) + "-" + strconv.Itoa(n)
		}
		p.anchors[anchor] = true
	}
	for _, found := range spanPattern.FindAllStringSubmatch(line, -1) {
		p.spans = append(p.spans, span{number, found[1]})
	}
	prose := spanPattern.ReplaceAllString(line, "code")
	for _, found := range linkPattern.FindAllStringSubmatch(prose, -1) {
		p.links = append(p.links, link{number, found[1]})
	}
	if found := referencePattern.FindStringSubmatch(prose); found != nil {
		p.links = append(p.links, link{number, found[1]})
	}
}

// slug gives the anchor of a heading, as GitHub makes it: letters, digits, hyphens and underscores, in lower case, and hyphens
// for spaces.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

func TestParse(t *testing.T) {
	t.Parallel()
	p := parse("a.md", "# One `two`, three!\n\nSee [this](b.md#x) and [`that`](c/), not `[code](d)`.\n\n```sh @x\n# no heading\n[no](link)\n```\n## Same\n## Same\n[r]: ../e.md\n#not\n")
	require.Equal(t, &page{
		path:    "a.md",
		anchors: map[string]bool{"one-two-three": true, "same": true, "same-1": true},
		links:   []link{{3, "b.md#x"}, {3, "c/"}, {11, "../e.md"}},
		blocks:  []block{{6, "sh @x", "# no heading\n[no](link)\n"}},
		spans:   []span{{1, "two"}, {3, "that"}, {3, "[code](d)"}},
	}, p)
}

// pages reads all Markdown files of the repository, by their path from its root.
func pages(t *testing.T) map[string]*page {
	t.Helper()
	all := make(map[string]*page)
	require.NoError(t, filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(repository, path)
		all[name] = parse(name, string(text))
		return err
	}))
	require.Contains(t, all, "README.md")
	require.Contains(t, all, Reference)
	require.Greater(t, len(all), 20)
	return all
}
