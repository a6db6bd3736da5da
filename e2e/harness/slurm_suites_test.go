//go:build slurm_suites

package harness

import "testing"

// The newest Slurm and the one between, from Debian's own releases.
func TestSlurmOfSuites(t *testing.T) {
	for _, suite := range []string{"trixie", "sid"} {
		t.Run(suite, func(t *testing.T) { testSlurm(t, suite) })
	}
}
