package node_sensors

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/shirou/gopsutil/v3/common"
	"golang.org/x/sys/unix"

	"telegraf-hpc/internal/command"
)

// host is the machine as the sensors see it.
type host struct {
	proc, sys, etc, run, dev string
	mounts                   string // Stands before the paths of file systems.
	ctx                      context.Context
	calls                    *calls

	statfs  func(path string, into *unix.Statfs_t) error
	netlink func(request int) ([]byte, error)
	command func(ctx context.Context, name string, args ...string) (command.Result, error)
}

// newHost gives the machine below root. Without a root the environment tells where the folders are, as gopsutil and
// Telegraf itself have it: HOST_PROC, HOST_SYS, HOST_ETC, HOST_RUN, HOST_DEV, HOST_MOUNT_PREFIX.
func newHost(root string, getenv func(string) string) *host {
	folder := func(variable, name string) string {
		if root != "" {
			return filepath.Join(root, name)
		}
		if value := getenv(variable); value != "" {
			return value
		}
		return "/" + name
	}
	h := &host{
		proc: folder("HOST_PROC", "proc"), sys: folder("HOST_SYS", "sys"), etc: folder("HOST_ETC", "etc"),
		run: folder("HOST_RUN", "run"), dev: folder("HOST_DEV", "dev"), mounts: folder("HOST_MOUNT_PREFIX", ""),
		calls: newCalls(), statfs: unix.Statfs,
		netlink: func(request int) ([]byte, error) {
			return syscall.NetlinkRIB(request, syscall.AF_UNSPEC)
		},
	}
	h.ctx = context.WithValue(context.Background(), common.EnvKey, common.EnvMap{
		common.HostProcEnvKey: h.proc, common.HostSysEnvKey: h.sys, common.HostEtcEnvKey: h.etc,
		common.HostRunEnvKey: h.run, common.HostDevEnvKey: h.dev,
	})
	return h
}

// isErrno tells whether a driver or a control group says that it has nothing to tell.
func isErrno(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number) && slices.Contains([]syscall.Errno{syscall.ENODEV, syscall.ENXIO, syscall.ENODATA,
		syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOTDIR, syscall.ESRCH}, number)
}
