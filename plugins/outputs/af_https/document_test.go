package af_https

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	telegraf_metric "github.com/influxdata/telegraf/metric"
	"github.com/stretchr/testify/require"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/plugintest"
)

func loadOutput(t *testing.T, text []byte) *AFHTTPS {
	t.Helper()
	c := config.NewConfig()
	require.NoError(t, c.LoadConfigData(text, config.EmptySourcePath))
	require.Empty(t, c.UnusedFields)
	require.Len(t, c.Outputs, 1)
	p, ok := c.Outputs[0].Output.(*AFHTTPS)
	require.True(t, ok)
	return p
}

// TestCases replays each testcases/<case>/input.txt: lines of line protocol, "# write" between two batches, "# idle"
// where nothing comes for a while, and "# restart". expected.out has the documents as the endpoint got them, by kind.
func TestCases(t *testing.T) {
	folders, err := filepath.Glob("testcases/*")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			conf, err := os.ReadFile(filepath.Join(folder, "telegraf.conf"))
			require.NoError(t, err)
			input, err := os.ReadFile(filepath.Join(folder, "input.txt"))
			require.NoError(t, err)
			rc := newReceiver(t, nil)
			r := newRig(t, rc, nil)
			require.NoError(t, r.p.Close())
			replay(r, conf, strings.Split(strings.TrimSpace(string(input)), "\n"))
			r.wait()
			var text strings.Builder
			for _, kind := range r.p.queue.Kinds() {
				for _, doc := range rc.documents(kind) {
					text.WriteString(doc + "\n")
				}
			}
			plugintest.Golden(t, filepath.Join(folder, "expected.out"), text.String())
			plugintest.Golden(t, filepath.Join(folder, "expected.err"), strings.Join(r.logged(), "\n"))
		})
	}
}

func replay(r *rig, conf []byte, lines []string) {
	r.t.Helper()
	start := func() {
		r.p = loadOutput(r.t, conf)
		r.p.URL, r.p.TLSCA, r.p.StateDirectory, r.p.Log = r.rc.server.URL, r.rc.ca, r.dir, r.log
		r.p.now = func() time.Time { return time.Unix(1_700_100_000, 0) }
		require.NoError(r.t, r.p.Init())
		require.NoError(r.t, r.p.Connect())
	}
	start()
	var batch []string
	write := func() {
		if len(batch) > 0 {
			r.write(batch...)
		}
		batch = nil
	}
	for _, line := range lines {
		switch {
		case !strings.HasPrefix(line, "#"):
			batch = append(batch, line)
		case line == "# write":
			write()
		case line == "# idle":
			write()
			r.p.finishGathers(r.p.now().Add(gatherIdle))
		case line == "# restart":
			write()
			r.wait()
			require.NoError(r.t, r.p.Close())
			start()
		}
	}
	write()
}

func TestReadme(t *testing.T) { plugintest.Readme(t) }

// Every option of the sample has its default there, or is one that has none.
func TestSampleConfig(t *testing.T) {
	t.Parallel()
	// Telegraf looks for the files of certificates when it loads a configuration.
	files := regexp.MustCompile(`(?m)^ *tls_(ca|cert|key) = .*\n`)
	shown := loadOutput(t, files.ReplaceAll(plugintest.Uncommented(sampleConfig), nil))
	shown.TokenFile = "" // One of the two.
	require.NoError(t, shown.Init())
	bare := loadOutput(t, []byte(sampleConfig))
	require.NoError(t, bare.Init())
	usual := newPlugin()
	for _, p := range []*AFHTTPS{shown, bare} {
		require.Equal(t, usual.Kinds, p.Kinds)
		require.Equal(t, usual.Cluster, p.Cluster)
		require.Equal(t, usual.CoffeaNamespaces, p.CoffeaNamespaces)
		require.Equal(t, usual.TokenIn, p.TokenIn)
		require.Equal(t, []int{usual.BatchSize, usual.Parallel}, []int{p.BatchSize, p.Parallel})
		require.Equal(t, []config.Size{usual.BatchBytes, usual.MaxSize, usual.DeadLetterSize}, []config.Size{p.BatchBytes, p.MaxSize, p.DeadLetterSize})
		require.Equal(t,
			[]config.Duration{usual.Timeout, usual.RetryInitial, usual.RetryMax, usual.RetryAfterMax, usual.MaxAge, usual.StatisticsInterval},
			[]config.Duration{p.Timeout, p.RetryInitial, p.RetryMax, p.RetryAfterMax, p.MaxAge, p.StatisticsInterval})
		require.Equal(t, []string{usual.ContentEncoding, usual.WhenFull, usual.StateDirectory}, []string{p.ContentEncoding, p.WhenFull, p.StateDirectory})
	}
	require.Equal(t, []Document{{
		Kind: "GPU", Measurement: "nvidia_smi", Tags: map[string]string{"host": "login_node", "index": "gpu"},
		Fields: map[string]string{"utilization_gpu": "utilization"}, Constants: map[string]any{"site": "example"},
	}}, shown.Documents)
}

func TestFloatsLookAsInPython(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]float64{ // As CPython 3.13 prints them.
		"0.0": 0, "1.0": 1, "-1.0": -1, "0.15": 0.15, "0.1": 0.1, "0.30000000000000004": 0.30000000000000004, "300.001": 300.001,
		"0.0001": 1e-4, "1e-05": 1e-5, "1e+16": 1e16, "1000000000000000.0": 1e15, "1.5e+300": 1.5e300, "123456789.125": 123456789.125,
	} {
		require.Equal(t, want, string(appendFloat(nil, f)))
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "login", `"\`, "\x00\x1f\x7f", "späte Jobs", "\u2028", "\xff\xc3", "<&>", "😀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		require.NoError(t, json.Unmarshal(appendText(nil, s), &got))
		require.Equal(t, strings.ToValidUTF8(s, "\uFFFD"), onlyReplaced(s, got))
		require.True(t, utf8.ValidString(got))
	})
}

// onlyReplaced joins runs of U+FFFD as strings.ToValidUTF8 does.
func onlyReplaced(s, got string) string {
	if utf8.ValidString(s) {
		return got
	}
	want, err := json.Marshal(s)
	if err != nil {
		return got
	}
	var same string
	if json.Unmarshal(want, &same) != nil || same != got {
		return "differs from encoding/json: " + got
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Whatever a metric has, each document is one JSON object without a key twice, with the kind and cluster that it should
// have, and floats stay floats.
func FuzzDocuments(f *testing.F) {
	for _, name := range []string{"system", "mem", "disk", "condor_queue", "condor_job", "condor_finished", "who_users", "jupyter_users", "own"} {
		f.Add(name, "login", "alice,bob", 0.5, int64(3), uint64(4))
	}
	f.Add("disk", "/", "\xff,%", 1e300, int64(-1), uint64(1)<<63)
	f.Fuzz(func(t *testing.T, name, tag, text string, float float64, integer int64, unsigned uint64) {
		m := telegraf_metric.New(name, map[string]string{"host": tag, "path": tag, "device": "/dev/" + tag, "queue": tag, "namespace": tag}, map[string]any{
			"load1": float, "total": unsigned, "used": integer, "free": unsigned, "available": integer, "users": integer,
			"user_list": text, "user": text, "id": text, "af_state": text, "runtime_seconds": integer, "idle": integer,
			"running": unsigned, "held": integer, "allocated_cores": float, "allocated_memory_bytes": unsigned,
		}, time.Unix(0, integer))
		d := &documents{
			kinds: usualKinds(), cluster: "UC-AF", coffea: []string{"coffea-casa"}, timestampKey: "@timestamp", idKey: "id",
			users: userFilter{obfuscate: integer%2 == 0, salt: tag}, hosts: hosts{float > 0, "example.org"},
			custom: []Document{{Kind: "own", Measurement: name, Tags: map[string]string{"host": "a"},
				Fields: map[string]string{"load1": "b", "user": "c", "free": "d"}, Constants: map[string]any{"e": 1.0, "f": []any{true, "x"}}}},
		}
		docs, err := d.from(m)
		require.NoError(t, err)
		for _, doc := range docs {
			body := string(appendWithToken(nil, doc.Body, text))
			keys := checkObject(t, body)
			require.Equal(t, doc.Kind, keys["kind"], body)
			require.Equal(t, "UC-AF", keys["cluster"])
			require.Len(t, keys["id"], 32)
			for _, key := range []string{"load", "utilization", "b", "e"} {
				if number, ok := keys[key].(json.Number); ok {
					require.True(t, strings.ContainsAny(number.String(), ".e"), "%s is no float in %s", key, body)
					_, err := strconv.ParseFloat(number.String(), 64)
					require.NoError(t, err)
				}
			}
		}
	})
}

// checkObject reads a JSON object, none of whose keys is there twice.
func checkObject(t *testing.T, body string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	_, err := decoder.Token()
	require.NoError(t, err, body)
	keys := make(map[string]any)
	for decoder.More() {
		key, err := decoder.Token()
		require.NoError(t, err, body)
		require.NotContains(t, keys, key, body)
		var value any
		require.NoError(t, decoder.Decode(&value), body)
		keys[key.(string)] = value
	}
	_, err = decoder.Token()
	require.NoError(t, err, body)
	require.False(t, decoder.More())
	return keys
}

// An interval that could not be committed is not lost, and does not count twice.
func TestCountersChangeOnceCommitted(t *testing.T) {
	t.Parallel()
	n := &network{documents: &documents{kinds: usualKinds()}, hosts: make(map[string]*netHost)}
	gather := func(second int) metric {
		return metrics(t, fmt.Sprintf("net,host=a,interface=eth0 bytes_sent=%di,bytes_recv=0i %d000000000", 100*second, second))[0]
	}
	for second, commit := range []bool{true, true, false, true, false, false, true} {
		change := n.begin()
		change.add(gather(1+second), time.Now())
		if commit {
			change.commit()
		}
	}
	change := n.begin()
	change.add(gather(20), time.Now())
	require.Len(t, change.docs, 1)
	require.JSONEq(t, `{"kind":"NETWORK","login_node":"a","network":{"sent":300,"received":0,"interval":3.0}}`, string(change.docs[0].Body))
}

// What Telegraf sends again has the same id; anything else has another.
func TestDocumentID(t *testing.T) {
	t.Parallel()
	d := &documents{kinds: usualKinds(), idKey: "id"}
	id := func(line string) string {
		docs, err := d.from(metrics(t, line)[0])
		require.NoError(t, err)
		require.Len(t, docs, 1)
		var doc struct{ ID string }
		require.NoError(t, json.Unmarshal(docs[0].Body, &doc))
		return doc.ID
	}
	const line = "disk,host=a,path=/ total=2i,used=1i,free=1i 1000"
	seen := map[string]string{id(line): line}
	require.Equal(t, line, seen[id(line)])
	for _, other := range []string{
		"disk,host=a,path=/ total=2i,used=1i,free=1i 1001", "disk,host=b,path=/ total=2i,used=1i,free=1i 1000",
		"disk,host=a,path=/ total=2i,used=1i,free=0i 1000", "disk,host=a,path=/,mode=rw total=2i,used=1i,free=1i 1000",
	} {
		require.Empty(t, seen[id(other)], other)
		seen[id(other)] = other
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	h := hosts{true, "bnl.gov"}
	for host, want := range map[string]string{
		"spar0101": "atlas0101.bnl.gov", "node7.c2.example.org": "atlas72.bnl.gov", "login": "atlas.bnl.gov", "٣": "atlas.bnl.gov",
	} {
		require.Equal(t, want, h.name(host))
	}
	require.Equal(t, "login", (&hosts{}).name("login"))
}

// hash is what the Analysis Facility's collector has: sha256sum of salt and name, the first 8 digits.
func TestUsers(t *testing.T) {
	t.Parallel()
	asked := 0
	clock := time.Unix(0, 0)
	m := &members{group: "atlas", now: func() time.Time { return clock }, run: func(name string, args ...string) (string, error) {
		asked++
		switch name + " " + strings.Join(args, " ") {
		case "getent -- group atlas":
			return "atlas:*:500:carol\n", nil
		case "id -G -- alice":
			return "100 500\n", nil
		case "id -G -- bob":
			return "100 5000\n", nil
		case "id -G -- gone":
			return "", &command.Error{Name: "id", Reason: command.ErrExit, Status: 1, Stderr: "id: 'gone': no such user", Err: errors.New("exit status 1")}
		}
		return "", &command.Error{Name: "id", Reason: command.ErrTimeout, Err: errors.New("timeout")}
	}}
	f := userFilter{exclude: []string{"root"}, members: m}
	for range 2 {
		shown, err := f.show([]string{"alice", "bob", "gone", "root"})
		require.NoError(t, err)
		require.Equal(t, []string{"alice"}, shown)
		require.Equal(t, 4, asked, "answers are remembered")
	}
	_, err := f.show([]string{"stuck"})
	require.EqualError(t, err, `option group: looking up user "stuck": id: timeout`)
	clock = clock.Add(keepMembers)
	_, err = f.show([]string{"alice"})
	require.NoError(t, err)
	require.Equal(t, 7, asked, "but not for ever")

	f = userFilter{obfuscate: true, salt: "pepper"}
	shown, err := f.show([]string{"alice"})
	require.NoError(t, err)
	require.Equal(t, []string{"b1b68da4"}, shown)
}

// The system's own tools are asked.
func TestMembersOfThisSystem(t *testing.T) {
	t.Parallel()
	m := newMembers("root", time.Now)
	in, err := m.has("root")
	require.NoError(t, err)
	require.True(t, in)
	in, err = m.has("no-such-user-at-all")
	require.NoError(t, err)
	require.False(t, in)
	_, err = newMembers("no-such-group-at-all", time.Now).has("root")
	require.EqualError(t, err, `option group: looking up "no-such-group-at-all": getent: exit status 2`)
}

func TestInit(t *testing.T) {
	t.Parallel()
	for want, set := range map[string]func(p *AFHTTPS){
		"option url: must be set":                                                 func(p *AFHTTPS) { p.URL = "" },
		"option url: must be https, not http":                                     func(p *AFHTTPS) { p.URL = "http://af.example.org/" },
		`option url: it is no URL such as "https://host.example.org/"`:            func(p *AFHTTPS) { p.URL = "af.example.org/s3cret" },
		"option url: must have no user and password in it":                        func(p *AFHTTPS) { p.URL = "https://a:b@af.example.org/" },
		"option tls_enable: TLS can't be switched off":                            func(p *AFHTTPS) { p.Enable = new(bool) },
		"options tls_cert and tls_key: one needs the other":                       func(p *AFHTTPS) { p.TLSCert = "/x" },
		`option tls_min_version: "TLS11" is below TLS12`:                          func(p *AFHTTPS) { p.TLSMinVersion, p.ServerName = "TLS11", "x" },
		"options token and token_file: only one of them can be set":               func(p *AFHTTPS) { p.TokenFile = "/x" },
		`option token_in: "body" is none of ["document" "header"]`:                func(p *AFHTTPS) { p.TokenIn = "body" },
		`option content_encoding: "zstd" is none of ["identity" "gzip"]`:          func(p *AFHTTPS) { p.ContentEncoding = "zstd" },
		`option when_full: "" is none of ["refuse" "drop_oldest"]`:                func(p *AFHTTPS) { p.WhenFull = "" },
		"option domain: must be set with obfuscate_hosts":                         func(p *AFHTTPS) { p.ObfuscateHosts = true },
		"option state_directory: must be set":                                     func(p *AFHTTPS) { p.StateDirectory = "" },
		`option kinds: "CPU" is there twice`:                                      func(p *AFHTTPS) { p.Kinds = []string{"CPU", "CPU"} },
		"option batch_size: must be 1 to 100000":                                  func(p *AFHTTPS) { p.BatchSize = 0 },
		"option timeout: must be more than 0s":                                    func(p *AFHTTPS) { p.Timeout = 0 },
		"option retry_max: must not be less than retry_initial":                   func(p *AFHTTPS) { p.RetryMax = 1 },
		"option parallel: must be at least 1":                                     func(p *AFHTTPS) { p.Parallel = 0 },
		"option max_age: must not be negative":                                    func(p *AFHTTPS) { p.MaxAge = -1 },
		`options timestamp_key and document_id: the key "kind" is there already`:  func(p *AFHTTPS) { p.DocumentID = "kind" },
		"option document 1: kind must have 1 to 64 characters":                    func(p *AFHTTPS) { p.Documents = []Document{{}} },
		"option document 1: measurement must be set":                              func(p *AFHTTPS) { p.Documents = []Document{{Kind: "a"}} },
		"option document 1: fields must have at least one":                        func(p *AFHTTPS) { p.Documents = []Document{{Kind: "a", Measurement: "m"}} },
		`option document 1: the key "token" is there already, or empty`:           func(p *AFHTTPS) { p.Documents = []Document{own("token", nil)} },
		`option document 1: the key "x" is there already, or empty`:               func(p *AFHTTPS) { p.Documents = []Document{own("x", map[string]any{"x": "y"})} },
		`option document 1: constant "c": a time.Time has no place in a document`: func(p *AFHTTPS) { p.Documents = []Document{own("x", map[string]any{"c": time.Time{}})} },
	} {
		p := newPlugin()
		p.URL, p.Token = "https://af.example.org/", config.NewSecret([]byte(testToken))
		set(p)
		err := p.Init()
		require.EqualError(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
	p := newPlugin()
	p.URL, p.Kinds = "https://af.example.org/", []string{"cpu"}
	require.ErrorContains(t, p.Init(), `option kinds: "cpu" is none of ["ssh" `)
	p.Kinds, p.TLSCA = nil, "/nowhere/ca.pem"
	require.ErrorContains(t, p.Init(), "options tls_*: ")
}

func own(key string, constants map[string]any) Document {
	return Document{Kind: "a", Measurement: "m", Fields: map[string]string{"f": key}, Constants: constants}
}

// A user list or group that can't be read costs only the documents that need it.
func TestGroupIsUnknown(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, nil)
	r := newRig(t, rc, func(p *AFHTTPS) { p.Group = "no-such-group-at-all" })
	for range 2 {
		r.write(`who_users,host=login users=1i,user_list="root" 1`, "system,host=login load1=0 1")
	}
	r.wait()
	require.Equal(t, append(cpuDocs(0, 1), cpuDocs(0, 1)...), rc.documents(""))
	require.Equal(t, []string{
		`E! [] Documents with users are left out: option group: looking up "no-such-group-at-all": getent: exit status 2`,
	}, r.logged())
}

var (
	// What Telegraf asks for.
	_ telegraf.Output      = (*AFHTTPS)(nil)
	_ telegraf.Initializer = (*AFHTTPS)(nil)
)
