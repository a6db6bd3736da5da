package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var when = time.Date(2026, 11, 21, 17, 34, 53, 0, time.UTC)

func TestPackageVersion(t *testing.T) {
	for _, tt := range []struct{ describe, want string }{
		{"v1.2.3", "1.2.3"},
		{"v1.2", "1.2"},
		{"v1.2.3-rc.1", "1.2.3~rc.1"},
		{"v1.2.3-rc1-4-gabcdef0", "1.2.3~rc1+4.abcdef0"},
		{"v1.2.3-4-gabcdef0", "1.2.3+4.abcdef0"},
		{"v1.2.3-4-gabcdef0-dirty", "1.2.3+4.abcdef0.dirty"},
		{"v1.2.3-dirty", "1.2.3+dirty"},
		{"574fe84", "0~20261121173453.574fe84"},
		{"574fe84-dirty", "0~20261121173453.574fe84+dirty"},
	} {
		got, err := packageVersion(tt.describe, when)
		require.NoError(t, err, tt.describe)
		require.Equal(t, tt.want, got)
	}
	for _, describe := range []string{"", "unknown", "1.2.3", "v1", "v1.2.3-4", "v1.2.3 ", "v1.2.3; rm"} {
		_, err := packageVersion(describe, when)
		require.EqualError(t, err, `version "`+describe+`" is not of the form v1.2.3, v1.2.3-rc.1, v1.2.3-4-gabcdef0 or abcdef0, with or without -dirty`)
	}
}

func TestParts(t *testing.T) {
	const rule = "# ---------------------------------- "
	sample := "# Above.\n[agent]\n" + rule + "every host\n\n[[inputs.cpu]]\n" + rule + "file server (OSS, MDS)\n[[inputs.execd]]\n" + rule + "outputs\n"
	all := parts([]byte(sample))
	var whole strings.Builder
	names := make([]string, 0, len(all))
	for _, one := range all {
		whole.Write(one.content)
		names = append(names, one.path)
	}
	require.Equal(t, sample, whole.String())
	const folder = "usr/share/telegraf-hpc/telegraf.d/"
	require.Equal(t, []string{folder + "agent.conf", folder + "every.conf", folder + "fileserver.conf", folder + "outputs.conf"}, names)
	require.Equal(t, rule+"every host\n\n[[inputs.cpu]]\n", string(all[1].content))
}

func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		"plain":     "plain",
		".TH":       `\&.TH`,
		"'s":        `\(aqs`,
		`a\b -c`:    `a\eb \-c`,
		"~/^`":      "\\(ti/\\(ha\\`",
		"1.5 in it": "1.5 in it",
	} {
		require.Equal(t, want, roff(text))
	}
}

func TestComponentOf(t *testing.T) {
	require.Equal(t, cdxComponent{Type: "library", Ref: "pkg:golang/a.org/b@v2.0.0%2Bincompatible", Name: "a.org/b", Version: "v2.0.0+incompatible",
		URL: "pkg:golang/a.org/b@v2.0.0%2Bincompatible", Properties: []cdxProperty{{"go.sum", "h1:x="}}},
		componentOf(&debug.Module{Path: "a.org/old", Version: "v1.0.0", Replace: &debug.Module{Path: "a.org/b", Version: "v2.0.0+incompatible", Sum: "h1:x="}}))
}

// What is in a bill is what the program says that it was built of; a test is a program, too.
func TestBill(t *testing.T) {
	bin := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "one")))
	p := packager{version: "1.0", describe: "v1.0", time: when}
	text, err := p.bill("amd64", []program{{name: "one"}}, bin)
	require.NoError(t, err)
	var b cdx
	require.NoError(t, json.Unmarshal(text, &b))
	require.Equal(t, "2026-11-21T17:34:53Z", b.Metadata.Timestamp)
	require.Equal(t, []string{"/usr/lib/telegraf-hpc/one", "telegraf-hpc"}, []string{b.Dependencies[0].Ref, b.Dependencies[1].Ref})
	require.True(t, slices.ContainsFunc(b.Dependencies[0].On, func(ref string) bool { return strings.HasPrefix(ref, "pkg:golang/sigs.k8s.io/yaml@v") }))
	_, err = p.bill("amd64", []program{{name: "two"}}, bin)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAppendLicences(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "license"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "licensed.go"), nil, 0o600))
	var all bytes.Buffer
	require.EqualError(t, appendLicences(&all, "a.org/b v1.0.0", folder), "a.org/b v1.0.0 has no licence in "+folder+": it may not be given away")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "LICENSE.md"), []byte("Take it.\n\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "NOTICE"), []byte("Mine."), 0o600))
	require.NoError(t, appendLicences(&all, "a.org/b v1.0.0", folder))
	require.Equal(t, "==== a.org/b v1.0.0: LICENSE.md\n\nTake it.\n\n==== a.org/b v1.0.0: NOTICE\n\nMine.\n\n", all.String())
}

// The repository as it is: each command but the simulator is found and says what it is; nothing in /etc/telegraf is read by
// a Telegraf that was not told.
func TestRepository(t *testing.T) {
	p := packager{repository: ".."}
	programs, err := p.programs()
	require.NoError(t, err)
	bin := t.TempDir()
	for _, one := range programs {
		require.NotEqual(t, "lustresim", one.name)
		require.NotEmpty(t, one.about)
		require.NotContains(t, one.about, "Command ")
		require.NoError(t, os.WriteFile(filepath.Join(bin, one.name), []byte(one.name), 0o600))
	}
	files, err := p.layout(programs, bin)
	require.NoError(t, err)
	for _, one := range files {
		require.True(t, strings.HasPrefix(one.path, "usr/") || one.config, one.path)
		if one.config {
			require.Equal(t, "etc/telegraf", filepath.Dir(one.path))
			require.NotEqual(t, "etc/telegraf/telegraf.conf", one.path)
			require.Equal(t, os.FileMode(0o640), one.mode, one.path)
		}
	}
	require.NoError(t, os.Remove(filepath.Join(bin, programs[0].name)))
	_, err = p.layout(programs, bin)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// All that go generate writes below dashboards is in the packages, and nothing that only checks or draws it.
func TestDashboards(t *testing.T) {
	p := packager{repository: ".."}
	files, err := p.dashboards()
	require.NoError(t, err)
	packed := make(map[string]file)
	for _, one := range files {
		require.Equal(t, os.FileMode(0o644), one.mode, one.path)
		require.False(t, one.config, one.path)
		packed[one.path] = one
	}
	require.Contains(t, packed, "usr/share/doc/telegraf-hpc/dashboards.md")
	want := 1
	for _, folder := range []string{"influxql", "graphite", "provisioning"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "dashboards", folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			want++
			text, err := os.ReadFile(path)
			to := "usr/share/telegraf-hpc/" + strings.TrimPrefix(path, "../")
			require.Equal(t, string(text), string(packed[to].content), to)
			return err
		}))
	}
	require.Len(t, files, want)

	p.repository = t.TempDir()
	_, err = p.dashboards()
	require.ErrorIs(t, err, os.ErrNotExist)
	from := filepath.Join(p.repository, "dashboards")
	require.NoError(t, os.MkdirAll(from, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(from, "README.md"), nil, 0o600))
	_, err = p.dashboards()
	require.EqualError(t, err, "no influxql/*.json in "+from)
}

func TestProgramsWithoutComment(t *testing.T) {
	p := packager{repository: t.TempDir()}
	_, err := p.programs()
	require.EqualError(t, err, "no programs in cmd")
	folder := filepath.Join(p.repository, "cmd", "some")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	path := filepath.Join(folder, "main.go")
	require.NoError(t, os.WriteFile(path, []byte("package main\n"), 0o600))
	_, err = p.programs()
	require.EqualError(t, err, path+": the command has no comment")
	require.NoError(t, os.WriteFile(path, []byte("// Command some is nothing.\npackage main\n"), 0o600))
	_, err = p.programs()
	require.EqualError(t, err, path+": 0 plugins have the command's name")
	require.NoError(t, os.MkdirAll(filepath.Join(p.repository, "plugins", "inputs", "some"), 0o700))
	programs, err := p.programs()
	require.NoError(t, err)
	require.Equal(t, "nothing", programs[0].about)
}

func TestChangelog(t *testing.T) {
	p := packager{repository: t.TempDir(), version: "1.0", time: when}
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(p.repository, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(p.repository, name), []byte(text), 0o600))
	}
	write("packaging/nfpm.yaml", "maintainer: A <a@b.org>\n")
	write("CHANGELOG.md", "# Changelog\n\nText.\n\n## Unreleased\n\n- [FEATURE] one: new.\n- [FIX] two: mended.\n\n## 0.9\n\n- [FIX] old: mended.\n")
	text, err := p.changelog()
	require.NoError(t, err)
	require.Equal(t, "telegraf-hpc (1.0) stable; urgency=medium\n\n  * [FEATURE] one: new.\n  * [FIX] two: mended.\n\n"+
		" -- A <a@b.org>  Sat, 21 Nov 2026 17:34:53 +0000\n", string(text))
	write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n")
	_, err = p.changelog()
	require.EqualError(t, err, filepath.Join(p.repository, "CHANGELOG.md")+" has no change in its first section")
}

// What is packed has no time: gzip would write it.
func TestCompress(t *testing.T) {
	packed := compress([]byte("text"))
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	text, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	require.True(t, reader.ModTime.IsZero())
}

// Only packages of ours are removed from the folder that new ones go to.
func TestEmpty(t *testing.T) {
	p := packager{out: filepath.Join(t.TempDir(), "new", "folder")}
	require.NoError(t, p.empty())
	for _, name := range []string{"telegraf-hpc_1_amd64.deb", "SHA256SUMS", "precious"} {
		require.NoError(t, os.WriteFile(filepath.Join(p.out, name), nil, 0o600))
	}
	require.NoError(t, p.empty())
	entries, err := os.ReadDir(p.out)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "precious", entries[0].Name())
}
