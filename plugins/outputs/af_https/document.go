package af_https

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"telegraf-hpc/internal/docqueue"
	"telegraf-hpc/internal/userlist"
)

// metric is what a document is made of.
type metric interface {
	Name() string
	Time() time.Time
	GetTag(key string) (string, bool)
	GetField(key string) (any, bool)
	HashID() uint64
}

// The kinds of the Analysis Facility's collector (https://github.com/maniaclab/afmetrics_collector).
const (
	kindSSH           = "ssh"
	kindCondorJob     = "condorjob"
	kindCondorQueue   = "condorqueue"
	kindJupyterML     = "jupyter-ml"
	kindJupyterCoffea = "jupyter-coffea"
	kindDisk          = "DISK"
	kindCPU           = "CPU"
	kindNetwork       = "NETWORK"
	kindMem           = "MEM"
)

// usualKinds are all of them.
func usualKinds() []string {
	return []string{
		kindSSH, kindCondorJob, kindCondorQueue, kindJupyterML, kindJupyterCoffea, kindDisk, kindCPU, kindNetwork, kindMem,
	}
}

// reservedKeys are in each document, besides what its kind has.
func reservedKeys() []string { return []string{"token", "kind", "cluster"} }

// documents makes documents of metrics.
type documents struct {
	kinds        []string
	cluster      string
	queues       []string // those that are sent; none is all
	coffea       []string // namespaces of jupyter-coffea
	timestampKey string
	idKey        string
	hosts        hosts
	users        userFilter
	custom       []Document
}

// from makes the documents of a metric. A kind is not there where the metric does not have what it needs. NETWORK has its
// own way. An error is about users, and says that nothing could be made for now.
func (d *documents) from(m metric) (docs []docqueue.Document, err error) {
	add := func(kind string, fill func(o *object, m metric) bool) {
		if slices.Contains(d.kinds, kind) {
			docs = d.add(docs, kind, m, fill)
		}
	}
	switch m.Name() {
	case "system":
		add(kindCPU, d.cpu)
	case "mem":
		add(kindMem, d.mem)
	case "disk":
		add(kindDisk, d.disk)
	case "condor_queue":
		add(kindCondorQueue, d.condorQueue)
	case "condor_job", "condor_finished":
		add(kindCondorJob, func(o *object, m metric) (ok bool) { ok, err = d.condorJob(o, m); return ok })
	case "who_users":
		add(kindSSH, func(o *object, m metric) (ok bool) { ok, err = d.ssh(o, m); return ok })
	case "jupyter_users":
		kind := kindJupyterML
		if namespace, _ := m.GetTag("namespace"); slices.Contains(d.coffea, namespace) {
			kind = kindJupyterCoffea
		}
		add(kind, func(o *object, m metric) (ok bool) { ok, err = d.usersOf(o, m, "jupyter_user_count", ""); return ok })
	}
	for i := range d.custom {
		if c := &d.custom[i]; c.Measurement == m.Name() {
			docs = d.add(docs, c.Kind, m, c.fill)
		}
	}
	return docs, err
}

// add makes one document, unless fill says that there is none.
func (d *documents) add(docs []docqueue.Document, kind string, m metric, fill func(o *object, m metric) bool) []docqueue.Document {
	o := d.begin(kind)
	if !fill(&o, m) {
		return docs
	}
	return append(docs, d.finish(o, kind, m.HashID(), m.Time()))
}

func (d *documents) begin(kind string) object {
	o := newObject()
	o.text("kind", kind)
	if d.cluster != "" {
		o.text("cluster", d.cluster)
	}
	return o
}

// finish adds what is asked for of each document. The id is the same for the same values of the same series and time, so
// that what Telegraf sends twice has one id.
func (d *documents) finish(o object, kind string, series uint64, at time.Time) docqueue.Document {
	if d.idKey != "" {
		h := sha256.New()
		_, _ = h.Write(appendID(o, series, at.UnixNano())) // Never fails.
		o.text(d.idKey, hex.EncodeToString(h.Sum(nil)[:16]))
	}
	if d.timestampKey != "" {
		o.text(d.timestampKey, at.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	o.end()
	return docqueue.Document{Kind: kind, Body: o}
}

func appendID(o object, series uint64, nanoseconds int64) []byte {
	id := slices.Clone(o)
	for _, n := range []uint64{series, uint64(nanoseconds)} {
		for shift := 0; shift < 64; shift += 8 {
			id = append(id, byte(n>>shift))
		}
	}
	return id
}

func (d *documents) loginNode(o *object, m metric) bool {
	host, ok := m.GetTag("host")
	if ok {
		o.text("login_node", d.hosts.name(host))
	}
	return ok
}

// cpu is there for one of the three metrics of a gather that inputs.system makes.
func (d *documents) cpu(o *object, m metric) bool {
	load, ok := number(m, "load1")
	if !ok || !d.loginNode(o, m) {
		return false
	}
	o.float("load", load)
	return true
}

func (d *documents) mem(o *object, m metric) bool {
	return d.loginNode(o, m) && integers(o, m, "total", "total", "available", "available")
}

func (d *documents) disk(o *object, m metric) bool {
	path, ok := m.GetTag("path")
	total, known := number(m, "total")
	used, _ := number(m, "used")
	if !ok || !known || total <= 0 || !d.loginNode(o, m) {
		return false
	}
	o.text("mount", path)
	if device, ok := m.GetTag("device"); ok {
		o.text("device", strings.ReplaceAll(device, "/dev/", ""))
	}
	if !integers(o, m, "total", "total", "used", "used", "free", "free") {
		return false
	}
	o.float("utilization", used/total) // Not used_percent, which is of what users may have.
	return true
}

// mebibyte is the unit of memory in the documents of HTCondor.
const mebibyte = 1 << 20

func (d *documents) condorQueue(o *object, m metric) bool {
	queue, ok := m.GetTag("queue")
	if !ok || len(d.queues) > 0 && !slices.Contains(d.queues, queue) {
		return false
	}
	o.text("queue", queue)
	if !integers(o, m, "idle", "idle", "running", "running", "held", "held") {
		return false
	}
	cores, coresOK := integer(m, "allocated_cores")
	memory, memoryOK := integer(m, "allocated_memory_bytes")
	if coresOK && memoryOK {
		o.integer("allocated_cores", cores)
		o.integer("allocated_mem", memory/mebibyte)
	}
	return true
}

func (d *documents) condorJob(o *object, m metric) (bool, error) {
	user, id, state := stringField(m, "user"), stringField(m, "id"), stringField(m, "af_state")
	if user == "" || id == "" || state == "" {
		return false, nil
	}
	users, err := d.users.show([]string{user})
	if err != nil || len(users) == 0 {
		return false, err
	}
	o.text("users", users[0])
	o.text("Id", id)
	if runtime, ok := integer(m, "runtime_seconds"); ok {
		o.integer("Runtime", runtime)
	}
	o.text("state", state)
	return true, nil
}

// ssh has also those who were logged in before, where who_users tells of them.
func (d *documents) ssh(o *object, m metric) (bool, error) {
	if !d.loginNode(o, m) {
		return false, nil
	}
	suffix := ""
	if _, ok := m.GetField("users_recent"); ok {
		suffix = "_recent"
	}
	return d.usersOf(o, m, "ssh_user_count", suffix)
}

// usersOf writes how many users there are, and who, from fields whose names end so. Where the metric does not name them,
// only their number is known, and with a filter not even that.
func (d *documents) usersOf(o *object, m metric, countKey, suffix string) (bool, error) {
	count, counted := integer(m, "users"+suffix)
	list, named := m.GetField("user_list" + suffix)
	text, isText := list.(string)
	if !named || !isText {
		if !counted || d.users.filters() {
			return false, nil
		}
		o.integer(countKey, count)
		return true, nil
	}
	names, err := userlist.Split(text)
	if err != nil {
		return false, nil //nolint:nilerr // A list that none of our plugins wrote tells nothing, however often it is read.
	}
	shown, err := d.users.show(names)
	if err != nil {
		return false, err
	}
	// A list may be cut short; the number is not.
	if !counted || d.users.filters() {
		count = int64(len(shown))
	}
	o.integer(countKey, count)
	o.texts("users", shown)
	return true, nil
}

// Document is a kind of document that the configuration makes up.
type Document struct {
	Kind        string            `toml:"kind"`
	Measurement string            `toml:"measurement"`
	Tags        map[string]string `toml:"tags"`      // tag -> key
	Fields      map[string]string `toml:"fields"`    // field -> key
	Constants   map[string]any    `toml:"constants"` // key -> value
}

// fill writes those tags and fields that the metric has. Without any of the fields there is no document.
func (c *Document) fill(o *object, m metric) bool {
	for _, tag := range slices.Sorted(maps.Keys(c.Tags)) {
		if value, ok := m.GetTag(tag); ok {
			o.text(c.Tags[tag], value)
		}
	}
	some := false
	for _, field := range slices.Sorted(maps.Keys(c.Fields)) {
		if value, ok := m.GetField(field); ok && o.value(c.Fields[field], value) {
			some = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Constants)) {
		o.value(key, c.Constants[key])
	}
	return some
}

// number gives a field that is a number.
func number(m metric, field string) (float64, bool) {
	value, _ := m.GetField(field)
	switch v := value.(type) {
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	}
	return 0, false
}

// integer gives a field that is a whole number.
func integer(m metric, field string) (int64, bool) {
	value, _ := m.GetField(field)
	switch v := value.(type) {
	case int64:
		return v, true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	return 0, false
}

// integers writes fields under keys, given in turn. It tells whether all were there.
func integers(o *object, m metric, keysAndFields ...string) bool {
	for pair := range slices.Chunk(keysAndFields, 2) {
		value, ok := integer(m, pair[1])
		if !ok {
			return false
		}
		o.integer(pair[0], value)
	}
	return true
}

func stringField(m metric, field string) string {
	value, _ := m.GetField(field)
	text, _ := value.(string)
	return text
}
