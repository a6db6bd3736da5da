package af_https

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/telegraf/filter"

	"telegraf-hpc/internal/docqueue"
)

const (
	// gatherSpread is how far apart the times of one gather's metrics are at most.
	gatherSpread = time.Second
	// gatherIdle is how long a gather is waited for whose next one does not come.
	gatherIdle = 5 * time.Second
	// forgetInterface is after how many gathers without it an interface is forgotten.
	forgetInterface = 10
	// forgetHost is after what time a host is forgotten.
	forgetHost = 30 * 24 * time.Hour
	// statePrefix is that of a host's counters in the queue's state.
	statePrefix = "net/"
)

// counters are what an interface has sent and received since it came up, in bytes.
type counters struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	Missed   int    `json:"missed,omitempty"` // gathers that it was not in

	at time.Time // of the metric, while its gather comes in
}

// netHost is what was last seen of a host.
type netHost struct {
	Time       int64               `json:"time"` // of the last gather, in ns since 1970
	Interfaces map[string]counters `json:"interfaces"`

	gather map[string]counters // the one that is coming in
	at     time.Time           // the time of its first metric
	seen   time.Time           // when its last metric came
}

func (h *netHost) clone() *netHost {
	c := *h
	c.Interfaces, c.gather = maps.Clone(h.Interfaces), maps.Clone(h.gather)
	return &c
}

// network makes the documents of kind NETWORK: what went through all interfaces of a host between two gathers. An
// interface that is new, or whose counters fell, counts from then on.
type network struct {
	interfaces filter.Filter // nil is all
	documents  *documents
	hosts      map[string]*netHost
	resets     uint64 // counters that fell
}

// netChange is what metrics change. Nothing of it is in force before it is committed.
type netChange struct {
	n      *network
	hosts  map[string]*netHost
	resets uint64
	docs   []docqueue.Document
}

func (n *network) begin() *netChange { return &netChange{n: n, hosts: make(map[string]*netHost)} }

// commit puts the change in force.
func (c *netChange) commit() {
	maps.Copy(c.n.hosts, c.hosts)
	c.n.resets += c.resets
}

// state is what is to be kept of it.
func (c *netChange) state() (map[string][]byte, error) {
	state := make(map[string][]byte, len(c.hosts))
	for name, h := range c.hosts {
		if c.n.hosts[name] != nil && c.n.hosts[name].Time == h.Time {
			continue // A gather that is not whole is not kept: the next one has all of it.
		}
		text, err := json.Marshal(h)
		if err != nil {
			return nil, err
		}
		state[statePrefix+name] = text
	}
	return state, nil
}

// load takes what was kept. It gives the keys of hosts that are to be forgotten.
func (n *network) load(state map[string][]byte, now time.Time) (forget map[string][]byte, err error) {
	forget = make(map[string][]byte)
	for key, text := range state {
		h := new(netHost)
		if e := json.Unmarshal(text, h); e != nil {
			err = fmt.Errorf("counters of host %q: %w", strings.TrimPrefix(key, statePrefix), e)
			forget[key] = nil
			continue
		}
		if now.Sub(time.Unix(0, h.Time)) > forgetHost {
			forget[key] = nil
			continue
		}
		n.hosts[strings.TrimPrefix(key, statePrefix)] = h
	}
	return forget, err
}

// host gives a host to change.
func (c *netChange) host(name string) *netHost {
	h := c.hosts[name]
	if h == nil {
		if old := c.n.hosts[name]; old != nil {
			h = old.clone()
		} else {
			h = &netHost{}
		}
		c.hosts[name] = h
	}
	return h
}

// add takes a metric of inputs.net.
func (c *netChange) add(m metric, now time.Time) {
	name, known := m.GetTag("host")
	iface, tagged := m.GetTag("interface")
	sent, sentOK := unsigned(m, "bytes_sent")
	received, receivedOK := unsigned(m, "bytes_recv")
	// Under "all" there are statistics of protocols.
	if !known || !tagged || !sentOK || !receivedOK || iface == "all" || c.n.interfaces != nil && !c.n.interfaces.Match(iface) {
		return
	}
	h, at := c.host(name), m.Time()
	if at.UnixNano() <= h.Time {
		return // It comes late, or again.
	}
	before, again := h.gather[iface]
	if again && at.Equal(before.at) || len(h.gather) > 0 && at.Before(h.at.Add(-gatherSpread)) {
		return
	}
	if again || len(h.gather) > 0 && at.Sub(h.at) > gatherSpread {
		c.finish(name, h)
	}
	if len(h.gather) == 0 {
		h.gather, h.at = make(map[string]counters), at
	}
	h.gather[iface], h.seen = counters{Sent: sent, Received: received, at: at}, now
}

// idle finishes the gathers whose last metric came some time ago.
func (c *netChange) idle(now time.Time) {
	for name, h := range c.n.hosts {
		if len(h.gather) > 0 && (now.Sub(h.seen) >= gatherIdle || now.Before(h.seen)) {
			c.finish(name, c.host(name))
		}
	}
}

// finish compares a whole gather with the one before.
func (c *netChange) finish(name string, h *netHost) {
	var sent, received uint64
	counted := false
	for iface, now := range h.gather {
		before, known := h.Interfaces[iface]
		switch {
		case !known:
		case now.Sent < before.Sent || now.Received < before.Received:
			c.resets++
		default:
			sent, received, counted = sent+now.Sent-before.Sent, received+now.Received-before.Received, true
		}
	}
	if interval := h.at.Sub(time.Unix(0, h.Time)); counted && interval > 0 && slices.Contains(c.n.documents.kinds, kindNetwork) {
		c.docs = append(c.docs, c.n.documents.network(name, h.at, sent, received, interval))
	}
	for iface, before := range h.Interfaces {
		before.Missed++
		if _, here := h.gather[iface]; !here && before.Missed <= forgetInterface {
			h.gather[iface] = before
		}
	}
	h.Interfaces, h.Time, h.gather = h.gather, h.at.UnixNano(), nil
}

// network makes the document of a host's gather.
func (d *documents) network(host string, at time.Time, sent, received uint64, interval time.Duration) docqueue.Document {
	o := d.begin(kindNetwork)
	o.text("login_node", d.hosts.name(host))
	traffic := newObject()
	traffic.integer("sent", int64(sent))
	traffic.integer("received", int64(received))
	traffic.float("interval", math.Round(interval.Seconds()*1000)/1000)
	traffic.end()
	o.key("network")
	o = append(o, traffic...)
	series := fnv.New64a()
	_, _ = series.Write([]byte("net/" + host)) // Never fails.
	return d.finish(o, kindNetwork, series.Sum64(), at)
}

// unsigned gives a counter.
func unsigned(m metric, field string) (uint64, bool) {
	if value, ok := m.GetField(field); ok {
		if v, ok := value.(uint64); ok {
			return v, true
		}
	}
	v, ok := integer(m, field)
	return uint64(v), ok && v >= 0
}
