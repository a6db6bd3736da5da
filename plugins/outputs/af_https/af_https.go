//go:generate go test -run TestReadme -update .

// Package af_https is a Telegraf output: JSON documents, such as those of the Analysis Facility's collector, to an HTTPS
// endpoint, from a queue on disk.
package af_https

import (
	"cmp"
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/filter"
	common_tls "github.com/influxdata/telegraf/plugins/common/tls"
	"github.com/influxdata/telegraf/plugins/outputs"

	"telegraf-hpc/internal/docqueue"
	"telegraf-hpc/internal/option"
	"telegraf-hpc/internal/said"
)

//go:embed sample.conf
var sampleConfig string

const (
	// patience is how long a request that is under way may go on when the plugin is told to end.
	patience = 2 * time.Second
	// tick is how often it is looked whether there is something to do besides; upkeep is how often the queue is kept up, and
	// the status written.
	tick   = time.Second
	upkeep = 10 * time.Second
	// largestBody is the most bytes of a document.
	largestBody = 8 << 20
)

// The values of option when_full.
const (
	refuse     = "refuse"
	dropOldest = "drop_oldest"
)

// AFHTTPS sends documents.
type AFHTTPS struct {
	URL                string          `toml:"url"`
	Token              config.Secret   `toml:"token"`
	TokenFile          string          `toml:"token_file"`
	TokenIn            string          `toml:"token_in"`
	Kinds              []string        `toml:"kinds"`
	Documents          []Document      `toml:"document"`
	Cluster            string          `toml:"cluster"`
	Queues             []string        `toml:"queues"`
	CoffeaNamespaces   []string        `toml:"coffea_namespaces"`
	Interfaces         []string        `toml:"interfaces"`
	Group              string          `toml:"group"`
	ExcludeUsers       []string        `toml:"exclude_users"`
	ObfuscateUsers     bool            `toml:"obfuscate_users"`
	Salt               config.Secret   `toml:"salt"`
	ObfuscateHosts     bool            `toml:"obfuscate_hosts"`
	Domain             string          `toml:"domain"`
	TimestampKey       string          `toml:"timestamp_key"`
	DocumentID         string          `toml:"document_id"`
	BatchSize          int             `toml:"batch_size"`
	BatchBytes         config.Size     `toml:"batch_bytes"`
	ContentEncoding    string          `toml:"content_encoding"`
	Timeout            config.Duration `toml:"timeout"`
	RetryInitial       config.Duration `toml:"retry_initial"`
	RetryMax           config.Duration `toml:"retry_max"`
	RetryAfterMax      config.Duration `toml:"retry_after_max"`
	Parallel           int             `toml:"parallel"`
	StateDirectory     string          `toml:"state_directory"`
	MaxSize            config.Size     `toml:"max_size"`
	MaxAge             config.Duration `toml:"max_age"`
	WhenFull           string          `toml:"when_full"`
	DeadLetterSize     config.Size     `toml:"dead_letter_size"`
	StatisticsInterval config.Duration `toml:"statistics_interval"`
	DryRun             string          `toml:"dry_run"`
	common_tls.ClientConfig

	Log telegraf.Logger `toml:"-"`

	now       func() time.Time
	documents documents
	endpoint  *endpoint
	dead      *deadLetters
	said      said.Said

	queue   *docqueue.Queue
	sender  *sender
	cancel  context.CancelFunc
	started time.Time
	done    chan struct{}
	ticking sync.WaitGroup

	mu      sync.Mutex // guards what follows
	network *network
}

func newPlugin() *AFHTTPS {
	return &AFHTTPS{
		TokenIn: "document", Kinds: usualKinds(), Cluster: "UC-AF", CoffeaNamespaces: []string{"coffea-casa"}, BatchSize: 1,
		BatchBytes: 1 << 20, ContentEncoding: "identity", Timeout: config.Duration(30 * time.Second),
		RetryInitial: config.Duration(time.Second), RetryMax: config.Duration(5 * time.Minute),
		RetryAfterMax: config.Duration(15 * time.Minute), Parallel: 1, StateDirectory: "/var/lib/telegraf-hpc/af_https",
		MaxSize: 1 << 30, WhenFull: refuse, DeadLetterSize: 64 << 20, StatisticsInterval: config.Duration(5 * time.Minute),
		now: time.Now,
	}
}

// SampleConfig returns the configuration with every option.
func (*AFHTTPS) SampleConfig() string { return sampleConfig }

// Init checks the options.
func (p *AFHTTPS) Init() error {
	if err := errors.Join(p.checkURL(), p.checkChoices(), p.checkKinds(), p.checkDocuments(), p.checkNumbers()); err != nil {
		return err
	}
	var err error
	users := userFilter{exclude: p.ExcludeUsers, obfuscate: p.ObfuscateUsers}
	if users.salt, err = reveal("salt", &p.Salt); err != nil {
		return err
	}
	if p.Group != "" {
		users.members = newMembers(p.Group, p.now)
	}
	p.documents = documents{
		kinds: p.Kinds, cluster: p.Cluster, queues: p.Queues, coffea: p.CoffeaNamespaces, timestampKey: p.TimestampKey,
		idKey: p.DocumentID, hosts: hosts{p.ObfuscateHosts, p.Domain}, users: users, custom: p.Documents,
	}
	p.network = &network{documents: &p.documents, hosts: make(map[string]*netHost)}
	if p.network.interfaces, err = filter.Compile(p.Interfaces); err != nil {
		return fmt.Errorf("option interfaces: %w", err)
	}
	p.dead = &deadLetters{dir: p.StateDirectory, largest: int64(p.DeadLetterSize)}
	return p.makeEndpoint()
}

// reveal gives a secret as text.
func reveal(option string, secret *config.Secret) (string, error) {
	if secret.Empty() {
		return "", nil
	}
	buffer, err := secret.Get()
	if err != nil {
		return "", fmt.Errorf("option %s: %w", option, err)
	}
	defer buffer.Destroy()
	return buffer.String(), nil
}

func (p *AFHTTPS) makeEndpoint() error {
	token, err := reveal("token", &p.Token)
	if err != nil {
		return err
	}
	tlsConfig, err := p.TLSConfig()
	if err != nil {
		return fmt.Errorf("options tls_*: %w", err)
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if tlsConfig.MinVersion == 0 {
		tlsConfig.MinVersion = tls.VersionTLS12
	}
	if tlsConfig.MinVersion < tls.VersionTLS12 {
		return fmt.Errorf("option tls_min_version: %q is below TLS12", p.TLSMinVersion)
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return errors.New("option url: it is no URL")
	}
	p.endpoint = &endpoint{
		url: p.URL, host: u.Host, client: newClient(tlsConfig), timeout: time.Duration(p.Timeout), longest: time.Duration(p.RetryAfterMax),
		array: p.BatchSize > 1, gzip: p.ContentEncoding == "gzip", inHeader: p.TokenIn == "header", tokenFile: p.TokenFile, token: token,
	}
	return nil
}

// checkURL does not repeat the URL in an error: it may have secrets in it.
func (p *AFHTTPS) checkURL() error {
	u, err := url.Parse(p.URL)
	switch {
	case p.URL == "":
		return errors.New("option url: must be set")
	case err != nil || u.Host == "":
		return errors.New("option url: it is no URL such as \"https://host.example.org/\"")
	case u.Scheme != "https":
		return fmt.Errorf("option url: must be https, not %s", u.Scheme)
	case u.User != nil:
		return errors.New("option url: must have no user and password in it")
	case p.Enable != nil && !*p.Enable:
		return errors.New("option tls_enable: TLS can't be switched off")
	case (p.TLSCert == "") != (p.TLSKey == ""):
		return errors.New("options tls_cert and tls_key: one needs the other")
	case !p.Token.Empty() && p.TokenFile != "":
		return errors.New("options token and token_file: only one of them can be set")
	}
	return nil
}

func (p *AFHTTPS) checkChoices() error {
	if err := cmp.Or(
		option.Choice("token_in", p.TokenIn, "document", "header"),
		option.Choice("content_encoding", p.ContentEncoding, "identity", "gzip"),
		option.Choice("when_full", p.WhenFull, refuse, dropOldest),
	); err != nil {
		return err
	}
	switch {
	case p.ObfuscateHosts && p.Domain == "":
		return errors.New("option domain: must be set with obfuscate_hosts")
	case p.StateDirectory == "":
		return errors.New("option state_directory: must be set")
	}
	return nil
}

func (p *AFHTTPS) checkKinds() error {
	if len(p.Kinds) == 0 {
		return nil // There may be documents of your own alone.
	}
	return option.Choices("kinds", p.Kinds, usualKinds())
}

func (p *AFHTTPS) checkNumbers() error {
	return cmp.Or(
		option.Require("batch_size", p.BatchSize >= 1 && p.BatchSize <= 100_000, "must be 1 to 100000"),
		option.Require("batch_bytes", p.BatchBytes >= 1, "must be at least 1"),
		option.Require("timeout", p.Timeout > 0, "must be more than 0s"),
		option.Require("retry_initial", p.RetryInitial > 0, "must be more than 0s"),
		option.Require("retry_max", p.RetryMax >= p.RetryInitial, "must not be less than retry_initial"),
		option.Require("retry_after_max", p.RetryAfterMax > 0, "must be more than 0s"),
		option.Require("parallel", p.Parallel >= 1, "must be at least 1"),
		option.Require("max_size", p.MaxSize >= 0, "must not be negative"),
		option.Require("max_age", p.MaxAge >= 0, "must not be negative"),
		option.Require("dead_letter_size", p.DeadLetterSize > 0, "must be more than 0"),
		option.Require("statistics_interval", p.StatisticsInterval >= 0, "must not be negative"),
	)
}

func (p *AFHTTPS) checkDocuments() error {
	for i := range p.Documents {
		if err := p.Documents[i].check(p.reservedKeys()); err != nil {
			return fmt.Errorf("option document %d: %w", i+1, err)
		}
	}
	keys := p.reservedKeys()
	slices.Sort(keys)
	for i := range keys {
		if i > 0 && keys[i] == keys[i-1] {
			return fmt.Errorf("options timestamp_key and document_id: the key %q is there already", keys[i])
		}
	}
	return nil
}

// reservedKeys are the keys that all documents have.
func (p *AFHTTPS) reservedKeys() []string {
	keys := reservedKeys()
	for _, key := range []string{p.TimestampKey, p.DocumentID} {
		if key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// check checks one document of the configuration's, and makes its constants what a document can have.
func (c *Document) check(taken []string) error {
	switch {
	case c.Kind == "" || len(c.Kind) > 64:
		return errors.New("kind must have 1 to 64 characters")
	case c.Measurement == "":
		return errors.New("measurement must be set")
	case len(c.Fields) == 0:
		return errors.New("fields must have at least one")
	}
	taken = slices.Clone(taken)
	take := func(key string) error {
		if key == "" || slices.Contains(taken, key) {
			return fmt.Errorf("the key %q is there already, or empty", key)
		}
		taken = append(taken, key)
		return nil
	}
	var errs []error
	for _, key := range c.Tags {
		errs = append(errs, take(key))
	}
	for _, key := range c.Fields {
		errs = append(errs, take(key))
	}
	for key, value := range c.Constants {
		errs = append(errs, take(key))
		if _, err := appendValue(nil, value); err != nil {
			errs = append(errs, fmt.Errorf("constant %q: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// Connect opens the queue and starts to deliver. It fails while another process has the queue.
func (p *AFHTTPS) Connect() error {
	if p.DryRun != "" {
		p.Log.Infof("Nothing is sent: documents go to %s", p.DryRun)
		return nil
	}
	if err := p.open(); err != nil {
		return err
	}
	p.done, p.started = make(chan struct{}), p.now()
	if p.InsecureSkipVerify {
		p.Log.Warn("Option insecure_skip_verify: anybody can pretend to be the endpoint, and get the token")
	}
	p.startSending()
	begin := p.status()
	p.ticking.Go(func() { p.tick(begin) })
	return nil
}

// open opens the queue, and takes up the state in it.
func (p *AFHTTPS) open() error {
	queue, err := docqueue.Open(p.StateDirectory, docqueue.Options{
		MaxBytes: int64(p.MaxSize), DropOldest: p.WhenFull == dropOldest, MaxAge: time.Duration(p.MaxAge), Now: p.now,
		Warn: func(err error) { p.Log.Errorf("Queue: %v", err) },
	})
	if err != nil {
		return err
	}
	state, err := queue.State(statePrefix)
	if err != nil {
		return errors.Join(err, queue.Close())
	}
	forget, err := p.network.load(state, p.now())
	if err != nil {
		p.Log.Warnf("State: %v: they start again", err)
	}
	if len(forget) > 0 {
		if err := queue.Append(nil, forget); err != nil {
			p.Log.Warnf("State: forgetting hosts: %v", err)
		}
	}
	p.queue = queue
	return nil
}

func (p *AFHTTPS) startSending() {
	kinds := append(p.queue.Kinds(), p.Kinds...)
	for i := range p.Documents {
		kinds = append(kinds, p.Documents[i].Kind)
	}
	slices.Sort(kinds)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.sender = &sender{
		queue: p.queue, endpoint: p.endpoint, dead: p.dead, batch: p.BatchSize, batchSize: int(p.BatchBytes),
		first: time.Duration(p.RetryInitial), longest: time.Duration(p.RetryMax), slots: make(chan struct{}, p.Parallel), log: p.Log,
	}
	p.sender.start(ctx, slices.Compact(kinds))
}

// Write puts the documents of metrics into the queue. When it returns nil they are on disk.
func (p *AFHTTPS) Write(metrics []telegraf.Metric) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var docs []docqueue.Document
	change := p.network.begin()
	now := p.now()
	for _, m := range metrics {
		if m.Name() == "net" && slices.Contains(p.Kinds, kindNetwork) {
			change.add(m, now)
		}
		made, err := p.documents.from(m)
		if err != nil && p.said.First("users", err.Error()) {
			p.Log.Errorf("Documents with users are left out: %v", err)
		}
		docs = append(docs, made...)
	}
	return p.commit(docs, change)
}

// commit puts documents, those of a change of counters too, into the queue, with the counters.
func (p *AFHTTPS) commit(docs []docqueue.Document, change *netChange) error {
	docs = slices.DeleteFunc(append(docs, change.docs...), func(d docqueue.Document) bool {
		if len(d.Body) > largestBody {
			p.Log.Errorf("A document of kind %s has %d bytes, and %d is the most: it is left out", d.Kind, len(d.Body), largestBody)
		}
		return len(d.Body) > largestBody
	})
	if p.DryRun != "" {
		if err := p.writeDry(docs); err != nil {
			return err
		}
		change.commit()
		return nil
	}
	state, err := change.state()
	if err == nil && len(docs)+len(state) > 0 {
		err = p.queue.Append(docs, state)
	}
	if err != nil {
		return err
	}
	change.commit()
	return nil
}

// writeDry writes documents as they would be sent, but for the token.
func (p *AFHTTPS) writeDry(docs []docqueue.Document) error {
	if len(docs) == 0 {
		return nil
	}
	var text []byte
	for i := range docs {
		text = append(appendWithToken(text, docs[i].Body, "(the token)"), '\n')
	}
	err := os.MkdirAll(filepath.Dir(p.DryRun), 0o750)
	if err != nil {
		return fmt.Errorf("option dry_run: %w", err)
	}
	f, err := os.OpenFile(p.DryRun, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("option dry_run: %w", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// tick does what is due by the clock, until the end. The statistics begin with the status before.
func (p *AFHTTPS) tick(before *status) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	p.maintain(before)
	kept := p.now()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
		}
		now := p.now()
		p.finishGathers(now)
		p.takeBack()
		if now.Sub(kept) >= upkeep || now.Before(kept) {
			kept = now
			p.maintain(p.status())
		}
		if interval := time.Duration(p.StatisticsInterval); interval > 0 && now.Sub(before.Time) >= interval {
			s := p.status()
			p.Log.Info(s.say(before))
			before = s
		}
	}
}

// finishGathers makes the documents of gathers that nothing comes after.
func (p *AFHTTPS) finishGathers(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change := p.network.begin()
	change.idle(now)
	if len(change.hosts) == 0 {
		return
	}
	p.tell("gathers", p.commit(nil, change)) // If it fails it is tried again.
}

// takeBack takes dead letters that are to be sent again.
func (p *AFHTTPS) takeBack() {
	taken, err := p.dead.takeBack(p.queue)
	if taken > 0 {
		p.Log.Infof("%d dead letters are sent again", taken)
	}
	p.tell("replay", err)
}

func (p *AFHTTPS) maintain(s *status) {
	p.tell("queue", p.queue.Maintain())
	p.tell("status", p.writeStatus(s))
}

// tell logs an error, each once.
func (p *AFHTTPS) tell(subject string, err error) {
	if err == nil {
		p.said.Mend(subject)
	} else if p.said.First(subject, err.Error()) {
		p.Log.Errorf("Upkeep of %s in %s: %v", subject, filepath.Clean(p.StateDirectory), err)
	}
}

// Close ends the delivery. What is still in the queue is delivered after the next start.
func (p *AFHTTPS) Close() error {
	if p.queue == nil {
		return nil
	}
	close(p.done)
	p.ticking.Wait()
	p.sender.end(p.cancel, patience)
	s := p.status()
	if s.Queued > 0 {
		p.Log.Infof("%d documents wait for the next start", s.Queued)
	}
	p.maintain(s)
	err := p.queue.Close()
	p.queue = nil
	return err
}

func init() {
	outputs.Add("af_https", func() telegraf.Output { return newPlugin() })
}
