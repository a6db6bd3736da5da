package slurm

import (
	"bytes"
	"fmt"
	"strings"
)

// The fields that squeue is asked for, in this order. All of them are in 20.11's squeue; what a squeue does not know it
// leaves empty, with a line on standard error and status 0.
//
// Those up to tres-alloc hold no bar. What comes behind may hold anything: users write tres-per-node, tres-per-job and
// tres-per-task (sbatch takes --gpus='a|b:1', and a newline too), coordinators name accounts, and Licenses may be a|b.
// So |mark| stands behind each of these, and |mark with a newline behind the last.
const (
	fieldJobID = iota
	fieldArrayJobID
	fieldArrayTaskID
	fieldHetJobID
	fieldHetJobOffset
	fieldState
	fieldPartition
	fieldUserID
	fieldUserName
	fieldQOS
	fieldNumCPUs
	fieldNumNodes
	fieldNumTasks
	fieldSubmitTime
	fieldEligibleTime
	fieldStartTime
	fieldEndTime
	fieldTimeLimit
	fieldPriorityLong
	fieldNodeList
	fieldTRESAlloc
	fieldAccount // here the marks begin
	fieldReservation
	fieldLicenses
	fieldTRESPerNode
	fieldTRESPerJob
	fieldTRESPerTask
	fieldReason
	fieldCount
)

// jobFieldNames gives the fields' names, as squeue -O knows them.
func jobFieldNames() [fieldCount]string {
	return [fieldCount]string{"JobID", "ArrayJobID", "ArrayTaskID", "HetJobID", "HetJobOffset", "State", "Partition",
		"UserID", "UserName", "QOS", "NumCPUs", "NumNodes", "NumTasks", "SubmitTime", "EligibleTime", "StartTime",
		"EndTime", "TimeLimit", "PriorityLong", "NodeList", "tres-alloc", "Account", "Reservation", "Licenses",
		"tres-per-node", "tres-per-job", "tres-per-task", "Reason"}
}

// jobFormat gives what squeue -O is asked for. Behind the colon stands what squeue prints behind the field.
func jobFormat(mark string) string {
	var format strings.Builder
	for i, name := range jobFieldNames() {
		if i > 0 {
			format.WriteByte(',')
		}
		format.WriteString(name + ":|")
		if i >= fieldTRESAlloc {
			format.WriteString(mark)
		}
		if i >= fieldTRESAlloc && i < fieldCount-1 {
			format.WriteByte('|')
		}
	}
	return format.String()
}

// checkMark tells whether squeue can be given the mark.
func checkMark(mark string) error {
	if mark == "" || strings.ContainsAny(mark, ",|\n") {
		return fmt.Errorf("the mark %q cannot end rows", mark)
	}
	return nil
}

// rowParser parses the rows of one text. It keeps one copy of each string that repeats.
type rowParser struct {
	separator []byte // behind the fields from tres-alloc on
	end       []byte // behind the last of them

	job     Job
	fields  [fieldCount][]byte
	field   int // the first field that was wrong, with err
	err     error
	asked   []GPUs
	names   names
	reasons names
	users   names             // by what stands in UserID and UserName
	owners  map[string]string // the UserID that a UserName belongs to
}

func newRowParser(mark string) *rowParser {
	return &rowParser{
		separator: []byte("|" + mark + "|"),
		end:       []byte("|" + mark + "\n"),
		names:     names{},
		reasons:   names{},
		users:     names{},
		owners:    map[string]string{},
	}
}

// next parses the row at the start of text into p.job and returns what stands behind it.
func (p *rowParser) next(text []byte) (rest []byte, err error) {
	rest, ok := p.split(text)
	if !ok {
		return nil, p.malformed(text)
	}
	p.err = nil
	p.parse()
	if p.err != nil {
		return nil, fmt.Errorf("%s: %w", jobFieldNames()[p.field], p.err)
	}
	return rest, nil
}

// split finds the fields of the row at the start of text and returns what stands behind it. The row ends at the first end,
// and has the separators that are due, no less and no more.
func (p *rowParser) split(text []byte) (rest []byte, ok bool) {
	mark := p.end[1 : len(p.end)-1]
	for i := range fieldTRESAlloc {
		at := bytes.IndexByte(text, '|')
		if at < 0 || bytes.HasPrefix(text[at+1:], mark) {
			return nil, false
		}
		p.fields[i], text = text[:at], text[at+1:]
	}
	separator, other := p.separator, p.end
	for i := fieldTRESAlloc; i < fieldCount; i++ {
		if i == fieldCount-1 {
			separator, other = p.end, p.separator
		}
		at := bytes.Index(text, separator)
		if at < 0 || bytes.Contains(text[:at], other) {
			return nil, false
		}
		p.fields[i], text = text[:at], text[at+len(separator):]
	}
	return text, bytes.IndexByte(p.fields[fieldTRESAlloc], '|') < 0
}

// malformed tells what is wrong with the row at the start of text, which has not the fields that were asked for.
func (p *rowParser) malformed(text []byte) error {
	end := bytes.Index(text, p.end)
	if end < 0 {
		return fmt.Errorf("the text ends inside of it: %s", quoted(text))
	}
	row := text[:end]
	head, tail, more := bytes.Cut(row, p.separator)
	fixed := bytes.Count(head, []byte("|")) + 1
	count := fixed
	if more {
		count += bytes.Count(tail, p.separator) + 1
	}
	if count == fieldCount {
		return fmt.Errorf("%d fields before the first mark instead of %d: %s", fixed, fieldTRESAlloc+1, quoted(row))
	}
	return fmt.Errorf("%d fields instead of %d: %s", count, fieldCount, quoted(row))
}

// parse makes p.job of p.fields.
func (p *rowParser) parse() {
	j := &p.job
	*j = Job{
		ID:          p.number(fieldJobID),
		HetID:       p.optional(fieldHetJobID),
		HetOffset:   p.optional(fieldHetJobOffset),
		State:       JobState(p.name(fieldState)),
		Partition:   p.name(fieldPartition),
		User:        p.user(),
		Account:     p.name(fieldAccount),
		QOS:         p.name(fieldQOS),
		Tasks:       1,
		CPUs:        p.number(fieldNumCPUs),
		Nodes:       p.number(fieldNumNodes),
		GPUs:        j.GPUs[:0],
		Licenses:    p.name(fieldLicenses),
		Submit:      p.time(fieldSubmitTime),
		Eligible:    p.time(fieldEligibleTime),
		Start:       p.time(fieldStartTime),
		End:         p.time(fieldEndTime),
		Priority:    p.number(fieldPriorityLong),
		NodeList:    p.name(fieldNodeList),
		Reservation: p.name(fieldReservation),
		Reason:      p.reason(),
	}
	if tasks := p.fields[fieldArrayTaskID]; !isNothing(tasks) {
		j.ArrayID = p.number(fieldArrayJobID)
		j.ArrayTask = p.names.of(tasks)
		count, err := countTasks(tasks)
		j.Tasks = count
		p.check(fieldArrayTaskID, err)
	}
	if j.NodeList == "" && j.State.Class() == JobFinished {
		j.Start = 0 // it never ran: slurmctld says when it was cancelled
	}
	var err error
	j.TimeLimit, err = parseDuration(p.fields[fieldTimeLimit])
	p.check(fieldTimeLimit, err)
	p.resources()
}

// check keeps the first error.
func (p *rowParser) check(field int, err error) {
	if err != nil && p.err == nil {
		p.field, p.err = field, err
	}
}

func (p *rowParser) number(field int) int64 {
	v, err := parseCount(p.fields[field])
	p.check(field, err)
	return v
}

// optional gives 0 where there is no number.
func (p *rowParser) optional(field int) int64 {
	if isNothing(p.fields[field]) {
		return 0
	}
	return p.number(field)
}

func (p *rowParser) time(field int) int64 {
	t, err := parseTime(p.fields[field])
	p.check(field, err)
	return t
}

func (p *rowParser) name(field int) string {
	if isNothing(p.fields[field]) {
		return ""
	}
	return p.names.of(p.fields[field])
}

func (p *rowParser) reason() string {
	b := p.fields[fieldReason]
	if word, ok := p.reasons[string(b)]; ok {
		return word
	}
	word := reasonWord(b)
	p.reasons[string(b)] = word
	return word
}

// user gives the user's name. A user whom this host does not know is nobody to 22.05, and a number to 24.11. 24.11 also
// looks at the lower 16 bits of the number alone, and so gives one user another's name (uid_to_string_cached in
// src/common/uid.c). Both are named by their number here: rather no name than another's.
func (p *rowParser) user() string {
	id, name := p.fields[fieldUserID], p.fields[fieldUserName]
	key := p.fields[fieldUserID][:len(id)+1+len(name)] // they stand side by side
	if user, ok := p.users[string(key)]; ok {
		return user
	}
	if _, n := digits(bytes.TrimPrefix(id, []byte("-"))); n == 0 { // numbers of 2^31 and more may be printed as negative
		p.check(fieldUserID, fmt.Errorf("%s is no number", quoted(id)))
	}
	user := string(name)
	owner, taken := p.owners[user]
	if isNothing(name) || user == "nobody" || (taken && owner != string(id)) {
		user = string(id)
	} else {
		p.owners[user] = string(id)
	}
	p.users[string(key)] = user
	return user
}

// resources sets the job's memory and GPUs.
func (p *rowParser) resources() {
	j := &p.job
	t, err := parseTRES(p.fields[fieldTRESAlloc], p.names, j.GPUs)
	p.check(fieldTRESAlloc, err)
	j.Memory, j.GPUs = t.Memory, t.GPUs
	p.asked = p.askedGPUs(p.asked[:0])
	if len(p.asked) == 0 {
		return
	}
	// GPUs, or their types, are missing from tres-alloc where AccountingStorageTRES does not list them.
	if have := sumGPUs(j.GPUs); have == 0 || (have == sumGPUs(p.asked) && untyped(p.asked) < untyped(j.GPUs)) {
		j.GPUs = append(j.GPUs[:0], p.asked...)
	}
}

// askedGPUs appends the GPUs that the user asked for. Users wrote these fields: what cannot be read tells nothing.
func (p *rowParser) askedGPUs(gpus []GPUs) []GPUs {
	for _, per := range [...]struct {
		field, count int
	}{{fieldTRESPerJob, -1}, {fieldTRESPerNode, fieldNumNodes}, {fieldTRESPerTask, fieldNumTasks}} {
		if isNothing(p.fields[per.field]) {
			continue
		}
		times := int64(1)
		if per.count >= 0 {
			var err error
			if times, err = parseCount(p.fields[per.count]); err != nil {
				continue
			}
		}
		got, err := appendGres(gpus, p.fields[per.field], p.names)
		if err != nil || len(got) == 0 {
			continue
		}
		if times == 0 || times > maxGPUs || sumGPUs(got) > maxGPUs {
			continue
		}
		for i := range got {
			got[i].Count *= times
		}
		return got
	}
	return gpus[:0]
}

// maxGPUs is more GPUs or tasks than a job has. NO_VAL, 0xfffffffe, by which Slurm says that there is none, is above.
const maxGPUs = 1 << 24

func sumGPUs(gpus []GPUs) int64 {
	sum := int64(0)
	for _, g := range gpus {
		sum += g.Count
	}
	return sum
}

func untyped(gpus []GPUs) int64 {
	for _, g := range gpus {
		if g.Type == "" {
			return g.Count
		}
	}
	return 0
}
