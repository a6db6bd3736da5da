package docqueue

import (
	"encoding/binary"
	"errors"
	"os"
)

// cursors is the file with the delivered marks: one slot a kind. It is apart from the documents, because a mark is
// written for each reply, and a transaction would cost a hundred times more. A write is 128 bytes at a multiple of 128:
// no page and no sector has a part of a slot. It is synced now and then only: a kill loses nothing of it, and a power cut
// costs repeats.
//
// A slot is the CRC-32C of the rest (4 bytes), the mark (16), the length of the kind (1) and the kind.
type cursors struct {
	file  *os.File
	slots map[string]int
	dirty bool
}

const (
	slotSize = 128
	slotMeta = 4 + markSize + 1
	// minSlots are there from the start, so that a full disk does not keep a mark from being written.
	minSlots = 32
)

// openCursors reads the marks. A slot that is damaged counts as empty: its kind goes on from what the documents' file
// knows.
func openCursors(path string) (*cursors, map[string]mark, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	c := &cursors{file: file, slots: make(map[string]int)}
	content, err := os.ReadFile(path)
	if err == nil && len(content) < minSlots*slotSize {
		content = append(content, make([]byte, minSlots*slotSize-len(content))...)
		_, err = file.WriteAt(content, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	marks, slots := readSlots(content)
	c.slots = slots
	return c, marks, nil
}

func readSlots(content []byte) (marks map[string]mark, slots map[string]int) {
	marks, slots = make(map[string]mark), make(map[string]int)
	for n := range len(content) / slotSize {
		slot := content[n*slotSize : (n+1)*slotSize]
		length := int(slot[slotMeta-1])
		if length == 0 || length > longestKind || castagnoli(slot[4:]) != binary.BigEndian.Uint32(slot) {
			continue
		}
		kind := string(slot[slotMeta : slotMeta+length])
		if m := readMark(slot[4:]); m.seq >= marks[kind].seq {
			marks[kind], slots[kind] = m, n
		}
	}
	return marks, slots
}

func (c *cursors) set(kind string, m mark) error {
	n, ok := c.slots[kind]
	if !ok {
		n = c.free()
		c.slots[kind] = n
	}
	slot := make([]byte, slotSize)
	copy(slot[4:], m.append(nil))
	slot[slotMeta-1] = byte(len(kind))
	copy(slot[slotMeta:], kind)
	binary.BigEndian.PutUint32(slot, castagnoli(slot[4:]))
	c.dirty = true
	_, err := c.file.WriteAt(slot, int64(n*slotSize))
	return err
}

// free gives the first slot that no kind has.
func (c *cursors) free() int {
	taken := make([]bool, len(c.slots)+1)
	for _, n := range c.slots {
		if n < len(taken) {
			taken[n] = true
		}
	}
	n := 0
	for taken[n] {
		n++
	}
	return n
}
