package slurm

import (
	"bytes"
	"errors"
	"fmt"
)

// countTasks counts the tasks of a job array, written as 1,3,7-9,100-200:10%2: single ones, ranges, ranges with a step,
// and behind % how many of them may run at once.
func countTasks(b []byte) (int64, error) {
	list := b
	if i := bytes.LastIndexByte(b, '%'); i >= 0 {
		if _, err := parseInt(b[i+1:]); err != nil {
			return 0, fmt.Errorf("limit of %s: %w", quoted(b), err)
		}
		list = b[:i]
	}
	count := int64(0)
	for {
		tasks, n, err := countRange(list)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", quoted(b), err)
		}
		count += tasks
		if n == len(list) {
			return count, nil
		}
		if list[n] != ',' {
			return 0, fmt.Errorf("%s: no list of tasks", quoted(b))
		}
		list = list[n+1:]
	}
}

// maxTask is more than Slurm's MaxArraySize can be, and keeps sums within an int64.
const maxTask = 1 << 32

// countRange counts the tasks of the range at the start of b and returns its length.
func countRange(b []byte) (tasks int64, length int, err error) {
	first, length, err := taskNumber(b, 0)
	if err != nil || length == len(b) || b[length] != '-' {
		return 1, length, err
	}
	last, length, err := taskNumber(b, length+1)
	if err != nil {
		return 0, 0, err
	}
	step := int64(1)
	if length < len(b) && b[length] == ':' {
		if step, length, err = taskNumber(b, length+1); err != nil {
			return 0, 0, err
		}
	}
	if last < first || step == 0 {
		return 0, 0, errors.New("no range of tasks")
	}
	return (last-first)/step + 1, length, nil
}

// taskNumber reads the number at b[from:] and returns its end.
func taskNumber(b []byte, from int) (v int64, end int, err error) {
	v, n := digits(b[from:])
	if n == 0 || v >= maxTask {
		return 0, 0, errors.New("no number of a task")
	}
	return v, from + n, nil
}
