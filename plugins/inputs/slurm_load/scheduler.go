package slurm_load

import (
	"cmp"
	"strings"

	"telegraf-hpc/internal/slurm"
	"telegraf-hpc/internal/users"
)

// addScheduler emits what sdiag told. Its counters go back to 0 with Slurm's own.
func (p *SlurmLoad) addScheduler(o *out, d slurm.Diag) {
	fields := make(map[string]any, len(d.Values)+2)
	for name, value := range d.Values {
		fields[withUnit(name)] = value
	}
	setTime(fields, "data_since", d.Since)
	var pending int64
	for _, rpc := range d.Pending {
		pending += rpc.Count
	}
	fields["rpcs_pending"] = pending
	o.add("slurm_scheduler", nil, fields)
	for _, rpc := range d.ByType {
		o.add("slurm_rpc", map[string]string{"rpc": rpc.Name}, map[string]any{"count": rpc.Count, "usecs": rpc.Time})
	}
	if p.RPCUsers {
		p.addRPCUsers(o, d.ByUser)
	}
}

func (p *SlurmLoad) addRPCUsers(o *out, rpcs []slurm.RPC) {
	counts := make(map[string]int64, len(rpcs))
	for _, u := range rpcs {
		counts[u.Name] = u.Count
	}
	names := users.Heaviest(&p.users, counts, cmp.Compare[int64], p.MaxUsers)
	sums := make(map[string]slurm.RPC)
	for _, u := range rpcs {
		name, ok := names[u.Name]
		if !ok {
			continue
		}
		sums[name] = slurm.RPC{Count: sums[name].Count + u.Count, Time: sums[name].Time + u.Time}
	}
	for name, sum := range sums {
		o.add("slurm_rpc_user", map[string]string{"user": name}, map[string]any{"count": sum.Count, "usecs": sum.Time})
	}
}

// withUnit adds the unit to the durations of sdiag, which are in microseconds.
func withUnit(name string) string {
	for _, duration := range []string{"_last_cycle", "_max_cycle", "_mean_cycle"} {
		if strings.HasSuffix(name, duration) {
			return name + "_usecs"
		}
	}
	return name
}
