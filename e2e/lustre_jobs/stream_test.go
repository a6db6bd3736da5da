package lustre_jobs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"telegraf-hpc/e2e/harness"
)

// What the plugin does not take passes on as the bytes that it came as, in order, whoever else would write it otherwise.
func TestOtherLinesPassAsTheyCame(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	bin := harness.Build(t, "./cmd/lustre_jobs")
	conf := filepath.Join(folder, "lustre_jobs.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, "[[processors.lustre_jobs]]\n  interval = \"100ms\"\n  state_directory = %q\n", folder), 0o600))
	var input, want bytes.Buffer
	for i := range 20000 {
		for _, line := range []string{
			`cpu,host=b,cpu=cpu1 z=1.0,a=1e3,b=1i,c=t`, // tags and fields in no order
			`disk,path=/a\ b\,c\=d free=18446744073709551615u 1767225600000000000`,
			`log text="say \"hello\", a=b \\ c",other="π" 1767225600000000001`,
			`lustre_jobstats_self,fs=lustre,host=oss1,kind=ost,target=lustre-OST0000 entries=5i 1767225600000000000`,
			fmt.Sprintf(`slurm_job,user=alice,account=physics job="%d",job_id=%di,state="RUNNING",start=1767225600i 1767225600000000002`, i+1, i%50+1),
			fmt.Sprintf(`lustre_jobs_other n=%di`, i),
		} {
			input.WriteString(line + "\n")
			want.WriteString(line + "\n")
		}
		fmt.Fprintf(&input, "lustre_jobstats_epoch,fs=lustre,host=oss1,job=%d,kind=ost,target=lustre-OST0000 epoch=%di,read_bytes=%di,read_ops=1i 1767225600000000000\n", i%50+1, i%7+1, i)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "lustre_jobs"), "--config", conf)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = &input, &stderr
	output, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.NotContains(t, stderr.String(), "E! ")
	var got strings.Builder
	own := 0
	for line := range strings.Lines(string(output)) {
		measurement, _, _ := strings.Cut(line, ",")
		switch measurement {
		case "lustre_fs", "lustre_account", "lustre_user", "lustre_job", "lustre_jobs_self", "job_report":
			own++
		default:
			got.WriteString(line)
		}
	}
	require.True(t, got.String() == want.String(), "%d bytes of %d, beside %d lines of the plugin", got.Len(), want.Len(), own) //nolint:testifylint // Equal prints megabytes.
	require.Positive(t, own)
}
