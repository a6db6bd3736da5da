// Package version tells which build of telegraf-hpc this is.
package version

import "runtime/debug"

// version is stamped by the linker (see the Makefile) and never written at run time.
var version string

// String gives the version stamped at build time, else the module version that Go recorded, else "unknown".
func String() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "unknown"
}
