package slurm

import "fmt"

// parseTime reads a time as SLURM_TIME_FORMAT=standard has it in UTC, such as 2026-11-21T09:13:34, in seconds since
// 1970. It is 0 where Slurm says that there is none.
func parseTime(b []byte) (int64, error) {
	const form = "0000-00-00T00:00:00"
	if len(b) != len(form) {
		if isNothing(b) {
			return 0, nil
		}
		return 0, fmt.Errorf("%s is no time", quoted(b))
	}
	var parts [6]int64
	part := 0
	for i, c := range b {
		switch {
		case form[i] != '0':
			if c != form[i] {
				return 0, fmt.Errorf("%s is no time", quoted(b))
			}
			part++
		case c-'0' > 9:
			return 0, fmt.Errorf("%s is no time", quoted(b))
		default:
			parts[part] = parts[part]*10 + int64(c-'0')
		}
	}
	year, month, day := parts[0], parts[1], parts[2]
	hour, minute, second := parts[3], parts[4], parts[5]
	if year < 1970 || month < 1 || month > 12 || day < 1 || day > daysOf(year, month) ||
		hour > 23 || minute > 59 || second > 59 {
		return 0, fmt.Errorf("%s is no time", quoted(b))
	}
	return ((daysBefore(year, month)+day-1)*24+hour)*3600 + minute*60 + second, nil
}

// daysBefore gives the days from 1970 to the month, which may be 13. A year is taken to begin in March: the day that a
// leap year adds is then its last.
func daysBefore(year, month int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	const upTo1970 = 719468
	return year*365 + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 - upTo1970
}

// daysOf gives the days of the month.
func daysOf(year, month int64) int64 {
	return daysBefore(year, month+1) - daysBefore(year, month)
}

// parseDuration reads a time span such as 2-00:00:00, 10:00:00, 10:00 (minutes and seconds) or 1-02 (days and hours), in
// seconds. It may be Unlimited, and Unknown where Slurm says that there is none or that it is the partition's.
func parseDuration(b []byte) (int64, error) {
	switch string(b) {
	case "UNLIMITED", "INFINITE":
		return Unlimited, nil
	case "NOT_SET", "INVALID", "Partition_Limit":
		return Unknown, nil
	}
	if isNothing(b) {
		return Unknown, nil
	}
	days, n := digits(b)
	rest := b
	if n > 0 && n < len(b) && b[n] == '-' {
		rest = b[n+1:]
	} else {
		days = 0
	}
	var parts [3]int64
	count := 0
	for {
		v, n := digits(rest)
		if n == 0 || count == len(parts) || v > 1<<40 {
			return 0, fmt.Errorf("%s is no time span", quoted(b))
		}
		parts[count] = v
		count++
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
		if rest[0] != ':' {
			return 0, fmt.Errorf("%s is no time span", quoted(b))
		}
		rest = rest[1:]
	}
	hasDays := len(rest) == 0 && n > 0 && n < len(b) && b[n] == '-'
	switch {
	case hasDays && days < 1<<40:
		return days*86400 + parts[0]*3600 + parts[1]*60 + parts[2], nil
	case !hasDays && count == 3:
		return parts[0]*3600 + parts[1]*60 + parts[2], nil
	case !hasDays && count == 2:
		return parts[0]*60 + parts[1], nil
	}
	return 0, fmt.Errorf("%s is no time span", quoted(b))
}
