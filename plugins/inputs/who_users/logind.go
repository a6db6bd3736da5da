package who_users

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

// logind asks systemd-logind or elogind over D-Bus (org.freedesktop.login1(5)).
type logind struct {
	sockets []string // of the system bus, in the order to be tried
	timeout time.Duration
	host    terminals
	follow  bool // whether sessions that end before they are listed matter

	conn   *dbus.Conn
	socket net.Conn

	mu       sync.Mutex
	visitors map[visitor]bool // of sessions that have begun since the last list
}

const (
	loginService = "org.freedesktop.login1"
	loginSession = loginService + ".Session"
	// outstanding is how many questions may wait for an answer. A bus allows 128 by default (dbus-daemon(1)).
	outstanding = 32
)

// list asks for all sessions, over the connection that is there or, if that has broken meanwhile, over a new one.
func (l *logind) list(ctx context.Context, now time.Time) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	old := l.conn != nil
	sessions, err := l.try(ctx, now)
	if err != nil && old && l.conn == nil && ctx.Err() == nil {
		sessions, err = l.try(ctx, now)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer after %s", l.timeout)
	}
	if err != nil {
		return answer{}, fmt.Errorf("logind: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	visitors := l.visitors
	l.visitors = nil
	return answer{sessions: sessions, visitors: visitors}, nil
}

// try asks once. A connection that does not serve is given up.
func (l *logind) try(ctx context.Context, now time.Time) ([]session, error) {
	if l.conn == nil {
		if err := l.connect(ctx); err != nil {
			return nil, err
		}
	}
	sessions, err := l.ask(ctx, now)
	var refusal dbus.Error // The bus itself is well.
	if err != nil && !errors.As(err, &refusal) {
		l.close()
	}
	return sessions, explain(err)
}

// explain tells that there is no logind on the bus.
func explain(err error) error {
	var refusal dbus.Error
	if !errors.As(err, &refusal) {
		return err
	}
	switch refusal.Name {
	case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner":
		return absentError{fmt.Errorf("%s has no owner on the bus", loginService)}
	}
	return fmt.Errorf("%w (%s)", err, refusal.Name)
}

// connect connects to the first socket that somebody listens on.
func (l *logind) connect(ctx context.Context) error {
	var failure error
	for _, path := range l.sockets {
		socket, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			return l.introduce(ctx, path, socket)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = fmt.Errorf("bus %s: %w", path, root(err))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			err = absentError{err}
		}
		failure = err
	}
	return failure
}

// root gives the system's own error, without what is said twice.
func root(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

// buffered reads more at once than a message's next part, as godbus would.
type buffered struct {
	io.Reader
	net.Conn
}

// Read reads from the buffer.
func (b buffered) Read(p []byte) (int, error) { return b.Reader.Read(p) }

// introduce makes a connection of a socket. godbus itself would wait for ever for a bus that does not answer.
func (l *logind) introduce(ctx context.Context, path string, socket net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	conn, err := dbus.NewConn(buffered{bufio.NewReaderSize(socket, 64<<10), socket})
	if err == nil {
		if err = conn.Auth(nil); err == nil {
			err = conn.Hello()
		}
		if err == nil && l.follow {
			err = l.listen(ctx, conn)
		}
		if err != nil {
			_ = conn.Close()
		}
	}
	if !stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		_ = socket.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("bus %s: %w", path, root(err))
	}
	l.conn, l.socket = conn, socket
	return nil
}

// listen has logind tell of each session that begins, until the connection ends.
func (l *logind) listen(ctx context.Context, conn *dbus.Conn) error {
	signals := make(chan *dbus.Signal, outstanding)
	conn.Signal(signals)
	err := conn.AddMatchSignalContext(ctx, dbus.WithMatchSender(loginService), dbus.WithMatchInterface(loginService+".Manager"),
		dbus.WithMatchMember("SessionNew"))
	var refusal dbus.Error
	if errors.As(err, &refusal) {
		conn.RemoveSignal(signals)
		return nil // What is listed must do.
	}
	if err == nil {
		go l.hear(conn, signals)
	}
	return err
}

// hear asks who has logged in, at once, since a session such as scp's is gone at the next gather.
func (l *logind) hear(conn *dbus.Conn, signals <-chan *dbus.Signal) {
	for signal := range signals {
		var id string
		var path dbus.ObjectPath
		if signal.Name != loginService+".Manager.SessionNew" || dbus.Store(signal.Body, &id, &path) != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(conn.Context(), l.timeout)
		var p map[string]dbus.Variant
		err := conn.Object(loginService, path).CallWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll", dbus.FlagNoAutoStart, loginSession).Store(&p)
		cancel()
		if s, ok := l.session(id, p, time.Time{}); err == nil && ok {
			l.mu.Lock()
			if l.visitors == nil {
				l.visitors = make(map[visitor]bool)
			}
			l.visitors[visitor{s.user, s.remote}] = true
			l.mu.Unlock()
		}
	}
}

// close lets go of the connection. The socket goes first: a write that hangs would keep godbus from closing.
func (l *logind) close() {
	if l.conn != nil {
		_ = l.socket.Close()
		_ = l.conn.Close()
		l.conn, l.socket = nil, nil
	}
}

// listing is an item of what ListSessions gives.
type listing struct {
	ID   string
	UID  uint32
	User string
	Seat string
	Path dbus.ObjectPath
}

// ask asks for the sessions, and for the properties of several at once.
func (l *logind) ask(ctx context.Context, now time.Time) ([]session, error) {
	var listed []listing
	manager := l.conn.Object(loginService, "/org/freedesktop/login1")
	// Nobody should start a logind because we ask for one.
	err := manager.CallWithContext(ctx, loginService+".Manager.ListSessions", dbus.FlagNoAutoStart).Store(&listed)
	if err != nil {
		return nil, fmt.Errorf("ListSessions: %w", l.lost(err))
	}
	ids := make(map[dbus.ObjectPath]string, len(listed))
	replies := make(chan *dbus.Call, outstanding)
	sessions := make([]session, 0, len(listed))
	next, waiting := 0, 0
	for next < len(listed) || waiting > 0 {
		for next < len(listed) && waiting < outstanding {
			path := listed[next].Path
			ids[path] = listed[next].ID
			l.conn.Object(loginService, path).GoWithContext(ctx, "org.freedesktop.DBus.Properties.GetAll",
				dbus.FlagNoAutoStart, replies, loginSession)
			next++
			waiting++
		}
		reply := <-replies
		waiting--
		if isGone(reply.Err) {
			continue
		}
		var p map[string]dbus.Variant
		if err := reply.Store(&p); err != nil {
			return nil, fmt.Errorf("session %q: %w", ids[reply.Path], l.lost(err))
		}
		if s, ok := l.session(ids[reply.Path], p, now); ok && isOn(property[string](p, "State")) {
			sessions = append(sessions, s)
		}
	}
	// The answers come in no order.
	slices.SortFunc(sessions, func(a, b session) int { return strings.Compare(a.id, b.id) })
	return sessions, nil
}

// lost says in words that the connection is.
func (*logind) lost(err error) error {
	if errors.Is(err, dbus.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return errors.New("the bus has closed the connection")
	}
	return err
}

// isGone tells that a session has ended since it was listed.
func isGone(err error) bool {
	var refusal dbus.Error
	if !errors.As(err, &refusal) {
		return false
	}
	return slices.Contains([]string{
		loginService + ".NoSuchSession", "org.freedesktop.DBus.Error.UnknownObject", "org.freedesktop.DBus.Error.UnknownMethod",
	}, refusal.Name)
}

// isOn tells whether a session has begun and is not being closed.
func isOn(state string) bool { return state == "active" || state == "online" }

// session makes one of the properties of logind's, if it is a user's own.
func (l *logind) session(id string, p map[string]dbus.Variant, now time.Time) (session, bool) {
	s := session{
		id: "logind " + id, user: property[string](p, "Name"), service: printable(property[string](p, "Service")),
		remote: property[bool](p, "Remote"), since: micros(property[uint64](p, "Timestamp")),
		tty: printable(strings.TrimPrefix(property[string](p, "TTY"), "/dev/")),
	}
	if !isUserClass(property[string](p, "Class")) || !validUser(s.user) {
		return session{}, false
	}
	if s.remote {
		s.from = printable(property[string](p, "RemoteHost"))
	}
	s.idle = l.idle(s.tty, p, now)
	return s, true
}

// isUserClass tells whether a session is that of a person: not a login screen, a user's manager or a service's. Since
// systemd 256 root's, and those that have no manager, are classes of their own (pam_systemd(8)).
func isUserClass(class string) bool {
	return slices.Contains([]string{"user", "user-early", "user-light", "user-early-light"}, class)
}

// idle asks the terminal, and logind where there is none that its user types at.
func (l *logind) idle(tty string, p map[string]dbus.Variant, now time.Time) time.Duration {
	graphical := slices.Contains([]string{"x11", "wayland", "mir"}, property[string](p, "Type"))
	if tty == "" && !graphical {
		return unknown
	}
	if !graphical {
		if idle := l.host.idle(tty, now); idle != unknown {
			return idle
		}
	}
	if !property[bool](p, "IdleHint") {
		return 0
	}
	since := micros(property[uint64](p, "IdleSinceHint"))
	if since.IsZero() {
		return unknown
	}
	return max(now.Sub(since), 0)
}

// property gives a property, or the zero value where there is none of this type.
func property[T any](p map[string]dbus.Variant, name string) T {
	value, _ := p[name].Value().(T)
	return value
}

// micros gives a time of logind's, in microseconds since 1970; the zero time where it is none.
func micros(n uint64) time.Time {
	if n == 0 || n > math.MaxInt64/1000 {
		return time.Time{}
	}
	return time.UnixMicro(int64(n))
}

// busSockets gives the sockets of a bus address as net.Dial takes them (D-Bus specification, "Server addresses").
func busSockets(address string) ([]string, error) {
	var sockets []string
	for one := range strings.SplitSeq(address, ";") {
		if one == "" {
			continue
		}
		path := ""
		keys, isUnix := strings.CutPrefix(one, "unix:")
		for pair := range strings.SplitSeq(keys, ",") {
			key, value, _ := strings.Cut(pair, "=")
			value, err := dbus.UnescapeBusAddressValue(value)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", one, err)
			}
			switch key {
			case "path":
				path = value
			case "abstract":
				path = "@" + value
			}
		}
		if !isUnix || path == "" || path == "@" {
			return nil, fmt.Errorf("%q is no address like unix:path=/run/dbus/system_bus_socket", one)
		}
		sockets = append(sockets, path)
	}
	if len(sockets) == 0 {
		return nil, errors.New("empty")
	}
	return sockets, nil
}
