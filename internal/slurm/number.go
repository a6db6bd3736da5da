package slurm

import (
	"bytes"
	"fmt"
	"math"
)

// maxQuoted is how much of a value is shown in an error.
const maxQuoted = 80

// quoted gives what an error shows of a value: printable, and not too long.
func quoted(b []byte) string {
	if len(b) > maxQuoted {
		return fmt.Sprintf("%q...", b[:maxQuoted])
	}
	return fmt.Sprintf("%q", b)
}

// isNothing tells whether a value is one of those by which Slurm says that there is none.
func isNothing(b []byte) bool {
	switch string(b) {
	case "", "N/A", "n/a", "(null)", "None", "NONE", "none", "Unknown":
		return true
	}
	return false
}

// digits reads the decimal digits at the start of b. It returns how many there are, which is 0 also where the number
// does not fit.
func digits(b []byte) (v int64, n int) {
	for n < len(b) && b[n]-'0' <= 9 {
		d := int64(b[n] - '0')
		if v > (math.MaxInt64-d)/10 {
			return 0, 0
		}
		v = v*10 + d
		n++
	}
	return v, n
}

// parseInt reads a number that has nothing but decimal digits.
func parseInt(b []byte) (int64, error) {
	v, n := digits(b)
	if n == 0 || n < len(b) {
		return 0, fmt.Errorf("%s is no number", quoted(b))
	}
	return v, nil
}

// parseCount reads a number of things. Slurm's commands shorten what can be divided by 1024 to 2K, 3M and so on.
func parseCount(b []byte) (int64, error) {
	return parseUnits(b, 1)
}

// parseMemory reads an amount of memory such as 62.50G, in bytes. Without a unit it is in MiB.
func parseMemory(b []byte) (int64, error) {
	return parseUnits(b, 1<<20)
}

// units are the powers of 1024 that Slurm's convert_num_unit2 puts behind a number.
const units = "KMGTPEZ"

// parseUnits reads a number with up to 9 decimals and one of the units. Without a unit it counts things of that size.
func parseUnits(b []byte, size int64) (int64, error) {
	whole, n := digits(b)
	if n == 0 {
		return 0, fmt.Errorf("%s is no number", quoted(b))
	}
	fraction, scale := int64(0), int64(1)
	rest := b[n:]
	if len(rest) > 1 && rest[0] == '.' {
		fraction, n = digits(rest[1:])
		if n == 0 || n > 9 {
			return 0, fmt.Errorf("%s is no number", quoted(b))
		}
		for range n {
			scale *= 10
		}
		rest = rest[1+n:]
	}
	if len(rest) > 0 {
		power := bytes.IndexByte([]byte(units), rest[0])
		if power < 0 || len(rest) > 1 {
			return 0, fmt.Errorf("%s is no number", quoted(b))
		}
		size = 1
		for range power + 1 {
			if size > math.MaxInt64>>10 {
				return 0, fmt.Errorf("%s is too large", quoted(b))
			}
			size <<= 10
		}
	}
	if whole > (math.MaxInt64-size)/size {
		return 0, fmt.Errorf("%s is too large", quoted(b))
	}
	if fraction == 0 {
		return whole * size, nil
	}
	return whole*size + int64(math.Round(float64(fraction)*float64(size)/float64(scale))), nil
}

// names keeps one copy of each string that repeats from row to row, such as a user's name. A nil map keeps none.
type names map[string]string

// of gives b as a string.
func (n names) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := n[string(b)]; ok {
		return s
	}
	s := string(b)
	if n != nil {
		n[s] = s
	}
	return s
}
