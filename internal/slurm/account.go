package slurm

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Share is a row of sshare: an account, or a user in one. What sshare does not say is NaN in the fields that are float64.
type Share struct {
	Account     string
	User        string  // "" of an account
	Partition   string  // where the user's association is with one partition: there is then a row for each
	Parent      string  // the account above Account; "" of root
	RawShares   int64   // Unknown where it is "parent" or not said
	NormShares  float64 // of the shares of its siblings
	RawUsage    int64   // seconds of CPUs, weighted (TRESBillingWeights) and decayed; Unknown
	NormUsage   float64 // of the whole cluster's usage
	EffectUsage float64 // of its siblings' usage, with the fair tree
	FairShare   float64 // from 0 to 1; only of users, with the fair tree
	LevelFS     float64 // shares to usage, among its siblings; may be +Inf
}

// Shares asks for the fair shares of all accounts and users: one REQUEST_SHARE_INFO.
func (c *Client) Shares(ctx context.Context) ([]Share, error) {
	text, err := c.Run(ctx, "sshare", "-a", "-P", "-n", "-o", strings.Join(shareFieldNames(), ","))
	if err != nil {
		return nil, err
	}
	shares, err := parseShares(text)
	if err != nil {
		return nil, fmt.Errorf("sshare: %w", err)
	}
	return shares, nil
}

// The fields that sshare is asked for, in this order.
const (
	shareAccount = iota
	shareUser
	sharePartition
	shareRawShares
	shareNormShares
	shareRawUsage
	shareNormUsage
	shareEffectUsage
	shareFairShare
	shareLevelFS
	shareFields
)

func shareFieldNames() []string {
	return []string{"Account", "User", "Partition", "RawShares", "NormShares", "RawUsage", "NormUsage", "EffectvUsage",
		"FairShare", "LevelFS"}
}

// parseShares reads the rows. An account stands one blank further in than the account above it, and its users one
// further than itself.
func parseShares(text []byte) ([]Share, error) {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("the text is cut off: %s", quoted(text[bytes.LastIndexByte(text, '\n')+1:]))
	}
	var shares []Share
	var above []string // the accounts on the way down to the row
	for line := range bytes.Lines(text) {
		s, depth, err := parseShare(line[:len(line)-1])
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", len(shares)+1, err)
		}
		if s.User != "" {
			depth = max(0, depth-1)
		}
		above = above[:min(depth, len(above))]
		if len(above) > 0 {
			s.Parent = above[len(above)-1]
		}
		above = append(above, s.Account)
		shares = append(shares, s)
	}
	return shares, nil
}

// parseShare reads a row, and tells how far in it stands. An account's name may have bars: it is what the other fields
// leave of the row.
func parseShare(row []byte) (s Share, depth int, err error) {
	var fields [shareFields][]byte
	rest := row
	for i := shareFields - 1; i > shareAccount; i-- {
		bar := bytes.LastIndexByte(rest, '|')
		if bar < 0 {
			return s, 0, fmt.Errorf("%d fields instead of %d: %s", bytes.Count(row, []byte("|"))+1, shareFields, quoted(row))
		}
		rest, fields[i] = rest[:bar], rest[bar+1:]
	}
	account := bytes.TrimLeft(rest, " ")
	s = Share{
		Account: string(account), User: string(fields[shareUser]), Partition: textOf(fields[sharePartition]),
		RawShares: Unknown, RawUsage: Unknown,
	}
	for _, number := range []struct {
		field int
		whole *int64
		part  *float64
	}{
		{shareRawShares, &s.RawShares, nil}, {shareNormShares, nil, &s.NormShares}, {shareRawUsage, &s.RawUsage, nil},
		{shareNormUsage, nil, &s.NormUsage}, {shareEffectUsage, nil, &s.EffectUsage}, {shareFairShare, nil, &s.FairShare},
		{shareLevelFS, nil, &s.LevelFS},
	} {
		value := fields[number.field]
		switch {
		case number.part != nil:
			*number.part, err = parseShareOf(value)
		case len(value) > 0 && string(value) != "parent":
			*number.whole, err = parseInt(value)
		}
		if err != nil {
			return s, 0, fmt.Errorf("account %s: %s: %w", quoted(account), shareFieldNames()[number.field], err)
		}
	}
	return s, len(rest) - len(account), nil
}

// parseShareOf reads a number such as 0.333333 or inf.
func parseShareOf(b []byte) (float64, error) {
	if len(b) == 0 {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return 0, fmt.Errorf("%s is no number", quoted(b))
	}
	return v, nil
}

// Finished is a run of a job that ended, after slurmdbd. A job that was requeued has one for each run. A heterogeneous job
// has one for each component. Of a job that was resized only the last part is told, as if it had been submitted then.
type Finished struct {
	ID        int64  // the raw id
	Display   string // as 12345_10; 12345_[3-9] of tasks that were cancelled together before they started
	Tasks     int64  // 1, or the number of tasks that the row stands for
	User      string // "" where slurmdbd no longer knows
	Account   string
	Partition string
	QOS       string
	State     string // as "COMPLETED", "CANCELLED", "OUT_OF_MEMORY", "REQUEUED"; without "by 0"
	ExitCode  int64
	Signal    int64
	Submit    int64
	Eligible  int64 // 0 where it never was, for it was held; may lie behind the end
	Start     int64 // 0 where it never ran
	End       int64
	Elapsed   int64 // seconds; without the time that it was suspended
	TimeLimit int64 // seconds; Unlimited; Unknown

	// What it was given, and what it asked for where it never ran; of each task.
	Nodes    int64
	CPUs     int64
	Memory   int64 // bytes; Unknown
	GPUs     []GPUs
	NodeList string // "" where it never ran

	Energy int64 // joules; Unknown where Slurm does not measure it

	// From the job's steps; Unknown where steps were not asked for or did not tell.
	CPUTime    int64 // microseconds of user and system time
	MemoryPeak int64 // bytes: of the step with most, the sum of what each of its tasks had at its own peak
	// StepsUntold tells that a step that ended with the job has not told what it used. It may yet do so: slurmctld learns
	// it when the step's processes are gone, up to KillWait and more after the job's end. Where Slurm gathers nothing
	// (JobAcctGatherType) it never does.
	StepsUntold bool
}

// Finished asks slurmdbd for the runs that ended from since until just before until (seconds since 1970), with their
// steps or without. The error is ErrNoAccounting where there is no slurmdbd.
func (c *Client) Finished(ctx context.Context, since, until int64, steps bool) ([]Finished, error) {
	if err := checkMark(c.Mark); err != nil {
		return nil, fmt.Errorf("sacct: %w", err)
	}
	const form = "2006-01-02T15:04:05"
	args := []string{
		"--local", "-a", "-D", "-p", "-n", "--delimiter=|" + c.Mark,
		"-S", time.Unix(since, 0).UTC().Format(form), "-E", time.Unix(until, 0).UTC().Format(form),
		"--state=" + endStates, "-o", strings.Join(finishedFieldNames(), ","),
	}
	if !steps {
		args = append(args, "-X")
	}
	text, err := c.Run(ctx, "sacct", args...)
	if err != nil {
		if isNoAccounting(err) {
			err = fmt.Errorf("%w: %w", ErrNoAccounting, err)
		}
		return nil, err
	}
	runs, err := parseFinished(text, c.Mark)
	if err != nil {
		return nil, fmt.Errorf("sacct: %w", err)
	}
	return slices.DeleteFunc(runs, func(f Finished) bool { return f.End < since || f.End >= until }), nil
}

// endStates are the states that are an end. For these, and only these, slurmdbd gives the jobs that ended from -S to -E
// (as_mysql_jobacct_process.c, _state_time_string). A job that is resized (RS) goes on, and one that is revoked (RV) runs
// on another cluster.
const endStates = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"

// The fields that sacct is asked for, in this order.
const (
	finishedJobIDRaw = iota
	finishedJobID
	finishedUser
	finishedPartition
	finishedQOS
	finishedState
	finishedExitCode
	finishedSubmit
	finishedEligible
	finishedStart
	finishedEnd
	finishedElapsed
	finishedTimeLimit
	finishedNodes
	finishedCPUs
	finishedReqTRES
	finishedAllocTRES
	finishedNodeList
	finishedAccount
	finishedEnergy
	finishedTotalCPU
	finishedUsage
	finishedFields
)

func finishedFieldNames() []string {
	return []string{"JobIDRaw", "JobID", "User", "Partition", "QOS", "State", "ExitCode", "Submit", "Eligible", "Start",
		"End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "ReqTRES", "AllocTRES", "NodeList", "Account",
		"ConsumedEnergyRaw", "TotalCPU", "TRESUsageInTot"}
}

// parseFinished reads the rows. Each field has a bar and the mark behind it: an account's name may hold bars and line
// breaks. The rows of a run's steps stand behind its own.
func parseFinished(text []byte, mark string) ([]Finished, error) {
	p := finishedParser{separator: []byte("|" + mark), names: names{}}
	for row := 1; len(text) > 0; row++ {
		rest, err := p.split(text)
		if err == nil {
			err = p.parse()
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", row, err)
		}
		text = rest
	}
	p.close()
	return p.runs, nil
}

// finishedParser parses one text. It keeps one copy of each string that repeats.
type finishedParser struct {
	separator []byte
	names     names
	fields    [finishedFields][]byte
	field     int // the first field that was wrong, with err
	err       error

	runs     []Finished
	gathered bool // a step of the last one told what it used
}

// split finds the fields of the row at the start of text and returns what stands behind it.
func (p *finishedParser) split(text []byte) (rest []byte, err error) {
	rest = text
	for i := range p.fields {
		end := bytes.Index(rest, p.separator)
		if end < 0 {
			return nil, fmt.Errorf("%d fields instead of %d: %s", i, finishedFields, quoted(text))
		}
		p.fields[i], rest = rest[:end], rest[end+len(p.separator):]
	}
	if len(rest) == 0 || rest[0] != '\n' {
		return nil, fmt.Errorf("no line ends behind %d fields: %s", finishedFields, quoted(text))
	}
	return rest[1:], nil
}

// parse adds a run, or what a step used to the run before.
func (p *finishedParser) parse() error {
	p.err = nil
	raw := p.fields[finishedJobIDRaw]
	job, step, isStep := bytes.Cut(raw, []byte("."))
	id, err := parseInt(job)
	if err != nil {
		return fmt.Errorf("JobIDRaw: %w", err)
	}
	if isStep {
		if len(p.runs) == 0 || p.runs[len(p.runs)-1].ID != id {
			return fmt.Errorf("step %s of job %d is not behind its job", quoted(step), id)
		}
		p.step(&p.runs[len(p.runs)-1])
	} else {
		p.close()
		p.runs = append(p.runs, Finished{ID: id})
		p.run(&p.runs[len(p.runs)-1])
	}
	if p.err != nil {
		return fmt.Errorf("job %s: %s: %w", raw, finishedFieldNames()[p.field], p.err)
	}
	return nil
}

// run reads a job's own row.
func (p *finishedParser) run(f *Finished) {
	state, _, _ := bytes.Cut(p.fields[finishedState], []byte(" ")) // CANCELLED by 1001
	f.Display = string(p.fields[finishedJobID])
	f.Tasks = 1
	f.User, f.Account, f.QOS = p.name(finishedUser), p.name(finishedAccount), p.name(finishedQOS)
	f.Partition, f.State = p.name(finishedPartition), p.names.of(state)
	f.Submit, f.Eligible = p.time(finishedSubmit), p.time(finishedEligible)
	f.Start, f.End = p.time(finishedStart), p.time(finishedEnd)
	f.Elapsed = p.number(finishedElapsed)
	if string(p.fields[finishedNodeList]) != "None assigned" {
		f.NodeList = p.name(finishedNodeList)
	}
	if f.NodeList == "" {
		f.Start = 0 // of a job that is cancelled once more after it was requeued it is the end
	}
	var err error
	f.ExitCode, f.Signal, err = parseExit(p.fields[finishedExitCode])
	p.check(finishedExitCode, err)
	f.TimeLimit, err = parseMinutes(p.fields[finishedTimeLimit])
	p.check(finishedTimeLimit, err)
	if _, tasks, ok := bytes.Cut(p.fields[finishedJobID], []byte("_[")); ok {
		f.Tasks, err = countTasks(bytes.TrimSuffix(tasks, []byte("]")))
		p.check(finishedJobID, err)
	}
	p.resources(f)
	f.MemoryPeak, f.Energy = Unknown, Unknown
	if energy := p.fields[finishedEnergy]; len(energy) > 0 {
		if joules := p.number(finishedEnergy); joules > 0 { // 0 is what Slurm says that measures none
			f.Energy = joules
		}
	}
	f.CPUTime, err = parseCPUTime(p.fields[finishedTotalCPU])
	p.check(finishedTotalCPU, err)
	p.gathered = false
}

// resources sets what the run was given; what it asked for, where it was given nothing. Newer sacct give 0 for the CPUs
// of jobs that never ran, older ones what these asked for: so the lists count first.
func (p *finishedParser) resources(f *Finished) {
	field := finishedAllocTRES
	if isNothing(p.fields[field]) {
		field = finishedReqTRES
	}
	t, err := parseTRES(p.fields[field], p.names, nil)
	p.check(field, err)
	f.Nodes, f.CPUs, f.Memory, f.GPUs = t.Nodes, t.CPUs, t.Memory, t.GPUs
	if f.Nodes == Unknown {
		f.Nodes = p.number(finishedNodes)
	}
	if f.CPUs == Unknown {
		f.CPUs = p.number(finishedCPUs)
	}
}

// step adds what a step used. One that has not told yet has the job's own end. One that ended before and told nothing was
// never launched.
func (p *finishedParser) step(f *Finished) {
	end, usage := p.time(finishedEnd), p.fields[finishedUsage]
	if len(usage) == 0 {
		f.StepsUntold = f.StepsUntold || end == 0 || end >= f.End
		return
	}
	p.gathered = true
	memory, err := memoryOf(usage)
	p.check(finishedUsage, err)
	f.MemoryPeak = max(f.MemoryPeak, memory)
}

// close takes back what is not known for certain of a run when all its steps are read.
func (p *finishedParser) close() {
	if len(p.runs) == 0 {
		return
	}
	if f := &p.runs[len(p.runs)-1]; f.StepsUntold || !p.gathered {
		f.CPUTime, f.MemoryPeak = Unknown, Unknown
	}
}

// check keeps the first error.
func (p *finishedParser) check(field int, err error) {
	if err != nil && p.err == nil {
		p.field, p.err = field, err
	}
}

func (p *finishedParser) name(field int) string {
	if isNothing(p.fields[field]) {
		return ""
	}
	return p.names.of(p.fields[field])
}

func (p *finishedParser) number(field int) int64 {
	v, err := parseInt(p.fields[field])
	p.check(field, err)
	return v
}

func (p *finishedParser) time(field int) int64 {
	t, err := parseTime(p.fields[field])
	p.check(field, err)
	return t
}

// parseExit reads an exit code such as 3:0 or, of a job that a signal ended, 0:9.
func parseExit(b []byte) (code, signal int64, err error) {
	first, second, _ := bytes.Cut(b, []byte(":"))
	if code, err = parseInt(first); err == nil {
		signal, err = parseInt(second)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s is no exit code", quoted(b))
	}
	return code, signal, nil
}

// parseMinutes reads a time limit in minutes, in seconds.
func parseMinutes(b []byte) (int64, error) {
	minutes, n := digits(b)
	if n == 0 || n < len(b) || minutes > math.MaxInt64/60 {
		return parseDuration(b)
	}
	return minutes * 60, nil
}

// parseCPUTime reads a time such as 1-02:03:04, 02:03:04 or, below an hour, 03:04.567, in microseconds. sacct leaves the
// fraction out where there are hours.
func parseCPUTime(b []byte) (int64, error) {
	const second = 1_000_000
	whole, fraction, dot := bytes.Cut(b, []byte("."))
	seconds, err := parseDuration(whole)
	if len(b) == 0 || seconds < 0 {
		return Unknown, err
	}
	micros, n := digits(fraction)
	if err != nil || n < len(fraction) || dot && n == 0 || n > 6 || seconds > math.MaxInt64/second-1 {
		return 0, fmt.Errorf("%s is no time span", quoted(b))
	}
	for ; n > 0 && n < 6; n++ {
		micros *= 10
	}
	return seconds*second + micros, nil
}

// memoryOf gives the memory of what a step used, such as cpu=00:00:02,energy=0,fs/disk=23508,mem=227252K,pages=0.
func memoryOf(usage []byte) (int64, error) {
	for item := range bytes.SplitSeq(usage, []byte(",")) {
		if memory, ok := bytes.CutPrefix(item, []byte("mem=")); ok {
			return parseMemory(memory)
		}
	}
	return Unknown, nil
}
