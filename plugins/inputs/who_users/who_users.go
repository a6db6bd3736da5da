//go:generate go test -run TestReadme -update .

// Package who_users is a Telegraf input: who is logged in to this host, from systemd-logind, utmp or a command.
package who_users

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/filter"
	"github.com/influxdata/telegraf/plugins/inputs"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/option"
	"telegraf-hpc/internal/said"
	"telegraf-hpc/internal/users"
)

//go:embed sample.conf
var sampleConfig string

// WhoUsers tells who is logged in.
type WhoUsers struct {
	Method       string          `toml:"method"`
	Command      []string        `toml:"command"`
	Timeout      config.Duration `toml:"timeout"`
	HostRoot     string          `toml:"host_root"`
	UtmpFile     string          `toml:"utmp_file"`
	WtmpFile     string          `toml:"wtmp_file"`
	TrustUtmp    bool            `toml:"trust_utmp"`
	DBusAddress  string          `toml:"dbus_address"`
	Origins      []string        `toml:"origins"`
	Groups       []string        `toml:"groups"`
	GroupsKeep   config.Duration `toml:"groups_keep"`
	ExcludeUsers []string        `toml:"exclude_users"`
	IdleAfter    config.Duration `toml:"idle_after"`
	ListUsers    bool            `toml:"list_users"`
	MaxUsers     int             `toml:"max_users"`
	History      config.Duration `toml:"history"`
	SessionRows  bool            `toml:"session_rows"`
	Refresh      config.Duration `toml:"refresh"`
	Users        string          `toml:"users"`
	PseudonymKey config.Secret   `toml:"pseudonym_key"`

	Log telegraf.Logger `toml:"-"`

	now   func() time.Time
	alive func(pid int32) bool
	run   runFunc

	ctx      context.Context // ends at Stop, and with it what is being asked
	cancel   context.CancelFunc
	said     said.Said
	users    users.Names
	excluded filter.Filter
	methods  []method
	using    string // the method that answered last
	misses   int    // gathers in a row in which that was not there
	members  *members
	history  *history
	rows     events
	self     self
}

// method is a way to find out who is logged in.
type method struct {
	name string
	source
}

type source interface {
	// list gives the sessions. An absentError says that there is nobody to ask.
	list(ctx context.Context, now time.Time) (answer, error)
	close()
}

const (
	auto        = "auto"
	viaLogind   = "logind"
	viaUtmp     = "utmp"
	viaCommand  = "command"
	remote      = "remote"
	local       = "local"
	maxOutput   = 16 << 20
	rootFolder  = "/"
	usualBus    = "run/dbus/system_bus_socket"
	busVariable = "DBUS_SYSTEM_BUS_ADDRESS"
)

func newPlugin() *WhoUsers {
	return &WhoUsers{
		Method: auto, Timeout: config.Duration(5 * time.Second), HostRoot: rootFolder, UtmpFile: "/run/utmp", WtmpFile: "/var/log/wtmp",
		Origins: []string{remote, local}, GroupsKeep: config.Duration(10 * time.Minute), IdleAfter: config.Duration(10 * time.Minute),
		MaxUsers: 1000, Refresh: config.Duration(4 * time.Minute), Users: "name", now: time.Now, alive: isAlive,
	}
}

// SampleConfig returns the configuration with every option.
func (*WhoUsers) SampleConfig() string { return sampleConfig }

// Init checks the options.
func (p *WhoUsers) Init() error {
	if err := errors.Join(p.checkChoices(), p.checkPaths(), p.checkNumbers(), p.checkGroups()); err != nil {
		return err
	}
	var err error
	if p.users, err = users.New(p.Users, &p.PseudonymKey); err != nil {
		return err
	}
	if p.ListUsers && p.Users == "none" {
		return errors.New(`option list_users: can't be with users = "none"`)
	}
	if p.excluded, err = filter.Compile(p.ExcludeUsers); err != nil {
		return fmt.Errorf("option exclude_users: %w", err)
	}
	if p.run == nil {
		// who(1) prints its dates in the user's language.
		runner := &command.Runner{Timeout: time.Duration(p.Timeout), MaxOutput: maxOutput, Env: append(os.Environ(), "LC_ALL=C")}
		p.run = runner.Run
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := p.setMethods(); err != nil {
		return err
	}
	if len(p.Groups) > 0 {
		p.members = &members{groups: p.Groups, root: p.HostRoot, keep: time.Duration(p.GroupsKeep)}
		if filepath.Clean(p.HostRoot) == rootFolder {
			p.members.run = p.run
		}
	}
	if p.History > 0 {
		p.history = &history{
			window: time.Duration(p.History), wtmp: filepath.Join(p.HostRoot, p.WtmpFile), layout: layoutOf(runtime.GOARCH), only: p.wantsRow,
		}
	}
	return nil
}

func (p *WhoUsers) checkChoices() error {
	if err := cmp.Or(
		option.Choice("method", p.Method, auto, viaLogind, viaUtmp, viaCommand), option.Choices("origins", p.Origins, []string{remote, local}),
	); err != nil {
		return err
	}
	if len(p.Command) > 0 && p.Command[0] == "" {
		return errors.New(`option command: "" is no command`)
	}
	return nil
}

func (p *WhoUsers) checkPaths() error {
	for _, o := range []struct{ name, path string }{{"host_root", p.HostRoot}, {"utmp_file", p.UtmpFile}, {"wtmp_file", p.WtmpFile}} {
		if !filepath.IsAbs(o.path) {
			return fmt.Errorf("option %s: the path %q is not absolute", o.name, o.path)
		}
	}
	return nil
}

func (p *WhoUsers) checkNumbers() error {
	return cmp.Or(
		option.Require("timeout", p.Timeout > 0, "must be more than 0s"),
		option.Require("groups_keep", p.GroupsKeep > 0, "must be more than 0s"),
		option.Require("idle_after", p.IdleAfter > 0, "must be more than 0s"),
		option.Require("max_users", p.MaxUsers > 0, "must be at least 1"),
		option.Require("history", p.History >= 0, "must not be negative"),
		option.Require("refresh", p.Refresh > 0, "must be more than 0s"),
	)
}

func (p *WhoUsers) checkGroups() error {
	for i, name := range p.Groups {
		if err := checkGroup(name); err != nil {
			return fmt.Errorf("option groups: %q %w", name, err)
		}
		if slices.Contains(p.Groups[:i], name) {
			return fmt.Errorf("option groups: %q is there twice", name)
		}
	}
	return nil
}

// setMethods makes those that may be asked, in their order.
func (p *WhoUsers) setMethods() error {
	host := terminals{p.HostRoot}
	if p.Method == auto || p.Method == viaLogind {
		sockets, err := p.sockets()
		if err != nil {
			return err
		}
		p.methods = append(p.methods, method{viaLogind, &logind{
			sockets: sockets, timeout: time.Duration(p.Timeout), host: host, follow: p.History > 0,
		}})
	}
	if p.Method == auto || p.Method == viaUtmp {
		p.methods = append(p.methods, method{viaUtmp, &utmp{
			path: filepath.Join(p.HostRoot, p.UtmpFile), layout: layoutOf(runtime.GOARCH), trust: p.TrustUtmp, alive: p.alive, host: host,
		}})
	}
	line := p.Command
	if p.Method == viaCommand && len(line) == 0 {
		line = []string{"who"}
	}
	// Where nobody keeps a utmp, who(1) knows nothing and says that nobody is there: it must be asked for.
	if (p.Method == auto || p.Method == viaCommand) && len(line) > 0 {
		p.methods = append(p.methods, method{viaCommand, &tool{line: line, run: p.run, host: host}})
	}
	return nil
}

// sockets gives the sockets of the system bus.
func (p *WhoUsers) sockets() ([]string, error) {
	if p.DBusAddress != "" {
		sockets, err := busSockets(p.DBusAddress)
		if err != nil {
			return nil, fmt.Errorf("option dbus_address: %w", err)
		}
		return sockets, nil
	}
	if address := os.Getenv(busVariable); address != "" && filepath.Clean(p.HostRoot) == rootFolder {
		sockets, err := busSockets(address)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", busVariable, err)
		}
		return sockets, nil
	}
	return []string{filepath.Join(p.HostRoot, usualBus)}, nil
}

// Start is there for Stop.
func (*WhoUsers) Start(telegraf.Accumulator) error { return nil }

// Stop ends what is being asked, and lets go of the bus.
func (p *WhoUsers) Stop() {
	p.cancel()
	for _, m := range p.methods {
		m.close()
	}
}

func init() {
	inputs.Add("who_users", func() telegraf.Input { return newPlugin() })
}
