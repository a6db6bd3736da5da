// Package dashboards makes Grafana's dashboards, alert rules and provisioning files for what telegraf-hpc's plugins and the
// stock Telegraf beside them measure. The boards are written once, and rendered as InfluxQL or as targets of Graphite.
package dashboards

import (
	"fmt"
	"slices"
	"strings"
)

// Store is what a data source of Grafana speaks.
type Store string

// The stores. InfluxQL is InfluxDB 1.x, and 2.x by its compatible API. Graphite has paths as sample.conf makes them.
const (
	InfluxQL Store = "influxql"
	Graphite Store = "graphite"
)

// Stores gives the names of the stores.
func Stores() []string { return []string{string(InfluxQL), string(Graphite)} }

// plugin is Grafana's name of the data source.
func (s Store) plugin() string {
	if s == Graphite {
		return "graphite"
	}
	return "influxdb"
}

// has tells whether the store can answer a panel: Graphite has no tables, and gets no series of jobs.
func (s Store) has(p *panel) bool {
	return s == InfluxQL || p.view != viewTable && !slices.ContainsFunc(p.queries, func(q query) bool { return drops(q.from) })
}

// Request is what is asked for.
type Request struct {
	Store Store
	// DataSource is the uid of Grafana's data source; empty: each dashboard has a variable to choose one. Alert rules can't
	// have variables: without it they are those of the data source that Files provisions, DefaultDataSource.
	DataSource string
	// Hosts are what the variable host offers, by the names that hosts have in metrics; empty: all that the store knows.
	Hosts []string
	// URL is where Grafana finds the store, for a data source to be provisioned; empty is on the same host.
	URL string
	// Database is InfluxDB's; empty is hpc.
	Database string
	// Folder is where Grafana will find the dashboards on its host; empty is
	// /var/lib/grafana/dashboards/telegraf-hpc/STORE.
	Folder string
}

// File is one to be written.
type File struct {
	// Name is relative: dashboards/NAME.json, and provisioning/... as below Grafana's own folder of that name.
	Name string
	Text string
}

// DefaultDataSource gives the uid of the data source that is provisioned for a store.
func DefaultDataSource(s Store) string { return uidPrefix + string(s) }

// Dashboards gives the dashboards of a store, as NAME.json.
func Dashboards(r Request) ([]File, error) {
	var boards []board
	switch r.Store {
	case InfluxQL:
		boards = influxBoards()
	case Graphite:
		boards = graphiteBoards()
	default:
		return nil, fmt.Errorf("there is no store %q: choose one of %s", r.Store, strings.Join(Stores(), ", "))
	}
	hosts := make([]string, 0, len(r.Hosts))
	for _, host := range r.Hosts {
		if host == "" || strings.ContainsAny(host, ", \t\n") {
			return nil, fmt.Errorf("%q is no name of a host", host)
		}
		if r.Store == Graphite {
			host = graphiteNode(host)
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	files := make([]File, 0, len(boards))
	made := renderer{store: r.Store, source: r.DataSource, hosts: hosts}
	for i := range boards {
		text, err := made.dashboard(&boards[i])
		if err != nil {
			return nil, err
		}
		files = append(files, File{boards[i].name + ".json", string(text)})
	}
	return files, nil
}

// Files gives everything that a Grafana on some host needs: the dashboards, and the provisioning of them, of the data source
// (where the request names none) and, for InfluxQL, of the alert rules.
func Files(r Request) ([]File, error) {
	boards, err := Dashboards(r)
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(boards)+3)
	for _, f := range boards {
		files = append(files, File{"dashboards/" + f.Name, f.Text})
	}
	more, err := provisioning(r)
	return append(files, more...), err
}

func influxBoards() []board {
	return []board{
		clusterBoard(), slurmJobsBoard(), condorBoard(), lustreBoard(), lustreAccountBoard(), lustreUserBoard(), lustreJobBoard(),
		gpuBoard(), reportBoard(), nodeBoard(), usersBoard(), agentsBoard(),
	}
}

func graphiteBoards() []board {
	return []board{nodeBoard(), clusterBoard(), usersBoard()}
}
