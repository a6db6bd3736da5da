package af_https

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/influxdata/telegraf"

	"telegraf-hpc/internal/docqueue"
)

const (
	// giveWay is how long a request holds up those of other kinds.
	giveWay = time.Second
	// readAhead is how many documents, and bytes of them, a kind has in memory.
	readAhead      = 500
	readAheadBytes = 1 << 20
	// serverErrors is how often the endpoint may answer 500 for a document while others pass, before that is taken to be
	// the document's fault.
	serverErrors = 20
	// tokenCheck is how often, while it is stopped, a kind looks whether there is another token.
	tokenCheck = time.Second
	// troubleTries and troubleWait are what makes trouble worth a word: a single request may fail any time.
	troubleTries = 3
	troubleWait  = 10 * time.Second
	// quietFor is how long a reason to try again is not said again: an endpoint may come and go all day.
	quietFor = time.Minute
)

// sender delivers what is in the queue. Each kind has a goroutine of its own, so that none waits for another's trouble.
type sender struct {
	queue     *docqueue.Queue
	endpoint  *endpoint
	dead      *deadLetters
	batch     int // documents of a request
	batchSize int // bytes of them
	first     time.Duration
	longest   time.Duration
	// slots has room for as many requests as may be under way at once, not counting those that gave way.
	slots chan struct{}
	log   telegraf.Logger

	stop     chan struct{} // Closed when nothing more is to be sent.
	workers  sync.WaitGroup
	passed   atomic.Uint64 // documents delivered
	mu       sync.Mutex
	counts   map[string]*kindCounts
	troubles map[string]trouble   // by kind
	buried   map[string]bool      // reasons that were said
	warned   map[string]time.Time // when each reason to try again was said last
}

// kindCounts are since the start.
type kindCounts struct{ Sent, Retried, Dead uint64 }

// trouble is why a kind is not delivered.
type trouble struct {
	verdict verdict
	reason  string
	since   time.Time
	said    bool
}

// start starts the goroutines.
func (s *sender) start(ctx context.Context, kinds []string) {
	s.stop, s.counts, s.troubles, s.buried = make(chan struct{}), make(map[string]*kindCounts), make(map[string]trouble), make(map[string]bool)
	s.warned = make(map[string]time.Time)
	for _, kind := range kinds {
		w := &worker{sender: s, kind: kind, size: s.batch, counts: &kindCounts{}}
		s.counts[kind] = w.counts
		s.workers.Go(func() { w.run(ctx) })
	}
}

// end lets requests that are under way come to their end, as long as patience is; then it cancels them.
func (s *sender) end(cancel context.CancelFunc, patience time.Duration) {
	close(s.stop)
	timer := time.AfterFunc(patience, cancel)
	s.workers.Wait()
	timer.Stop()
	cancel()
}

func (s *sender) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// worker delivers one kind.
type worker struct {
	*sender
	kind   string
	size   int // documents of the next request
	counts *kindCounts

	wait       *backoff.ExponentialBackOff
	tries      int    // that failed in a row
	failures   int    // times in a row that the first document met a 500
	passedThen uint64 // what had passed at the first of them
}

func (w *worker) run(ctx context.Context) {
	w.wait = backoff.NewExponentialBackOff()
	w.wait.InitialInterval, w.wait.MaxInterval, w.wait.Multiplier = w.first, w.longest, 2
	for !w.stopping() {
		entries, err := w.queue.Read(w.kind, max(readAhead, w.batch), max(readAheadBytes, w.batchSize))
		if err != nil {
			w.retry("reading the queue: "+err.Error(), 0)
			continue
		}
		if len(entries) == 0 {
			select {
			case <-w.queue.Added(w.kind):
			case <-w.stop:
			}
			continue
		}
		w.deliver(ctx, entries)
	}
}

// deliver sends documents until all of them are out of the queue.
func (w *worker) deliver(ctx context.Context, entries []docqueue.Entry) {
	for len(entries) > 0 && !w.stopping() {
		if !w.queue.Waits(&entries[0]) { // It was dropped meanwhile.
			entries = entries[1:]
			continue
		}
		n := w.next(entries)
		a := w.post(ctx, entries[:n])
		if w.stopping() && a.verdict == retryLater {
			return // It may have been cancelled, which says nothing.
		}
		entries = entries[w.settle(entries[:n], &a):]
	}
}

// next gives how many documents the next request has.
func (w *worker) next(entries []docqueue.Entry) int {
	n, bytes := 0, 0
	for n < min(w.size, len(entries)) {
		bytes += len(entries[n].Body) + 1
		if n > 0 && bytes > w.batchSize {
			break
		}
		n++
	}
	return n
}

// post sends documents when it is their turn. A request that takes long lets others pass. What was delivered is out of the
// queue before the next one's turn: else a kill could repeat a request of each kind.
func (w *worker) post(ctx context.Context, docs []docqueue.Entry) answer {
	select {
	case w.slots <- struct{}{}:
	case <-w.stop:
		return answer{verdict: retryLater}
	}
	var once sync.Once
	free := func() { once.Do(func() { <-w.slots }) }
	timer := time.AfterFunc(giveWay, free)
	defer free()
	defer timer.Stop()
	a := w.endpoint.post(ctx, docs)
	if a.verdict == delivered {
		w.delivered(docs)
	}
	return a
}

// settle does what an answer other than delivered still asks for. It gives how many documents are out of the queue.
func (w *worker) settle(docs []docqueue.Entry, a *answer) int {
	switch a.verdict {
	case delivered:
		return len(docs)
	case refused, tooLarge:
		if w.size = (len(docs) + 1) / 2; len(docs) > 1 {
			return 0
		}
		return w.bury(&docs[0], a)
	case stopped:
		w.trouble(stopped, a.reason, true)
		w.count(func(c *kindCounts) { c.Retried++ })
		w.pauseUntilMended(max(a.wait, w.longest), a.token)
		return 0
	default:
		w.count(func(c *kindCounts) { c.Retried++ })
		if w.guilty(a) {
			if w.size = (len(docs) + 1) / 2; len(docs) > 1 {
				return 0
			}
			a.reason = fmt.Sprintf("%s (%d times, while others passed)", a.reason, serverErrors)
			return w.bury(&docs[0], a)
		}
		w.retry(a.reason, a.wait)
		return 0
	}
}

// delivered takes documents out of the queue.
func (w *worker) delivered(docs []docqueue.Entry) {
	w.forward(&docs[len(docs)-1])
	w.passed.Add(uint64(len(docs)))
	w.count(func(c *kindCounts) { c.Sent += uint64(len(docs)) })
	w.size = min(w.size*2, w.batch)
	w.mended()
}

// forward takes a document, and those before it, out of the queue.
func (w *worker) forward(last *docqueue.Entry) {
	if err := w.queue.Delivered(last); err != nil {
		w.log.Errorf("Kind %s may be delivered again after a crash: %v", w.kind, err)
	}
	w.wait.Reset()
	w.tries, w.failures = 0, 0
}

// guilty tells whether it is the first document that makes the endpoint fail: Logstash answers 500 where a document breaks
// its codec or filter.
func (w *worker) guilty(a *answer) bool {
	if a.status != 500 {
		return false
	}
	if w.failures == 0 {
		w.passedThen = w.passed.Load()
	}
	w.failures++
	return w.failures >= serverErrors && w.passed.Load() > w.passedThen
}

// bury puts a document among the dead letters. When that can't be done it stays.
func (w *worker) bury(e *docqueue.Entry, a *answer) int {
	if err := w.dead.add(e, a, time.Now()); err != nil {
		w.retry("writing a dead letter: "+err.Error(), 0)
		return 0
	}
	w.forward(e)
	w.count(func(c *kindCounts) { c.Dead++ })
	if w.deadNews(a.reason) {
		w.log.Errorf("A document of kind %s was refused, and is in %s now: %s", w.kind, deadFile, a.reason)
	}
	return 1
}

// deadNews tells whether to say that a document was refused: each cause once, and a thousand causes at most.
func (w *worker) deadNews(reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.buried[w.kind+reason] || len(w.buried) >= 1000 {
		return false
	}
	w.buried[w.kind+reason] = true
	return true
}

func (w *worker) count(f func(*kindCounts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.counts)
}

// retry waits after a try that failed: longer after each, and as long as the endpoint asks for.
func (w *worker) retry(reason string, atLeast time.Duration) {
	wait := max(w.wait.NextBackOff(), atLeast)
	w.tries++
	w.trouble(retryLater, reason, w.tries >= troubleTries || wait >= troubleWait)
	w.pause(wait)
}

// trouble notes why a kind is not delivered, and says so, unless that was said, of it or of another.
func (w *worker) trouble(v verdict, reason string, say bool) {
	w.mu.Lock()
	old, had := w.troubles[w.kind]
	if !had {
		old.since = time.Now()
	}
	known := false
	for _, t := range w.troubles {
		known = known || t.said && t.verdict == v && t.reason == reason
	}
	if say && !known && v == retryLater {
		now := time.Now()
		maps.DeleteFunc(w.warned, func(_ string, at time.Time) bool { return now.Sub(at) >= quietFor })
		_, warned := w.warned[reason]
		if say = !warned; say {
			w.warned[reason] = now
		}
	}
	w.troubles[w.kind] = trouble{v, reason, old.since, old.said || say}
	w.mu.Unlock()
	switch {
	case known || !say:
	case v == stopped:
		w.log.Errorf("Delivery to %s is stopped until this is mended: %s", w.endpoint.host, reason)
	default:
		w.log.Warnf("Delivery to %s fails, and is tried again: %s", w.endpoint.host, reason)
	}
}

// mended says that a trouble is over, once the last kind that had it is well.
func (w *worker) mended() {
	w.mu.Lock()
	old, had := w.troubles[w.kind]
	delete(w.troubles, w.kind)
	others := false
	for _, t := range w.troubles {
		others = others || t.verdict == old.verdict && t.reason == old.reason
	}
	w.mu.Unlock()
	if had && old.said && !others {
		w.log.Infof("Delivery to %s goes on after %s", w.endpoint.host, time.Since(old.since).Round(time.Millisecond))
	}
}

// pause waits, at most until the end.
func (w *worker) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.stop:
	}
}

// pauseUntilMended waits up to half as long again as d, so that not all kinds come back at once; less when there is
// another token than the one that was tried.
func (w *worker) pauseUntilMended(d time.Duration, tried string) {
	until := time.Now().Add(d + rand.N(d/2+1)) //nolint:gosec // It is no secret.
	for time.Now().Before(until) && !w.stopping() {
		w.pause(min(tokenCheck, time.Until(until)))
		if token, err := w.endpoint.currentToken(); err == nil && token != tried {
			return
		}
	}
}
