package jupyter_users

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/influxdata/telegraf/config"
)

// Source is one Kubernetes or JupyterHub.
type Source struct {
	Name       string        `toml:"name"`
	Kind       string        `toml:"kind"`
	Namespaces []string      `toml:"namespaces"`
	Label      string        `toml:"label"`
	Selector   string        `toml:"selector"`
	Names      string        `toml:"names"`
	Kubeconfig string        `toml:"kubeconfig"`
	Context    string        `toml:"context"`
	URL        string        `toml:"url"`
	Token      config.Secret `toml:"token"`
	TokenFile  string        `toml:"token_file"`
	TLSCA      string        `toml:"tls_ca"`
}

// The values of option kind.
const (
	kindKubernetes = "kubernetes"
	kindJupyterHub = "jupyterhub"
)

// The values of option names.
const (
	namesKubeSpawner = "kubespawner"
	namesPlain       = "plain"
)

// The namespaces and labels that the Analysis Facility's collector asks for.
const (
	afNamespace, afLabel         = "af-jupyter", "owner"
	coffeaNamespace, coffeaLabel = "coffea-casa", "jhub_user"
)

// A source is one that is ready to be asked.
type source struct {
	name, kind string
	access     func() (access, error)
	client     client
	questions  []question
}

// A question is what a source is asked in one gather: for the pods of one namespace, or for JupyterHub's users.
type question struct {
	namespace string
	ask       func(ctx context.Context, q *asking) error
}

var (
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelName     = regexp.MustCompile(`^([a-z0-9][-.a-z0-9]*/)?[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$`)
)

// errNoCluster is the error of who is not in a pod.
var errNoCluster = errors.New("this is no pod of a Kubernetes (KUBERNETES_SERVICE_HOST is not set): set option kubeconfig, or url")

// source checks the options.
func (o *Source) source(getenv func(string) string, root string) (*source, error) {
	if o.Kind == "" {
		o.Kind = kindKubernetes
	}
	if o.Name == "" {
		o.Name = o.Kind
	}
	s := &source{name: o.Name, kind: o.Kind}
	if err := o.checkURL(); err != nil {
		return nil, err
	}
	switch o.Kind {
	case kindKubernetes:
		return s, o.kubernetes(s, getenv, root)
	case kindJupyterHub:
		return s, o.jupyterHub(s)
	}
	return nil, fmt.Errorf("kind: %q is none of %q", o.Kind, []string{kindKubernetes, kindJupyterHub})
}

func (o *Source) checkURL() error {
	if o.URL != "" {
		if _, err := parseServer(o.URL); err != nil {
			return fmt.Errorf("url: %w", err)
		}
	}
	if !o.Token.Empty() && o.TokenFile != "" {
		return errors.New("token: can't be with token_file")
	}
	return nil
}

func (o *Source) kubernetes(s *source, getenv func(string) string, root string) error {
	if err := errors.Join(o.checkPods(), o.checkAccess()); err != nil {
		return err
	}
	s.client = newClient("Bearer")
	switch {
	case o.Kubeconfig != "":
		s.access = o.fromKubeconfig
	case o.URL != "":
		s.access = o.fromOptions
	default:
		s.access = func() (access, error) { return inCluster(getenv, root) }
	}
	for _, namespace := range o.Namespaces {
		label := o.labelIn(namespace)
		l := podList{
			client: &s.client, namespace: namespace, label: label, selector: label,
			decode: o.Names == namesKubeSpawner || o.Names == "" && label != afLabel,
		}
		if o.Selector != "" {
			l.selector += "," + o.Selector
		}
		s.questions = append(s.questions, question{namespace, l.ask})
	}
	return nil
}

func (o *Source) checkPods() error {
	if len(o.Namespaces) == 0 {
		o.Namespaces = []string{afNamespace, coffeaNamespace}
	}
	for i, name := range o.Namespaces {
		if !namespaceName.MatchString(name) {
			return fmt.Errorf("namespaces: %q is no name of a namespace", name)
		}
		if slices.Contains(o.Namespaces[:i], name) {
			return fmt.Errorf("namespaces: %q is there twice", name)
		}
	}
	if o.Label != "" && !labelName.MatchString(o.Label) {
		return fmt.Errorf("label: %q is no key of a label", o.Label)
	}
	if names := []string{namesKubeSpawner, namesPlain}; o.Names != "" && !slices.Contains(names, o.Names) {
		return fmt.Errorf("names: %q is none of %q", o.Names, names)
	}
	return nil
}

// checkAccess checks that there is one way in, and not two.
func (o *Source) checkAccess() error {
	switch u, _ := url.Parse(o.URL); {
	case o.Kubeconfig != "" && o.URL != "":
		return errors.New("url: can't be with kubeconfig")
	case o.Context != "" && o.Kubeconfig == "":
		return errors.New("context: is of kubeconfig, which is not set")
	case o.Kubeconfig != "" && !filepath.IsAbs(o.Kubeconfig):
		return errors.New("kubeconfig: must be an absolute path")
	case o.URL != "" && u.Scheme == "http" && !isLoopback(u):
		return errors.New("url: must begin with https://")
	case o.URL == "" && !o.Token.Empty():
		return errors.New("token: is of url, which is not set")
	case o.URL == "" && o.TokenFile != "":
		return errors.New("token_file: is of url, which is not set")
	case o.URL == "" && o.TLSCA != "":
		return errors.New("tls_ca: is of url, which is not set")
	}
	return nil
}

// labelIn gives the label with the user's name in a namespace.
func (o *Source) labelIn(namespace string) string {
	switch {
	case o.Label != "":
		return o.Label
	case namespace == afNamespace:
		return afLabel
	case namespace == coffeaNamespace:
		return coffeaLabel
	}
	return nameLabel
}

func (o *Source) jupyterHub(s *source) error {
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"namespaces", len(o.Namespaces) > 0}, {"label", o.Label != ""}, {"selector", o.Selector != ""}, {"names", o.Names != ""},
		{"kubeconfig", o.Kubeconfig != ""}, {"context", o.Context != ""},
	} {
		if option.set {
			return fmt.Errorf("%s: is for kind = %q only", option.name, kindKubernetes)
		}
	}
	if o.URL == "" {
		return errors.New("url: must be set")
	}
	if o.Token.Empty() && o.TokenFile == "" {
		return errors.New("token: must be set, or token_file")
	}
	s.client = newClient("token")
	s.access = func() (access, error) {
		a, err := o.fromOptions()
		if err == nil && (a.server.Path == "" || a.server.Path == "/") {
			a.server = a.server.JoinPath("hub", "api")
		}
		return a, err
	}
	s.questions = []question{{ask: (&hubList{client: &s.client}).ask}}
	return nil
}

// fromOptions gives the access that the options themselves tell.
func (o *Source) fromOptions() (a access, err error) {
	if a.server, err = parseServer(o.URL); err != nil {
		return a, fmt.Errorf("option url: %w", err)
	}
	a.ca.file, a.token.file = o.TLSCA, o.TokenFile
	if o.Token.Empty() {
		return a, nil
	}
	token, err := o.Token.Get()
	if err != nil {
		return a, fmt.Errorf("option token: %w", err)
	}
	defer token.Destroy()
	a.token.text = bytes.Clone(token.Bytes())
	return a, nil
}

func (o *Source) fromKubeconfig() (access, error) {
	text, err := readFile(o.Kubeconfig)
	if err != nil {
		return access{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	a, err := parseKubeconfig(text, o.Context, filepath.Dir(o.Kubeconfig))
	if err != nil {
		return a, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	return a, nil
}

// inCluster gives the access of a pod's service account
// (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
func inCluster(getenv func(string) string, root string) (a access, err error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return a, errNoCluster
	}
	if a.server, err = parseServer("https://" + net.JoinHostPort(host, port)); err != nil {
		return a, fmt.Errorf("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: %w", err)
	}
	folder := filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount")
	a.token.file, a.ca.file = filepath.Join(folder, "token"), filepath.Join(folder, "ca.crt")
	return a, nil
}
