package lustre_jobs

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/influxdata/telegraf/config"
)

const (
	// apiConnections is how many clients are served at once. Others wait.
	apiConnections = 32
	// apiTimeout is how long a client may take to ask, and again to take the answer.
	apiTimeout = 30 * time.Second
	// apiIdle is how long a connection may be idle.
	apiIdle = time.Minute
)

// api answers questions about the emission before. It has a picture of that, which nobody changes: a client, however slow,
// holds up nobody.
type api struct {
	picture atomic.Pointer[picture]
	token   func() (string, error) // nil: anybody may ask
	server  *http.Server
}

// picture is what an emission had. Its slices are written no more.
type picture struct {
	at    time.Time
	names []field
	rows  []pictureRow
}

// pictureRow is a series or a sum.
type pictureRow struct {
	level  string // fs, account, user or job
	id     string // a job's, as Lustre has it
	tags   []tag
	state  string
	listed fieldSet
	total  []int64
	rates  []float64
	whole  []float64
	rank   float64
}

// apiRow is a row of an answer.
type apiRow struct {
	FS        string             `json:"fs"`
	Kind      string             `json:"kind"`
	Shard     string             `json:"shard,omitempty"`
	Cluster   string             `json:"cluster,omitempty"`
	ID        string             `json:"id,omitempty"`
	Job       string             `json:"job,omitempty"`
	User      string             `json:"user,omitempty"`
	Account   string             `json:"account,omitempty"`
	Partition string             `json:"partition,omitempty"`
	UID       string             `json:"uid,omitempty"`
	Exe       string             `json:"exe,omitempty"`
	State     string             `json:"state,omitempty"`
	Totals    map[string]int64   `json:"totals,omitempty"`
	Rates     map[string]float64 `json:"rates"`
	Shares    map[string]float64 `json:"shares,omitempty"`
}

// answer is the answer to any question.
type answer struct {
	Time time.Time `json:"time"`
	Rows []apiRow  `json:"rows"`
}

// paint makes a picture of all that is in memory, before the next window begins.
func (l *ledger) paint(at time.Time) *picture {
	p := &picture{at: at, names: slices.Clone(l.fields.fields)}
	for _, s := range l.sums {
		if s.total == nil {
			continue
		}
		r := pictureRow{listed: s.listed, total: slices.Clone(s.total), rates: slices.Clone(s.rate), whole: slices.Clone(s.place.total.rate)}
		_, r.tags = s.tags()
		r.level = [...]string{levelFS: "fs", levelAccount: "account", levelUser: "user", levelUID: "user"}[s.level]
		p.rows = append(p.rows, r)
	}
	for _, place := range l.byID {
		whole := slices.Clone(place.total.rate)
		for _, s := range place.series {
			if s.who == nil || s.total == nil {
				continue
			}
			r := pictureRow{level: "job", listed: s.listed, total: slices.Clone(s.total), rates: s.cur, whole: whole, rank: s.rank()}
			r.id, _ = s.job()
			r.state = l.state(s, at.UnixNano())
			_, r.tags = s.tags()
			p.rows = append(p.rows, r)
		}
	}
	slices.SortFunc(p.rows, func(a, b pictureRow) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), slices.CompareFunc(a.tags, b.tags, func(x, y tag) int { return cmp.Compare(x.value, y.value) }))
	})
	return p
}

// query is what a client asks for.
type query struct {
	levels  []string
	id      string
	fields  map[string]bool // nil is all
	minRate float64
	rates   bool // and no totals
}

func (p *picture) answer(q *query) answer {
	a := answer{Time: p.at.UTC(), Rows: []apiRow{}}
	for i := range p.rows {
		r := &p.rows[i]
		if !slices.Contains(q.levels, r.level) {
			continue
		}
		row := apiRow{ID: r.id, State: r.state}
		for _, t := range r.tags {
			row.set(t)
		}
		if q.id != "" && q.id != row.ID && q.id != row.Job {
			continue
		}
		if most := row.values(p, r, q); most >= q.minRate {
			a.Rows = append(a.Rows, row)
		}
	}
	return a
}

func (row *apiRow) set(t tag) {
	*map[string]*string{
		"fs": &row.FS, "kind": &row.Kind, "shard": &row.Shard, "cluster": &row.Cluster, "job": &row.Job, "user": &row.User,
		"account": &row.Account, "partition": &row.Partition, "uid": &row.UID, "exe": &row.Exe,
	}[t.key] = t.value
}

// values fills in totals, rates and shares, and gives the largest rate.
func (row *apiRow) values(p *picture, r *pictureRow, q *query) (most float64) {
	row.Rates, row.Shares = make(map[string]float64), make(map[string]float64)
	if !q.rates {
		row.Totals = make(map[string]int64)
	}
	for i := range uint16(len(p.names)) {
		name := p.names[i].name
		if !r.listed.has(i) || q.fields != nil && !q.fields[name] {
			continue
		}
		row.Rates[name] = at(r.rates, i)
		most = max(most, row.Rates[name])
		if row.Totals != nil {
			row.Totals[name] = at(r.total, i)
		}
	}
	if r.level == "fs" {
		return most
	}
	for _, f := range shareFields() {
		mine, all := 0.0, 0.0
		for _, field := range f.fields {
			mine += at(r.rates, field)
			all += at(r.whole, field)
		}
		if all > 0 {
			row.Shares[f.name] = min(mine/all, 1)
		}
	}
	return most
}

// handler gives what answers.
func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	for path, q := range map[string]query{
		"/v1/jobs": {levels: []string{"job"}}, "/v1/jobs/{id}": {levels: []string{"job"}}, "/v1/rates": {levels: []string{"job"}, rates: true},
		"/v1/users": {levels: []string{"user"}}, "/v1/filesystems": {levels: []string{"fs"}},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, q) })
	}
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.admit(r); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, err)
			return
		}
		mux.ServeHTTP(w, r)
	}), apiTimeout, `{"error":"it took too long"}`)
}

// admit checks the token, in a time that does not tell how much of it is right.
func (a *api) admit(r *http.Request) error {
	if a.token == nil {
		return nil
	}
	want, err := a.token()
	if err != nil {
		return errors.New("the token is not known here")
	}
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
		return errors.New("a bearer token is needed")
	}
	return nil
}

func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // The client may have gone.
}

func (a *api) serve(w http.ResponseWriter, r *http.Request, q query) {
	p := a.picture.Load()
	if p == nil {
		refuse(w, http.StatusServiceUnavailable, errors.New("nothing is known yet: ask again after the first interval"))
		return
	}
	if err := q.parse(r, p); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	result := p.answer(&q)
	if q.id != "" && len(result.Rows) == 0 {
		refuse(w, http.StatusNotFound, fmt.Errorf("no I/O of a job %q is known", q.id))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(result) // The client may have gone.
}

// parse reads ?fields= and ?min_rate=.
func (q *query) parse(r *http.Request, p *picture) error {
	q.id = r.PathValue("id")
	for key, values := range r.URL.Query() {
		value := strings.Join(values, ",")
		switch key {
		case "fields":
			q.fields = make(map[string]bool)
			for name := range strings.SplitSeq(value, ",") {
				if !slices.ContainsFunc(p.names, func(f field) bool { return f.name == name }) {
					return fmt.Errorf("fields: %q is not known", name)
				}
				q.fields[name] = true
			}
		case "min_rate":
			var err error
			if q.minRate, err = strconv.ParseFloat(value, 64); err != nil || !(q.minRate >= 0) {
				return fmt.Errorf("min_rate: %q is no number from 0 on", value)
			}
		default:
			return fmt.Errorf("%q is not known; there are fields and min_rate", key)
		}
	}
	return nil
}

// loopback tells whether only this host can reach an address.
func loopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listen begins to answer.
func (a *api) listen(address string, secure *tls.Config, failed func(error)) error {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
		if err := removeSocket(path); err != nil {
			return err
		}
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	if network == "unix" {
		if err := os.Chmod(address, 0o660); err != nil { //nolint:gosec // The group may ask.
			return errors.Join(err, listener.Close())
		}
	}
	listener = &limited{Listener: listener, slots: make(chan struct{}, apiConnections), done: make(chan struct{})}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	a.server = &http.Server{
		Handler: a.handler(), ReadTimeout: apiTimeout, WriteTimeout: 2 * apiTimeout, IdleTimeout: apiIdle, MaxHeaderBytes: 16 << 10,
	}
	go func() {
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
	return nil
}

// removeSocket removes a socket that a process which was killed has left.
func removeSocket(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode()&os.ModeSocket == 0 {
		err = fmt.Errorf("%s is there, and is no socket", path)
	}
	if err != nil {
		return err
	}
	return os.Remove(path)
}

func (a *api) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := a.server.Shutdown(ctx); err != nil {
		return a.server.Close() // Whoever is slow is cut off.
	}
	return nil
}

// limited accepts no more connections than it has slots.
type limited struct {
	net.Listener

	slots chan struct{}
	done  chan struct{}
	once  atomic.Bool
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotted{Conn: conn, slots: l.slots}, nil
}

func (l *limited) Close() error {
	if l.once.CompareAndSwap(false, true) {
		close(l.done)
	}
	return l.Listener.Close()
}

type slotted struct {
	net.Conn

	slots chan struct{}
	once  atomic.Bool
}

func (s *slotted) Close() error {
	if s.once.CompareAndSwap(false, true) {
		<-s.slots
	}
	return s.Conn.Close()
}

// tokenOf gives a function that reads a secret each time, so that it is nowhere in plain memory for long.
func tokenOf(secret *config.Secret) func() (string, error) {
	return func() (string, error) {
		token, err := secret.Get()
		if err != nil {
			return "", err
		}
		defer token.Destroy()
		return token.String(), nil
	}
}
