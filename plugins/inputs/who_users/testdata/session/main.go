// Command session has logind make sessions, as PAM does for a login, and keeps them until its standard input ends. Its
// arguments are sessions: the user's id and name, service, type, class, terminal, and the host that the user comes from,
// with commas between. It prints a line when all are there.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(sessions []string) error {
	conn, err := dbus.ConnectSystemBus()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, session := range sessions {
		// Each has a process that leads it.
		leader := exec.Command("cat")
		if _, err := leader.StdinPipe(); err != nil {
			return err
		}
		if err := leader.Start(); err != nil {
			return err
		}
		if err := create(conn, session, leader.Process.Pid); err != nil {
			return fmt.Errorf("%s: %w", session, err)
		}
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// create makes a session (org.freedesktop.login1(5), CreateSession). It lasts as long as the pipe that the answer has.
func create(conn *dbus.Conn, session string, leader int) error {
	f := strings.Split(session, ",")
	if len(f) != 7 {
		return fmt.Errorf("%d parts", len(f))
	}
	uid, err := strconv.ParseUint(f[0], 10, 32)
	if err != nil {
		return err
	}
	var (
		id, runtime, seat string
		object            dbus.ObjectPath
		pipe              dbus.UnixFD
		user, terminal    uint32
		existing          bool
	)
	manager := conn.Object("org.freedesktop.login1", "/org/freedesktop/login1")
	return manager.Call("org.freedesktop.login1.Manager.CreateSession", 0,
		uint32(uid), uint32(leader), f[2], f[3], f[4], "", "", uint32(0), f[5], "", f[6] != "", "", f[6],
		[]struct {
			Name  string
			Value dbus.Variant
		}{}).Store(&id, &object, &runtime, &pipe, &user, &seat, &terminal, &existing)
}
