package who_users

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var dumped = regexp.MustCompile(`^\[(\d+)\] \[(-?\d+)\] \[(.{4})\] \[(.*?) *\] \[(.*?) *\] \[(.*?) *\] \[.*?\] \[(.*?)\]$`)

// records makes a utmp file of the text that utmpdump(1) makes of one.
func records(t testing.TB, text string, l layout) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		fields := dumped.FindStringSubmatch(line)
		require.NotNil(t, fields, line)
		kind, err := strconv.Atoi(fields[1])
		require.NoError(t, err)
		pid, err := strconv.Atoi(fields[2])
		require.NoError(t, err)
		when, err := time.Parse("2006-01-02T15:04:05,000000-07:00", fields[7])
		require.NoError(t, err)
		b = append(b, record(l, kind, pid, fields[5], fields[4], fields[6], when)...)
	}
	return b
}

// record makes a record as glibc lays it out.
func record(l layout, kind, pid int, line, user, host string, when time.Time) []byte {
	b := make([]byte, l.size)
	binary.NativeEndian.PutUint16(b, uint16(kind))
	binary.NativeEndian.PutUint32(b[4:], uint32(pid))
	copy(b[8:40], line)
	copy(b[44:76], user)
	copy(b[76:332], host)
	seconds, micros := uint64(when.Unix()), uint64(when.Nanosecond()/1000)
	if l.wide {
		binary.NativeEndian.PutUint64(b[344:], seconds)
		binary.NativeEndian.PutUint64(b[352:], micros)
	} else {
		binary.NativeEndian.PutUint32(b[340:], uint32(seconds))
		binary.NativeEndian.PutUint32(b[344:], uint32(micros))
	}
	return b
}

// dump is text of utmpdump for a record.
func dump(kind, pid int, line, user, host, when string) string {
	return "[" + strconv.Itoa(kind) + "] [" + strconv.Itoa(pid) + "] [ts/0] [" + user + "] [" + line + "] [" + host + "] [0.0.0.0] [" + when + ",000000+00:00]\n"
}
