//go:generate go test -run TestReadme -update .

// Package jupyter_users is a Telegraf input: who uses Jupyter now, from Kubernetes (the pods of a namespace that have a
// label with the user's name) or from JupyterHub itself.
package jupyter_users

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs"

	"telegraf-hpc/internal/option"
	"telegraf-hpc/internal/said"
	"telegraf-hpc/internal/users"
)

//go:embed sample.conf
var sampleConfig string

// JupyterUsers asks Kubernetes and JupyterHubs for their users.
type JupyterUsers struct {
	ListUsers    bool            `toml:"list_users"`
	MaxUsers     int             `toml:"max_users"`
	Users        string          `toml:"users"`
	PseudonymKey config.Secret   `toml:"pseudonym_key"`
	Timeout      config.Duration `toml:"timeout"`
	MaxResponse  config.Size     `toml:"max_response"`
	Sources      []*Source       `toml:"source"`

	Log telegraf.Logger `toml:"-"`

	now    func() time.Time
	getenv func(string) string
	root   string // of the file system

	ctx     context.Context // ends at Stop, and with it the requests under way
	cancel  context.CancelFunc
	said    said.Said
	users   users.Names
	usual   bool // Nobody has named a source.
	sources []*source
	errors  int64 // since the start
}

func newPlugin() *JupyterUsers {
	return &JupyterUsers{
		MaxUsers: 1000, Users: "name", Timeout: config.Duration(10 * time.Second), MaxResponse: 128 << 20, now: time.Now, getenv: os.Getenv, root: "/",
	}
}

// SampleConfig returns the configuration with every option.
func (*JupyterUsers) SampleConfig() string { return sampleConfig }

// Init checks the options.
func (p *JupyterUsers) Init() error {
	if err := cmp.Or(
		option.Require("max_users", p.MaxUsers > 0, "must be at least 1"),
		option.Require("timeout", p.Timeout > 0, "must be more than 0s"),
		option.Require("max_response", p.MaxResponse >= 1<<20, "must be at least 1MiB"),
	); err != nil {
		return err
	}
	var err error
	if p.users, err = users.New(p.Users, &p.PseudonymKey); err != nil {
		return err
	}
	if p.ListUsers && p.Users == "none" {
		return errors.New(`option list_users: can't be with users = "none"`)
	}
	if p.usual = len(p.Sources) == 0; p.usual {
		p.Sources = []*Source{{}}
	}
	names := make(map[string]bool)
	for i, options := range p.Sources {
		s, err := options.source(p.getenv, p.root)
		if err != nil {
			return fmt.Errorf("option source %d: %w", i+1, err)
		}
		if names[s.name] {
			return fmt.Errorf("option source %d: name: %q is there twice", i+1, s.name)
		}
		names[s.name] = true
		p.sources = append(p.sources, s)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return nil
}

// Start is there for Stop.
func (*JupyterUsers) Start(telegraf.Accumulator) error { return nil }

// Stop ends the requests that are under way.
func (p *JupyterUsers) Stop() {
	p.cancel()
	for _, s := range p.sources {
		s.client.close()
	}
}

func init() {
	inputs.Add("jupyter_users", func() telegraf.Input { return newPlugin() })
}
