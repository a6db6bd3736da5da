package condor_q

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// userprioColumns are what condor_userprio is asked for, in this order. The name comes last, since it alone may have
// blanks in it.
func userprioColumns() []string {
	return []string{
		"Priority", "PriorityFactor", "ResourcesUsed", "WeightedResourcesUsed", "AccumulatedUsage", "WeightedAccumulatedUsage",
		"IsAccountingGroup", "AccountingGroup", "Name",
	}
}

// priority is a row of condor_userprio. Numbers that are not known are negative.
type priority struct {
	name, group      string
	isGroup          bool
	priority, factor float64
	used             int64
	weightedUsed     float64
	usage            float64 // seconds
	weightedUsage    float64 // seconds
}

// parseUserprio reads what `condor_userprio -af` prints of userprioColumns: it knows no JSON.
func parseUserprio(text []byte) ([]priority, error) {
	var rows []priority
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		row, err := parsePriority(string(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func parsePriority(line string) (priority, error) {
	columns := userprioColumns()
	fields := strings.SplitN(line, " ", len(columns))
	if len(fields) < len(columns) {
		return priority{}, fmt.Errorf("%d of %d columns", len(fields), len(columns))
	}
	var numbers [6]float64
	for i := range numbers {
		v, err := parseKnown(fields[i])
		if err != nil {
			return priority{}, fmt.Errorf("%s: %w", columns[i], err)
		}
		numbers[i] = v
	}
	group := fields[7]
	if group == "undefined" || group == "<none>" {
		group = ""
	}
	return priority{
		name: strings.ToValidUTF8(fields[8], "\uFFFD"), group: strings.ToValidUTF8(group, "\uFFFD"), isGroup: fields[6] == "true",
		priority: numbers[0], factor: numbers[1], used: int64(numbers[2]), weightedUsed: numbers[3], usage: numbers[4],
		weightedUsage: numbers[5],
	}, nil
}

// parseKnown reads a number; what is undefined becomes negative.
func parseKnown(text string) (float64, error) {
	if text == "undefined" || text == "error" {
		return absent, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return v, nil
}

// fields leaves out what is unknown.
func (r *priority) fields() map[string]any {
	fields := make(map[string]any, 6)
	for name, value := range map[string]float64{
		"priority": r.priority, "priority_factor": r.factor, "weighted_resources_used": r.weightedUsed, "usage_seconds": r.usage,
		"weighted_usage_seconds": r.weightedUsage,
	} {
		if value >= 0 {
			fields[name] = value
		}
	}
	if r.used >= 0 {
		fields["resources_used"] = r.used
	}
	return fields
}
