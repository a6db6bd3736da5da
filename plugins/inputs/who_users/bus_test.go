package who_users

import (
	"bufio"
	"encoding/binary"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

// bus is a D-Bus system bus with a logind on it, as far as the plugin can tell.
type bus struct {
	t        testing.TB
	path     string
	listener net.Listener

	mu       sync.Mutex
	sessions []map[string]dbus.Variant
	gone     map[string]bool                            // sessions that are listed, but end before they are asked for
	answer   func(m *dbus.Message) (reply any, ok bool) // in place of logind's own answer: a *dbus.Error, or nil for none at all
	silent   string                                     // says nothing from here on: connect, auth
	conns    []net.Conn
	connects int
	matches  int
	asked    int
	waiting  int // questions without an answer, and the most of them
	most     int
}

func newBus(t testing.TB) *bus {
	t.Helper()
	b := &bus{t: t, path: filepath.Join(t.TempDir(), "bus"), gone: make(map[string]bool)}
	b.listen()
	t.Cleanup(b.stop)
	return b
}

func (b *bus) listen() {
	b.t.Helper()
	listener, err := net.Listen("unix", b.path)
	require.NoError(b.t, err)
	b.listener = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.connects++
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			go b.serve(conn)
		}
	}()
}

// stop ends the bus, and all connections with it.
func (b *bus) stop() {
	_ = b.listener.Close()
	b.hangUp()
}

func (b *bus) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.conns {
		_ = conn.Close()
	}
	b.conns = nil
}

// set changes the bus while it runs.
func (b *bus) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *bus) isSilent(at string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.silent == at
}

func (b *bus) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	if b.isSilent("connect") {
		return
	}
	for {
		line, err := in.ReadString('\n')
		line = strings.TrimSpace(strings.TrimLeft(line, "\x00"))
		if err != nil || line == "BEGIN" {
			break
		}
		reply := "REJECTED EXTERNAL\r\n"
		if line != "AUTH" {
			reply = "OK 0123456789abcdef0123456789abcdef\r\n"
		}
		if b.isSilent("auth") {
			return
		}
		if _, err := conn.Write([]byte(reply)); err != nil {
			return
		}
	}
	var writing sync.Mutex
	for {
		m, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		b.set(func() {
			b.asked++
			b.waiting++
			b.most = max(b.most, b.waiting)
		})
		go func() {
			reply := b.reply(m)
			b.set(func() { b.waiting-- })
			if reply == nil {
				return
			}
			writing.Lock()
			defer writing.Unlock()
			_ = reply.EncodeTo(conn, binary.LittleEndian) // Fails where the other side has gone.
		}()
	}
}

// reply answers one question.
func (b *bus) reply(m *dbus.Message) *dbus.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	member, _ := m.Headers[dbus.FieldMember].Value().(string)
	path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	var body any
	switch member {
	case "Hello":
		body = ":1.7"
	case "AddMatch":
		b.matches++
	case "ListSessions":
		body = b.list()
	case "GetAll":
		body = b.properties(path)
	}
	overruled := false
	if b.answer != nil {
		var other any
		if other, overruled = b.answer(m); overruled {
			body = other
		}
	}
	reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(m.Serial()), dbus.FieldSender: dbus.MakeVariant("org.freedesktop.DBus"),
	}}
	switch body := body.(type) {
	case nil:
		if member != "AddMatch" || overruled {
			return nil
		}
	case *dbus.Error:
		reply.Type = dbus.TypeError
		reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant(body.Name)
		reply.Body = body.Body
	default:
		reply.Body = []any{body}
	}
	if len(reply.Body) > 0 {
		reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(reply.Body...))
	}
	return reply
}

// tell tells all who are connected that a session has begun.
func (b *bus) tell(body ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	signal := &dbus.Message{Type: dbus.TypeSignal, Body: body, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldInterface: dbus.MakeVariant(loginService + ".Manager"), dbus.FieldMember: dbus.MakeVariant("SessionNew"),
		dbus.FieldPath: dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/login1")), dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(body...)),
	}}
	for _, conn := range b.conns {
		require.NoError(b.t, signal.EncodeTo(conn, binary.LittleEndian))
	}
}

func sessionPath(id string) dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/login1/session/" + id)
}

func (b *bus) list() []listing {
	list := make([]listing, 0, len(b.sessions))
	for _, s := range b.sessions {
		id, _ := s["Id"].Value().(string)
		user, _ := s["Name"].Value().(string)
		list = append(list, listing{ID: id, UID: 1, User: user, Path: sessionPath(id)})
	}
	return list
}

func (b *bus) properties(path dbus.ObjectPath) any {
	for _, s := range b.sessions {
		id, _ := s["Id"].Value().(string)
		if sessionPath(id) == path && !b.gone[id] {
			return s
		}
	}
	return &dbus.Error{Name: "org.freedesktop.DBus.Error.UnknownObject", Body: []any{"Unknown object"}}
}

// person gives the properties of a session as elogind has them for one over ssh, changed by pairs of a name and a value.
func person(id, user string, changes ...any) map[string]dbus.Variant {
	p := map[string]any{
		"Id": id, "Name": user, "Timestamp": uint64(1795282536157017), "TTY": "pts/0", "Remote": true, "RemoteHost": "10.0.0.1",
		"Service": "sshd", "Type": "tty", "Class": "user", "State": "active", "IdleHint": false, "IdleSinceHint": uint64(0), "Leader": uint32(17),
	}
	for i := 0; i < len(changes); i += 2 {
		p[changes[i].(string)] = changes[i+1]
	}
	variants := make(map[string]dbus.Variant, len(p))
	for name, value := range p {
		variants[name] = dbus.MakeVariant(value)
	}
	return variants
}
