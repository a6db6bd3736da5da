package docqueue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
)

// What follows is bbolt's file format, version 2 (internal/common of go.etcd.io/bbolt v1.5). Numbers are of the machine's
// byte order.
const (
	pageHead    = 16 // id (8 bytes), flags (2), count (2), overflow (4)
	elementSize = 16
	metaSize    = 64
	bucketHead  = 16 // root (8 bytes), sequence (8)

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketLeaf   = 0x01
	noFreelist   = ^uint64(0)
	// deepest is far more levels than there can be.
	deepest = 32
)

// verify checks that a bbolt file hangs together: that each page is where it says it is, is in use once or free, and has
// ascending keys. bbolt itself checks its two first pages only, and loops for ever, or writes over documents, where others
// are damaged. A page's content is not looked at: documents have checksums of their own. A new file is empty, or as bbolt
// makes it.
func verify(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return mapped(path, func(content []byte) error {
		if err := verifyFile(content, os.Getpagesize()); err != nil {
			return &damageError{err}
		}
		return nil
	})
}

// pages walks through a file.
type pages struct {
	content []byte
	size    int
	used    []bool // by page id, up to the high-water mark
}

// verifyFile checks a file. Both of its two first pages must be well: bbolt would go on with the older one, without the last
// documents.
func verifyFile(content []byte, pageSize int) error {
	if len(content) < 4*pageSize {
		return fmt.Errorf("it ends after %d bytes", len(content))
	}
	var meta []byte
	for n := range 2 {
		m := content[n*pageSize+pageHead:][:metaSize]
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56]) // Never fails.
		if sum.Sum64() != number64(m[56:]) {
			return fmt.Errorf("the checksum of page %d does not fit", n)
		}
		if meta == nil || number64(m[48:]) > number64(meta[48:]) {
			meta = m
		}
	}
	root, freelist, end := number64(meta[16:]), number64(meta[32:]), number64(meta[40:])
	if size := number32(meta[8:]); int(size) != pageSize {
		return fmt.Errorf("its pages have %d bytes", size)
	}
	if end > uint64(len(content)/pageSize) {
		return fmt.Errorf("it ends before page %d", end-1)
	}
	p := &pages{content: content, size: pageSize, used: make([]bool, end)}
	p.used[0], p.used[1] = true, true
	if err := p.walk(root, nil, nil, 0); err != nil {
		return err
	}
	if freelist != noFreelist {
		if err := p.free(freelist); err != nil {
			return err
		}
	}
	if at := slices.Index(p.used, false); at >= 0 {
		return fmt.Errorf("page %d is neither used nor free", at)
	}
	return nil
}

func number32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func number64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// page gives a page with its overflow, which nothing else may have.
func (p *pages) page(id uint64) (page []byte, flags uint16, count int, err error) {
	if id < 2 || id >= uint64(len(p.used)) {
		return nil, 0, 0, fmt.Errorf("there is no page %d", id)
	}
	page = p.content[int(id)*p.size:]
	more := uint64(number32(page[12:]))
	if number64(page) != id || id+more >= uint64(len(p.used)) {
		return nil, 0, 0, fmt.Errorf("page %d is none", id)
	}
	for n := id; n <= id+more; n++ {
		if p.used[n] {
			return nil, 0, 0, fmt.Errorf("page %d is used twice", n)
		}
		p.used[n] = true
	}
	return page[:int(more+1)*p.size], binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:])), nil
}

// walk checks a page and all below it. Their keys are not below low, and below high where there is one.
func (p *pages) walk(id uint64, low, high []byte, depth int) error {
	page, flags, count, err := p.page(id)
	if err == nil && depth > deepest {
		err = fmt.Errorf("page %d is too deep", id)
	}
	if err != nil {
		return err
	}
	switch flags {
	case leafPage:
		err = p.leaf(page, count, low, high, depth)
	case branchPage:
		err = p.branch(page, count, low, high, depth)
	default:
		err = fmt.Errorf("its flags are %x", flags)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// part gives the bytes that an element points to.
func part(page []byte, count, element int, offset uint32, length uint64) ([]byte, error) {
	start := uint64(pageHead+element*elementSize) + uint64(offset)
	if start < uint64(pageHead+count*elementSize) || start+length > uint64(len(page)) {
		return nil, fmt.Errorf("element %d lies outside", element)
	}
	return page[start : start+length], nil
}

// ascending checks that a key comes behind the one before, and before high.
func ascending(key, before, high []byte, first bool) error {
	if c := bytes.Compare(key, before); c < 0 || c == 0 && !first || high != nil && bytes.Compare(key, high) >= 0 {
		return fmt.Errorf("key %q is out of order", key)
	}
	return nil
}

func (p *pages) leaf(page []byte, count int, low, high []byte, depth int) error {
	if pageHead+count*elementSize > len(page) {
		return errors.New("it has too many elements")
	}
	before := low
	for n := range count {
		element := page[pageHead+n*elementSize:]
		flags, keySize, valueSize := number32(element), uint64(number32(element[8:])), uint64(number32(element[12:]))
		pair, err := part(page, count, n, number32(element[4:]), keySize+valueSize)
		if err != nil {
			return err
		}
		key, value := pair[:keySize], pair[keySize:]
		if err := ascending(key, before, high, n == 0); err != nil {
			return err
		}
		before = key
		switch flags {
		case 0:
		case bucketLeaf:
			if err := p.bucket(value, depth); err != nil {
				return fmt.Errorf("bucket %q: %w", key, err)
			}
		default:
			return fmt.Errorf("the flags of element %d are %x", n, flags)
		}
	}
	return nil
}

// bucket checks a bucket, whose only page may be in its parent's.
func (p *pages) bucket(value []byte, depth int) error {
	if len(value) < bucketHead {
		return errors.New("it is cut short")
	}
	if root := number64(value); root != 0 {
		return p.walk(root, nil, nil, depth+1)
	}
	inline := value[bucketHead:]
	if len(inline) < pageHead || binary.NativeEndian.Uint16(inline[8:]) != leafPage || depth > deepest {
		return errors.New("its page is none")
	}
	return p.leaf(inline, int(binary.NativeEndian.Uint16(inline[10:])), nil, nil, depth+1)
}

func (p *pages) branch(page []byte, count int, low, high []byte, depth int) error {
	if count == 0 || pageHead+count*elementSize > len(page) {
		return errors.New("it has no elements, or too many")
	}
	keys := make([][]byte, count+1)
	for n := range count {
		element := page[pageHead+n*elementSize:]
		key, err := part(page, count, n, number32(element), uint64(number32(element[4:])))
		if err != nil {
			return err
		}
		before := low
		if n > 0 {
			before = keys[n-1]
		}
		if err := ascending(key, before, high, n == 0); err != nil {
			return err
		}
		keys[n] = key
	}
	keys[count] = high
	for n := range count {
		if err := p.walk(number64(page[pageHead+n*elementSize+8:]), keys[n], keys[n+1], depth+1); err != nil {
			return err
		}
	}
	return nil
}

// free checks the list of free pages.
func (p *pages) free(id uint64) error {
	page, flags, count, err := p.page(id)
	if err != nil {
		return err
	}
	ids := page[pageHead:]
	if count == 0xffff { // The true number is the first of them.
		count, ids = int(min(number64(ids), uint64(len(page)))), ids[8:]
	}
	if flags != freelistPage || count*8 > len(ids) {
		return fmt.Errorf("page %d is no list of free pages", id)
	}
	for n := range count {
		free := number64(ids[n*8:])
		if free < 2 || free >= uint64(len(p.used)) || p.used[free] {
			return fmt.Errorf("page %d is not free", free)
		}
		p.used[free] = true
	}
	return nil
}
