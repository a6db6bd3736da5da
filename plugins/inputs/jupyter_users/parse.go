package jupyter_users

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A pod is what is known of one from its metadata.
type pod struct {
	labels      map[string]string
	annotations map[string]string
	leaving     bool // It was deleted, and is given time to end.
}

// podItem is a pod in a list (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/).
type podItem struct {
	Metadata struct {
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// parsePods reads one page of a list of pods, in full or of their metadata only, and hands on each pod as it comes. It
// gives the token of the next page, which is empty at the last one. Pods may have been handed on when it fails.
// Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
func parsePods(page io.Reader, each func(pod)) (next string, err error) {
	var kind string
	var meta struct {
		Continue string `json:"continue"`
	}
	items := false
	err = parseObject(page, func(key string, d *json.Decoder) error {
		switch key {
		case "kind":
			return d.Decode(&kind)
		case "metadata":
			return d.Decode(&meta)
		case "items":
			items = true
			return parseList(d, func(item *podItem) {
				m := &item.Metadata
				each(pod{labels: m.Labels, annotations: m.Annotations, leaving: m.DeletionTimestamp != ""})
			})
		}
		return d.Decode(new(json.RawMessage))
	})
	switch {
	case err != nil:
		return "", err
	case kind != "PartialObjectMetadataList" && kind != "PodList":
		return "", fmt.Errorf("is a %q, not a list of pods", kind)
	case !items:
		return "", errors.New("has no items")
	}
	return meta.Continue, nil
}

// A hubUser is a user of JupyterHub.
type hubUser struct {
	name    string
	servers []hubServer
	known   bool // Whether it is known which servers the user has.
}

// A hubServer is a user's server that is starting, running or stopping.
type hubServer struct {
	stopping bool
}

// hubItem is a user in a list (https://jupyterhub.readthedocs.io/en/stable/reference/rest-api.html, model User). Without
// the scope read:servers there are no servers in it.
type hubItem struct {
	Name    *string `json:"name"`
	Servers map[string]struct {
		Pending *string `json:"pending"` // spawn, stop, check, or null
	} `json:"servers"`
}

// hubPages tells where in a list a page is (https://jupyterhub.readthedocs.io/en/stable/howto/rest.html#paginating-api-requests).
type hubPages struct {
	Offset int `json:"offset"`
	Next   *struct {
		Offset int `json:"offset"`
	} `json:"next"`
}

// parseHubUsers reads one page of JupyterHub's list of users, and hands on each as it comes. It gives the offset of the
// next page, which is 0 at the last one. Users may have been handed on when it fails.
func parseHubUsers(page io.Reader, each func(hubUser)) (next int, err error) {
	var pages *hubPages
	items := false
	nameless := 0
	err = parseObject(page, func(key string, d *json.Decoder) error {
		switch key {
		case "_pagination":
			return d.Decode(&pages)
		case "items":
			items = true
			return parseList(d, func(item *hubItem) {
				if item.Name == nil {
					nameless++
					return
				}
				u := hubUser{name: *item.Name, known: item.Servers != nil}
				for _, s := range item.Servers {
					u.servers = append(u.servers, hubServer{stopping: s.Pending != nil && *s.Pending == "stop"})
				}
				each(u)
			})
		}
		return d.Decode(new(json.RawMessage))
	})
	switch {
	case err != nil:
		return 0, err
	case !items || pages == nil:
		return 0, errors.New("is not a page of users")
	case nameless > 0:
		return 0, fmt.Errorf("%d users have no name: the token needs the scope read:users:name or list:users", nameless)
	case pages.Next == nil:
		return 0, nil
	case pages.Next.Offset <= pages.Offset:
		return 0, fmt.Errorf("the next page is at %d, and this one at %d", pages.Next.Offset, pages.Offset)
	}
	return pages.Next.Offset, nil
}

// parseObject reads an object of JSON and nothing after it, and calls value at the value of each key.
func parseObject(r io.Reader, value func(key string, d *json.Decoder) error) error {
	d := json.NewDecoder(r)
	start, err := d.Token()
	if err != nil {
		return cutOff(err)
	}
	if start != json.Delim('{') {
		return errors.New("is no JSON object")
	}
	seen := make(map[string]bool)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return cutOff(err)
		}
		name, _ := key.(string) // Keys are strings, or Token fails.
		if seen[name] {
			return fmt.Errorf("key %q: is there twice", name)
		}
		seen[name] = true
		if err := value(name, d); err != nil {
			return fmt.Errorf("key %q: %w", name, cutOff(err))
		}
	}
	if _, err := d.Token(); err != nil {
		return cutOff(err)
	}
	switch _, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return cutOff(err)
	}
	return errors.New("has more than one JSON object")
}

// parseList reads a list, or null for none, and hands on each of its items.
func parseList[T any](d *json.Decoder, each func(item *T)) error {
	start, err := d.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return errors.New("is no list")
	}
	for d.More() {
		var item T
		if err := d.Decode(&item); err != nil {
			return err
		}
		each(&item)
	}
	_, err = d.Token()
	return err
}

// cutOff names what the end of the text means inside an object, and says what is there in place of what is expected.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutOff
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		what, _, _ := strings.Cut(kind.Value, " ")
		return fmt.Errorf("%s is not expected in %q", what, strings.TrimPrefix(kind.Field, "."))
	}
	return err
}

var errCutOff = errors.New("ends too early")

// failureText gives the text of an answer that is an error, of Kubernetes (a Status) or of JupyterHub: both have it as the
// message. It is empty where there is none.
func failureText(body []byte) string {
	var answer struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	const most = 300
	text := strings.Join(strings.FieldsFunc(answer.Message, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + " ..."
}
