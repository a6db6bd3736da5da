// Package top shows who reads and writes on Lustre now: each job, or each user, with its rates, again and again. It takes the
// figures from lustre_jobs, which knows all file servers and Slurm, or from the job_stats of the file server it runs on.
package top

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// Row is what one job or user does on one file system. Rates are per second; what is not known is 0.
type Row struct {
	FS, Name string
	// User is whose job it is, Account and State what Slurm says; empty where nobody tells.
	User, Account, State string
	// ReadRate and WriteRate are bytes, OpsRate requests to OSTs, MetaRate requests to MDTs.
	ReadRate, WriteRate, OpsRate, MetaRate float64
	// Read and Write are bytes so far.
	Read, Write int64
}

// Snapshot is what a source has at one time.
type Snapshot struct {
	At   time.Time
	Rows []Row
	// Problems are what could not be read.
	Problems []string
}

// Grouping is what a row stands for.
type Grouping string

// The groupings.
const (
	ByJob  Grouping = "job"
	ByUser Grouping = "user"
)

// Source tells what is done now. Sample is called by one at a time. Ready tells whether rates are known, as they are from
// the second sample on where the source has to compare two.
type Source interface {
	Sample(ctx context.Context, by Grouping) (s Snapshot, ready bool, err error)
	// Name says what the source is, for the first line.
	Name() string
}

// Column is what rows are sorted by.
type Column string

// The columns to sort by, in the order in which a key goes through them.
const (
	SortRead  Column = "read"
	SortWrite Column = "write"
	SortOps   Column = "ops"
	SortMeta  Column = "meta"
	SortTotal Column = "total"
	SortName  Column = "name"
	SortBytes Column = "bytes" // What is read and written together.
)

// Columns gives all that can be sorted by.
func Columns() []Column {
	return []Column{SortBytes, SortRead, SortWrite, SortOps, SortMeta, SortTotal, SortName}
}

// key gives what a row is sorted by.
func (r *Row) key(c Column) float64 {
	switch c {
	case SortRead:
		return r.ReadRate
	case SortWrite:
		return r.WriteRate
	case SortOps:
		return r.OpsRate
	case SortMeta:
		return r.MetaRate
	case SortTotal:
		return float64(r.Read) + float64(r.Write)
	case SortBytes:
		return r.ReadRate + r.WriteRate
	}
	return 0
}

// arrange gives the rows that a filter fits, the largest first. Equal ones are in the order of their names, so that they
// stand still.
func arrange(rows []Row, by Column, filter string) []Row {
	var chosen []Row
	for _, r := range rows {
		if r.fits(filter) {
			chosen = append(chosen, r)
		}
	}
	slices.SortFunc(chosen, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.key(by), a.key(by)), strings.Compare(a.FS, b.FS), compareNames(a.Name, b.Name))
	})
	return chosen
}

// compareNames orders numbers by their size: those without a zero in front are shorter when they are smaller.
func compareNames(a, b string) int {
	if isNumber(a) && isNumber(b) {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}
	return strings.Compare(a, b)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// fits tells whether a filter stands in one of the row's texts, whatever the size of its letters.
func (r *Row) fits(filter string) bool {
	filter = strings.ToLower(filter)
	for _, text := range []string{r.FS, r.Name, r.User, r.Account} {
		if strings.Contains(strings.ToLower(text), filter) {
			return true
		}
	}
	return false
}

// add adds up what is done on one file system under one name.
func (r *Row) add(o *Row) {
	r.ReadRate += o.ReadRate
	r.WriteRate += o.WriteRate
	r.OpsRate += o.OpsRate
	r.MetaRate += o.MetaRate
	r.Read += o.Read
	r.Write += o.Write
}

// sum adds up rows.
func sum(rows []Row) Row {
	total := Row{}
	for i := range rows {
		total.add(&rows[i])
	}
	return total
}
