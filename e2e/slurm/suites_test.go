//go:build slurm_suites

package slurm

import "testing"

// The same with the newest Slurm and the one between, from Debian's own releases.
func TestSuites(t *testing.T) {
	for _, suite := range []string{"trixie", "sid"} {
		t.Run(suite, func(t *testing.T) {
			t.Run("Figures", func(t *testing.T) { testFigures(t, suite) })
			t.Run("RPCs", func(t *testing.T) { testRPCs(t, suite) })
			t.Run("Away", func(t *testing.T) { testAway(t, suite) })
			t.Run("FinishedOnce", func(t *testing.T) { testFinishedOnce(t, suite) })
		})
	}
}
