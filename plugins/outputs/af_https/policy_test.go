package af_https

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for want, codes := range map[verdict][]int{
		delivered:  {200, 201, 202, 204},
		retryLater: {100, 408, 425, 429, 500, 501, 502, 503, 504, 507, 599},
		stopped:    {301, 302, 304, 307, 308, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 414, 431, 451},
		refused:    {400, 415, 422},
		tooLarge:   {413},
	} {
		for _, code := range codes {
			require.Equal(t, want, judge(code), code)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "900": 15 * time.Minute, "901": 15 * time.Minute, "18446744073709551615": 0,
		"9223372036854775807": 15 * time.Minute, "-1": 0, "soon": 0, "1.5": 0,
		now.Add(time.Minute).Format(http.TimeFormat):    time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat):   0,
		now.Add(24 * time.Hour).Format(http.TimeFormat): 15 * time.Minute,
	} {
		require.Equal(t, want, retryAfter(header, now, 15*time.Minute), header)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                   "plain",
		"bad token s3cret/t\"k":   "bad token (the token)",
		`json s3cret/t\"k`:        "json (the token)",
		"query s3cret%2Ft%22k":    "query (the token)",
		"two\nlines\x1b[31m\xff ": "two lines [31m",
	} {
		require.Equal(t, want, clean(text, `s3cret/t"k`))
	}
	long := make([]byte, 1000)
	for i := range long {
		long[i] = 'x'
	}
	require.Len(t, clean(string(long), ""), maxReason+3)
}
