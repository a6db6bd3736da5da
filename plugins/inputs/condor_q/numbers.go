package condor_q

// numberColumn is an attribute that becomes a field of the same type always.
type numberColumn struct {
	attribute, field string
	kind             string // integer or float
	factor           int64  // of an integer, where its unit is another
}

// numberColumns tells where in an ad's values the numbers are.
type numberColumns struct {
	columns []numberColumn
	places  []int
}

func newNumberColumns(a *attributes, columns []numberColumn) numberColumns {
	n := numberColumns{columns: columns}
	for _, c := range columns {
		n.places = append(n.places, a.place(c.attribute))
	}
	return n
}

// read gives the fields that are known.
func (n numberColumns) read(a *ad) map[string]any {
	fields := make(map[string]any, len(n.columns))
	for i, c := range n.columns {
		if c.kind == "float" {
			if v, ok := a.float(n.places[i]); ok {
				fields[c.field] = v
			}
		} else if v, ok := a.integer(n.places[i]); ok {
			fields[c.field] = v * max(c.factor, 1)
		}
	}
	return fields
}

// scheddNumbers are of a schedd's ad (HTCondor's manual, scheduler ClassAd attributes). Those that count since the
// schedd's start begin at zero with each start.
func scheddNumbers() []numberColumn {
	return []numberColumn{
		{attribute: "TotalJobAds", field: "jobs_total"},
		{attribute: "TotalIdleJobs", field: "jobs_idle"},
		{attribute: "TotalRunningJobs", field: "jobs_running"},
		{attribute: "TotalHeldJobs", field: "jobs_held"},
		{attribute: "TotalRemovedJobs", field: "jobs_removed"},
		{attribute: "TotalFlockedJobs", field: "jobs_flocked"},
		{attribute: "JobsUnmaterialized", field: "jobs_unmaterialized"},
		{attribute: "TotalSchedulerJobsIdle", field: "scheduler_jobs_idle"},
		{attribute: "TotalSchedulerJobsRunning", field: "scheduler_jobs_running"},
		{attribute: "TotalLocalJobsIdle", field: "local_jobs_idle"},
		{attribute: "TotalLocalJobsRunning", field: "local_jobs_running"},
		{attribute: "MaxJobsRunning", field: "max_jobs_running"},
		{attribute: "NumUsers", field: "users"},
		{attribute: "Autoclusters", field: "autoclusters"},
		{attribute: "ShadowsRunning", field: "shadows_running"},
		{attribute: "JobsSubmitted", field: "jobs_submitted"},
		{attribute: "JobsStarted", field: "jobs_started"},
		{attribute: "JobsExited", field: "jobs_exited"},
		{attribute: "JobsCompleted", field: "jobs_completed"},
		{attribute: "ShadowsStarted", field: "shadows_started"},
		{attribute: "RecentDaemonCoreDutyCycle", field: "duty_cycle", kind: "float"},
		{attribute: "MonitorSelfCPUUsage", field: "cpu_percent", kind: "float"},
		{attribute: "MonitorSelfResidentSetSize", field: "resident_bytes", factor: 1024},
		{attribute: "TransferQueueNumUploading", field: "transfers_uploading"},
		{attribute: "TransferQueueNumDownloading", field: "transfers_downloading"},
		{attribute: "TransferQueueNumWaitingToUpload", field: "transfers_waiting_to_upload"},
		{attribute: "TransferQueueNumWaitingToDownload", field: "transfers_waiting_to_download"},
		{attribute: "FileTransferUploadBytes", field: "transferred_upload_bytes"},
		{attribute: "FileTransferDownloadBytes", field: "transferred_download_bytes"},
		{attribute: "DaemonStartTime", field: "started"},
		{attribute: "LastHeardFrom", field: "last_heard"},
	}
}

// negotiatorNumbers are of a negotiator's ad, of its latest cycle (HTCondor's manual, negotiator ClassAd attributes).
func negotiatorNumbers() []numberColumn {
	const cycle = "LastNegotiationCycle"
	return []numberColumn{
		{attribute: cycle + "End0", field: "cycle_end"},
		{attribute: cycle + "Duration0", field: "cycle_seconds"},
		{attribute: cycle + "Period0", field: "cycle_period_seconds"},
		{attribute: cycle + "CpuTime0", field: "cycle_cpu_seconds", kind: "float"},
		{attribute: cycle + "Phase1Duration0", field: "phase1_seconds"},
		{attribute: cycle + "Phase2Duration0", field: "phase2_seconds"},
		{attribute: cycle + "Phase3Duration0", field: "phase3_seconds"},
		{attribute: cycle + "Phase4Duration0", field: "phase4_seconds"},
		{attribute: cycle + "Matches0", field: "matches"},
		{attribute: cycle + "MatchRate0", field: "match_rate", kind: "float"},
		{attribute: cycle + "Rejections0", field: "rejections"},
		{attribute: cycle + "NumJobsConsidered0", field: "jobs_considered"},
		{attribute: cycle + "NumIdleJobs0", field: "idle_jobs"},
		{attribute: cycle + "ActiveSubmitterCount0", field: "active_submitters"},
		{attribute: cycle + "NumSchedulers0", field: "schedds"},
		{attribute: cycle + "TotalSlots0", field: "total_slots"},
		{attribute: cycle + "CandidateSlots0", field: "candidate_slots"},
		{attribute: "RecentDaemonCoreDutyCycle", field: "duty_cycle", kind: "float"},
		{attribute: "DaemonStartTime", field: "started"},
		{attribute: "LastHeardFrom", field: "last_heard"},
	}
}
