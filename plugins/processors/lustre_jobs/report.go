package lustre_jobs

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report is what is told of a job that has ended.
type report struct {
	job    *job
	ints   map[string]int64
	floats map[string]float64
	texts  map[string]string
}

// reportDue tells whether it is time to report a job. What the servers gathered until its end, and repeated since, is to
// be in it; so is slurmdbd's row, which comes later than slurmctld's. Where its end was heard of late, as after an outage,
// what the servers have kept meanwhile comes late, too.
func (s *slurmState) reportDue(j *job, now int64) bool {
	if j.End == 0 || j.Reported == j.End {
		return false
	}
	delay, at := int64(s.reportDelay/time.Second), now/int64(time.Second)
	due := j.End + delay
	if j.Told > j.End+delay/2 {
		due = j.Told + delay
	}
	if !j.Accounted && s.accounting {
		due += 2 * delay
	}
	return at >= max(due, s.started/int64(time.Second)+delay/2)
}

// reports gives the reports that are due, in the order of the ids.
func (l *ledger) reports(now int64) []report {
	var due []report
	for _, j := range l.jobs {
		if l.slurm.reportDue(j, now) {
			due = append(due, l.report(j))
		}
	}
	slices.SortFunc(due, func(a, b report) int { return cmp.Compare(a.job.ID, b.job.ID) })
	return due
}

// loseJobs drops jobs from memory that Slurm tells of no more, though it does of others, and whose end it did not tell:
// the line was lost, or Slurm has forgotten it. Their identity stays on disk.
func (l *ledger) loseJobs(now int64) {
	for id, j := range l.jobs {
		lost := l.slurm.noJobs[id]
		if l.slurm.mode == "stream" {
			lost = l.slurm.denies(j.Seen*int64(time.Second), now)
		}
		if lost && j.End == 0 && j.marks == 0 {
			l.reported[id] = -j.Seen // Any end is later.
			delete(l.jobs, id)
			l.stats.lost++
		}
	}
}

// report puts together what Slurm and Lustre say of a job.
func (l *ledger) report(j *job) report {
	r := report{job: j, ints: make(map[string]int64), floats: make(map[string]float64), texts: make(map[string]string)}
	maps.Copy(r.ints, j.Ints)
	maps.Copy(r.floats, j.Floats)
	maps.Copy(r.texts, j.Texts)
	r.texts["job"] = j.Display
	r.ints["job_id"], r.ints["end"] = j.ID, j.End
	if j.Submit != 0 {
		r.ints["submit"] = j.Submit
	}
	if j.Start != 0 {
		r.ints["start"] = j.Start
		if _, ok := r.ints["elapsed_seconds"]; !ok { // Slurm's own leaves out when the job was suspended.
			r.ints["elapsed_seconds"] = max(j.End-j.Start, 0)
		}
		if limit := r.ints["limit_seconds"]; limit > 0 {
			r.floats["limit_efficiency"] = float64(r.ints["elapsed_seconds"]) / float64(limit)
		}
	}
	r.addLustre(l.seriesOf(j.ID))
	return r
}

// seriesOf gives what a job did in each place.
func (l *ledger) seriesOf(id int64) (all []*series) {
	key := "j" + strconv.FormatInt(id, 10)
	for _, p := range l.byID {
		s := p.series[key]
		if s == nil && l.store != nil {
			s, _ = l.store.series(p, key, l) // What is damaged is told there.
		}
		if s != nil && (s.who == nil || s.who.kind == whoJob) {
			all = append(all, s)
		}
	}
	return all
}

// addLustre adds up what a job did on all file systems. A job that no server told of has no Lustre fields: nothing says
// that the servers were heard.
func (r *report) addLustre(all []*series) {
	if len(all) == 0 {
		return
	}
	var fs []string
	var first, last int64
	for _, s := range all {
		prefix := "lustre_"
		if s.place.kind == "mdt" {
			prefix = "lustre_mds_"
		}
		r.ints["lustre_read_bytes"] += at(s.total, fieldReadBytes)
		r.ints["lustre_write_bytes"] += at(s.total, fieldWriteBytes)
		r.ints[prefix+"ops"] += at(s.total, fieldOps)
		if s.listed.has(fieldBusy) {
			r.ints[prefix+"busy_usecs"] += at(s.total, fieldBusy)
		}
		if first == 0 || s.first < first {
			first = s.first
		}
		last = max(last, s.last)
		fs = append(fs, s.place.fs)
	}
	slices.Sort(fs)
	r.texts["lustre_filesystems"] = strings.Join(slices.Compact(fs), ",")
	r.ints["lustre_first_io"], r.ints["lustre_last_io"] = first/int64(time.Second), last/int64(time.Second)
}

func (r *report) fields() map[string]any {
	fields := make(map[string]any, len(r.ints)+len(r.floats)+len(r.texts))
	for k, v := range r.ints {
		fields[k] = v
	}
	for k, v := range r.floats {
		fields[k] = v
	}
	for k, v := range r.texts {
		fields[k] = v
	}
	return fields
}

func (r *report) tags() map[string]string {
	j := r.job
	tags := map[string]string{
		"cluster": j.Cluster, "user": j.User, "account": j.Account, "partition": j.Partition, "qos": j.QOS, "state": j.State,
	}
	maps.DeleteFunc(tags, func(_, value string) bool { return value == "" })
	return tags
}

// moment is the time of the report: the job's end, with its id as nanoseconds, which is unique in a cluster. So two jobs
// never share a point, and a report that is emitted again is the same one.
func (r *report) moment() time.Time { return time.Unix(r.job.End, r.job.ID%1e9) }

// reportedNow notes that a report was emitted.
func (l *ledger) reportedNow(r *report) {
	r.job.Reported = r.job.End
	l.unsaved[r.job] = struct{}{}
	for _, s := range l.seriesOf(r.job.ID) {
		s.done = true
		l.adopt(s)
		l.markSeries(s)
	}
}
