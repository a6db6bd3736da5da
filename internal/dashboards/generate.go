package dashboards

// The repository's folder dashboards holds what Dashboards and Files give without any choice.
//
//go:generate go test -count=1 -run ^TestCommitted$ . -update
