//go:generate go test -run TestQuestions|TestReadme -update .

// Package lustre_jobs is a Telegraf processor: what every job, user, account and file system does on Lustre, summed over
// all file servers and joined with Slurm.
package lustre_jobs

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/common/tls"
	"github.com/influxdata/telegraf/plugins/processors"

	"telegraf-hpc/internal/durable"
	"telegraf-hpc/internal/option"
	"telegraf-hpc/internal/said"
	"telegraf-hpc/internal/version"
)

//go:embed sample.conf
var sampleConfig string

// LustreJobs sums the epochs of all file servers.
type LustreJobs struct {
	Interval         config.Duration `toml:"interval"`
	Levels           []string        `toml:"levels"`
	Top              int             `toml:"top"`
	Detail           string          `toml:"detail"`
	Refresh          config.Duration `toml:"refresh"`
	Slurm            string          `toml:"slurm"`
	Cluster          string          `toml:"cluster"`
	UnknownAfter     config.Duration `toml:"unknown_after"`
	QuietAfter       config.Duration `toml:"quiet_after"`
	ReportDelay      config.Duration `toml:"report_delay"`
	ForgetAfter      config.Duration `toml:"forget_after"`
	CommandDirectory string          `toml:"command_directory"`
	Timeout          config.Duration `toml:"timeout"`
	SlurmInterval    config.Duration `toml:"slurm_interval"`
	StateDirectory   string          `toml:"state_directory"`
	Listen           string          `toml:"listen"`
	ListenToken      config.Secret   `toml:"listen_token"`
	tls.ServerConfig

	Log telegraf.Logger `toml:"-"`

	now   func() time.Time
	host  func() (string, error)
	fault durable.Faults // of the store; only tests set it
	acc   telegraf.Accumulator
	said  said.Said

	mu       sync.Mutex // of all that follows
	ledger   *ledger
	scan     *scanner
	points   *points
	took     time.Duration // the emission before
	hostname string
	api      *api // nil where nobody may ask

	stop context.CancelFunc
	done sync.WaitGroup
}

var _ telegraf.StreamingProcessor = (*LustreJobs)(nil)

func newPlugin() *LustreJobs {
	return &LustreJobs{
		Interval: config.Duration(30 * time.Second), Levels: levelNames(), Top: 100, Detail: "full",
		Refresh: config.Duration(4 * time.Minute), Slurm: "stream", UnknownAfter: config.Duration(15 * time.Minute),
		QuietAfter: config.Duration(10 * time.Minute), ForgetAfter: config.Duration(8 * 24 * time.Hour),
		Timeout: config.Duration(10 * time.Second), SlurmInterval: config.Duration(time.Minute), StateDirectory: "/var/lib/telegraf-hpc/lustre_jobs", now: time.Now, host: os.Hostname,
	}
}

func levelNames() []string { return []string{"fs", "account", "user", "job", "report"} }

// SampleConfig returns the configuration with every option.
func (*LustreJobs) SampleConfig() string { return sampleConfig }

// Init checks the options.
func (p *LustreJobs) Init() (err error) {
	if p.hostname, err = p.host(); err != nil {
		return fmt.Errorf("asking for the host's name: %w", err)
	}
	if p.ReportDelay == 0 {
		p.ReportDelay = 2 * p.Refresh
	}
	if len(p.Levels) == 0 {
		return fmt.Errorf("option levels: empty; choose from %q", levelNames())
	}
	for _, level := range p.Levels {
		if err := option.Choice("levels", level, levelNames()...); err != nil {
			return err
		}
	}
	err = errors.Join(option.Choice("detail", p.Detail, "full", "basic"), option.Choice("slurm", p.Slurm, "stream", "commands", "none"))
	if err != nil {
		return err
	}
	return cmp.Or(
		option.Require("interval", time.Duration(p.Interval) >= 100*time.Millisecond, "must be at least 100ms"),
		option.Require("top", p.Top >= 0, "must not be negative"),
		option.Require("refresh", p.Refresh > 0, "must be more than 0s"),
		option.Require("unknown_after", p.UnknownAfter > 0, "must be more than 0s"),
		option.Require("quiet_after", p.QuietAfter > 0, "must be more than 0s"),
		option.Require("timeout", p.Timeout > 0, "must be more than 0s"),
		option.Require("slurm_interval", time.Duration(p.SlurmInterval) >= time.Second, "must be at least 1s"),
		option.Require("report_delay", p.ReportDelay >= 0, "must not be negative"),
		option.Require("forget_after", time.Duration(p.ForgetAfter) >= time.Hour, "must be at least 1h"),
		option.Require("state_directory", p.StateDirectory != "", "must be set"),
		option.Require("listen", p.Listen == "" || loopback(p.Listen) || !p.ListenToken.Empty(), "an address that other hosts reach needs listen_token"),
	)
}

// Start opens the state and begins to emit.
func (p *LustreJobs) Start(acc telegraf.Accumulator) error {
	now := p.now()
	if err := p.open(acc, now); err != nil {
		return err
	}
	if err := p.serve(); err != nil {
		return errors.Join(err, p.ledger.store.close())
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.done.Go(func() { p.run(ctx) })
	if p.Slurm == "commands" {
		asker := newAsker(p)
		p.done.Go(func() { asker.run(ctx) })
	}
	return nil
}

// serve begins to answer questions, if it is to.
func (p *LustreJobs) serve() error {
	if p.Listen == "" {
		return nil
	}
	secure, err := p.TLSConfig()
	if err != nil {
		return fmt.Errorf("option listen: %w", err)
	}
	a := &api{store: p.ledger.store}
	if !p.ListenToken.Empty() {
		a.token = tokenOf(&p.ListenToken)
	}
	if err := a.listen(p.Listen, secure, func(err error) { p.acc.AddError(fmt.Errorf("listening on %s: %w", p.Listen, err)) }); err != nil {
		return fmt.Errorf("option listen: %q: %w", p.Listen, err)
	}
	p.api = a
	return nil
}

func (p *LustreJobs) open(acc telegraf.Accumulator, now time.Time) error {
	l := newLedger(now.UnixNano())
	l.slurm = slurmState{
		mode: p.Slurm, unknownAfter: time.Duration(p.UnknownAfter), quietAfter: time.Duration(p.QuietAfter),
		reportDelay: time.Duration(p.ReportDelay), started: now.UnixNano(), noJobs: make(map[int64]bool),
	}
	edge := now.Truncate(time.Duration(p.Interval)).UnixNano()
	l.window = window{edge - int64(p.Interval), edge}
	if err := l.open(p.StateDirectory, now, func(err error) { p.Log.Warnf("State: %v", err) }); err != nil {
		return err
	}
	l.store.fault = p.fault
	p.ledger, p.scan, p.acc = l, newScanner(l.fields), acc
	p.points = newPoints(acc, l.fields, p.Detail == "basic")
	return nil
}

// run emits at each moment of the clock that is a multiple of the interval.
func (p *LustreJobs) run(ctx context.Context) {
	interval := time.Duration(p.Interval)
	var last time.Time
	for {
		now := p.now()
		timer := time.NewTimer(now.Truncate(interval).Add(interval).Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		// A timer may fire a little early by the clock that is on the wall.
		if at := p.now().Truncate(interval); !at.Equal(last) {
			p.emit(at)
			last = at
		}
	}
}

// AddLine takes a line as it came. It tells whether it did: any other line has to be parsed.
func (p *LustreJobs) AddLine(line []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.scan.scan(line) {
		return false
	}
	p.merge(&p.scan.line)
	return true
}

func (p *LustreJobs) merge(line *epochLine) {
	if err := p.ledger.merge(line, p.now().UnixNano()); err != nil {
		p.refuse("merge", fmt.Errorf("a line of target %q: %w", line.target, err))
	}
}

// refuse counts a line that is no epoch, and tells of the first.
func (p *LustreJobs) refuse(cause string, err error) {
	p.ledger.stats.refused++
	if p.said.First(cause, "refused") {
		p.acc.AddError(fmt.Errorf("%w; others are counted in refused of %s", err, measurementSelf))
	}
}

// Take reads a metric. It tells whether it is taken: any other passes on as it came.
func (p *LustreJobs) Take(m telegraf.Metric) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Name() {
	case measurementEpoch:
		if line, err := p.epochOf(m); err != nil {
			p.refuse("epoch", fmt.Errorf("a line of %s is left out: %w", measurementEpoch, err))
		} else {
			p.merge(line)
		}
		return true
	case "lustre_jobstats_self":
		if host, ok := m.GetTag("host"); ok {
			p.ledger.gathered([]byte(host), m.Time().UnixNano())
		}
	case "slurm_job", "slurm_finished":
		p.tell(m)
	}
	return false
}

// Add takes a metric, or passes it on.
func (p *LustreJobs) Add(m telegraf.Metric, acc telegraf.Accumulator) error {
	if p.Take(m) {
		m.Drop()
		return nil
	}
	acc.AddMetric(m)
	return nil
}

// emit saves what came, and tells of it.
func (p *LustreJobs) emit(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begin := time.Now()
	l := p.ledger
	l.resolve(at.UnixNano())
	l.loseJobs(at.UnixNano())
	if err := l.save(); err != nil {
		if p.said.First("state", "not saved") {
			p.acc.AddError(fmt.Errorf("%w; what came is kept, and told once it is saved", err))
		}
		return
	}
	if p.said.Mend("state") {
		p.Log.Info("The state is saved again")
	}
	em := emission{
		ledger: l, points: p.points, levels: make(map[string]bool), top: p.Top, refresh: int64(p.Refresh), at: at.UnixNano(),
	}
	for _, level := range p.Levels {
		em.levels[level] = true
	}
	em.run(at.UnixNano() - int64(p.Interval))
	p.report(at, em.levels["report"])
	p.tellSelf(at)
	if p.api != nil {
		p.api.picture.Store(l.paint(at))
	}
	l.nextWindow(at.UnixNano())
	p.fold(at)
	p.took = time.Since(begin)
}

// report emits the reports that are due, if they are asked for. They are noted as emitted with the next save: one that is
// emitted again is the same point.
func (p *LustreJobs) report(at time.Time, emit bool) {
	for _, r := range p.ledger.reports(at.UnixNano()) {
		if emit {
			p.acc.AddFields(measurementReport, r.fields(), r.tags(), r.moment())
		}
		p.ledger.reportedNow(&r)
	}
}

func (p *LustreJobs) tellSelf(at time.Time) {
	l := p.ledger
	p.acc.AddFields(measurementSelf, map[string]any{
		"lines": l.stats.lines, "repeated": l.stats.repeated, "refused": l.stats.refused, "stale": l.stats.stale,
		"late_epochs": l.stats.late, "epochs_started": l.stats.lives, "epochs_in_memory": int64(l.lives), "series_in_memory": int64(l.memory),
		"waiting": int64(len(l.unknown)), "lost_jobs": l.stats.lost, "jobs": int64(len(l.jobs)), "state_bytes_written": l.store.written,
		"emission_seconds": p.took.Seconds(), "version": version.String(),
	}, map[string]string{"host": p.hostname}, at)
}

// fold writes the log into the store from time to time, beside the stream.
func (p *LustreJobs) fold(at time.Time) {
	l := p.ledger
	if l.folding {
		return // The store takes one writer: lines would wait for it.
	}
	if err := l.forget(); err != nil {
		p.said.Fail(p.acc, "forget", fmt.Errorf("state: forgetting what is old: %w", err))
	}
	if !l.foldDue(at) {
		return
	}
	f, err := l.startFold(at, at.UnixNano()-int64(p.ForgetAfter))
	if err != nil {
		l.folded(f, err, at.UnixNano())
		p.said.Fail(p.acc, "fold", fmt.Errorf("beginning a new log: %w; the logs before it are kept", err))
		return
	}
	l.folding = true
	p.done.Go(func() {
		err := f.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		l.folding = false
		l.folded(f, err, p.now().UnixNano())
		if err != nil {
			p.said.Fail(p.acc, "fold", fmt.Errorf("%w; its log is kept", err))
		}
	})
}

// Stop saves what came, and closes the state. A fold that goes on may take longer than there is time: it is done again.
func (p *LustreJobs) Stop() {
	p.stop()
	var errs []error
	if p.api != nil {
		errs = append(errs, p.api.close())
	}
	p.mu.Lock()
	errs = append(errs, p.ledger.save())
	p.mu.Unlock()
	p.done.Wait()
	if err := errors.Join(append(errs, p.ledger.store.close())...); err != nil {
		p.Log.Errorf("Stopping: %v", err)
	}
}

func init() {
	processors.AddStreaming("lustre_jobs", func() telegraf.StreamingProcessor { return newPlugin() })
}
