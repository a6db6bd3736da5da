package jupyter_users

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/userlist"
	"telegraf-hpc/internal/version"
)

// An answer is what came of a question.
type answer struct {
	asking
	namespace string
	elapsed   time.Duration
	err       error
}

// Gather asks all sources at the same time, and then tells of all of them. What one does not tell is left out; the others
// go on.
func (p *JupyterUsers) Gather(acc telegraf.Accumulator) error {
	now := p.now()
	answers := make([][]answer, len(p.sources))
	failures := make([]error, len(p.sources))
	var all sync.WaitGroup
	for i, s := range p.sources {
		all.Go(func() { answers[i], failures[i] = p.askSource(s) })
	}
	all.Wait()
	if p.ctx.Err() == nil { // Else we are told to stop: what failed failed by that.
		p.tellAll(acc, answers, failures, now)
	}
	return nil
}

// tellAll emits the answers of all sources, and the errors that all answers of a source have.
func (p *JupyterUsers) tellAll(acc telegraf.Accumulator, answers [][]answer, failures []error, now time.Time) {
	var requests, bytes int64
	for i, s := range p.sources {
		if p.usual && errors.Is(failures[i], errNoCluster) {
			if p.said.First("cluster", "absent") {
				p.Log.Info("This is no pod of a Kubernetes, and no source is configured: there is nothing to gather")
			}
			continue
		}
		p.tellFailure(acc, s.name, failures[i])
		for _, a := range answers[i] {
			requests += a.requests
			bytes += a.left.used
			p.tell(acc, s, &a, now)
		}
	}
	acc.AddFields("jupyter_users_self", map[string]any{
		"version": version.String(), "requests": requests, "bytes_read": bytes, "errors": p.errors,
		"gather_seconds": p.now().Sub(now).Seconds(),
	}, nil, now)
}

// askSource asks all questions of a source at the same time. The error is one that all of them have.
func (p *JupyterUsers) askSource(s *source) ([]answer, error) {
	answers := make([]answer, len(s.questions))
	for i, q := range s.questions {
		answers[i].namespace = q.namespace
	}
	a, err := s.access()
	if err == nil {
		err = s.client.use(a)
	}
	if err != nil {
		for i := range answers {
			answers[i].err = err
		}
		return answers, fmt.Errorf("source %q: %w", s.name, err)
	}
	var all sync.WaitGroup
	for i, q := range s.questions {
		all.Go(func() { p.ask(&answers[i], q, a) })
	}
	all.Wait()
	return answers, nil
}

func (p *JupyterUsers) ask(a *answer, q question, to access) {
	ctx, cancel := context.WithTimeout(p.ctx, time.Duration(p.Timeout))
	defer cancel()
	a.server, a.left.most = to.server, int64(p.MaxResponse)
	start := p.now()
	a.err = q.ask(ctx, &a.asking)
	a.elapsed = p.now().Sub(start)
}

// tellFailure tells an error once; a subject without one is well again.
func (p *JupyterUsers) tellFailure(acc telegraf.Accumulator, subject string, err error) {
	if err == nil {
		p.said.Mend(subject)
		return
	}
	p.errors++
	p.said.Fail(acc, subject, err)
}

func (p *JupyterUsers) tell(acc telegraf.Accumulator, s *source, a *answer, now time.Time) {
	tags := func() map[string]string {
		tags := map[string]string{"source": s.name, "kind": s.kind}
		if a.namespace != "" {
			tags["namespace"] = a.namespace
		}
		return tags
	}
	up := map[string]any{"up": int64(0)}
	defer func() { acc.AddFields("jupyter_users_source", up, tags(), now) }()
	if a.server == nil {
		return // It was not asked, and why was told of the source.
	}
	up["requests"], up["bytes_read"], up["answer_seconds"] = a.requests, a.left.used, a.elapsed.Seconds()
	err := a.err
	if err != nil {
		if a.namespace != "" {
			err = fmt.Errorf("namespace %q: %w", a.namespace, err)
		}
		err = fmt.Errorf("source %q: %w", s.name, err)
	}
	p.tellFailure(acc, s.name+" "+a.namespace, err)
	if err != nil {
		return
	}
	up["up"] = int64(1)
	acc.AddFields("jupyter_users", p.fields(s, a), tags(), now)
}

func (p *JupyterUsers) fields(s *source, a *answer) map[string]any {
	fields := map[string]any{"users": int64(len(a.users))}
	if !a.partial {
		fields["servers"] = a.servers
		p.said.Mend("servers " + s.name)
	} else if p.said.First("servers "+s.name, "unknown") {
		p.Log.Warnf("Source %q: the token does not have the scope read:servers: users are counted, servers are not", s.name)
	}
	if p.ListUsers {
		fields["user_list"], fields["users_unlisted"] = p.list(a.users)
	}
	return fields
}

// list gives the list of users, each by the name that users are shown by, and how many it leaves out.
func (p *JupyterUsers) list(users map[string]struct{}) (list string, more int64) {
	shown := make([]string, 0, len(users))
	for user := range users {
		name, _ := p.users.Name(user)
		shown = append(shown, name)
	}
	slices.Sort(shown)
	if len(shown) > p.MaxUsers {
		more = int64(len(shown) - p.MaxUsers)
		shown = shown[:p.MaxUsers]
	}
	return userlist.Join(shown), more
}
