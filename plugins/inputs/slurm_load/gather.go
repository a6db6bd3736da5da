package slurm_load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/slurm"
	"telegraf-hpc/internal/version"
)

// siteLife is how long what seldom changes is believed: the cluster's name, Slurm's version, what we may see.
const siteLife = time.Hour

// siteRetry is when it is asked for again after that has failed.
const siteRetry = 5 * time.Minute

// site is what seldom changes.
type site struct {
	slurm.Config
	asked  time.Time
	stale  bool             // Slurm was away, and may be another now
	hidden map[string]error // what PrivateData keeps from us, by group of rows: "jobs", "nodes" ...
}

// self is what the plugin tells of itself. The numbers are of the gather, but for errors.
type self struct {
	commands int64
	elapsed  time.Duration
	cpu      time.Duration
	bytes    int64
	errors   int64 // since the start
}

// identity is who we are on this host.
type identity struct {
	uid  int64
	name string
}

func processIdentity() (identity, error) {
	u, err := user.Current()
	if err != nil {
		return identity{}, fmt.Errorf("asking for our own user: %w", err)
	}
	return identity{uid: int64(os.Getuid()), name: u.Username}, nil
}

// Gather asks for all groups. What one of Slurm's commands does not tell is left out; the others go on.
func (p *SlurmLoad) Gather(acc telegraf.Accumulator) error {
	start := p.now()
	p.self = self{errors: p.self.errors}
	p.client.Mark = p.mark()
	o := &out{acc: acc, now: start}
	defer func() { p.addSelf(o, p.now().Sub(start)) }()

	diag, err := p.client.Diag(p.ctx)
	if err != nil {
		p.down(o, err)
		return nil
	}
	if p.said.Mend("slurm") {
		p.Log.Info("Slurm answers again")
	}
	err = p.know(start)
	p.fail(acc, "config", err)
	if p.site.Cluster == "" {
		return nil
	}
	if err != nil {
		p.site.asked, p.site.stale = start.Add(siteRetry-siteLife), false
	}
	o.cluster, o.server = p.clusterTag(), diag.Time
	if p.OnlyActiveController && !p.active(acc) {
		return nil
	}
	p.gatherLoad(o, diag)
	p.gatherSlow(o)
	p.gatherFinished(o, diag)
	p.repeatFinished(o)
	p.save(acc)
	return nil
}

// gatherLoad asks for what belongs together: jobs, nodes and partitions.
func (p *SlurmLoad) gatherLoad(o *out, diag slurm.Diag) {
	jobs := p.gatherJobs(o)
	nodes := p.gatherNodes(o)
	partitions := p.gatherPartitions(o)
	if p.collects("cluster") {
		addCluster(o, &p.site.Config, nodes, jobs)
	}
	if p.collects("partition") {
		addPartitions(o, partitions, nodes, jobs)
	}
	if p.collects("gpu") {
		addGPUs(o, nodes, jobs)
	}
	if p.collects("scheduler") {
		p.addScheduler(o, diag)
	}
}

// down says that Slurm does not answer; once, and as up=0 at each gather. Where there is no Slurm at all, never was, and
// nobody has said where it is, there is nothing to watch.
func (p *SlurmLoad) down(o *out, err error) {
	if p.ctx.Err() != nil {
		return
	}
	if errors.Is(err, command.ErrNotFound) && p.site.Cluster == "" && p.CommandDirectory == "" {
		if p.said.First("slurm", err.Error()) {
			p.Log.Infof("No Slurm on this host (%v); looking again at each gather", err)
		}
		return
	}
	p.fail(o.acc, "slurm", err)
	o.cluster = p.clusterTag()
	p.site.stale = true
	if p.collects("cluster") {
		o.add("slurm_cluster", nil, map[string]any{"up": int64(0)})
	}
}

func (p *SlurmLoad) clusterTag() string {
	if p.Cluster != "" {
		return p.Cluster
	}
	return p.site.Cluster
}

// know asks for what seldom changes, after an outage and each hour. Where a slurmctld that stands by is down, scontrol
// waits for it, perhaps longer than we do: then what was known before is believed, for now.
func (p *SlurmLoad) know(now time.Time) error {
	if age := now.Sub(p.site.asked); !p.site.stale && age >= 0 && age < siteLife {
		return nil
	}
	c, err := p.client.Config(p.ctx)
	if err != nil {
		return err
	}
	hidden, err := p.hidden(&c)
	if err != nil {
		return err
	}
	p.site = site{Config: c, asked: now, hidden: hidden}
	return p.open()
}

// hidden tells what PrivateData keeps from us: sums of what is left would look like the whole.
func (p *SlurmLoad) hidden(c *slurm.Config) (map[string]error, error) {
	hidden := make(map[string]error)
	if c.PrivateData == "" {
		return hidden, nil
	}
	me, err := p.identity()
	if err != nil {
		return nil, err
	}
	if me.uid == 0 || me.uid == c.SlurmUserID {
		return hidden, nil
	}
	level, err := p.client.AdminLevel(p.ctx, me.name)
	if err != nil {
		return nil, err
	}
	if level == "Operator" || level == "Administrator" {
		return hidden, nil
	}
	for _, what := range strings.Split(c.PrivateData, ",") {
		hidden[what] = fmt.Errorf("PrivateData hides %s from user %q: left out; `sacctmgr modify user %s set adminlevel=operator` shows them",
			what, me.name, me.name)
	}
	return hidden, nil
}

// shown tells whether we see all rows of a kind; if not, it says so.
func (p *SlurmLoad) shown(acc telegraf.Accumulator, what string) bool {
	err := p.site.hidden[what]
	p.fail(acc, "hidden "+what, err)
	return err == nil
}

// active tells whether this host's slurmctld is in control.
func (p *SlurmLoad) active(acc telegraf.Accumulator) bool {
	controllers, err := p.client.Controllers(p.ctx)
	host, hostErr := p.hostname()
	p.fail(acc, "controller", errors.Join(err, hostErr))
	for _, c := range controllers {
		if c.Up {
			return shortName(c.Host) == shortName(host)
		}
	}
	return false
}

func shortName(host string) string {
	short, _, _ := strings.Cut(host, ".")
	return strings.ToLower(short)
}

// ask runs a command for the client. What it prints is read before the next gather, so that takes its place.
func (p *SlurmLoad) ask(ctx context.Context, name string, args ...string) ([]byte, error) {
	key := name
	if name == "scontrol" {
		key = strings.Join(args, " ")
	}
	result, err := p.run(ctx, p.buffers[key], name, args...)
	p.self.commands++
	p.self.elapsed += result.Elapsed
	p.self.cpu += result.CPU
	p.self.bytes += int64(len(result.Stdout))
	if err != nil {
		return nil, err
	}
	p.buffers[key] = result.Stdout
	return result.Stdout, nil
}

// fail hands on an error once; nil mends.
func (p *SlurmLoad) fail(acc telegraf.Accumulator, subject string, err error) {
	switch {
	case p.ctx.Err() != nil: // We are told to stop: what failed failed by that.
	case err == nil:
		p.said.Mend(subject)
	default:
		p.self.errors++
		p.said.Fail(acc, subject, err)
	}
}

// due tells whether a group with an interval of its own is to be asked for now.
func (p *SlurmLoad) due(group string, interval time.Duration, now time.Time) bool {
	// Telegraf's ticks are a little early or late.
	if age := now.Sub(p.schedule[group]); age >= 0 && age < interval-time.Second {
		return false
	}
	p.schedule[group] = now
	return true
}

func (p *SlurmLoad) addSelf(o *out, took time.Duration) {
	o.add("slurm_load_self", nil, map[string]any{
		"version": version.String(), "commands": p.self.commands, "commands_seconds": p.self.elapsed.Seconds(),
		"commands_cpu_seconds": p.self.cpu.Seconds(), "bytes_read": p.self.bytes, "errors": p.self.errors,
		"gather_seconds": took.Seconds(),
	})
}

// out hands on the metrics of one gather.
type out struct {
	acc     telegraf.Accumulator
	now     time.Time
	cluster string
	server  int64 // slurmctld's clock
}

func (o *out) add(measurement string, tags map[string]string, fields map[string]any) {
	o.addAt(o.now, measurement, tags, fields)
}

func (o *out) addAt(at time.Time, measurement string, tags map[string]string, fields map[string]any) {
	if len(fields) == 0 {
		return
	}
	if tags == nil {
		tags = make(map[string]string, 1)
	}
	if o.cluster != "" {
		tags["cluster"] = o.cluster
	}
	o.acc.AddFields(measurement, fields, tags, at)
}

// setKnown sets a field unless its value is unknown.
func setKnown(fields map[string]any, name string, value int64) {
	if value >= 0 {
		fields[name] = value
	}
}

// setTime sets a field to a time unless it is unknown.
func setTime(fields map[string]any, name string, seconds int64) {
	if seconds > 0 {
		fields[name] = seconds
	}
}
