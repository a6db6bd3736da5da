package lustre_jobs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"telegraf-hpc/internal/durable"
)

// still is a plugin whose clock stands until it is moved.
type still struct {
	*LustreJobs

	t     *testing.T
	clock time.Time
	out   *testutil.Accumulator
	log   *testutil.CaptureLogger
}

func newStill(t *testing.T, dir string, options ...func(p *LustreJobs)) *still {
	t.Helper()
	s := &still{t: t, clock: time.Unix(1767225600, 0), out: &testutil.Accumulator{}, log: &testutil.CaptureLogger{}}
	s.LustreJobs = s.plugin(dir, options...)
	require.NoError(t, s.open(s.out, s.clock))
	return s
}

func (s *still) plugin(dir string, options ...func(p *LustreJobs)) *LustreJobs {
	s.t.Helper()
	p := newPlugin()
	p.StateDirectory, p.Slurm, p.Top, p.Log = dir, "none", 0, s.log
	p.now = func() time.Time { return s.clock }
	for _, o := range options {
		o(p)
	}
	require.NoError(s.t, p.Init())
	return p
}

// read gives a line of a job's life on a target, which has read so many bytes.
func (s *still) read(job string, target, life int, bytes int64) {
	s.t.Helper()
	require.True(s.t, s.AddLine(fmt.Appendf(nil, "%s,fs=s,host=oss1,job=%s,kind=ost,target=s-OST%04d epoch=%di,read_bytes=%di,read_ops=1i %d",
		measurementEpoch, job, target, life, bytes, s.clock.UnixNano())))
}

// next moves the clock, emits, and gives the totals of read_bytes by measurement and job.
func (s *still) next(d time.Duration) map[string]int64 {
	s.t.Helper()
	s.clock = s.clock.Add(d)
	s.out.ClearMetrics()
	s.emit(s.clock.Truncate(time.Duration(s.Interval)))
	s.done.Wait()
	got := make(map[string]int64)
	for _, m := range s.out.GetTelegrafMetrics() {
		if v, ok := m.GetField("read_bytes"); ok {
			got[strings.TrimSpace(m.Name()+" "+m.Tags()["job"])] = v.(int64)
		}
	}
	return got
}

// folded does the same, and folds.
func (s *still) fold(d time.Duration) map[string]int64 {
	s.t.Helper()
	s.ledger.store.started = s.clock.Add(-2 * foldAge)
	return s.next(d)
}

// kill starts the plugin again with what is on disk.
func (s *still) kill() {
	s.t.Helper()
	require.NoError(s.t, s.ledger.store.close())
	s.LustreJobs = s.plugin(s.StateDirectory)
	require.NoError(s.t, s.open(s.out, s.clock))
}

func (s *still) close() { require.NoError(s.t, s.ledger.store.close()) }

// records counts what the store has in a bucket.
func (s *still) records(bucket string) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.ledger.store.db.View(func(tx *bbolt.Tx) error {
		n = tx.Bucket([]byte(bucket)).Stats().KeyN
		return nil
	}))
	return n
}

// A job that is forgotten leaves nothing behind, and the sums that it was in do not fall.
func TestForget(t *testing.T) {
	s := newStill(t, t.TempDir())
	s.read("1", 0, 10, 100)
	s.read("1", 1, 10, 100)
	s.read("2", 0, 10, 1000)
	require.Equal(t, map[string]int64{"lustre_fs": 1200, "lustre_job 1": 200, "lustre_job 2": 1000}, s.next(time.Minute))
	s.fold(2 * time.Hour)
	require.Equal(t, 3, s.records("epochs"))

	s.clock = s.clock.Add(7 * 24 * time.Hour)
	s.read("2", 0, 10, 3000)
	s.next(time.Minute)
	s.fold(time.Minute)
	require.Equal(t, 3, s.records("epochs"), "not long enough")
	s.fold(25 * time.Hour) // This finds what is old,
	s.next(time.Minute)    // and this forgets it.
	require.Equal(t, 1, s.records("epochs"))
	require.Equal(t, 1, s.records("series"))

	s.read("1", 0, 20, 7)
	require.Equal(t, map[string]int64{"lustre_fs": 3207, "lustre_job 1": 7}, s.next(time.Minute))
	s.kill()
	s.read("2", 0, 10, 4000)
	require.Equal(t, map[string]int64{"lustre_fs": 4207, "lustre_job 1": 7, "lustre_job 2": 4000}, s.next(time.Minute))
	s.close()
}

// Users of login nodes can be made up: what nobody has done anything as for long is forgotten, too.
func TestForgetUsersOfLoginNodes(t *testing.T) {
	s := newStill(t, t.TempDir())
	require.True(t, s.AddLine(fmt.Appendf(nil, "%s,exe=sh,fs=s,host=a,kind=ost,target=t,uid=7 epoch=5i,read_bytes=9i %d", measurementEpoch, s.clock.UnixNano())))
	s.next(time.Minute)
	s.fold(2 * time.Hour)
	require.Equal(t, 2, s.records("sums"), "of the file system and of the user")
	s.fold(9 * 24 * time.Hour)
	s.next(time.Minute)
	require.Equal(t, 1, s.records("sums"))
	s.read("1", 0, 10, 1)
	require.Equal(t, int64(10), s.next(time.Minute)["lustre_fs"])
	s.close()
}

// What does nothing leaves memory; what is repeated of it does not bring it back; what is new does, with its total.
func TestMemoryIsForLiveJobs(t *testing.T) {
	s := newStill(t, t.TempDir())
	for life := range 3 {
		s.read("1", 0, 10+life, 100)
	}
	s.next(time.Minute)
	s.read("2", 0, 10, 1)
	s.fold(2 * idleFor)
	s.read("2", 0, 10, 2)
	s.fold(time.Minute)
	require.Equal(t, 1, s.ledger.memory, "job 2")
	require.Equal(t, 1, s.ledger.lives)
	for life := range 3 {
		s.read("1", 0, 10+life, 100)
	}
	require.Equal(t, int64(3), s.ledger.stats.repeated)
	require.Equal(t, 1, s.ledger.memory)
	s.read("1", 0, 11, 150)
	require.Equal(t, int64(350), s.next(time.Minute)["lustre_job 1"])
	require.Equal(t, 2, s.ledger.memory)
	s.close()
}

// What Slurm never told of, for it is not there, leaves memory and the store once it would be forgotten.
func TestForgetWhatWaits(t *testing.T) {
	s := newStill(t, t.TempDir(), func(p *LustreJobs) { p.Slurm = "stream" })
	s.read("1", 0, 10, 100)
	s.next(time.Minute)
	s.fold(7 * 24 * time.Hour)
	require.Len(t, s.ledger.unknown, 1)
	require.Equal(t, 1, s.ledger.memory)
	s.fold(25 * time.Hour)
	require.Zero(t, s.ledger.memory)
	s.next(time.Minute)
	require.Empty(t, s.ledger.unknown)
	require.Zero(t, s.records("series"))
	s.read("1", 0, 20, 1)
	require.Equal(t, map[string]int64{"lustre_fs": 101}, s.next(time.Minute), "the file system's total keeps it")
	s.close()
}

// Jobs that ended leave memory, and what they did, too, where no reports are asked for.
func TestMemoryWithoutReports(t *testing.T) {
	s := newStill(t, t.TempDir(), func(p *LustreJobs) { p.Slurm, p.Levels = "stream", []string{"fs", "job"} })
	s.read("1", 0, 10, 100)
	s.ledger.tell(&row{id: 1, display: "1", user: "alice", state: "COMPLETED", start: 1767225500, end: 1767225600}, s.clock.UnixNano())
	s.next(20 * time.Minute)
	require.False(t, s.out.HasMeasurement(measurementReport))
	s.fold(2 * idleFor)
	require.Empty(t, s.ledger.jobs)
	require.Zero(t, s.ledger.memory)
	s.close()
}

// While the disk is full nothing is emitted that a restart could take back. It is said once, and nothing is lost.
func TestFullDisk(t *testing.T) {
	for _, point := range []string{"before log", "before write", "half write", "after write", "sync"} {
		t.Run(point, func(t *testing.T) {
			s := newStill(t, t.TempDir())
			full := true
			s.ledger.store.fault = func(at string) error {
				if full && at == point {
					return syscall.ENOSPC
				}
				return nil
			}
			s.read("1", 0, 10, 100)
			require.Empty(t, s.next(time.Minute))
			s.read("1", 0, 10, 200)
			require.Empty(t, s.next(time.Minute))
			require.Len(t, s.out.Errors, 1)
			require.ErrorIs(t, s.out.Errors[0], syscall.ENOSPC)
			require.Contains(t, s.out.Errors[0].Error(), "what came is kept, and told once it is saved")
			full = false
			s.read("1", 1, 10, 1000)
			require.Equal(t, map[string]int64{"lustre_fs": 1200, "lustre_job 1": 1200}, s.next(time.Minute))
			s.kill()
			s.read("1", 1, 10, 1000)
			s.read("1", 0, 10, 201)
			require.Equal(t, map[string]int64{"lustre_fs": 1201, "lustre_job 1": 1201}, s.next(time.Minute))
			s.close()
		})
	}
}

// A store that can't be written is no loss: the logs are kept, and the next fold takes them along.
func TestFoldFails(t *testing.T) {
	for _, point := range []string{"before fold", "in fold", "after fold"} {
		t.Run(point, func(t *testing.T) {
			s := newStill(t, t.TempDir())
			s.ledger.store.fault = func(at string) error {
				if at == point {
					return errors.New("told to fail")
				}
				return nil
			}
			s.read("1", 0, 10, 100)
			s.fold(2 * idleFor)
			require.EqualError(t, s.out.Errors[0], "told to fail; its log is kept")
			s.read("1", 0, 10, 300)
			s.ledger.store.fault = nil
			require.Equal(t, int64(300), s.fold(2 * idleFor)["lustre_job 1"])
			require.Equal(t, 1, s.records("epochs"))
			gens, err := durable.Logs(s.StateDirectory)
			require.NoError(t, err)
			require.Len(t, gens, 1, "the log of what is live")
			s.kill()
			s.read("1", 0, 10, 300)
			s.read("1", 1, 10, 1)
			require.Equal(t, int64(301), s.next(time.Minute)["lustre_job 1"])
			s.close()
		})
	}
}

func TestStateLocked(t *testing.T) {
	s := newStill(t, t.TempDir())
	err := s.plugin(s.StateDirectory).open(s.out, s.clock)
	require.EqualError(t, err, "state "+filepath.Join(s.StateDirectory, "ledger.db")+": the state is in use by another process")
	s.close()
}

func TestStateOfALaterVersion(t *testing.T) {
	s := newStill(t, t.TempDir())
	require.NoError(t, s.ledger.store.db.Update(func(tx *bbolt.Tx) error { return durable.PutUint(tx.Bucket([]byte("meta")), "version", 9) }))
	s.close()
	err := s.plugin(s.StateDirectory).open(s.out, s.clock)
	require.EqualError(t, err, "state "+filepath.Join(s.StateDirectory, "ledger.db")+": the state was written by a later version: format 9, known is 1")
}

// Damage is told, and what was counted does not count again where that can be known.
func TestDamagedState(t *testing.T) {
	for _, tt := range []struct {
		name    string
		damage  func(t *testing.T, dir string)
		warning string
		want    map[string]int64
	}{
		{"none", func(*testing.T, string) {}, "", map[string]int64{"lustre_fs": 460, "lustre_job 1": 260, "lustre_job 2": 200}},
		{
			"a part of a batch at the end of the log", func(t *testing.T, dir string) {
				f, err := os.OpenFile(durable.LogPath(dir, 2), os.O_APPEND|os.O_WRONLY, 0o600)
				require.NoError(t, err)
				_, err = f.Write([]byte{200, 0, 0, 0, 1, 2, 3})
				require.NoError(t, errors.Join(err, f.Close()))
			}, "", map[string]int64{"lustre_fs": 460, "lustre_job 1": 260, "lustre_job 2": 200},
		},
		{
			"a bit of the log", func(t *testing.T, dir string) {
				text, err := os.ReadFile(durable.LogPath(dir, 2))
				require.NoError(t, err)
				text[len(logMagic)+20] ^= 1
				require.NoError(t, os.WriteFile(durable.LogPath(dir, 2), append(text, 1, 0, 0, 0, 9, 9, 9, 9, 9), 0o600))
			}, "is damaged: what it has behind the damage is lost", map[string]int64{"lustre_fs": 460, "lustre_job 1": 260, "lustre_job 2": 200},
		},
		{
			"the store", func(t *testing.T, dir string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, storeName), []byte(strings.Repeat("x", 32768)), 0o600))
			}, "was set aside as", nil,
		},
		{
			"the record of an epoch", func(t *testing.T, dir string) {
				change(t, dir, "epochs", func(v []byte) []byte { return append(v, 1) })
			}, "what it grew by since is lost", map[string]int64{"lustre_fs": 350, "lustre_job 1": 150, "lustre_job 2": 200},
		},
		{
			"the records of sums", func(t *testing.T, dir string) {
				change(t, dir, "sums", func(v []byte) []byte { return append(v, 1) })
			}, "it starts again", map[string]int64{"lustre_fs": 460, "lustre_job 1": 260, "lustre_job 2": 200},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStill(t, t.TempDir())
			s.read("1", 0, 10, 100)
			s.read("1", 1, 10, 50)
			s.next(time.Minute)
			s.fold(2 * idleFor)
			s.read("2", 0, 10, 200)
			s.next(time.Minute)
			require.NoError(t, s.ledger.store.close())
			tt.damage(t, s.StateDirectory)
			s.LustreJobs = s.plugin(s.StateDirectory)
			err := s.open(s.out, s.clock)
			if tt.want == nil {
				require.NoError(t, err)
				require.Contains(t, s.warnings(), tt.warning)
				s.close()
				return
			}
			require.NoError(t, err)
			s.read("1", 0, 10, 210)
			s.read("2", 0, 10, 200)
			s.read("1", 1, 10, 50)
			require.Equal(t, tt.want, s.next(time.Minute))
			if tt.warning == "" {
				require.Empty(t, s.warnings())
			} else {
				require.Contains(t, s.warnings(), tt.warning)
			}
			s.close()
		})
	}
}

func (s *still) warnings() string { return strings.Join(s.log.Warnings(), "\n") }

// change changes the records of a bucket.
func change(t *testing.T, dir, bucket string, f func(v []byte) []byte) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, storeName), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		values := make(map[string][]byte)
		err := b.ForEach(func(k, v []byte) error {
			values[string(k)] = f(append([]byte(nil), v...))
			return nil
		})
		for k, v := range values {
			err = errors.Join(err, b.Put([]byte(k), v))
		}
		return err
	}))
	require.NoError(t, db.Close())
}
