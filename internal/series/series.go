// Package series has what the plugins' series need in a database: a tag's value where nothing is known, zeros for what
// has come to nothing, histograms.
package series

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Known gives a value for a tag where there is none: an empty tag would be no tag.
func Known(value string) string {
	if value == "" {
		return "_none"
	}
	return value
}

// fadeAfter is how long a series that has come to nothing is emitted as zeros, in seconds, so that what was last seen of
// it is not taken for how it is now.
const fadeAfter = 600

// Fading knows when each series was last there, in seconds. The zero Fading has seen none.
type Fading[K comparable] map[K]int64

// Gone notes which series are there now, and gives those that were there not long ago and are not.
func Gone[K comparable, V any](f *Fading[K], now int64, present map[K]V) []K {
	if *f == nil {
		*f = make(Fading[K])
	}
	for key := range present {
		(*f)[key] = now
	}
	var missing []K
	for key, seen := range *f {
		switch age := now - seen; {
		case age > fadeAfter || age < 0:
			delete(*f, key)
		case age > 0:
			missing = append(missing, key)
		}
	}
	return missing
}

// Histogram counts lengths of time. The zero Histogram has counted none.
type Histogram struct {
	Counts []int64 `json:"counts"` // by bound, each length once; the last is of those longer than all bounds
	Sum    int64   `json:"sum"`    // seconds
}

// NewHistogram gives one that shows all its buckets from the start.
func NewHistogram(bounds []int64) Histogram { return Histogram{Counts: make([]int64, len(bounds)+1)} }

// Observe counts a length so many times. The bounds are ascending seconds, the same at each call; a bound belongs to its
// bucket.
func (h *Histogram) Observe(bounds []int64, seconds, times int64) {
	if h.Counts == nil {
		*h = NewHistogram(bounds)
	}
	i := 0
	for i < len(bounds) && seconds > bounds[i] {
		i++
	}
	h.Counts[i] += times
	h.Sum += seconds * times
}

// Merge adds what another one counted by the same bounds.
func (h *Histogram) Merge(more *Histogram) {
	if h.Counts == nil {
		h.Counts = make([]int64, len(more.Counts))
	}
	for i, n := range more.Counts {
		h.Counts[i] += n
	}
	h.Sum += more.Sum
}

// Rows gives the histogram as those of Telegraf and Prometheus are: a row for each bucket, which counts all lengths up to
// its bound, with the bound as the tag le; and a row without le of the whole. tags makes the other tags anew each time.
func (h *Histogram) Rows(bounds []int64, tags func() map[string]string, add func(tags map[string]string, fields map[string]any)) {
	var count int64
	for i, n := range h.Counts {
		count += n
		withBound := tags()
		withBound["le"] = "+Inf"
		if i < len(bounds) {
			withBound["le"] = strconv.FormatInt(bounds[i], 10)
		}
		add(withBound, map[string]any{"bucket": count})
	}
	add(tags(), map[string]any{"count": count, "sum": h.Sum})
}

// Bounds gives upper bounds in seconds from durations in nanoseconds, such as the plugins' option wait_buckets has.
func Bounds[D ~int64](buckets []D) ([]int64, error) {
	if len(buckets) == 0 {
		return nil, errors.New("empty")
	}
	bounds := make([]int64, len(buckets))
	last := time.Duration(0)
	for i, b := range buckets {
		bound := time.Duration(b)
		if bound <= last || bound%time.Second != 0 {
			return nil, fmt.Errorf("%s: must be whole seconds, each more than the one before", bound)
		}
		bounds[i], last = int64(bound/time.Second), bound
	}
	return bounds, nil
}

// Hours gives durations, to the second.
func Hours[D ~int64](hours ...float64) []D {
	durations := make([]D, len(hours))
	for i, h := range hours {
		durations[i] = D(time.Duration(h * float64(time.Hour)).Round(time.Second))
	}
	return durations
}
