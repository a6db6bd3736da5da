package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRun compares with os/exec, which has no limit, no group and no deadline on its pipes. Output of 0 bytes shows
// what a run costs; own-cpu-ns/op is without the tool's.
func BenchmarkRun(b *testing.B) {
	r := &Runner{MaxOutput: 1 << 30}
	ways := map[string]func(file string) ([]byte, error){
		"Runner": func(file string) ([]byte, error) {
			got, err := r.Run(context.Background(), "/bin/cat", file)
			return got.Stdout, err
		},
		"os_exec": func(file string) ([]byte, error) { return exec.Command("/bin/cat", file).Output() },
	}
	for _, size := range []int{0, 20_000, 20_000_000} {
		file := filepath.Join(b.TempDir(), "text")
		require.NoError(b, os.WriteFile(file, pattern(size), 0o600))
		for name, run := range ways {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				used := ownCPU()
				for b.Loop() {
					out, err := run(file)
					if err != nil || len(out) != size {
						b.Fatalf("%d bytes, %v", len(out), err)
					}
				}
				used = ownCPU() - used
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "own-cpu-ns/op")
				if size > 0 {
					b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/float64(size), "allocated/text")
				}
			})
		}
	}
}
