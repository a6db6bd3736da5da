package slurm

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRealConfig(t *testing.T) {
	for version, want := range map[string]Config{
		"22.05": {Version: "22.05.8"}, "24.11": {Version: "24.11.5", JobAcctGather: true},
		"26.05": {Version: "26.05.5", JobAcctGather: true},
	} {
		want.Cluster, want.MinJobAge, want.AccountingStorage, want.SlurmUserID = "hpc", 600, true, 64030
		config, err := runs(t, "scontrol show config", string(readFile(t, version+"/config.txt"))).Config(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, config)
	}
}

func TestConfig(t *testing.T) {
	config := func(changes ...string) string {
		text := "Configuration data as of 2026-11-21T09:15:44\nAccountingStorageType   = accounting_storage/slurmdbd\n" +
			"ClusterName             = hpc\nJobAcctGatherType       = jobacct_gather/cgroup\nMinJobAge               = 300 sec\nPrivateData             = none\n" +
			"SlurmUser               = slurm(64030)\nSLURM_VERSION           = 20.11.4\n\nMPI Plugins Configuration:\nClusterName = x\n" +
			"\nSlurmctld(primary) at head1 is UP\n"
		return strings.NewReplacer(changes...).Replace(text)
	}
	plain := Config{Cluster: "hpc", Version: "20.11.4", MinJobAge: 300, AccountingStorage: true, JobAcctGather: true, SlurmUserID: 64030}
	for name, test := range map[string]struct {
		text string
		want func(c *Config)
	}{
		"plain":           {config(), func(*Config) {}},
		"no accounting":   {config("accounting_storage/slurmdbd", "(null)"), func(c *Config) { c.AccountingStorage = false }},
		"none before":     {config("accounting_storage/slurmdbd", "accounting_storage/none"), func(c *Config) { c.AccountingStorage = false }},
		"gathers none":    {config("jobacct_gather/cgroup", "(null)"), func(c *Config) { c.JobAcctGather = false }},
		"none of old":     {config("jobacct_gather/cgroup", "jobacct_gather/none"), func(c *Config) { c.JobAcctGather = false }},
		"private":         {config("= none", "= accounts,jobs,nodes"), func(c *Config) { c.PrivateData = "accounts,jobs,nodes" }},
		"jobs kept":       {config("300 sec", "0 sec"), func(c *Config) { c.MinJobAge = 0 }},
		"odd user":        {config("slurm(64030)", "a (1)(7)"), func(c *Config) { c.SlurmUserID = 7 }},
		"user unknown":    {config("slurm(64030)", "(null)"), func(c *Config) { c.SlurmUserID = Unknown }},
		"no user":         {config("SlurmUser ", "Other "), func(c *Config) { c.SlurmUserID = Unknown }},
		"cluster with =":  {config("= hpc", "= a=b"), func(c *Config) { c.Cluster = "a=b" }},
		"root":            {config("slurm(64030)", "root(0)"), func(c *Config) { c.SlurmUserID = 0 }},
		"without a space": {config("SLURM_VERSION           = 20.11.4", "SLURM_VERSION=20.11.4"), func(*Config) {}},
	} {
		t.Run(name, func(t *testing.T) {
			want := plain
			test.want(&want)
			got, err := parseConfig([]byte(test.text))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	for text, want := range map[string]string{
		"":                              "no ClusterName",
		config("SLURM_VERSION", "X"):    "no SLURM_VERSION",
		config("MinJobAge", "X"):        "no MinJobAge",
		config("PrivateData", "X"):      "no PrivateData",
		config("AccountingStorage", ""): "no AccountingStorageType",
		config("300 sec", "5 min"):      `MinJobAge: "5 min" is no number`,
		config("300", "soon"):           `MinJobAge: "soon" is no number`,
		config("64030", "x"):            `SlurmUser: "x" is no number`,
	} {
		got, err := parseConfig([]byte(text))
		require.EqualError(t, err, want)
		require.Equal(t, Config{}, got)
	}
	_, err := runs(t, "scontrol show config", "").Config(t.Context())
	require.EqualError(t, err, "scontrol show config: no ClusterName")
	_, err = failing().Config(t.Context())
	require.ErrorIs(t, err, errUnreachable)
}

func TestControllers(t *testing.T) {
	for text, want := range map[string][]Controller{
		"Slurmctld(primary) at vm is UP\n": {{"vm", true}},
		"Slurmctld(primary) at ctl1 is DOWN\nSlurmctld(backup) at ctl2.example.org is UP\n" +
			"*****************************************\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n" +
			"*****************************************\n": {{"ctl1", false}, {"ctl2.example.org", true}},
		"Slurmctld(primary) at a is UP\nSlurmctld(backup1) at b is DOWN\nSlurmctld(backup2) at c is UP\n": {
			{"a", true}, {"b", false}, {"c", true},
		},
	} {
		controllers, err := runs(t, "scontrol ping", text).Controllers(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, controllers)
	}
	for text, want := range map[string]string{
		"":                                     "scontrol ping: it tells of no slurmctld",
		"Slurmctld(primary) at vm is ASLEEP\n": `scontrol ping: "Slurmctld(primary) at vm is ASLEEP" tells of no slurmctld`,
		"Slurmctld(primary) at vm is UP\nsorry\n": `scontrol ping: "sorry" tells of no slurmctld`,
	} {
		_, err := runs(t, "scontrol ping", text).Controllers(t.Context())
		require.EqualError(t, err, want)
	}
	_, err := failing().Controllers(t.Context())
	require.ErrorIs(t, err, errUnreachable)
}

func TestRealLicenses(t *testing.T) {
	for version, used := range map[string]int64{"22.05": 4, "24.11": 10, "26.05": 10} {
		licenses, err := runs(t, "scontrol show lic -o", string(readFile(t, version+"/lic.txt"))).Licenses(t.Context())
		require.NoError(t, err)
		require.Equal(t, []License{{Name: "ansys", Total: 5, Free: 5}, {Name: "matlab", Total: 10, Used: used, Free: 10 - used}}, licenses, version)
	}
	_, err := failing().Licenses(t.Context())
	require.ErrorIs(t, err, errUnreachable)
}

func TestLicenses(t *testing.T) {
	for text, want := range map[string][]License{
		"No licenses configured in Slurm.\n": nil,
		"":                                   nil,
		"LicenseName=matlab@flex Total=8 Used=2 Free=5 Reserved=1 Remote=yes LastConsumed=1 LastDeficit=0 LastUpdate=2026-11-21T09:13:41\n": {
			{"matlab@flex", 8, 2, 5, 1, true},
		},
		"LicenseName=a Total=2 Used=3 Free=4294967295 Reserved=0 Remote=no\n": {{"a", 2, 3, Unknown, 0, false}},
		"LicenseName=a Total=2 Used=0\n":                                      {{"a", 2, 0, Unknown, Unknown, false}},
	} {
		licenses, err := parseLicenses([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, licenses)
	}
	for text, want := range map[string]string{
		"LicenseName=a Total=-1 Used=0\n":           `row 1: licence "a": Total: "-1" is no number`,
		"LicenseName=a Total=1 Free=1\n":            `row 1: licence "a": no Used`,
		"LicenseName=a Total=1 Used=1 Reserved=x\n": `row 1: licence "a": Reserved: "x" is no number`,
		"LicenseName=a\n":                           `row 1: licence "a": Total: "" is no number`,
		"sorry\n":                                   `row 1: no LicenseName="sorry"`,
		"LicenseName=a Total=1 Used=1":              `the text is cut off: "LicenseName=a Total=1 Used=1"`,
	} {
		_, err := parseLicenses([]byte(text))
		require.EqualError(t, err, want)
	}
}

func TestRealReservations(t *testing.T) {
	for version, want := range map[string][]Reservation{
		"22.05": {{State: "ACTIVE", Start: 1795273696, End: 1795280896}, {State: "ACTIVE", Start: 1795270096, End: 1795277296}},
		"24.11": {{State: "INACTIVE", Start: 1795277255, End: 1795284455}, {State: "ACTIVE", Start: 1795273655, End: 1795280855}},
		"26.05": {{State: "INACTIVE", Start: 1795275783, End: 1795282983}, {State: "ACTIVE", Start: 1795272183, End: 1795279383}},
	} {
		maintenance, training := &want[0], &want[1]
		maintenance.Name, maintenance.NodeList, maintenance.Nodes, maintenance.Cores = "maint1", "cpu04", 1, 32
		maintenance.Flags, maintenance.Users = []string{"MAINT", "IGNORE_JOBS", "SPEC_NODES"}, []string{"root"}
		training.Name, training.NodeList, training.Nodes, training.Cores = "train", "gpu04", 1, 16
		training.Flags, training.Accounts = []string{"IGNORE_JOBS", "SPEC_NODES"}, []string{"chem"}
		text := string(readFile(t, version+"/res.txt"))
		reservations, err := runs(t, "scontrol --local -a show res -o", text).Reservations(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, reservations, version)
	}
	_, err := failing().Reservations(t.Context())
	require.ErrorIs(t, err, errUnreachable)
}

func TestReservations(t *testing.T) {
	const row = "StartTime=2026-11-21T19:55:27 EndTime=2026-11-21T20:05:27 Duration=00:10:00 Nodes=cpu01 NodeCnt=1 CoreCnt=32 " +
		"Features=(null) PartitionName=cpu Flags=IGNORE_JOBS   NodeName=cpu01 CoreIDs=0-3 TRES=cpu=64 Users=-root,alice Groups=(null) " +
		"Accounts=(null) Licenses=matlab:4 State=INACTIVE BurstBuffer=(null) MaxStartDelay=(null)"
	want := Reservation{
		Name: "a", State: "INACTIVE", Start: 1795290927, End: 1795291527, Nodes: 1, Cores: 32, Partition: "cpu",
		Flags: []string{"IGNORE_JOBS"}, Users: []string{"-root", "alice"}, Licenses: "matlab:4", NodeList: "cpu01",
	}
	odd := want
	odd.Name = "odd name State=X"
	licences := Reservation{Name: "l", State: "ACTIVE", Start: 1795290927, End: 1795291527, Flags: []string{"ANY_NODES"}, Licenses: "matlab:4"}
	for text, want := range map[string][]Reservation{
		"":                                nil,
		"No reservations in the system\n": nil,
		"ReservationName=a " + row + "\n": {want},
		"ReservationName=odd name State=X " + row + " Comment=hello State=ACTIVE\nReservationName=fake StartTime=x\n\nReservationName=a " + row + "\n": {odd, want},
		"ReservationName=l StartTime=2026-11-21T19:55:27 EndTime=2026-11-21T20:05:27 Nodes=(null) NodeCnt=0 CoreCnt=0 Flags=ANY_NODES " +
			"Licenses=matlab:4 State=ACTIVE\n": {licences},
	} {
		reservations, err := parseReservations([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, reservations)
	}
	for text, want := range map[string]string{
		"ReservationName=a StartTime=now NodeCnt=1\n":                           `row 1: reservation "a": StartTime: "now" is no time`,
		"ReservationName=a StartTime=Unknown NodeCnt=1 Users=x\n":               `row 1: reservation "a": no State`,
		"ReservationName=a StartTime=Unknown NodeCnt=many CoreCnt=1 State=UP\n": `row 1: reservation "a": NodeCnt: "many" is no number`,
		"ReservationName=a\n":       `row 1: reservation "": no State`,
		"Reservation x not found\n": `row 1: no ReservationName="Reservation x not found"`,
	} {
		_, err := parseReservations([]byte(text))
		require.EqualError(t, err, want)
	}
}

func TestParseLicenseRequests(t *testing.T) {
	for text, want := range map[string][]LicenseRequest{
		"":                        nil,
		"(null)":                  nil,
		"matlab":                  {{"matlab", 1}},
		"matlab:10,ansys":         {{"matlab", 10}, {"ansys", 1}},
		"matlab*10,ansys=2":       {{"matlab", 10}, {"ansys", 2}},
		"matlab@flex:3":           {{"matlab@flex", 3}},
		"matlab:1,ansys,matlab:2": {{"matlab", 3}, {"ansys", 1}},
		"matlab:1|ansys:2":        nil,
		"matlab:0,:3,,x:y,a":      {{"a", 1}},
		"io(n1,n2):4,b:2":         {{"io", 4}, {"b", 2}},
	} {
		require.Equal(t, want, ParseLicenseRequests(text), text)
	}
}

// What is asked for of all licences is what the items of the list ask for.
func FuzzParseLicenseRequests(f *testing.F) {
	f.Add("matlab", "ansys", uint16(3), uint16(1))
	f.Add("a@b", "a@b", uint16(0), uint16(65535))
	f.Fuzz(func(t *testing.T, first, second string, firstCount, secondCount uint16) {
		if strings.ContainsAny(first+second, ":*=|,()") || first == "" || second == "" {
			return
		}
		asked := map[string]int64{}
		for _, r := range ParseLicenseRequests(fmt.Sprintf("%s:%d,%s*%d", first, firstCount, second, secondCount)) {
			require.Positive(t, r.Count)
			require.NotContains(t, asked, r.Name)
			asked[r.Name] = r.Count
		}
		if first == second {
			require.Equal(t, int64(firstCount)+int64(secondCount), asked[first])
			return
		}
		require.Equal(t, int64(firstCount), asked[first])
		require.Equal(t, int64(secondCount), asked[second])
	})
}

// Whatever reservations are called and commented, their figures are their own.
func FuzzReservations(f *testing.F) {
	f.Add("a", "", uint16(3), uint32(7))
	f.Add("odd name State=X", "hello State=ACTIVE\nReservationName=fake StartTime=x", uint16(0), uint32(0))
	f.Fuzz(func(t *testing.T, name, comment string, nodes uint16, cores uint32) {
		if strings.Contains(name, " StartTime=") || strings.Contains(name, "\n") || strings.Contains(comment, " NodeCnt=") {
			return
		}
		row := func(name string) string {
			return fmt.Sprintf("ReservationName=%s StartTime=2026-11-21T09:13:41 EndTime=Unknown Duration=02:00:00 Nodes=(null) NodeCnt=%d "+
				"CoreCnt=%d Features=(null) PartitionName=(null) Flags= TRES=cpu=64 Users=root Groups=(null) Accounts=(null) Licenses=(null) "+
				"State=INACTIVE BurstBuffer=(null) MaxStartDelay=(null)", name, nodes, cores)
		}
		text := row(name)
		if comment != "" {
			text += " Comment=" + comment
		}
		reservations, err := parseReservations([]byte(text + "\n" + row("b") + "\n"))
		require.NoError(t, err)
		require.Len(t, reservations, 2)
		require.Equal(t, Reservation{
			Name: name, State: "INACTIVE", Start: 1795252421, Nodes: int64(nodes), Cores: int64(cores), Users: []string{"root"},
		}, reservations[0])
	})
}

// FuzzControl makes sure that odd texts give an error or sound rows.
func FuzzControl(f *testing.F) {
	for _, version := range []string{"22.05", "26.05"} {
		for _, name := range []string{"config", "ping", "lic", "res", "partition"} {
			f.Add(readFile(f, version+"/"+name+".txt"))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := strings.Count(string(text), "\n")
		if config, err := parseConfig(text); err == nil {
			require.GreaterOrEqual(t, config.MinJobAge, int64(0))
		}
		if controllers, err := parseControllers(text); err == nil {
			require.GreaterOrEqual(t, strings.Count(string(text), "Slurmctld("), len(controllers))
			require.NotEmpty(t, controllers)
		}
		if partitions, err := parsePartitions(text); err == nil {
			require.LessOrEqual(t, len(partitions), lines)
		}
		if licenses, err := parseLicenses(text); err == nil {
			require.LessOrEqual(t, len(licenses), lines)
			for _, l := range licenses {
				require.LessOrEqual(t, l.Free, l.Total)
				require.GreaterOrEqual(t, l.Used, int64(0))
			}
		}
		if reservations, err := parseReservations(text); err == nil {
			require.LessOrEqual(t, len(reservations), lines)
			for _, r := range reservations {
				require.NotEmpty(t, r.State)
			}
		}
	})
}

// What cannot be read is told with the command's name.
func TestClientErrors(t *testing.T) {
	odd := &Client{Mark: testMark, Run: func(context.Context, string, ...string) ([]byte, error) { return []byte("sorry\n"), nil }}
	for want, ask := range map[string]func() error{
		`scontrol show partition: row 1: no PartitionName="sorry"`: func() error { _, err := odd.Partitions(t.Context()); return err },
		`scontrol show lic: row 1: no LicenseName="sorry"`:         func() error { _, err := odd.Licenses(t.Context()); return err },
		`scontrol show res: row 1: no ReservationName="sorry"`:     func() error { _, err := odd.Reservations(t.Context()); return err },
		`sshare: row 1: 1 fields instead of 10: "sorry"`:           func() error { _, err := odd.Shares(t.Context()); return err },
	} {
		require.EqualError(t, ask(), want)
	}
}
