package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// described is what `git describe --tags --always --dirty` gives: a tag, with the number of commits since and the last of
// them, or that commit alone.
var described = regexp.MustCompile(`^(?:v(\d+(?:\.\d+)+(?:-(?:rc|beta|alpha)\.?\d+)?)(?:-(\d+)-g([0-9a-f]+))?|([0-9a-f]{7,}))(-dirty)?$`)

// packageVersion turns a version of git's into one that dpkg and rpm order as it was meant: what comes before a release
// below it (~), what comes after it above (+). Without a tag it is below all releases, and the later commit is above. t is
// the time of the commit.
func packageVersion(describe string, t time.Time) (string, error) {
	m := described.FindStringSubmatch(describe)
	if m == nil {
		return "", fmt.Errorf("version %q is not of the form v1.2.3, v1.2.3-rc.1, v1.2.3-4-gabcdef0 or abcdef0, with or without -dirty", describe)
	}
	release, commits, after, commit, dirty := m[1], m[2], m[3], m[4], m[5]
	version := strings.Replace(release, "-", "~", 1)
	switch {
	case commit != "":
		version = "0~" + t.UTC().Format("20060102150405") + "." + commit
	case commits != "":
		version += "+" + commits + "." + after
	}
	if dirty != "" {
		// Of a changed work tree nobody knows what is in it; it must not pass for the commit.
		if strings.Contains(version, "+") {
			return version + ".dirty", nil
		}
		return version + "+dirty", nil
	}
	return version, nil
}
