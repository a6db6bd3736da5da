package top

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	// remoteTimeout is how long lustre_jobs may take to answer, and mostAnswer how much it may answer.
	remoteTimeout = 10 * time.Second
	mostAnswer    = 256 << 20
)

// Remote asks lustre_jobs over HTTP (its option listen). Its rates are already those of all file servers.
type Remote struct {
	base, token, name string
	client            *http.Client
}

// NewRemote gives the lustre_jobs at an address: a URL, or unix:PATH of its socket. The token and the file with the
// authority of its certificate may be empty.
func NewRemote(address, token, authority string) (*Remote, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: no certificate in it", authority)
		}
	}
	r := &Remote{base: strings.TrimSuffix(address, "/"), token: token, name: address}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		r.base = "http://lustre_jobs"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	} else if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is neither a URL nor unix:PATH", address)
	}
	r.client = &http.Client{
		Transport: transport, Timeout: remoteTimeout,
		// Elsewhere the token is none of anybody's business.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r, nil
}

// Name gives the address.
func (r *Remote) Name() string { return "lustre_jobs at " + r.name }

// answer is what lustre_jobs answers, as its README tells.
type answer struct {
	Time time.Time   `json:"time"`
	Rows []answerRow `json:"rows"`
}

type answerRow struct {
	FS, Kind, Shard, Cluster, ID, Job, User, Account, UID, Exe, State string
	Totals                                                            map[string]int64
	Rates                                                             map[string]float64
}

// Sample asks for the jobs or the users.
func (r *Remote) Sample(ctx context.Context, by Grouping) (Snapshot, bool, error) {
	path := "/v1/jobs"
	if by == ByUser {
		path = "/v1/users"
	}
	text, err := r.get(ctx, path+"?fields=read_bytes,write_bytes,ops")
	if err != nil {
		return Snapshot{}, false, err
	}
	s, err := parseAnswer(text, by)
	if err != nil {
		return Snapshot{}, false, fmt.Errorf("%s: %w", r.Name(), err)
	}
	return s, true, nil
}

func (r *Remote) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return nil, err
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("%s: %w", r.Name(), err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.Name(), err)
	case len(text) > mostAnswer:
		return nil, fmt.Errorf("%s: more than %d bytes of answer", r.Name(), mostAnswer)
	case response.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: it wants another token", r.Name())
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d", r.Name(), response.StatusCode)
	}
	return text, nil
}

// parseAnswer reads an answer, and puts a job's OSTs and MDTs of one file system together.
func parseAnswer(text []byte, by Grouping) (Snapshot, error) {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return Snapshot{}, fmt.Errorf("the answer is none of lustre_jobs: %w", err)
	}
	s := Snapshot{At: a.Time}
	places := map[[3]string]int{}
	for i := range a.Rows {
		row := a.Rows[i].row(by)
		key := [3]string{a.Rows[i].Cluster, row.FS, row.Name}
		at, known := places[key]
		if !known {
			at = len(s.Rows)
			places[key] = at
			s.Rows = append(s.Rows, Row{FS: row.FS, Name: row.Name, User: row.User, Account: row.Account, State: row.State})
		}
		s.Rows[at].add(&row)
	}
	return s, nil
}

// row gives a line of an answer as one of ours.
func (a *answerRow) row(by Grouping) Row {
	r := Row{FS: a.FS, Name: a.Job, User: a.User, Account: a.Account, State: a.State}
	if r.User == "" {
		r.User = a.UID
	}
	switch {
	case by == ByUser:
		r.Name, r.User = r.User, ""
	case a.Job == "" && a.Exe != "":
		r.Name = a.Exe + "." + a.UID
	case a.Job == "":
		r.Name = a.ID
	}
	r.ReadRate, r.WriteRate, r.OpsRate = a.Rates["read_bytes"], a.Rates["write_bytes"], a.Rates["ops"]
	if a.Kind == "mdt" { // Its bytes are those of small files that an MDT itself holds (data on MDT).
		r.MetaRate, r.OpsRate = r.OpsRate, 0
	}
	r.Read, r.Write = a.Totals["read_bytes"], a.Totals["write_bytes"]
	return r
}
