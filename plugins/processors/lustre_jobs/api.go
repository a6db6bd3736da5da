package lustre_jobs

import (
	"bufio"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// api answers questions about the emission before. It has a picture of that, which nobody changes, and reads the rest from
// disk: a client, however slow, holds up nobody.
type api struct {
	picture atomic.Pointer[picture]
	store   *store
	reading sync.Mutex             // of the store
	token   func() (string, error) // nil: anybody may ask
	server  *http.Server
}

// remember adds to the rows of a job what it did in places that have left memory. Clients take turns: it may be a look at many
// records.
func (a *api) remember(id string, rows []*pictureRow) ([]*pictureRow, error) {
	if len(rows) > 0 {
		id = rows[0].id
	}
	a.reading.Lock()
	defer a.reading.Unlock()
	more, err := a.store.remembered(id)
	for i := range more {
		if r := &more[i]; !slices.ContainsFunc(rows, func(have *pictureRow) bool { return have.place == r.place }) {
			rows = append(rows, r)
		}
	}
	return rows, err
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

// query is what a client asks for.
type query struct {
	levels  []string
	id      string
	fields  map[string]bool // nil is all
	minRate float64
	rates   bool // and no totals
}

// asksFor tells whether a question is about a row.
func (q *query) asksFor(r *pictureRow) bool {
	if q.id == "" || q.id == r.id {
		return slices.Contains(q.levels, r.level)
	}
	return slices.Contains(q.levels, r.level) && r.level == "job" && slices.Contains(r.tags, tag{"job", q.id})
}

// answer makes a row of an answer. It is not asked for if its rates are too low.
func (q *query) answer(p *picture, r *pictureRow) (row apiRow, ok bool) {
	row = apiRow{ID: r.id, State: r.state, Rates: make(map[string]float64), Shares: make(map[string]float64)}
	for _, t := range r.tags {
		row.set(t)
	}
	if !q.rates {
		row.Totals = make(map[string]int64)
	}
	most := 0.0
	for i, name := range p.names {
		if i := uint16(i); r.listed.has(i) && (q.fields == nil || q.fields[name]) {
			row.Rates[name] = at(r.rates, i)
			most = max(most, row.Rates[name])
			if row.Totals != nil {
				row.Totals[name] = at(r.total, i)
			}
		}
	}
	shares, known := sharesOf(r.rates, r.whole)
	for i, f := range shareFields() {
		if known[i] {
			row.Shares[f.name] = shares[i]
		}
	}
	return row, most >= q.minRate
}

func (row *apiRow) set(t tag) {
	switch t.key {
	case "fs":
		row.FS = t.value
	case "kind":
		row.Kind = t.value
	case "shard":
		row.Shard = t.value
	case "cluster":
		row.Cluster = t.value
	case "job":
		row.Job = t.value
	case "user":
		row.User = t.value
	case "account":
		row.Account = t.value
	case "partition":
		row.Partition = t.value
	case "uid":
		row.UID = t.value
	case "exe":
		row.Exe = t.value
	}
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.admit(r); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
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
	rows := make([]*pictureRow, 0, len(p.rows))
	for i := range p.rows {
		if q.asksFor(&p.rows[i]) {
			rows = append(rows, &p.rows[i])
		}
	}
	if q.id != "" {
		var err error
		if rows, err = a.remember(q.id, rows); err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		if len(rows) == 0 {
			refuse(w, http.StatusNotFound, fmt.Errorf("no I/O of a job %q is known: it did none, or none for forget_after", q.id))
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = q.write(w, p, rows) // The client may have gone.
}

func statusOf(err error) int {
	if errors.Is(err, errClosed) {
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// write writes an answer, row by row: of all jobs it may be long, and many may ask.
func (q *query) write(w io.Writer, p *picture, rows []*pictureRow) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `{"time":%q,"rows":[`, p.at.UTC().Format(time.RFC3339Nano))
	separator := ""
	for _, r := range rows {
		row, ok := q.answer(p, r)
		if !ok {
			continue
		}
		text, err := json.Marshal(row)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s%s", separator, text); err != nil {
			return err
		}
		separator = ","
	}
	fmt.Fprint(out, "]}\n")
	return out.Flush()
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
				if !slices.Contains(p.names, name) {
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
