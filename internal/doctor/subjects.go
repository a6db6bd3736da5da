package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"telegraf-hpc/internal/command"
	"telegraf-hpc/internal/slurm"
)

// lustre looks for the targets of a file server, and for a client.
func (e *examination) lustre() {
	facts := &e.report.Facts
	facts.LustreVersion = e.lustreVersion()
	var closed []string
	for _, kind := range []string{"obdfilter", "mdt", "mds"} {
		for _, file := range e.glob("/proc/fs/lustre/" + kind + "/*/job_stats") {
			facts.LustreTargets = append(facts.LustreTargets, filepath.Base(filepath.Dir(file)))
			if barrier := e.barrier(file, mayRead); barrier != "" {
				closed = append(closed, barrier)
			}
			e.cleanup(kind, filepath.Base(filepath.Dir(file)))
		}
	}
	facts.LustreClient = len(e.glob("/proc/fs/lustre/llite/*"))+len(e.glob("/sys/fs/lustre/llite/*")) > 0
	switch {
	case len(closed) > 0:
		e.say(Error, "lustre", fmt.Sprintf("%d of %d targets' job_stats can't be read: %s", len(closed), len(facts.LustreTargets), closed[0]),
			e.letReadAll())
	case len(facts.LustreTargets) > 0:
		e.ok("lustre", fmt.Sprintf("a file server, %s, with %d targets: %s", e.lustreName(), len(facts.LustreTargets), abbreviated(facts.LustreTargets)))
	case facts.LustreClient:
		e.ok("lustre", "a client, "+e.lustreName())
	default:
		e.ok("lustre", "none on this host")
	}
	if facts.LustreClient {
		e.jobIDs()
	}
}

func (e *examination) lustreName() string {
	if v := e.report.Facts.LustreVersion; v != "" {
		return "Lustre " + v
	}
	return "Lustre of a version it does not tell"
}

// lustreVersion reads "2.15.4", and "lustre: 2.12.9" of older ones.
func (e *examination) lustreVersion() string {
	for _, name := range []string{"/sys/fs/lustre/version", "/proc/fs/lustre/version"} {
		text, err := e.read(name)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), "\n")
		return strings.TrimSpace(strings.TrimPrefix(first, "lustre:"))
	}
	return ""
}

// cleanup looks at how soon Lustre drops what a job has counted.
func (e *examination) cleanup(kind, target string) {
	for _, folder := range []string{"/sys/fs/lustre/", "/proc/fs/lustre/"} {
		text, err := e.read(folder + kind + "/" + target + "/job_cleanup_interval")
		if err != nil {
			continue
		}
		seconds, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
		set := fmt.Sprintf("lctl set_param %s.%s.job_cleanup_interval=600", kind, target)
		switch {
		case err != nil:
			e.say(Warning, "lustre", fmt.Sprintf("%s: job_cleanup_interval is %q", target, strings.TrimSpace(string(text))), set)
		case seconds == 0:
			e.say(Warning, "lustre", target+": job_cleanup_interval is 0: job_stats grows for ever", set)
		case seconds < 60:
			e.say(Warning, "lustre", fmt.Sprintf("%s: job_cleanup_interval is %ds: counters may go between two gathers, unseen", target, seconds), set)
		}
		return
	}
}

// jobIDs looks at what this client tells the servers of its jobs.
func (e *examination) jobIDs() {
	for _, name := range []string{"/sys/fs/lustre/jobid_var", "/proc/fs/lustre/jobid_var"} {
		text, err := e.read(name)
		if err != nil {
			continue
		}
		v := strings.TrimSpace(string(text))
		if v == "disable" || v == "" {
			e.say(Warning, "lustre", "jobid_var is disabled: the servers see no jobs of this client", "lctl set_param -P jobid_var=SLURM_JOB_ID   # on the MGS")
			return
		}
		e.ok("lustre", "jobid_var is "+v)
		return
	}
}

// abbreviated lists names, the first few of many.
func abbreviated(names []string) string {
	const most = 6
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// slurm asks for Slurm's own settings.
func (e *examination) slurm(ctx context.Context) {
	facts := &e.report.Facts
	facts.SlurmNode = e.exists("/var/spool/slurmd") || e.exists("/var/spool/slurm/d") || e.exists("/run/slurmd.pid") || e.exists("/var/run/slurmd.pid") ||
		len(e.glob("/var/lib/slurm/slurmd/*")) > 0 // Debian's package makes that folder; slurmd fills it.
	client := slurm.Client{Run: e.Run}
	config, err := client.Config(ctx)
	if errors.Is(err, command.ErrNotFound) {
		e.ok("slurm", "no commands of Slurm's on this host")
		return
	}
	facts.Slurm = true
	if err != nil {
		e.say(Error, "slurm", fmt.Sprintf("its commands are here, and slurmctld does not answer: %v", err), "scontrol ping")
		return
	}
	if !config.AccountingStorage {
		e.say(Warning, "slurm", fmt.Sprintf("Slurm %s, cluster %s, without slurmdbd: finished jobs are not told", config.Version, config.Cluster), "")
	} else {
		e.ok("slurm", fmt.Sprintf("Slurm %s, cluster %s", config.Version, config.Cluster))
	}
	e.privateData(ctx, config)
}

// privateData looks whether Telegraf's user sees other users' jobs.
func (e *examination) privateData(ctx context.Context, config slurm.Config) {
	if !strings.Contains(config.PrivateData, "jobs") && !strings.Contains(config.PrivateData, "users") || e.who.uid == 0 && e.who.known {
		return
	}
	text, err := e.Run(ctx, "sacctmgr", "-n", "-P", "show", "user", e.who.name, "format=AdminLevel")
	if err != nil {
		e.say(Warning, "slurm", fmt.Sprintf("PrivateData is %s, and whether %s is an operator, who sees all jobs, can't be told: %v", config.PrivateData, e.who.name, err),
			"sacctmgr -n -P show user "+e.who.name+" format=AdminLevel")
		return
	}
	level := strings.TrimSpace(string(text))
	if level == "Operator" || level == "Administrator" {
		e.ok("slurm", fmt.Sprintf("PrivateData is %s, and %s is %s: it sees all jobs", config.PrivateData, e.who.name, level))
		return
	}
	e.say(Error, "slurm", fmt.Sprintf("PrivateData is %s, and %s is no operator: it sees its own jobs only", config.PrivateData, e.who.name),
		"sacctmgr -i add user "+e.who.name+" account=root adminlevel=Operator")
}

// htcondor asks the collector for the schedds, as condor_q does.
func (e *examination) htcondor(ctx context.Context) {
	text, err := e.Run(ctx, "condor_status", "-schedd", "-json", "-attributes", "Name,CondorVersion")
	if errors.Is(err, command.ErrNotFound) {
		e.ok("htcondor", "no commands of HTCondor's on this host")
		return
	}
	e.report.Facts.HTCondor = true
	if err != nil {
		e.say(Error, "htcondor", fmt.Sprintf("its commands are here, and the collector does not answer: %v", err), "condor_status -schedd")
		return
	}
	version, schedds, err := parseSchedds(text)
	switch {
	case err != nil:
		e.say(Error, "htcondor", fmt.Sprintf("condor_status: %v", err), "condor_status -schedd")
	case schedds == 0:
		e.say(Warning, "htcondor", "the collector knows of no schedd", "condor_status -schedd")
	default:
		e.ok("htcondor", fmt.Sprintf("HTCondor %s, %d schedd(s)", version, schedds))
	}
}

// parseSchedds reads the ads of schedds, and the version of the first: `$CondorVersion: 23.9.6 2024-08-08 ... $`. Without any
// there is no text at all.
func parseSchedds(text []byte) (version string, schedds int, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return "", 0, nil
	}
	var ads []struct{ CondorVersion string }
	if err := json.Unmarshal(text, &ads); err != nil {
		return "", 0, fmt.Errorf("not understood: %w", err)
	}
	version = "of a version it does not tell"
	if len(ads) > 0 {
		if words := strings.Fields(ads[0].CondorVersion); len(words) > 1 && words[0] == "$CondorVersion:" {
			version = words[1]
		}
	}
	return version, len(ads), nil
}

// sessions looks where it is known who is logged in.
func (e *examination) sessions() {
	facts := &e.report.Facts
	switch {
	case e.exists("/run/systemd/sessions") && (e.exists("/run/dbus/system_bus_socket") || e.exists("/var/run/dbus/system_bus_socket")):
		facts.Sessions = "logind"
		e.ok("sessions", "logind knows who is logged in")
	case e.exists("/run/utmp"):
		facts.Sessions = "utmp"
		if barrier := e.barrier("/run/utmp", mayRead); barrier != "" {
			e.say(Error, "sessions", barrier, "chmod 0664 /run/utmp")
			return
		}
		e.ok("sessions", "/run/utmp knows who is logged in: sessions without a terminal are not in it")
	default:
		e.ok("sessions", "neither logind nor /run/utmp: nobody knows who is logged in")
	}
}

// kubernetes looks for the service account of a pod, or a kubeconfig for the plugin.
func (e *examination) kubernetes() {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	config := e.configurationFolder() + "/jupyter_users.kubeconfig"
	for _, name := range []string{account, config} {
		if !e.exists(name) {
			continue
		}
		e.report.Facts.Kubernetes = true
		if barrier := e.barrier(name, mayRead); barrier != "" {
			e.say(Error, "kubernetes", barrier, e.giveToRead(name))
			return
		}
		e.ok("kubernetes", name+" is there")
		return
	}
	if e.exists("/etc/kubernetes") || e.exists("/var/lib/kubelet") || e.exists("/etc/rancher") {
		e.ok("kubernetes", "a node of a cluster, without "+config+": jupyter_users can't ask it")
		return
	}
	e.ok("kubernetes", "none on this host")
}

// sensors counts what the mainboard tells.
func (e *examination) sensors() {
	facts := &e.report.Facts
	facts.Fans = len(e.glob("/sys/class/hwmon/*/fan*_input"))
	facts.Thermal = len(e.glob("/sys/class/hwmon/*/temp*_input"))
	if facts.Fans+facts.Thermal == 0 {
		e.ok("sensors", "none: a virtual machine, or a driver is not loaded")
		return
	}
	e.ok("sensors", fmt.Sprintf("%d temperatures, %d fans", facts.Thermal, facts.Fans))
}

// gpus counts GPUs, and looks whether Telegraf may use them.
func (e *examination) gpus() {
	facts := &e.report.Facts
	devices := e.glob("/dev/nvidia[0-9]*")
	facts.NVIDIA = max(len(devices), len(e.glob("/proc/driver/nvidia/gpus/*")))
	for _, name := range e.glob("/sys/class/drm/card*/device/vendor") {
		vendor, err := e.read(name)
		if class, err2 := e.read(filepath.Dir(name) + "/class"); err == nil && err2 == nil &&
			strings.TrimSpace(string(vendor)) == "0x1002" && bytes.HasPrefix(class, []byte("0x03")) && !strings.Contains(filepath.Base(filepath.Dir(filepath.Dir(name))), "-") {
			facts.AMD++
		}
	}
	if facts.NVIDIA+facts.AMD == 0 {
		e.ok("gpus", "none on this host")
		return
	}
	if facts.NVIDIA > 0 {
		e.vendorTool("NVIDIA", facts.NVIDIA, "nvidia-smi", devices)
	}
	if facts.AMD > 0 {
		e.vendorTool("AMD", facts.AMD, "rocm-smi", e.glob("/dev/kfd"))
	}
}

func (e *examination) vendorTool(vendor string, count int, tool string, devices []string) {
	for _, name := range devices {
		if barrier := e.barrier(name, mayRead); barrier != "" {
			e.say(Error, "gpus", barrier, "usermod -a -G video,render "+e.who.name)
			return
		}
	}
	if !e.exists("/usr/bin/"+tool) && !e.exists("/opt/rocm/bin/"+tool) && !e.exists("/usr/local/bin/"+tool) {
		e.say(Warning, "gpus", fmt.Sprintf("%d of %s, and no %s to ask them", count, vendor, tool), "")
		return
	}
	e.ok("gpus", fmt.Sprintf("%d of %s", count, vendor))
}

// others looks for what stock plugins measure.
func (e *examination) others() {
	facts := &e.report.Facts
	facts.Chrony = e.exists("/run/chrony") || e.exists("/var/run/chrony")
	facts.InfiniBand = len(e.glob("/sys/class/infiniband/*")) > 0
	facts.NFS = e.exists("/proc/net/rpc/nfs")
}
