// Package roles makes the configurations of a host by its roles in a cluster. Their one source is the repository's
// sample.conf: a role's tables are the ones that stand there, switched on by what the host has.
package roles

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"telegraf-hpc/internal/doctor"
)

const (
	defaultPrograms       = "/usr/lib/telegraf-hpc"
	defaultConfigurations = "/etc/telegraf"
)

// Names gives the names of the roles.
func Names() []string { return doctor.Roles() }

// section gives the heading in sample.conf below which a role's tables stand.
func section(role string) string {
	switch role {
	case "fileserver":
		return "file server (OSS, MDS)"
	case "central":
		return "central host"
	}
	return role + " node"
}

// Request is what is asked for.
type Request struct {
	// Roles are the host's, one as a rule: several share the tables of every host.
	Roles []string
	Facts doctor.Facts
	// Outputs are where metrics go: NAME or NAME=ADDRESS of file, influxdb, influxdb_v2, graphite, af_https, heartbeat. Without any, it
	// is Central, else the terminal.
	Outputs []string
	// Central is the URL of the central Telegraf, which sums over the file servers; empty is none.
	Central string
	// Certificate and Key are the files that the listener of a central host has for TLS. Without them it listens on that host
	// alone.
	Certificate, Key string
	// Programs and Configurations are the folders of our programs and of their configurations; empty is where packages have
	// them.
	Programs, Configurations string
}

// File is one to be written.
type File struct {
	// Name is relative to the folder of Telegraf's configuration.
	Name string
	Text string
}

// Result is what a request gave: the file for Telegraf first, then those of our programs. Notes tell what is left to do.
type Result struct {
	Files []File
	Notes []string
}

// Make gives the configuration of a host.
func Make(r Request) (Result, error) {
	for _, name := range r.Roles {
		if !slices.Contains(Names(), name) {
			return Result{}, fmt.Errorf("there is no role %q: it is one of %s", name, strings.Join(Names(), ", "))
		}
	}
	if len(r.Roles) == 0 {
		return Result{}, fmt.Errorf("no role: name one or more of %s", strings.Join(Names(), ", "))
	}
	if (r.Certificate == "") != (r.Key == "") {
		return Result{}, errors.New("a certificate needs its key, and a key its certificate")
	}
	if r.has("central") && r.Central != "" {
		return Result{}, fmt.Errorf("a central host sends to no other: leave out %s", r.Central)
	}
	text, err := sample("telegraf")
	if err != nil {
		return Result{}, err
	}
	m := maker{Request: r, blocks: parseBlocks(text)}
	return m.make()
}

func (r *Request) has(role string) bool { return slices.Contains(r.Roles, role) }

// summed tells whether a central Telegraf sums over the file servers, which may be this one.
func (r *Request) summed() bool { return r.Central != "" || r.has("central") }

// maker is one Make.
type maker struct {
	Request
	blocks []block
	result Result
	// programs are those of ours that are run.
	programs []string
}

func (m *maker) make() (Result, error) {
	var names []string
	sections := []string{"", "every host"}
	for _, name := range Names() {
		if m.has(name) {
			names, sections = append(names, name), append(sections, section(name))
		}
	}
	parts := []string{fmt.Sprintf("# Telegraf on a host of role %s, as telegraf-hpc config wrote it. telegraf.conf is read before it.\n",
		strings.Join(names, " and "))}
	for _, heading := range sections {
		for _, b := range m.chosen(heading) {
			text := b.text()
			if b.has("inputs.influxdb_v2_listener") {
				text = m.listener(text)
			}
			parts = append(parts, text)
			if p := b.program(); p != "" {
				m.programs = append(m.programs, p)
			}
		}
	}
	outputs, err := m.outputs()
	if err != nil {
		return Result{}, err
	}
	parts = append(parts, outputs...)
	m.add("telegraf.d/hpc-"+strings.Join(names, "-")+".conf", m.placed(strings.Join(parts, "\n")))
	for _, name := range m.programs {
		text, err := m.own(name)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", name, err)
		}
		m.add(name+".conf", text)
	}
	return m.result, nil
}

func (m *maker) add(name, text string) {
	m.result.Files = append(m.result.Files, File{Name: name, Text: text})
}

func (m *maker) note(format string, args ...any) {
	m.result.Notes = append(m.result.Notes, fmt.Sprintf(format, args...))
}

// chosen gives those blocks of a section that this host needs.
func (m *maker) chosen(section string) []block {
	var found, rest []block
	for _, b := range m.blocks {
		if b.section != section {
			continue
		}
		switch wanted, known := m.wanted(&b); {
		case !known && b.on(), wanted:
			found = append(found, b)
		case known && b.on():
			rest = append(rest, b)
		}
	}
	if section == "head node" && len(found) == 0 {
		m.note("neither Slurm nor HTCondor was found on this host: both are left on")
		return rest
	}
	return found
}

// wanted tells whether the host has what a block measures, if that is known.
func (m *maker) wanted(b *block) (wanted, known bool) {
	f := &m.Facts
	for table, here := range map[string]bool{
		"inputs.chrony": f.Chrony, "inputs.nfsclient": f.NFS, "inputs.infiniband": f.InfiniBand,
		"inputs.nvidia_smi": f.NVIDIA > 0, "inputs.amd_rocm_smi": f.AMD > 0, "inputs.influxdb_v2_listener": true,
	} {
		if b.has(table) {
			return here, true
		}
	}
	switch b.program() {
	case "slurm_load":
		return f.Slurm, true
	case "condor_q":
		return f.HTCondor, true
	case "jupyter_users":
		return f.Kubernetes, true
	case "lustre_jobs":
		return true, true
	}
	// The introduction is no table.
	return false, !b.on()
}

// listener gives the table of the listener, with the certificate that it has.
func (m *maker) listener(text string) string {
	m.note("the listener expects the token LUSTRE_TOKEN: put it into /etc/default/telegraf, here and on the hosts that send")
	var out strings.Builder
	for line := range strings.Lines(text) {
		key, _, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case key == "tls_cert" && m.Certificate != "":
			line = fmt.Sprintf("  tls_cert = %q\n", m.Certificate)
		case key == "tls_key" && m.Certificate != "":
			line = fmt.Sprintf("  tls_key = %q\n", m.Key)
		case key == "tls_cert" || key == "tls_key":
			line = "#" + line
		case key == "service_address" && m.Certificate == "":
			line = strings.Replace(line, `":`, `"127.0.0.1:`, 1)
		}
		out.WriteString(line)
	}
	if m.Certificate == "" {
		m.note("without a certificate the listener hears this host alone: give it one with --certificate and --key")
	}
	return out.String()
}

// outputs gives the tables of the outputs.
func (m *maker) outputs() ([]string, error) {
	wanted := m.Outputs
	if len(wanted) == 0 && m.Central == "" {
		wanted = []string{"file"}
		m.note("metrics go to the terminal, or Telegraf's log: choose an output with --output")
	}
	var parts []string
	if m.Central != "" {
		text, err := m.output("influxdb_v2", m.Central)
		if err != nil {
			return nil, err
		}
		parts = append(parts, strings.Replace(text, "${INFLUX_TOKEN}", "${LUSTRE_TOKEN}", 1))
		m.note("%s expects the token LUSTRE_TOKEN: put it into /etc/default/telegraf, here and there; "+
			"where its certificate is of an authority of your own, add tls_ca", m.Central)
	}
	for _, name := range wanted {
		name, address, _ := strings.Cut(name, "=")
		text, err := m.output(name, address)
		if err != nil {
			return nil, err
		}
		switch name {
		case "influxdb":
			m.note("InfluxDB must have the database hpc, which Telegraf does not create: influx -execute 'CREATE DATABASE hpc'")
		case "influxdb_v2":
			m.note("put the token INFLUX_TOKEN into /etc/default/telegraf")
		case "af_https":
			m.note("set url and token in af_https.conf")
			text += "\n" + m.queueOfDocuments()
		}
		parts = append(parts, text)
	}
	return parts, nil
}

// queueOfDocuments gives the table that tells of af_https: an output can't tell of itself.
func (m *maker) queueOfDocuments() string {
	i := slices.IndexFunc(m.blocks, func(b block) bool { return b.section == "outputs" && b.has("inputs.file") })
	return m.blocks[i].text()
}

// output gives the table of one output, with an address in place of the sample's.
func (m *maker) output(name, address string) (string, error) {
	for _, b := range m.blocks {
		if b.section != "outputs" || !b.has("outputs."+name) && b.program() != name || name == "execd" {
			continue
		}
		text := b.text()
		if p := b.program(); p != "" {
			m.programs = append(m.programs, p)
		}
		if address == "" {
			return text, nil
		}
		for _, line := range strings.Split(text, "\n") {
			key, _, _ := strings.Cut(strings.TrimSpace(line), " = ")
			if key == "urls" || key == "servers" || key == "files" || key == "url" {
				value := fmt.Sprintf("%q", address)
				if key != "url" {
					value = "[" + value + "]"
				}
				return strings.Replace(text, line, "  "+key+" = "+value, 1), nil
			}
		}
		return "", fmt.Errorf("output %s takes no address", name)
	}
	return "", fmt.Errorf("there is no output %q: it is one of file, influxdb, influxdb_v2, graphite, af_https, heartbeat", name)
}

// placed gives a text with the folders of this host.
func (m *maker) placed(text string) string {
	return strings.NewReplacer(
		"${TELEGRAF_HPC_BIN:-"+defaultPrograms+"}", cmp.Or(m.Programs, defaultPrograms),
		"${TELEGRAF_HPC_ETC:-"+defaultConfigurations+"}", cmp.Or(m.Configurations, defaultConfigurations),
	).Replace(text)
}

// own gives the configuration of one of our programs.
func (m *maker) own(name string) (string, error) {
	text, err := sample(name)
	if err != nil {
		return "", err
	}
	type option struct {
		key    string
		change func(string) string
	}
	var options []option
	switch {
	case name == "lustre_jobstats" && m.summed():
		options = []option{{"emit", to(`["epoch"]`)}}
	case name == "slurm_load" && m.summed():
		options = []option{{"repeat_for", to(`"24h"`)}, {"collect", more(`"job", "finished"`)}}
	case name == "node_sensors" && m.has("compute") && m.Facts.SlurmNode:
		options = []option{{"sensors", more(`"job_cgroups"`)}}
	}
	for _, o := range options {
		if text, err = set(text, o.key, o.change); err != nil {
			return "", err
		}
	}
	return text, nil
}

// Path gives where a file of a result belongs.
func (f *File) Path(folder string) string { return filepath.Join(folder, f.Name) }

// Table gives a table of sample.conf, in force: the agent's, a stock plugin's such as inputs.mem, or the one that runs a
// program of ours, with the folders of the request and the certificate of a listener.
func Table(r Request, name string) (string, error) {
	text, err := sample("telegraf")
	if err != nil {
		return "", err
	}
	m := maker{Request: r}
	for _, b := range parseBlocks(text) {
		if !b.has(name) && b.program() != name {
			continue
		}
		if name == "inputs.influxdb_v2_listener" {
			return m.listener(b.text()), nil
		}
		return m.placed(b.text()), nil
	}
	return "", fmt.Errorf("sample.conf has no table %s", name)
}
