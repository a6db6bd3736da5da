package said

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

type errorList []string

func (l *errorList) AddError(err error) { *l = append(*l, err.Error()) }

func TestSaid(t *testing.T) {
	var s Said
	var errs errorList
	s.Fail(&errs, "squeue", errors.New("refused"))
	s.Fail(&errs, "squeue", errors.New("refused"))
	s.Fail(&errs, "sdiag", errors.New("refused"))
	s.Fail(&errs, "squeue", errors.New("hung"))
	s.Fail(&errs, "squeue", errors.New("refused"))
	require.Equal(t, errorList{"refused", "refused", "hung", "refused"}, errs)

	require.True(t, s.Mend("squeue"))
	require.False(t, s.Mend("squeue"), "nothing is said of it now")
	s.Fail(&errs, "squeue", errors.New("refused"))
	s.Fail(&errs, "sdiag", errors.New("refused"))
	require.Len(t, errs, 5)

	require.True(t, s.First("empty", ""), "the empty text is one too")
	require.False(t, s.First("empty", ""))
}
