package dashboards

// alert is a rule: it fires for each series whose value, reduced to one number, is past the threshold.
type alert struct {
	uid      string
	title    string
	summary  string // for whom it wakes
	remedy   string // where to look
	severity string // critical wakes somebody, warning is for the day
	query    query
	back     int    // seconds that the query looks back
	reduce   string // last, sum or max
	above    float64
	below    float64 // instead of above, where above is 0 and below is not
	lasts    string  // how long it must hold
	board    string
}

// alerts are the rules.
func alerts() []alert {
	const quarter, day = 15 * 60, 24 * 60 * 60
	return []alert{
		{
			uid: "agent-silent", title: "An agent is silent", severity: "critical", board: "agents",
			summary: "The agent of {{ $labels.host }} has told nothing for six minutes or more.",
			remedy:  "Is the host up? `systemctl status telegraf` there; then `telegraf-hpc doctor`. One that was taken out is forgotten after a day.",
			// Two steps together: the last one has only begun.
			query: ask("internal_agent", value{name: "gathers", field: "metrics_gathered", do: doCountTwo}).each("host").absent(),
			back:  day, reduce: "last", below: 0.1, lasts: "1m",
		},
		{
			uid: "metrics-lost", title: "An agent loses metrics", severity: "warning", board: "agents",
			summary: "The agent of {{ $labels.host }} dropped metrics for the output {{ $labels.output }}: its buffer is full.",
			remedy:  "Does the output answer? If it does, raise metric_buffer_limit, or send less.",
			query:   ask("internal_write", increase("lost", "metrics_dropped")).each("host", "output").sum(),
			back:    quarter, reduce: "sum", above: 0.5, lasts: "0s",
		},
		{
			uid: "undecided-resets", title: "Lustre counters may be counted wrongly", severity: "warning", board: "agents",
			summary: "lustre_jobstats on {{ $labels.host }} could not decide whether counters of {{ $labels.target }} started again.",
			remedy:  "Was the server restarted, or its state folder lost? Totals of jobs that ran then may be off. Lustre 2.15 and later tell.",
			query:   ask("lustre_jobstats_self", increase("undecided", "undecided")).each("host", "target").sum(),
			back:    quarter, reduce: "sum", above: 0.5, lasts: "0s",
		},
		{
			uid: "af-https-queue", title: "Documents wait for their endpoint", severity: "warning", board: "agents",
			summary: "The first document in the queue of af_https on {{ $labels.host }} has waited for more than half an hour.",
			remedy:  "`af_https --status` there tells why. Nothing is lost until the queue is full.",
			query:   ask("af_https_status", last("age", "oldest_seconds")).each("host").highest(),
			back:    quarter, reduce: "last", above: 1800, lasts: "5m",
		},
		{
			uid: "slurmctld-down", title: "slurmctld does not answer", severity: "critical", board: "cluster",
			summary: "slurmctld of {{ $labels.cluster }} does not answer.",
			remedy:  "`scontrol ping` on the head node; then slurmctld's log.",
			query:   ask("slurm_cluster", last("up", "up")).each("cluster").lowest(),
			back:    quarter, reduce: "last", below: 0.5, lasts: "3m",
		},
		{
			uid: "nodes-down", title: "Nodes are down", severity: "warning", board: "cluster",
			summary: "Nodes of {{ $labels.cluster }} are down.",
			remedy:  "`sinfo -R` tells why, and the dashboard of the cluster.",
			query:   ask("slurm_cluster", last("down", "nodes_down")).each("cluster").highest(),
			back:    quarter, reduce: "last", above: 0.5, lasts: "15m",
		},
		{
			uid: "many-nodes-down", title: "Many nodes are down", severity: "critical", board: "cluster",
			summary: "More than a twentieth of the nodes of {{ $labels.cluster }} is down.",
			remedy:  "Power, cooling, the network, or a file system that all of them have.",
			query:   ask("slurm_cluster", last("down", "nodes_down").of("nodes_total")).each("cluster").highest(),
			back:    quarter, reduce: "last", above: 0.05, lasts: "5m",
		},
		{
			uid: "schedd-down", title: "A schedd does not answer", severity: "critical", board: "condor",
			summary: "The schedd {{ $labels.schedd }} of the pool {{ $labels.pool }} does not answer.",
			remedy:  "`condor_status -schedd`, and the SchedLog on its host.",
			query:   ask("condor_schedd", last("up", "up")).each("pool", "schedd").lowest(),
			back:    quarter, reduce: "last", below: 0.5, lasts: "5m",
		},
	}
}
