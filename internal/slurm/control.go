package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Config is what is needed of `scontrol show config`.
type Config struct {
	Cluster           string // ClusterName
	Version           string // slurmctld's, such as "24.11.5"
	MinJobAge         int64  // seconds that slurmctld keeps a job that ended; 0: for ever
	AccountingStorage bool   // whether there is a slurmdbd
	PrivateData       string // such as "jobs,nodes"; "" where none
	JobAcctGather     bool   // whether Slurm gathers what the steps of jobs use (JobAcctGatherType)
	SlurmUserID       int64  // the uid of SlurmUser, as in "slurm(64030)"; Unknown
}

// Config asks for slurmctld's configuration. scontrol then pings each slurmctld too, and waits for those that are down.
func (c *Client) Config(ctx context.Context) (Config, error) {
	text, err := c.Run(ctx, "scontrol", "show", "config")
	if err != nil {
		return Config{}, err
	}
	config, err := parseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("scontrol show config: %w", err)
	}
	return config, nil
}

// parseConfig reads lines such as `MinJobAge               = 600 sec`. Slurm's own settings stand before those of plugins.
func parseConfig(text []byte) (Config, error) {
	config := Config{MinJobAge: Unknown, SlurmUserID: Unknown}
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		name, value, ok := bytes.Cut(line, []byte("="))
		key := string(bytes.TrimSpace(name))
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		if err := config.set(key, bytes.TrimSpace(value)); err != nil {
			return Config{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	for _, key := range []string{"ClusterName", "SLURM_VERSION", "MinJobAge", "AccountingStorageType", "PrivateData"} {
		if !seen[key] {
			return Config{}, errors.New("no " + key)
		}
	}
	return config, nil
}

func (c *Config) set(key string, value []byte) (err error) {
	switch key {
	case "ClusterName":
		c.Cluster = textOf(value)
	case "SLURM_VERSION":
		c.Version = textOf(value)
	case "MinJobAge":
		c.MinJobAge, err = parseInt(bytes.TrimSuffix(value, []byte(" sec")))
	case "AccountingStorageType":
		c.AccountingStorage = bytes.HasSuffix(value, []byte("slurmdbd"))
	case "JobAcctGatherType":
		c.JobAcctGather = !isNothing(value) && !bytes.HasSuffix(value, []byte("/none"))
	case "PrivateData":
		c.PrivateData = textOf(value)
	case "SlurmUser":
		if i := bytes.LastIndexByte(value, '('); i > 0 {
			c.SlurmUserID, err = parseInt(bytes.TrimSuffix(value[i+1:], []byte(")")))
		}
	}
	return err
}

// Controller is a slurmctld, in the order in which they take over.
type Controller struct {
	Host string
	Up   bool
}

// Controllers asks each slurmctld whether it answers. The first that does is in control. Where none does it is an error.
func (c *Client) Controllers(ctx context.Context) ([]Controller, error) {
	text, err := c.Run(ctx, "scontrol", "ping")
	if err != nil {
		return nil, err
	}
	controllers, err := parseControllers(text)
	if err != nil {
		return nil, fmt.Errorf("scontrol ping: %w", err)
	}
	return controllers, nil
}

// parseControllers reads lines such as `Slurmctld(primary) at head1 is UP`. Root gets a banner of stars behind them where
// one is down.
func parseControllers(text []byte) ([]Controller, error) {
	var controllers []Controller
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		switch {
		case len(words) == 0 || words[0][0] == '*':
		case len(words) == 5 && bytes.HasPrefix(words[0], []byte("Slurmctld(")) && string(words[1]) == "at" &&
			string(words[3]) == "is" && (string(words[4]) == "UP" || string(words[4]) == "DOWN"):
			controllers = append(controllers, Controller{Host: string(words[2]), Up: string(words[4]) == "UP"})
		default:
			return nil, fmt.Errorf("%s tells of no slurmctld", quoted(bytes.TrimSpace(line)))
		}
	}
	if len(controllers) == 0 {
		return nil, errors.New("it tells of no slurmctld")
	}
	return controllers, nil
}

// License is a row of `scontrol show lic -o`. More may be in use than there are, where their number was lowered.
type License struct {
	Name     string
	Total    int64
	Used     int64
	Free     int64 // Unknown where Slurm gives no number that can be
	Reserved int64
	Remote   bool
}

// Licenses asks for the licences of the cluster; there may be none.
func (c *Client) Licenses(ctx context.Context) ([]License, error) {
	text, err := c.Run(ctx, "scontrol", "show", "lic", "-o")
	if err != nil {
		return nil, err
	}
	licenses, err := parseLicenses(text)
	if err != nil {
		return nil, fmt.Errorf("scontrol show lic: %w", err)
	}
	return licenses, nil
}

func parseLicenses(text []byte) ([]License, error) {
	const first = "LicenseName="
	var licenses []License
	err := scontrolRows(text, first, " Total=", "No licenses configured in Slurm.", func(row []byte) error {
		name, rest, _ := bytes.Cut(row[len(first):], []byte(" Total="))
		l := License{Name: string(name), Used: Unknown, Free: Unknown, Reserved: Unknown}
		total, rest, _ := bytes.Cut(rest, []byte(" "))
		var err error
		if l.Total, err = parseInt(total); err != nil {
			return fmt.Errorf("licence %s: Total: %w", quoted(name), err)
		}
		for {
			key, value, more := nextPair(rest)
			if key == nil {
				break
			}
			if err := l.set(key, value); err != nil {
				return fmt.Errorf("licence %s: %s: %w", quoted(name), key, err)
			}
			rest = more
		}
		if l.Used == Unknown {
			return fmt.Errorf("licence %s: no Used", quoted(name))
		}
		if l.Free > l.Total { // a difference below 0, in 32 bits
			l.Free = Unknown
		}
		licenses = append(licenses, l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return licenses, nil
}

func (l *License) set(key, value []byte) (err error) {
	switch string(key) {
	case "Used":
		l.Used, err = parseInt(value)
	case "Free":
		l.Free, err = parseInt(value)
	case "Reserved":
		l.Reserved, err = parseInt(value)
	case "Remote":
		l.Remote = string(value) == "yes"
	}
	return err
}

// Reservation is a row of `scontrol show res -o`.
type Reservation struct {
	Name      string
	State     string // "ACTIVE", "INACTIVE"
	Start     int64
	End       int64
	Nodes     int64
	Cores     int64
	Partition string
	Flags     []string
	Users     []string // those who may not use it stand behind a minus
	Accounts  []string
	Licenses  string
	NodeList  string
}

// Reservations asks for the reservations; there may be none.
func (c *Client) Reservations(ctx context.Context) ([]Reservation, error) {
	text, err := c.Run(ctx, "scontrol", "--local", "-a", "show", "res", "-o")
	if err != nil {
		return nil, err
	}
	reservations, err := parseReservations(text)
	if err != nil {
		return nil, fmt.Errorf("scontrol show res: %w", err)
	}
	return reservations, nil
}

// parseReservations reads the rows. Names may have blanks.
func parseReservations(text []byte) ([]Reservation, error) {
	const first, second = "ReservationName=", " StartTime="
	var reservations []Reservation
	err := scontrolRows(text, first, " NodeCnt=", "No reservations in the system", func(row []byte) error {
		end := max(len(first), bytes.Index(row, []byte(second)))
		name, rest := row[len(first):end], row[end:]
		r := Reservation{Name: string(name), Nodes: Unknown, Cores: Unknown}
		for r.State == "" { // behind the state comes the comment, which may hold anything
			key, value, more := nextPair(rest)
			if key == nil {
				return fmt.Errorf("reservation %s: no State", quoted(name))
			}
			if err := r.set(key, value); err != nil {
				return fmt.Errorf("reservation %s: %s: %w", quoted(name), key, err)
			}
			rest = more
		}
		reservations = append(reservations, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reservations, nil
}

func (r *Reservation) set(key, value []byte) (err error) {
	switch string(key) {
	case "State":
		r.State = string(value)
	case "StartTime":
		r.Start, err = parseTime(value)
	case "EndTime":
		r.End, err = parseTime(value)
	case "Nodes":
		r.NodeList = textOf(value)
	case "NodeCnt":
		r.Nodes, err = parseCount(value)
	case "CoreCnt":
		r.Cores, err = parseCount(value)
	case "PartitionName":
		r.Partition = textOf(value)
	case "Flags":
		r.Flags = listOf(value)
	case "Users":
		r.Users = listOf(value)
	case "Accounts":
		r.Accounts = listOf(value)
	case "Licenses":
		r.Licenses = textOf(value)
	}
	return err
}

// LicenseRequest is what a job asks for of one licence.
type LicenseRequest struct {
	Name  string
	Count int64
}

// ParseLicenseRequests reads a job's Licenses, as "matlab:10,ansys"; also the older "matlab*10" and "matlab=10".
// Alternatives (a|b) are no request for any one of them, and left out.
func ParseLicenseRequests(text string) []LicenseRequest {
	if isNothing([]byte(text)) || strings.Contains(text, "|") {
		return nil
	}
	var requests []LicenseRequest
	for rest := []byte(text); len(rest) > 0; {
		var item []byte
		item, rest = cutGres(rest) // a resource may name its nodes in parentheses
		name, count := item, int64(1)
		if i := bytes.LastIndexAny(item, ":*="); i >= 0 {
			var err error
			if count, err = parseInt(item[i+1:]); err != nil {
				continue
			}
			name = item[:i]
		}
		if i := bytes.IndexByte(name, '('); i >= 0 {
			name = name[:i]
		}
		if len(name) == 0 || count == 0 {
			continue
		}
		same := func(r LicenseRequest) bool { return r.Name == string(name) }
		if i := slices.IndexFunc(requests, same); i >= 0 {
			requests[i].Count += count
			continue
		}
		requests = append(requests, LicenseRequest{Name: string(name), Count: count})
	}
	return requests
}
