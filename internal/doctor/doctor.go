// Package doctor looks at a host as an agent of a cluster: what there is to measure, what the user that Telegraf runs as may
// read of it, and what stands in the way. It changes nothing.
//
// What is where: Lustre's targets and version as in internal/jobstats; Slurm and HTCondor by their commands; logind by
// systemd's folders below /run, utmp(5); hwmon and DRM as in the kernel's Documentation/ABI; Telegraf's files as its own
// packages have them.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/slurm"
)

// Level says how bad a finding is.
type Level int

// The levels, the best first. They are the exit status, too.
const (
	OK Level = iota
	Warning
	Error
)

// String gives the level as it is printed.
func (l Level) String() string { return [...]string{"OK", "warning", "error"}[l] }

// MarshalText gives the level as JSON has it.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is one thing that was looked at.
type Finding struct {
	// Topic is what was looked at, such as lustre.
	Topic string `json:"topic"`
	Level Level  `json:"level"`
	// Text says what was found, in one line.
	Text string `json:"text"`
	// Remedy is a command for a shell that mends it, empty where there is nothing to mend or no command for it.
	Remedy string `json:"remedy,omitempty"`
}

// Facts are what there is to measure on a host.
type Facts struct {
	LustreVersion string   `json:"lustre_version,omitempty"`
	LustreTargets []string `json:"lustre_targets,omitempty"`
	LustreClient  bool     `json:"lustre_client"`
	// Slurm is whether its commands are here, SlurmNode whether jobs run here.
	Slurm     bool `json:"slurm"`
	SlurmNode bool `json:"slurm_node"`
	HTCondor  bool `json:"htcondor"`
	// Sessions is where sessions are known: logind, utmp, or empty.
	Sessions   string `json:"sessions,omitempty"`
	Kubernetes bool   `json:"kubernetes"`
	Fans       int    `json:"fans"`
	Thermal    int    `json:"temperatures"`
	NVIDIA     int    `json:"nvidia_gpus"`
	AMD        int    `json:"amd_gpus"`
	Chrony     bool   `json:"chrony"`
	NFS        bool   `json:"nfs"`
	InfiniBand bool   `json:"infiniband"`
}

// Roles gives the roles that a host may have.
func Roles() []string { return []string{"fileserver", "head", "login", "compute", "central"} }

// Role gives the role that a host with these facts most likely has, one of Roles.
func (f *Facts) Role() string {
	switch {
	case len(f.LustreTargets) > 0:
		return "fileserver"
	case f.SlurmNode:
		return "compute"
	case f.Slurm || f.HTCondor:
		return "head"
	case f.Sessions != "":
		return "login"
	}
	return "compute"
}

// Report is all that was found.
type Report struct {
	Findings []Finding `json:"findings"`
	Facts    Facts     `json:"facts"`
}

// Worst gives the worst level of a report.
func (r *Report) Worst() Level {
	worst := OK
	for _, f := range r.Findings {
		worst = max(worst, f.Level)
	}
	return worst
}

// Stat is what decides who may use a file: see stat(2).
type Stat struct {
	Mode     fs.FileMode
	UID, GID uint32
}

// Host is the host to look at. The fields are the outside world.
type Host struct {
	// Root is the folder below which the host's files are: "/" as a rule.
	Root string
	// User is the one Telegraf runs as; empty is the one of its service.
	User string
	// Programs is the folder of our programs, and Configurations the one of Telegraf's files. Empty is where packages have them.
	Programs, Configurations string
	// Version is that of this build, which our programs should have, too.
	Version string
	// Run runs a tool and gives what it printed, as command.Runner does. Its errors say whether there is the tool.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Stat looks at a file, whose links it follows.
	Stat func(path string) (Stat, error)
	// Clock asks the kernel for the state of the clock.
	Clock func() (ClockState, error)
}

// NewHost gives the host whose files are below a folder. Where that is not "/", tools are taken from its usr/bin.
func NewHost(root, version string) *Host {
	runner := &command.Runner{Env: slurm.Environment(os.Environ())}
	if filepath.Clean(root) != "/" {
		runner.Folder = filepath.Join(root, "usr", "bin")
	}
	return &Host{
		Root: root, Version: version, Stat: statFile, Clock: kernelClock,
		Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			result, err := runner.Run(ctx, name, args...)
			return result.Stdout, err
		},
	}
}

func statFile(path string) (Stat, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Stat{}, err
	}
	s := Stat{Mode: info.Mode()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.UID, s.GID = sys.Uid, sys.Gid
	}
	return s, nil
}

// Examine looks at everything. A thing that can't be looked at is a finding, and keeps nothing else from being looked at.
func (h *Host) Examine(ctx context.Context) Report {
	e := &examination{Host: h}
	e.account()
	e.telegraf(ctx)
	e.programs(ctx)
	e.stateFolders()
	e.clock()
	e.lustre()
	e.slurm(ctx)
	e.htcondor(ctx)
	e.sessions()
	e.kubernetes()
	e.sensors()
	e.gpus()
	e.others()
	e.configuration(ctx)
	return e.report
}

// examination is one Examine.
type examination struct {
	*Host
	who    account
	report Report
}

func (e *examination) say(level Level, topic, text, remedy string) {
	e.report.Findings = append(e.report.Findings, Finding{Topic: topic, Level: level, Text: text, Remedy: remedy})
}

func (e *examination) ok(topic, text string) { e.say(OK, topic, text, "") }

// path gives where a file of the host is, named as on the host.
func (e *examination) path(name string) string { return filepath.Join(e.Root, name) }

func (e *examination) exists(name string) bool {
	_, err := e.Stat(e.path(name))
	return err == nil
}

// glob gives the files of the host that a pattern fits, named as on the host.
func (e *examination) glob(pattern string) []string {
	found, err := filepath.Glob(e.path(pattern))
	if err != nil { // The pattern is one of ours or a folder that was given: then nothing fits.
		return nil
	}
	for i := range found {
		if name, err := filepath.Rel(e.Root, found[i]); err == nil {
			found[i] = "/" + name
		}
	}
	return found
}

// read gives the text of a file, named as on the host. So do its errors.
func (e *examination) read(name string) ([]byte, error) {
	text, err := os.ReadFile(e.path(name))
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%s: %w", name, failed.Err)
	}
	return text, err
}

func (e *examination) programFolder() string { return cmp.Or(e.Programs, "/usr/lib/telegraf-hpc") }

func (e *examination) configurationFolder() string { return cmp.Or(e.Configurations, "/etc/telegraf") }
