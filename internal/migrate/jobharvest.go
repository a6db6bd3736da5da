package migrate

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// listenerPort is that of sample.conf's listener.
const listenerPort = "8186"

// harvestInflux reads .jobHarvest.influx: four lines, the last of which is a secret.
func (m *migration) harvestInflux(s Source) error {
	names := []string{"server", "organisation", "bucket", "token"}
	lines := strings.Split(strings.TrimRight(string(s.Text), "\r\n\t "), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
		if i >= len(names) {
			return fmt.Errorf("%s: line %d: only %d lines are known: %s", s.Name, i+1, len(names), strings.Join(names, ", "))
		}
	}
	for i, name := range names {
		if i >= len(lines) || lines[i] == "" {
			return fmt.Errorf("%s: line %d: the %s is missing", s.Name, i+1, name)
		}
	}
	if u, err := url.Parse(lines[0]); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: line 1: %q is no URL of a server", s.Name, lines[0])
	}
	text, err := m.sampleTable("outputs.influxdb_v2", change{`["http://127.0.0.1:8086"]`, "[" + quote(lines[0]) + "]"},
		change{`organization = "hpc"`, "organization = " + quote(lines[1])}, change{`bucket = "hpc"`, "bucket = " + quote(lines[2])})
	if err != nil {
		return err
	}
	m.say(Kept, s.Name+" line 1", lines[0], "outputs.influxdb_v2: urls")
	m.say(Kept, s.Name+" line 2", lines[1], "outputs.influxdb_v2: organization")
	m.say(Kept, s.Name+" line 3", lines[2], "outputs.influxdb_v2: bucket")
	m.say(Kept, s.Name+" line 4", "(secret)", "migrated.env: INFLUX_TOKEN, which outputs.influxdb_v2 takes from the environment")
	if err := m.secret(s.Name+": line 4", "INFLUX_TOKEN", lines[3]); err != nil {
		return err
	}
	m.output(text)
	m.note("what was measurement lustre with tag server is lustre_job with tag kind (ost, mdt): queries change")
	return nil
}

// harvestOptions are what jobHarvest's command line says.
type harvestOptions struct {
	secretFile, port, inter string
	others                  []string // The server and the file systems; none on the server itself.
}

// harvest reads jobHarvest's command line. Its options may stand anywhere, and their values follow them.
func (m *migration) harvest(s Source) error {
	o, err := m.harvestArgs(s)
	if err != nil {
		return err
	}
	switch len(o.others) {
	case 0:
		return m.harvestServer(o)
	case 1:
		return fmt.Errorf("%s: a client needs the server and the names of file systems: only %q is there", s.Name, o.others[0])
	}
	if o.inter != "" {
		return fmt.Errorf("%s: --interface is an option for the server only", s.Name)
	}
	return m.harvestClient(o)
}

func (m *migration) harvestArgs(s Source) (o harvestOptions, err error) {
	args := programArgs(s.Args, "jobHarvest")
	for i := 0; i < len(args); i++ {
		arg, value := args[i], ""
		switch arg {
		case "-v", "--verbose":
			m.say(Dropped, arg, "", "Telegraf and the plugins tell of what fails; [agent] debug tells more")
			continue
		case "-d", "--dryrun":
			m.say(Replaced, arg, "", "lustre_jobstats --config FILE --once, which prints and sends nothing")
			continue
		case "--secretfile", "--port", "--interface":
			if i++; i >= len(args) {
				return o, fmt.Errorf("%s: %s has no value", s.Name, arg)
			}
			value = args[i]
		default:
			if strings.HasPrefix(arg, "-") {
				return o, fmt.Errorf("%s: option %s is not known", s.Name, arg)
			}
			o.others = append(o.others, arg)
			continue
		}
		switch arg {
		case "--secretfile":
			o.secretFile = value
			m.say(Replaced, arg, value, "the token LUSTRE_TOKEN in /etc/default/telegraf, and TLS, in place of the shared secret and md5")
		case "--port":
			if n, err := strconv.ParseUint(value, 10, 16); err != nil || n == 0 {
				return o, fmt.Errorf("%s: --port: %q is no port", s.Name, value)
			}
			o.port = value
		case "--interface":
			o.inter = value
		}
	}
	return o, nil
}

// programArgs gives the arguments behind the program's own name, where a command line begins with that or its interpreter.
func programArgs(args []string, program string) []string {
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") {
			break
		}
		if strings.TrimSuffix(path.Base(arg), ".py") == program {
			return args[i+1:]
		}
	}
	return args
}

func (o *harvestOptions) listens() string {
	if o.port != "" {
		return o.port
	}
	return listenerPort
}

// harvestClient is a file server.
func (m *migration) harvestClient(o harvestOptions) error {
	server := o.others[0]
	address := "https://" + net.JoinHostPort(server, o.listens())
	text, err := m.sampleTable("outputs.influxdb_v2", change{`["http://127.0.0.1:8086"]`, "[" + quote(address) + "]"},
		change{"${INFLUX_TOKEN}", "${LUSTRE_TOKEN}"})
	if err != nil {
		return err
	}
	m.output(text)
	m.say(Kept, "server", server, "outputs.influxdb_v2: urls = [\""+address+"\"], the listener of the central Telegraf")
	if o.port != "" {
		m.say(Kept, "--port", o.port, "outputs.influxdb_v2: the port in urls")
	}
	var patterns []string
	for _, fs := range o.others[1:] {
		if strings.ContainsAny(fs, `*?[]\"`) || fs == "" {
			return fmt.Errorf("file system %q: no name of one", fs)
		}
		patterns = append(patterns, quote(fs+"-*"))
		m.say(Kept, "file system", fs, "lustre_jobstats.conf: targets has "+quote(fs+"-*"))
	}
	m.note("put LUSTRE_TOKEN, the same on all hosts, into /etc/default/telegraf")
	return m.program("lustre_jobstats", "", "[[inputs.lustre_jobstats]]\n  targets = ["+strings.Join(patterns, ", ")+
		"]\n  ## Each life of a counter: the central lustre_jobs sums them.\n  emit = [\"epoch\"]\n")
}

// harvestServer is the central host.
func (m *migration) harvestServer(o harvestOptions) error {
	const name = "inputs.influxdb_v2_listener"
	if err := m.table(name, ""); err != nil {
		return err
	}
	before := `service_address = "127.0.0.1:` + listenerPort + `"`
	m.texts[name] = strings.Replace(m.texts[name], before, "service_address = "+quote(net.JoinHostPort("127.0.0.1", o.listens())), 1)
	if o.port != "" {
		m.say(Kept, "--port", o.port, "inputs.influxdb_v2_listener: the port in service_address")
	}
	after := net.JoinHostPort(o.inter, o.listens())
	if o.inter != "" {
		m.say(Kept, "--interface", o.inter, "inputs.influxdb_v2_listener: service_address = "+quote(after)+", once there is a certificate")
	}
	m.note("the listener hears this host alone until it has a certificate: set tls_cert, tls_key, and service_address = \"" + after + "\"")
	m.note("put LUSTRE_TOKEN, the same on all hosts, into /etc/default/telegraf")
	m.note("who the jobs are comes from the head node: telegraf-hpc config --role head --central https://THIS_HOST:" + o.listens())
	m.note("what asked jobHarvest's second port for JSON can ask lustre_jobs: its option listen")
	if len(m.outputs) == 0 {
		m.note("without .jobHarvest.influx there is no database: give it as well")
	}
	return m.program("lustre_jobs", "", "[[processors.lustre_jobs]]\n")
}
