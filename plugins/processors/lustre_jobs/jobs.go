package lustre_jobs

import (
	"strconv"
	"time"

	"telegraf-hpc/internal/slurm"
)

// unknown stands for the user and the account of an id that Slurm does not know.
const unknown = "_unknown"

// who is what is behind a series.
type who byte

const (
	whoJob     who = iota + 1 // a job of Slurm
	whoProcess                // processes of a user, of one name
	whoUnknown                // an id that is no job of Slurm's
	whoAnyJob                 // a job, where Slurm is not asked
)

// identity is what becomes the tags of a series. It never changes.
type identity struct {
	kind                                   who
	job, user, account, partition, cluster string
}

// job is a job of Slurm. Times are seconds since 1970, 0 where Slurm did not say.
type job struct {
	ID        int64              `json:"id"`
	Display   string             `json:"job"` // as 12345_10
	Cluster   string             `json:"cluster,omitempty"`
	User      string             `json:"user,omitempty"`
	Account   string             `json:"account,omitempty"`
	Partition string             `json:"partition,omitempty"`
	QOS       string             `json:"qos,omitempty"`
	State     string             `json:"state"`
	Begun     bool               `json:"begun,omitempty"` // it has run, so that its partition and its id are its own
	Submit    int64              `json:"submit,omitempty"`
	Start     int64              `json:"start,omitempty"`
	End       int64              `json:"end,omitempty"`
	Told      int64              `json:"told,omitempty"`      // when its end was heard of, by this host's clock
	Seen      int64              `json:"seen"`                // when it was heard of, by this host's clock
	Accounted bool               `json:"accounted,omitempty"` // Ints, Floats and Texts are those of slurm_finished
	Reported  int64              `json:"reported,omitempty"`  // the End that is reported
	Past      int64              `json:"past,omitempty"`      // the End of a run after which it was put back into the queue
	Ints      map[string]int64   `json:"ints,omitempty"`
	Floats    map[string]float64 `json:"floats,omitempty"`
	Texts     map[string]string  `json:"texts,omitempty"`

	savedSeen int64
	marks     uint8
}

// slurmState is what is known of Slurm itself.
type slurmState struct {
	mode         string        // stream, commands or none
	unknownAfter time.Duration // how long Slurm must have told of others until an id is none of its
	quietAfter   time.Duration
	reportDelay  time.Duration
	started      int64          // when this process began
	heard, since int64          // when Slurm told of jobs last, and since when it did without a gap; nanoseconds
	accounting   bool           // there are rows of slurm_finished
	noJobs       map[int64]bool // ids that Slurm said it does not have, in mode commands
}

// told notes that Slurm told of a job.
func (s *slurmState) told(now int64) {
	if now-s.heard > int64(s.unknownAfter) {
		s.since = now
	}
	s.heard = now
}

// denies tells whether Slurm has told of all of its jobs since a time, with time to spare.
func (s *slurmState) denies(since, now int64) bool {
	return s.heard != 0 && now-s.heard <= int64(s.unknownAfter) && now-max(since, s.since) >= int64(s.unknownAfter)
}

// row is a row of slurm_job or slurm_finished.
type row struct {
	finished                                        bool
	at                                              int64 // when it was told, seconds
	id, submit, start, end                          int64
	display, cluster, user, account, partition, qos string
	state                                           string
	ints                                            map[string]int64
	floats                                          map[string]float64
	texts                                           map[string]string
}

// tell takes what Slurm says of a job.
func (l *ledger) tell(r *row, now int64) {
	l.slurm.told(now)
	if r.finished {
		l.slurm.accounting = true
	}
	class := slurm.JobState(r.state).Class()
	over := r.finished || class == slurm.JobFinished
	pending := class == slurm.JobPending && !r.finished
	if end, ok := l.reported[r.id]; ok && over && r.end <= end {
		return
	}
	j := l.job(r.id)
	if j == nil {
		j = &job{ID: r.id}
		l.jobs[r.id] = j
	}
	before := *j
	j.Seen = now / int64(time.Second)
	if j.outdated(r, over, pending) {
		return
	}
	j.take(r, pending, over, now)
	if j.differs(&before) {
		l.unsaved[j] = struct{}{}
		j.savedSeen = j.Seen
	}
	if j.Begun && !before.Begun {
		l.reveal(j, now)
	}
}

// reveal begins anew what was counted under a job's id before Slurm knew it: somebody else's I/O, perhaps, which stays
// with the unknown.
func (l *ledger) reveal(j *job, now int64) {
	for _, p := range l.byID {
		key := "j" + strconv.FormatInt(j.ID, 10)
		s := p.series[key]
		if s == nil && l.store != nil {
			s, _ = l.store.series(p, key, l) // What is damaged is told there.
		}
		if s == nil || s.who == nil || s.who.kind != whoUnknown {
			continue
		}
		clear(s.total)
		s.who, s.user, s.account, s.shown, s.done = nil, nil, nil, shown{}, false
		s.zero, s.first, s.last = now, now, now
		if s.marks&markAdopted != 0 {
			l.unknown = append(l.unknown, s)
		}
		l.adopt(s)
		l.markSeries(s)
	}
}

// outdated tells whether a row is of a time before what is known: of an end that is reported, or after which the job was put
// back into the queue, or before its end.
func (j *job) outdated(r *row, over, pending bool) bool {
	if over {
		return r.end != 0 && (r.end == j.Reported || r.end <= j.Past) || r.finished && r.start != 0 && r.start < j.Start
	}
	return j.End != 0 && (r.at < j.End || !pending && r.start == j.Start)
}

func (j *job) take(r *row, pending, over bool, now int64) {
	if !pending || !j.Begun {
		j.Display, j.Cluster, j.User, j.Account, j.Partition, j.QOS = r.display, r.cluster, r.user, r.account, r.partition, r.qos
	}
	j.State, j.Submit = r.state, r.submit
	if r.start != 0 || !over {
		j.Start = r.start
	}
	j.Begun = j.Begun || !pending
	switch {
	case !over:
		j.Past = max(j.Past, j.End)
		j.End, j.Told = 0, 0
	case r.end != 0 && r.end != j.End:
		j.End, j.Told = r.end, now/int64(time.Second)
	}
	if r.finished {
		j.Accounted = true
	}
	if r.finished || !j.Accounted || !over {
		j.Accounted = r.finished
		j.Ints, j.Floats, j.Texts = r.ints, r.floats, r.texts
	}
}

// differs tells whether there is more new than when it was heard of.
func (j *job) differs(before *job) bool {
	const day = 24 * 3600
	return j.State != before.State || j.Begun != before.Begun || j.Start != before.Start || j.End != before.End ||
		j.Accounted != before.Accounted || j.Display != before.Display || j.User != before.User ||
		j.Account != before.Account || j.Partition != before.Partition || j.Seen-before.savedSeen > day
}

// over tells whether all is said of a job.
func (j *job) over() bool { return j.Reported != 0 && j.Reported == j.End }

// knowJob takes a job from disk.
func (l *ledger) knowJob(j *job) {
	j.savedSeen = j.Seen
	l.slurm.accounting = l.slurm.accounting || j.Accounted
	l.jobs[j.ID] = j
	delete(l.reported, j.ID)
}

// shelve drops jobs from memory of which all is said. They must be in the store.
func (l *ledger) shelve() {
	for id, j := range l.jobs {
		if j.over() && j.marks == 0 {
			l.reported[id] = j.Reported
			delete(l.jobs, id)
		}
	}
}

// job gives a job; nil if Slurm did not tell of it.
func (l *ledger) job(id int64) *job {
	if j := l.jobs[id]; j != nil {
		return j
	}
	if _, ok := l.reported[id]; !ok {
		return nil
	}
	j := l.store.job(id)
	if j != nil {
		j.savedSeen = j.Seen
		l.jobs[id] = j
	}
	return j
}

// jobNumber gives Slurm's number of a job that Lustre has under a name.
func jobNumber(name string) (id int64, ok bool) {
	if name == "" || name[0] < '1' || name[0] > '9' {
		return 0, false
	}
	id, err := strconv.ParseInt(name, 10, 64)
	return id, err == nil && id <= 1<<32
}

// identityOf tells who a series is, if that is known.
func (l *ledger) identityOf(s *series, now int64) (w identity, ok bool) {
	name, isJob := s.job()
	if !isJob {
		return identity{kind: whoProcess}, true
	}
	if l.slurm.mode == "none" {
		return identity{kind: whoAnyJob, job: name}, true
	}
	id, isNumber := jobNumber(name)
	if !isNumber {
		return identity{kind: whoUnknown, job: name, user: unknown, account: unknown, partition: unknown}, true
	}
	if j := l.job(id); j != nil && j.Begun {
		return identity{kind: whoJob, job: j.Display, user: j.User, account: j.Account, partition: j.Partition, cluster: j.Cluster}, true
	}
	if l.denied(id, s, now) {
		return identity{kind: whoUnknown, job: name, user: unknown, account: unknown, partition: unknown}, true
	}
	return w, false
}

// denied tells whether Slurm says that it has no such job.
func (l *ledger) denied(id int64, s *series, now int64) bool {
	if l.slurm.mode == "commands" {
		return l.jobs[id] == nil && l.slurm.noJobs[id]
	}
	return l.jobs[id] == nil && l.slurm.denies(s.created, now)
}

// identify gives a series its name, and the sums that it is in from now on.
func (l *ledger) identify(s *series, w identity) {
	s.who = &w
	switch w.kind {
	case whoProcess:
		if uid, _ := s.process(); uid != "" {
			s.user = l.sum(levelUID, s.place, "", uid)
		}
	case whoJob, whoUnknown:
		if w.user != "" {
			s.user = l.sum(levelUser, s.place, w.cluster, w.user)
		}
		if w.account != "" {
			s.account = l.sum(levelAccount, s.place, w.cluster, w.account)
		}
	}
}

// resolve finds out who the series are of which that is not known, and adds what they did to the sums that they are in.
// An id that was none of Slurm's and is now is another series from here on.
func (l *ledger) resolve(now int64) {
	kept := l.unknown[:0]
	for _, s := range l.unknown {
		if s.marks&markAdopted == 0 || s.who != nil {
			continue
		}
		w, ok := l.identityOf(s, now)
		if !ok {
			kept = append(kept, s)
			continue
		}
		l.identify(s, w)
		l.markSeries(s)
		if w.kind == whoJob && !s.done && l.isOver(s) {
			s.done = true
			l.stats.late++
		}
		for _, sum := range [...]*sum{s.user, s.account} {
			if sum != nil {
				if sum.total == nil {
					sum.zero = s.zero
				}
				l.grown = s.growth(l.grown[:0])
				l.addTo(sum, &s.listed, l.grown, now)
			}
		}
	}
	clear(l.unknown[len(kept):])
	l.unknown = kept
}

// isOver tells whether the job of a series is reported.
func (l *ledger) isOver(s *series) bool {
	name, _ := s.job()
	id, _ := jobNumber(name)
	j := l.job(id)
	return j != nil && j.over()
}

// growth gives all that a series did.
func (s *series) growth(to []growth) []growth {
	for i, v := range s.total {
		if v > 0 {
			to = append(to, growth{uint16(i), v})
		}
	}
	return to
}

// needed tells whether a series must stay in memory though it does nothing: its job goes on, or it waits for Slurm, though
// not for ever.
func (l *ledger) needed(s *series, forget int64) bool {
	if s.who == nil {
		return s.changed >= forget
	}
	if s.who.kind != whoJob {
		return false
	}
	name, _ := s.job()
	id, _ := jobNumber(name)
	j := l.jobs[id]
	return j != nil && !j.over()
}

// state tells how a job is: running, quiet (in Slurm, and no I/O for long) or finished. It is empty where Slurm does not
// say.
func (l *ledger) state(s *series, now int64) string {
	if s.who.kind != whoJob {
		return ""
	}
	name, _ := s.job()
	id, _ := jobNumber(name)
	j := l.jobs[id]
	switch {
	case j == nil && s.done, j != nil && j.End != 0:
		return "finished"
	case j == nil:
		return ""
	case now-s.changed > int64(l.slurm.quietAfter):
		return "quiet"
	}
	return "running"
}
