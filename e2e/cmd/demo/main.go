// Demo runs a stock Telegraf with the repository's sample.conf, and shows what lustre_jobstats finds beside what Lustre
// itself says. On a Lustre server it reads that server; on any other machine a simulated one, whose counters start again
// from zero every few seconds. It needs neither root nor a network, once Telegraf's modules are there.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"telegraf-hpc/e2e/stock"
)

// A simulated counter starts again from zero when its job pauses for longer than the clean-up interval, and when all are
// cleared. Between two versions of the files lies time enough for the plugin to read the older one.
var simulation = []string{
	"--osts", "2", "--mdts", "0", "--jobs", "60", "--tick", "500ms", "--settle", "4s", "--interval", "16s", "--clear-every", "30s",
}

// lookEvery is how often the demo itself reads what Lustre says.
const lookEvery = 250 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var d demo
	flag.StringVar(&d.config, "config", "", "Telegraf's configuration `file`; sample.conf of the repository without it")
	flag.DurationVar(&d.every, "every", 10*time.Second, "show a table this `often`")
	period := flag.Duration("for", 0, "stop after this `time`; 0 is at Ctrl-C")
	flag.Parse()
	if *period > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *period)
		defer cancel()
	}
	if err := d.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one run.
type demo struct {
	config   string // Telegraf's; sample.conf of the repository if empty.
	programs string // The folder of our programs; bin of the repository if empty.
	every    time.Duration

	folder string // For the plugin's configuration and state; removed at the end.
	lustre string // The folder that proc/fs/lustre is under.
}

func (d *demo) run(ctx context.Context, out io.Writer) error {
	telegraf, err := stock.Telegraf(ctx, os.Stderr)
	if err != nil {
		return err
	}
	repository, err := stock.Repository()
	if err != nil {
		return err
	}
	d.config = cmp.Or(d.config, filepath.Join(repository, "sample.conf"))
	d.programs = cmp.Or(d.programs, filepath.Join(repository, "bin"))
	if d.folder, err = os.MkdirTemp("", "telegraf-hpc-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.folder) //nolint:errcheck // A temporary folder that stays behind is no reason to fail.

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	simulator, err := d.findLustre(ctx, out)
	if err != nil {
		return err
	}
	if err := d.configure(); err != nil {
		return err
	}
	err = d.show(ctx, telegraf, out)
	cancel()
	if simulator != nil {
		err = errors.Join(err, ended(simulator.Wait()))
	}
	return err
}

// findLustre looks for a Lustre server on this machine, and starts a simulated one where there is none.
func (d *demo) findLustre(ctx context.Context, out io.Writer) (simulator *exec.Cmd, err error) {
	d.lustre = "/"
	targets, err := jobStats(d.lustre)
	if err != nil {
		return nil, err
	}
	if len(targets) > 0 {
		fmt.Fprintf(out, "Reading the %d Lustre targets of this machine.\n", len(targets))
		return nil, nil
	}
	d.lustre = filepath.Join(d.folder, "lustre")
	fmt.Fprintf(out, "No Lustre server here: simulating one under %s.\n", d.lustre)
	simulator = d.command(ctx, filepath.Join(d.programs, "lustresim"), append([]string{"--root", d.lustre}, simulation...)...)
	simulator.Stderr = os.Stderr
	return simulator, simulator.Start()
}

// configure writes the plugins' own configurations. The interval makes lustre_jobstats gather more often than Telegraf asks
// it to. A plugin that has nothing to do on this machine says so.
func (d *demo) configure() error {
	state := fmt.Sprintf("state_directory = %q", filepath.Join(d.folder, "state"))
	for plugin, options := range map[string]string{
		"lustre_jobstats": fmt.Sprintf("interval = \"2s\"\n  root = %q\n  %s", d.lustre, state),
		"slurm_load":      state,
		"condor_q":        state,
		"who_users":       "",
		"node_sensors":    "",
	} {
		text := fmt.Sprintf("[[inputs.%s]]\n  %s\n", plugin, options)
		if err := os.WriteFile(filepath.Join(d.folder, plugin+".conf"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// show runs Telegraf until ctx ends, reads the metrics that it prints, and prints tables.
func (d *demo) show(ctx context.Context, telegraf string, out io.Writer) error {
	agent := d.command(ctx, telegraf, "--quiet", "--strict-env-handling", "--config", d.config)
	agent.Env = append(os.Environ(), "TELEGRAF_HPC_BIN="+d.programs, "TELEGRAF_HPC_ETC="+d.folder)
	agent.Stderr = os.Stderr
	stdout, err := agent.StdoutPipe()
	if err != nil {
		return err
	}
	if err := agent.Start(); err != nil {
		return err
	}
	points := make(chan point)
	failed := make(chan error, 1)
	go func() {
		defer close(points)
		failed <- readPoints(stdout, points)
	}()
	table := newTable(d.lustre)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	show := time.NewTicker(d.every)
	defer show.Stop()
	for open := true; open; {
		var p point
		select {
		case p, open = <-points:
			if open {
				table.add(p, time.Now())
			}
		case <-look.C:
			err = errors.Join(err, table.look())
		case now := <-show.C:
			table.print(out, now)
		}
	}
	return errors.Join(err, <-failed, ended(agent.Wait()))
}

// command is a program that gets SIGTERM when ctx ends, once, whatever the terminal sends.
func (*demo) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// ended gives no error for a program that was asked to end.
func ended(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// readPoints sends the points. Of those of others than lustre_jobstats it sends the measurement alone.
func readPoints(r io.Reader, points chan<- point) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !strings.HasPrefix(line, lustre+",") {
			points <- point{measurement: measurement(line)}
			continue
		}
		p, err := parsePoint(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return err
		}
		points <- p
	}
}
