// Package testplugin has a plugin of each kind that does what its options say, well or badly: for tests of
// internal/execd, in its own package and under a real Telegraf. Nothing that is shipped imports it.
package testplugin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/plugins/inputs"
	"github.com/influxdata/telegraf/plugins/outputs"
	"github.com/influxdata/telegraf/plugins/processors"
	"github.com/influxdata/telegraf/plugins/serializers/influx"
)

// Common is what all test plugins can do.
type Common struct {
	Events    string          `toml:"events"`   // A file that gets one line for each call: init, start, gather, write, stop ...
	PanicIn   string          `toml:"panic_in"` // A call that panics.
	HangIn    string          `toml:"hang_in"`  // A call that never returns.
	FailIn    string          `toml:"fail_in"`  // A call that returns an error.
	SlowIn    string          `toml:"slow_in"`  // A call that takes Slow long.
	Slow      config.Duration `toml:"slow"`
	FailFirst int             `toml:"fail_first"` // If more than 0, FailIn fails this many times only.
	Error     []string        `toml:"error"`      // Messages to log in each gather, add or write.
	Warn      []string        `toml:"warn"`
	Info      []string        `toml:"info"`
	Debug     []string        `toml:"debug"`
	Secret    config.Secret   `toml:"secret"`

	Log telegraf.Logger `toml:"-"`

	mu    sync.Mutex
	fails int
}

// call records that the plugin was called, and does what the options say about it.
func (c *Common) call(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.record(name); err != nil {
		return err
	}
	switch name {
	case c.PanicIn:
		panic("told to panic in " + name)
	case c.HangIn:
		select {}
	}
	if name == c.SlowIn {
		time.Sleep(time.Duration(c.Slow))
	}
	if name == c.FailIn && (c.FailFirst == 0 || c.fails < c.FailFirst) {
		c.fails++
		return errors.New("told to fail in " + name)
	}
	return nil
}

func (c *Common) record(name string) error {
	if c.Events == "" {
		return nil
	}
	f, err := os.OpenFile(c.Events, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(name + "\n")
	return errors.Join(err, f.Close())
}

func (c *Common) logAll() {
	for _, m := range c.Error {
		c.Log.Error(m)
	}
	for _, m := range c.Warn {
		c.Log.Warn(m)
	}
	for _, m := range c.Info {
		c.Log.Info(m)
	}
	for _, m := range c.Debug {
		c.Log.Debug(m)
	}
}

// Input makes metrics.
type Input struct {
	Common

	Metrics    int   `toml:"metrics"`    // A gather.
	Padding    int   `toml:"padding"`    // Bytes of a string field that makes lines longer.
	Background int   `toml:"background"` // Metrics that a goroutine of Start adds.
	Tracked    bool  `toml:"tracked"`    // Wait in the event "delivered" for what Background added.
	Time       int64 `toml:"time"`       // Nanoseconds; 0 is now.

	gathers int
	stop    chan struct{}
	done    sync.WaitGroup
}

// SampleConfig is a telegraf.PluginDescriber's.
func (*Input) SampleConfig() string {
	return "# Makes metrics.\n[[inputs.test_input]]\n  # metrics = 1\n"
}

// Init is a telegraf.Initializer's.
func (i *Input) Init() error {
	return i.call("init")
}

// Start is a telegraf.ServiceInput's.
func (i *Input) Start(acc telegraf.Accumulator) error {
	if err := i.call("start"); err != nil {
		return err
	}
	i.stop = make(chan struct{})
	if i.PanicIn == "goroutine" {
		go func() { panic("told to panic in a goroutine") }()
	}
	i.done.Go(func() { i.background(acc) })
	return nil
}

func (i *Input) background(acc telegraf.Accumulator) {
	if i.Background == 0 {
		return
	}
	if !i.Tracked {
		for n := range i.Background {
			acc.AddFields("background", map[string]any{"n": n}, nil, i.now())
		}
		return
	}
	tracking := acc.WithTracking(i.Background)
	for n := range i.Background {
		m := &Metric{name: "background", time: i.now(), fields: []*telegraf.Field{{Key: "n", Value: int64(n)}}}
		tracking.AddTrackingMetric(m)
	}
	for range i.Background {
		select {
		case info := <-tracking.Delivered():
			if err := i.call(fmt.Sprintf("delivered %v", info.Delivered())); err != nil {
				acc.AddError(err)
			}
		case <-i.stop:
			return
		}
	}
}

func (i *Input) now() time.Time {
	if i.Time != 0 {
		return time.Unix(0, i.Time)
	}
	return time.Now()
}

// Gather adds Metrics metrics test_input with the tag n, half of them as maps and half as metrics of its own type.
func (i *Input) Gather(acc telegraf.Accumulator) error {
	i.gathers++
	i.logAll()
	for n := range i.Metrics {
		if n%2 == 0 {
			acc.AddFields("test_input", map[string]any{"gather": i.gathers, "padding": strings.Repeat("x", i.Padding)},
				map[string]string{"n": strconv.Itoa(n)}, i.now())
			continue
		}
		acc.AddMetric(&Metric{
			name: "test_input",
			time: i.now(),
			tags: []*telegraf.Tag{{Key: "n", Value: strconv.Itoa(n)}},
			fields: []*telegraf.Field{
				{Key: "gather", Value: int64(i.gathers)},
				{Key: "padding", Value: strings.Repeat("x", i.Padding)},
			},
		})
	}
	// Last, so that what a gather that hangs or panics has added before can be looked for.
	return i.call("gather")
}

// Stop is a telegraf.ServiceInput's.
func (i *Input) Stop() {
	close(i.stop)
	i.done.Wait()
	if err := i.call("stop"); err != nil {
		i.Log.Error(err)
	}
}

// Processor sets a tag.
type Processor struct {
	Common

	Key    string `toml:"key"`
	Value  string `toml:"value"`
	AtStop bool   `toml:"at_stop"` // Add a metric that says how many there were when the plugin is stopped.

	seen int
	acc  telegraf.Accumulator
}

// SampleConfig is a telegraf.PluginDescriber's.
func (*Processor) SampleConfig() string {
	return "# Sets a tag.\n[[processors.test_processor]]\n  # key = \"seen\"\n  # value = \"yes\"\n"
}

// Init is a telegraf.Initializer's.
func (p *Processor) Init() error {
	return p.call("init")
}

// Start is a telegraf.StreamingProcessor's.
func (p *Processor) Start(acc telegraf.Accumulator) error {
	p.acc = acc
	return p.call("start")
}

// Add is a telegraf.StreamingProcessor's.
func (p *Processor) Add(m telegraf.Metric, acc telegraf.Accumulator) error {
	p.seen++
	p.logAll()
	if err := p.call("add"); err != nil {
		m.Drop()
		return err
	}
	m.AddTag(p.Key, p.Value)
	acc.AddMetric(m)
	return nil
}

// Stop is a telegraf.StreamingProcessor's.
func (p *Processor) Stop() {
	if p.AtStop {
		p.acc.AddFields("stopped", map[string]any{"seen": p.seen}, nil, time.Unix(0, 1))
	}
	if err := p.call("stop"); err != nil {
		p.Log.Error(err)
	}
}

// LineProcessor is a Processor that reads lines itself: those that begin with "raw" it takes as they are, those of the
// measurement "taken" it takes as metrics, and all others it leaves alone. It tells of what it took when it is stopped.
type LineProcessor struct {
	Processor

	raw, taken int
}

// AddLine takes a line as it came.
func (p *LineProcessor) AddLine(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("raw")) {
		return false
	}
	p.raw++
	if err := p.call("line"); err != nil {
		p.Log.Error(err)
	}
	return true
}

// Take reads a metric.
func (p *LineProcessor) Take(m telegraf.Metric) bool {
	if m.Name() != "taken" {
		return false
	}
	p.taken++
	return true
}

// Stop is a telegraf.StreamingProcessor's.
func (p *LineProcessor) Stop() {
	fields := []*telegraf.Field{{Key: "raw", Value: int64(p.raw)}, {Key: "taken", Value: int64(p.taken)}, {Key: "added", Value: int64(p.seen)}}
	p.acc.AddMetric(NewMetric("took", nil, fields, time.Unix(0, 1)))
}

// Output writes metrics to a file.
type Output struct {
	Common

	File    string `toml:"file"`    // Gets the metrics as lines.
	Batches string `toml:"batches"` // Gets the size of each batch, one a line, failed ones with a minus.

	serializer influx.Serializer
}

// SampleConfig is a telegraf.PluginDescriber's.
func (*Output) SampleConfig() string {
	return "# Writes metrics to a file.\n[[outputs.test_output]]\n  file = \"/tmp/metrics\"\n"
}

// Init is a telegraf.Initializer's.
func (o *Output) Init() error {
	return errors.Join(o.serializer.Init(), o.call("init"))
}

// Connect is a telegraf.Output's.
func (o *Output) Connect() error {
	return o.call("connect")
}

// Write is a telegraf.Output's.
func (o *Output) Write(metrics []telegraf.Metric) error {
	o.logAll()
	if err := o.call("write"); err != nil {
		return errors.Join(err, appendFile(o.Batches, []byte(strconv.Itoa(-len(metrics))+"\n")))
	}
	text, err := o.serializer.SerializeBatch(metrics)
	return errors.Join(err, appendFile(o.File, text), appendFile(o.Batches, []byte(strconv.Itoa(len(metrics))+"\n")))
}

// Close is a telegraf.Output's.
func (o *Output) Close() error {
	return o.call("close")
}

func appendFile(name string, text []byte) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// RegisterInput puts inputs.test_input into Telegraf's registry.
func RegisterInput() {
	inputs.Add("test_input", func() telegraf.Input { return &Input{Metrics: 1} })
}

// RegisterProcessor puts processors.test_processor into Telegraf's registry.
func RegisterProcessor() {
	processors.AddStreaming("test_processor", func() telegraf.StreamingProcessor {
		return &Processor{Key: "seen", Value: "yes"}
	})
}

// RegisterLineProcessor puts processors.test_processor into Telegraf's registry, of a kind that reads lines itself.
func RegisterLineProcessor() {
	processors.AddStreaming("test_processor", func() telegraf.StreamingProcessor {
		return &LineProcessor{Processor: Processor{Key: "seen", Value: "yes"}}
	})
}

// RegisterOutput puts outputs.test_output into Telegraf's registry.
func RegisterOutput() {
	outputs.Add("test_output", func() telegraf.Output { return &Output{} })
}
