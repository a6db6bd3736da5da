package jupyter_users

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

// kubeconfig is the part of a kubeconfig file that is understood here
// (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/).
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string      `json:"name"`
		Cluster kubeCluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string         `json:"name"`
		User map[string]any `json:"user"`
	} `json:"users"`
}

type kubeCluster struct {
	Server        string `json:"server"`
	TLSServerName string `json:"tls-server-name"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	CAFile        string `json:"certificate-authority"`
	CAData        []byte `json:"certificate-authority-data"`
	ProxyURL      string `json:"proxy-url"`
}

// access is where a server is, and how to be let in there.
type access struct {
	server     *url.URL
	serverName string   // That the server's certificate must have, where it is not the host in server.
	proxy      *url.URL // Nil for the one of the environment.
	ca         secretOrFile
	cert       secretOrFile
	key        secretOrFile
	token      secretOrFile
}

// secretOrFile is a text, or the path of the file that has it: the text, where there are both. Both are empty where there is
// none.
type secretOrFile struct {
	text []byte
	file string
}

func (s secretOrFile) empty() bool { return len(s.text) == 0 && s.file == "" }

// parseKubeconfig gives what a kubeconfig says of a context; with "" of its current one. Paths in it begin at its folder.
// An error names the part and the key, and has nothing that is secret.
func parseKubeconfig(text []byte, context, folder string) (access, error) {
	var c kubeconfig
	if err := yaml.Unmarshal(text, &c); err != nil {
		return access{}, yamlError(err)
	}
	cluster, user, err := c.find(context)
	if err != nil {
		return access{}, err
	}
	a, err := c.cluster(cluster)
	if err == nil {
		err = c.user(user, &a)
	}
	if err != nil {
		return access{}, err
	}
	for _, s := range []*secretOrFile{&a.ca, &a.cert, &a.key, &a.token} {
		if s.file != "" && !filepath.IsAbs(s.file) {
			s.file = filepath.Join(folder, s.file)
		}
	}
	return a, nil
}

// yamlError tells where a file is wrong, but not what it says there: that may be a secret.
func yamlError(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && kind.Field != "" {
		return fmt.Errorf("key %s: has a value of another kind than kubectl expects", kind.Field)
	}
	var data base64.CorruptInputError
	if errors.As(err, &data) {
		return errors.New("key certificate-authority-data: is no base64")
	}
	if line := regexp.MustCompile(`line [0-9]+`).FindString(err.Error()); line != "" {
		return fmt.Errorf("%s: is no YAML", line)
	}
	return errors.New("is no kubeconfig")
}

// find gives the names of a context's cluster and user.
func (c *kubeconfig) find(context string) (cluster, user string, err error) {
	if context == "" {
		context = c.CurrentContext
	}
	if context == "" {
		return "", "", errors.New("key current-context: is not set, and neither is option context")
	}
	for _, entry := range c.Contexts {
		if entry.Name == context {
			return entry.Context.Cluster, entry.Context.User, nil
		}
	}
	return "", "", fmt.Errorf("key contexts: has no %q", context)
}

func (c *kubeconfig) cluster(name string) (access, error) {
	for _, entry := range c.Clusters {
		if entry.Name == name {
			a, err := entry.Cluster.access()
			if err != nil {
				err = fmt.Errorf("cluster %q: %w", name, err)
			}
			return a, err
		}
	}
	return access{}, fmt.Errorf("key clusters: has no %q", name)
}

func (c *kubeCluster) access() (a access, err error) {
	if c.Insecure {
		return a, errors.New("key insecure-skip-tls-verify: is not supported: " +
			"name the authority of the server's certificate in certificate-authority")
	}
	if a.server, err = parseServer(c.Server); err != nil {
		return a, fmt.Errorf("key server: %w", err)
	}
	if a.server.Scheme == "http" && !isLoopback(a.server) {
		return a, fmt.Errorf("key server: %q must begin with https://", c.Server)
	}
	if c.ProxyURL != "" {
		if a.proxy, err = parseProxy(c.ProxyURL); err != nil {
			return a, fmt.Errorf("key proxy-url: %w", err)
		}
	}
	a.serverName, a.ca = c.TLSServerName, secretOrFile{c.CAData, c.CAFile}
	return a, nil
}

// user adds what a user of the file has to be let in with. Without a user it is nothing.
func (c *kubeconfig) user(name string, a *access) error {
	if name == "" {
		return nil
	}
	for _, entry := range c.Users {
		if entry.Name == name {
			if err := addUser(entry.User, a); err != nil {
				return fmt.Errorf("user %q: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("key users: has no %q", name)
}

// addUser takes over the keys that are understood here. Any other changes who is asking, or how: without it the answer
// would be another.
func addUser(keys map[string]any, a *access) error {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if err := addUserKey(name, keys[name], a); err != nil {
			return fmt.Errorf("key %s: %w", name, err)
		}
	}
	if a.token.file != "" {
		a.token.text = nil // kubectl prefers the file.
	}
	if a.cert.empty() != a.key.empty() {
		return errors.New("has only one of client-certificate and client-key")
	}
	return nil
}

func addUserKey(name string, value any, a *access) error {
	text, isText := value.(string)
	into := map[string]*secretOrFile{
		"token": &a.token, "tokenFile": &a.token, "client-certificate": &a.cert, "client-certificate-data": &a.cert,
		"client-key": &a.key, "client-key-data": &a.key,
	}[name]
	switch {
	case name == "exec", name == "auth-provider":
		return errors.New("is not supported, as it runs a program of its own at each login: " +
			"use the token of a service account (kubectl create token), or a client certificate")
	case name == "extensions":
		return nil
	case into == nil:
		return errors.New("is not supported")
	case !isText:
		return errors.New("is no string")
	}
	switch name {
	case "token":
		into.text = bytes.TrimSpace([]byte(text))
	case "client-certificate-data", "client-key-data":
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return errors.New("is no base64")
		}
		into.text = data
	default:
		into.file = text
	}
	return nil
}

// parseServer checks the address of a server.
func parseServer(text string) (*url.URL, error) {
	u, err := parseAddress(text, "http", "https")
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q must end with its path", u.Redacted())
	}
	return u, nil
}

func parseProxy(text string) (*url.URL, error) { return parseAddress(text, "http", "https", "socks5") }

func parseAddress(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is no URL") // The error would show a password in it.
	case !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("%q must be a URL that begins with one of %q", u.Redacted(), schemes)
	}
	return u, nil
}
