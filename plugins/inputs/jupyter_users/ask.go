package jupyter_users

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// pageSize is how many pods or users are asked for at once.
const pageSize = 500

// asking is one question that is being asked.
type asking struct {
	server   *url.URL
	left     budget
	requests int64
	users    map[string]struct{}
	servers  int64
	// partial tells that the answer has no servers in it.
	partial bool
}

func (q *asking) reset() {
	q.users, q.servers, q.partial = make(map[string]struct{}), 0, false
}

// podList asks for the pods of a namespace that have a label.
type podList struct {
	client           *client
	namespace, label string
	selector         string // the label, and what else is asked for
	decode           bool
}

// expiredTwice tells of a list that changed too fast, or was read too slowly. A server keeps the old one for some minutes.
var errExpiredTwice = errors.New("the list expired twice while its pages were read")

var errSamePage = errors.New("the next page of the list is the same again")

// ask counts the pods that are there to stay, and their users. A list that expires between two pages is read once more, from
// the start.
func (l *podList) ask(ctx context.Context, q *asking) error {
	err := l.pages(ctx, q)
	if !isGone(err) {
		return err
	}
	if err = l.pages(ctx, q); isGone(err) {
		return errExpiredTwice
	}
	return err
}

func isGone(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.code == http.StatusGone
}

func (l *podList) pages(ctx context.Context, q *asking) error {
	q.reset()
	address := q.server.JoinPath("api", "v1", "namespaces", l.namespace, "pods")
	query := url.Values{
		"labelSelector": {l.selector}, "limit": {strconv.Itoa(pageSize)},
		// Those that have ended stay in the list until somebody deletes them.
		"fieldSelector": {"status.phase!=Succeeded,status.phase!=Failed"},
	}
	// The metadata alone is a small part of a pod. Whoever doesn't know of that sends the pods.
	const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"
	for {
		address.RawQuery = query.Encode()
		var next string
		q.requests++
		if err := l.client.get(ctx, address, accept, &q.left, func(page io.Reader) (err error) {
			next, err = parsePods(page, func(p pod) { l.count(q, p) })
			return err
		}); err != nil {
			return err
		}
		switch next {
		case "":
			return nil
		case query.Get("continue"):
			return errSamePage
		}
		query.Set("continue", next)
	}
}

func (l *podList) count(q *asking, p pod) {
	if p.leaving {
		return
	}
	q.servers++
	if name := userName(p.labels[l.label], p.annotations[nameAnnotation], l.decode); name != "" {
		q.users[name] = struct{}{}
	}
}

// hubList asks JupyterHub for its users with servers.
type hubList struct{ client *client }

// ask counts the servers that start or run, and their users.
func (l *hubList) ask(ctx context.Context, q *asking) error {
	q.reset()
	address := q.server.JoinPath("users")
	const accept = "application/jupyterhub-pagination+json"
	for offset := 0; ; {
		address.RawQuery = url.Values{"state": {"active"}, "offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(pageSize)}}.Encode()
		q.requests++
		if err := l.client.get(ctx, address, accept, &q.left, func(page io.Reader) (err error) {
			offset, err = parseHubUsers(page, q.countUser)
			return err
		}); err != nil || offset == 0 {
			return err
		}
	}
}

// countUser counts a user once: pages of a list that changes may overlap.
func (q *asking) countUser(u hubUser) {
	if _, there := q.users[u.name]; there || u.name == "" {
		return
	}
	servers := 0
	for _, s := range u.servers {
		if !s.stopping {
			servers++
		}
	}
	if u.known && servers == 0 {
		return
	}
	q.users[u.name] = struct{}{}
	q.servers += int64(servers)
	q.partial = q.partial || !u.known
}
