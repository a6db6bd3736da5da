package af_https

import (
	"net/http"
	"strconv"
	"time"
)

// verdict is what an answer says about the documents that were sent.
type verdict int

const (
	delivered  verdict = iota
	retryLater         // The endpoint, or the way to it, has trouble.
	stopped            // The configuration is wrong, or the token: more tries don't help before that is mended.
	refused            // One of the documents is wrong.
	tooLarge           // There were too many, or the one is too large.
)

// judge tells what a status code means. A code that is not known stops, which loses nothing.
func judge(status int) verdict {
	switch {
	case status >= 200 && status < 300:
		return delivered
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500, status < 200:
		return retryLater
	case status == http.StatusBadRequest, status == http.StatusUnsupportedMediaType, status == http.StatusUnprocessableEntity:
		return refused
	case status == http.StatusRequestEntityTooLarge:
		return tooLarge
	default: // 401, 403, 404, 405, 407, 410 and others; a redirection that was not followed.
		return stopped
	}
}

// retryAfter gives the time that an answer asks to wait: seconds, or a date (RFC 9110, section 10.2.3). It is at most the
// longest, and 0 where it says nothing that can be read.
func retryAfter(header string, now time.Time, longest time.Duration) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 63); err == nil {
		wait = time.Duration(min(seconds, uint64(longest/time.Second)+1)) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longest)
}
