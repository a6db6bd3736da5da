package lustre_jobstats

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// defaultCleanup is Lustre's own default of job_cleanup_interval, for a server that does not tell.
const defaultCleanup = 600 * time.Second

// target is an OST or MDT of this server.
type target struct {
	name string // lustre-OST0000
	fs   string // lustre
	kind string // ost or mdt
	path string // its job_stats
}

// tree is where Lustre shows its targets, below the root folder.
type tree struct{ root string }

// places are the folders that hold a folder for each target, and the kind of those.
func places() [][2]string {
	return [][2]string{{"obdfilter", "ost"}, {"mdt", "mdt"}, {"mds", "mdt"}}
}

// installed tells whether this host has Lustre.
func (t tree) installed() bool {
	_, err := os.Stat(filepath.Join(t.root, "proc", "fs", "lustre"))
	return err == nil
}

// targets lists the targets that have job_stats, in the order of their names. Errors name the folder; targets of other
// folders are listed all the same.
func (t tree) targets() (found []target, errs []error) {
	for _, place := range places() {
		dir := filepath.Join(t.root, "proc", "fs", "lustre", place[0])
		entries, err := os.ReadDir(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("listing targets: %w", err))
			}
			continue
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name(), "job_stats")
			if _, err := os.Stat(path); !e.IsDir() || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			found = append(found, target{name: e.Name(), fs: fileSystem(e.Name()), kind: place[1], path: path})
		}
	}
	return found, errs
}

// fileSystem returns the file system's name in FSNAME-OST0000.
func fileSystem(target string) string {
	if i := strings.LastIndexByte(target, '-'); i > 0 {
		return target[:i]
	}
	return target
}

// cleanup reads a target's job_cleanup_interval: beside job_stats up to 2.12, below /sys after. 0 is never.
func (t tree) cleanup(tg target) (time.Duration, error) {
	beside := filepath.Join(filepath.Dir(tg.path), "job_cleanup_interval")
	sys := filepath.Join(t.root, "sys", "fs", "lustre", filepath.Base(filepath.Dir(filepath.Dir(tg.path))), tg.name, "job_cleanup_interval")
	for _, path := range []string{sys, beside} {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return defaultCleanup, err
		}
		secs, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 31)
		if err != nil {
			return defaultCleanup, fmt.Errorf("%s: not a number of seconds: %w", path, err)
		}
		return time.Duration(secs) * time.Second, nil
	}
	return defaultCleanup, fmt.Errorf("neither %s nor %s is there: taking Lustre's default of %s", sys, beside, defaultCleanup)
}

// bootID returns the kernel's boot id, empty where there is none.
func (t tree) bootID() string {
	b, err := os.ReadFile(filepath.Join(t.root, "proc", "sys", "kernel", "random", "boot_id"))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}
