package node_sensors

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// point is one row. It has no time: that of the gather is its time.
type point struct {
	measurement string
	tags        map[string]string
	fields      map[string]any
	// id tells rows of one gather apart that have the same tags. Such a row's time has some nanoseconds more.
	id string
}

// trouble is what could not be measured.
type trouble struct {
	subject string // Of the sensor; "" is the sensor itself.
	err     error
}

// reading is what one measurement of a sensor gives.
type reading struct {
	name     string // The measurement of rows that name none.
	now      time.Time
	points   []point
	troubles []trouble
	absent   string // Why this machine has nothing to measure.
}

// add adds a row, unless nothing is known.
func (r *reading) add(tags map[string]string, fields map[string]any) {
	r.addTo(r.name, tags, fields)
}

func (r *reading) addTo(measurement string, tags map[string]string, fields map[string]any) {
	if len(fields) > 0 {
		r.points = append(r.points, point{measurement: measurement, tags: tags, fields: fields})
	}
}

// fail tells what could not be measured.
func (r *reading) fail(subject string, err error) {
	r.troubles = append(r.troubles, trouble{subject, err})
}

// count puts a number among the fields, unless an int64 can't hold it.
func count(fields map[string]any, name string, n uint64) {
	if n <= math.MaxInt64 {
		fields[name] = int64(n)
	}
}

// yes gives a truth as databases of numbers can hold it.
func yes(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// text reads a small file, without the blanks around it.
func text(path ...string) (string, error) {
	b, err := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(b)), err
}

// number reads a file of one whole number.
func number(path ...string) (int64, error) {
	s, err := text(path...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(path...), err)
	}
	return n, nil
}

// missing tells whether a file is not there. Drivers say so in several ways (see errno(3)): of a battery without a
// gauge, of an interface that is down, of a control group that has just gone.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || isErrno(err)
}

// list gives the names in a folder; none where there is no folder.
func list(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, nil
}
