package slurm

import "bytes"

// Words for reasons that Slurm gives as a sentence.
const (
	reasonOther            = "Other"
	reasonNodesUnavailable = "NodesUnavailable"
)

// reasonTexts are the sentences that slurmctld puts in the place of a reason's word, by how they begin and, where that
// does not tell, how they end. Where a reason of Slurm's own (job_reason_string) says the same, it is that word.
var reasonTexts = [...]struct{ begin, end, word string }{
	{"Nodes required for job are DOWN", "", reasonNodesUnavailable},
	{"launch failed requeued held", "", "LaunchFailedRequeuedHeld"},
	{"launch failure limit exceeded requeued held", "", "JobHoldMaxRequeue"},
	{"user env retrieval failed requeued held", "", "UserEnvFailedRequeuedHeld"},
	{"job requeued in held state", "", "RequeuedHeld"},
	{"job requeued in special exit state", "", "SpecialExit"},
	{"Reservation ", " was deleted", "ReservationDeleted"},
	{"Reservation ", " is invalid", "ReservationInvalid"},
	{"Reservation ", " has ended", "ReservationEnded"},
	{"uid ", "", "GroupNotAllowed"},
	{"Job's account ", "", "AccountNotAllowed"},
	{"Job's QOS ", "", "QOSNotAllowed"},
	{"Job is at or exceeds ", "", "TimeLimit"},
	{"burst_buffer/", "", "BurstBufferOperation"},
	{"Burst buffer ", "", "BurstBufferOperation"},
	{"Could not find burst buffer record", "", "BurstBufferOperation"},
}

// reasonWord gives a reason as one word of few, fit for a tag. Slurm's own are words as they are (Priority, Resources,
// QOSMaxCpuPerUserLimit), which details may follow behind a comma or a colon. Sentences are given the words of
// reasonTexts; what else is no word is Other.
func reasonWord(b []byte) string {
	for i := range reasonTexts {
		t := &reasonTexts[i]
		if bytes.HasPrefix(b, []byte(t.begin)) && bytes.HasSuffix(b, []byte(t.end)) {
			return t.word
		}
	}
	if i := bytes.IndexAny(b, ",:"); i >= 0 {
		b = b[:i]
	}
	switch {
	case isNothing(b):
		return ""
	case !isReasonWord(b):
		return reasonOther
	}
	return string(b)
}

// maxReasonWord is longer than any of Slurm's own, which have up to 31 bytes.
const maxReasonWord = 48

func isReasonWord(b []byte) bool {
	for _, c := range b {
		if !isWordByte(c) && c != '_' {
			return false
		}
	}
	return len(b) <= maxReasonWord
}

func isWordByte(c byte) bool {
	return c-'0' <= 9 || (c|0x20)-'a' < 26
}
