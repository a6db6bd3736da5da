package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What tmp-load's keys are called is told nowhere. So they are taken for what their names say, wherever they stand, and the
// account says that; of what is left neither the meaning is known nor whether it is a secret.

// meaning is what a key was taken for.
type meaning string

const (
	meansServer   meaning = "the server of Graphite"
	meansPort     meaning = "the port of carbon"
	meansPrefix   meaning = "what paths begin with"
	meansInterval meaning = "seconds between two gathers"
	meansCluster  meaning = "the name of the cluster"
)

// meaningOf takes a key, with those of the objects around it, for what it says; empty is for nothing.
func meaningOf(keys []string) meaning {
	plain := strings.NewReplacer("_", "", "-", "", " ", "")
	name := strings.ToLower(plain.Replace(keys[len(keys)-1]))
	around := strings.ToLower(plain.Replace(strings.Join(keys[:len(keys)-1], " ")))
	inGraphite := strings.Contains(around, "graphite") || strings.Contains(around, "carbon")
	for _, store := range []string{"graphite", "carbon"} {
		if rest, ok := strings.CutPrefix(name, store); ok {
			name, inGraphite = rest, true
		}
	}
	if !inGraphite && len(keys) > 1 { // Such as the host of a database.
		return ""
	}
	switch name {
	case "", "host", "hostname", "server", "address":
		return meansServer
	case "port":
		return meansPort
	case "prefix", "metricprefix", "namespace":
		return meansPrefix
	case "interval", "updateinterval", "period", "sleep", "sleeptime":
		return meansInterval
	case "cluster", "clustername":
		return meansCluster
	}
	return ""
}

// loadFile is one config.json.
type loadFile struct {
	*migration
	name  string
	taken map[meaning]string // the key
	text  map[meaning]string // the value
}

// tmpLoad reads a config.json.
func (m *migration) tmpLoad(s Source) error {
	var settings map[string]json.RawMessage
	if err := json.Unmarshal(s.Text, &settings); err != nil {
		return fmt.Errorf("%s: not a JSON object: %w", s.Name, err)
	}
	f := loadFile{migration: m, name: s.Name, taken: make(map[meaning]string), text: make(map[meaning]string)}
	if err := f.object(nil, settings); err != nil {
		return err
	}
	return f.finish()
}

// object takes what is in an object, and in those inside.
func (f *loadFile) object(around []string, settings map[string]json.RawMessage) error {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		keys := append(slices.Clip(around), key)
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(settings[key], &inner); err == nil && inner != nil {
			if err := f.object(keys, inner); err != nil {
				return err
			}
			continue
		}
		if err := f.setting(keys, settings[key]); err != nil {
			return err
		}
	}
	return nil
}

// setting takes one value.
func (f *loadFile) setting(keys []string, value json.RawMessage) error {
	from := f.name + " " + strings.Join(keys, ".")
	means := meaningOf(keys)
	switch {
	case means == "":
		f.say(Dropped, from, "", "what it means is told nowhere; slurm_load asks Slurm's commands for all that it tells of")
		return nil
	case f.taken[means] != "":
		f.say(Dropped, from, "", f.taken[means]+" was taken for "+string(means)+" already")
		return nil
	}
	text, err := plainText(value)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if text == "" {
		f.say(Dropped, from, "", "it is empty")
		return nil
	}
	f.taken[means], f.text[means] = strings.Join(keys, "."), text
	now, err := f.value(means, text)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	f.say(Kept, from, text, now+" (taken for "+string(means)+" by its name)")
	return nil
}

// plainText gives a text, or a number as it is written; nothing of null.
func plainText(value json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(value, &text) == nil { // Of null, too.
		return text, nil
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil {
		return number.String(), nil
	}
	return "", fmt.Errorf("%s is neither a text nor a number", value)
}

// value looks whether a value can be what it was taken for, and tells what it becomes.
func (f *loadFile) value(means meaning, text string) (now string, err error) {
	switch means {
	case meansServer:
		if strings.ContainsAny(text, "/ \t\n") {
			return "", fmt.Errorf("%q is no host", text)
		}
		return "outputs.graphite: servers", nil
	case meansPort:
		if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return "", fmt.Errorf("%q is no port", text)
		}
		return "outputs.graphite: the port in servers", nil
	case meansPrefix:
		return "outputs.graphite: prefix", nil
	case meansCluster:
		return "slurm_load.conf: cluster", nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 1 && seconds <= 1e6) {
		return "", fmt.Errorf("%q is no number of seconds, of one or more", text)
	}
	interval := time.Duration(math.Round(seconds)) * time.Second
	f.text[means] = interval.String()
	return fmt.Sprintf("inputs.execd of slurm_load: interval = %q", interval), nil
}

// finish writes what slurm_load and the output need.
func (f *loadFile) finish() error {
	extra, own := "", "[[inputs.slurm_load]]\n"
	if interval := f.text[meansInterval]; interval != "" {
		extra = fmt.Sprintf("  interval = %q\n", interval)
	}
	if cluster := f.text[meansCluster]; cluster != "" {
		own += "  cluster = " + quote(cluster) + "\n"
	}
	if err := f.program("slurm_load", extra, own); err != nil {
		return err
	}
	f.note("no text tells what the keys of " + f.name + " mean: look at each line above")
	f.note("paths in Graphite are now CLUSTER.slurm_cluster.FIELD and so on (README of slurm_load, Graphite): dashboards change")
	host, port := f.text[meansServer], f.text[meansPort]
	if host == "" {
		return nil
	}
	if bare, its, err := net.SplitHostPort(host); err == nil {
		host, port = bare, cmp.Or(port, its)
	}
	port = cmp.Or(port, "2003")
	if port == "2004" {
		f.note("2004 is carbon's port for pickles, as a rule: outputs.graphite speaks the plaintext protocol, which has 2003")
	}
	text, err := graphiteOutput(f.migration, net.JoinHostPort(strings.Trim(host, "[]"), port))
	if err != nil {
		return err
	}
	if prefix := f.text[meansPrefix]; prefix != "" {
		text = strings.Replace(text, "[[outputs.graphite]]\n", "[[outputs.graphite]]\n  prefix = "+quote(prefix)+"\n", 1)
	}
	f.output(text)
	return nil
}
