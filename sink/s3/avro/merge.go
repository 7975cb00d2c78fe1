package avro

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/flinksink/flinksink/sink/s3"
)

var _ s3.Merger = Format{}

// maxBlock is longer than any block or header.
const maxBlock = 1 << 30

var errDamaged = errors.New("a file of Avro is damaged")

// Merge implements [s3.Merger]. Blocks are copied as they are, under the first file's header: nothing is decoded. Files of another schema or
// codec are [s3.ErrUnlike].
func (Format) Merge(w io.Writer, next func() (io.ReadCloser, error)) error {
	var first *header
	for {
		r, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		first, err = mergeOne(w, r, first)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
}

func mergeOne(w io.Writer, r io.Reader, first *header) (*header, error) {
	in := bufio.NewReader(r)
	h, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	if first == nil {
		first = h
		if _, err := w.Write(h.bytes); err != nil {
			return nil, err
		}
	} else if !maps.Equal(h.meta, first.meta) {
		return nil, s3.ErrUnlike
	}
	var block []byte
	for {
		if _, err := in.Peek(1); err == io.EOF {
			return first, nil
		}
		rows, err := readLong(in)
		if err != nil {
			return nil, err
		}
		size, err := readLong(in)
		if err != nil {
			return nil, err
		}
		if rows < 0 || size < 0 || size > maxBlock {
			return nil, errDamaged
		}
		block = binary.AppendVarint(binary.AppendVarint(block[:0], rows), size)
		out := bytes.NewBuffer(block) // grows as bytes come, not by what a damaged length says
		if _, err := io.CopyN(out, in, size+16); err != nil {
			return nil, cutOff(err)
		}
		block = out.Bytes()
		sync := block[len(block)-16:]
		if string(sync) != string(h.sync) {
			return nil, errDamaged
		}
		copy(sync, first.sync)
		if _, err := w.Write(block); err != nil {
			return nil, err
		}
	}
}

// header is that of an object container: magic, a map of texts to bytes, a marker that ends every block.
type header struct {
	meta  map[string]string
	sync  []byte
	bytes []byte // all of it
}

const magic = "Obj\x01"

func readHeader(in *bufio.Reader) (*header, error) {
	h := &header{meta: map[string]string{}}
	text := make([]byte, len(magic))
	if _, err := io.ReadFull(in, text); err != nil || string(text) != magic {
		return nil, errors.Join(errDamaged, err)
	}
	h.bytes = text
	long := func() int64 {
		n, err := readLong(in)
		if err != nil {
			return -1
		}
		h.bytes = binary.AppendVarint(h.bytes, n)
		return n
	}
	str := func() (string, error) {
		n := long()
		if n < 0 || n > maxBlock {
			return "", errDamaged
		}
		b, err := io.ReadAll(io.LimitReader(in, n))
		if err == nil && int64(len(b)) < n {
			err = io.EOF
		}
		h.bytes = append(h.bytes, b...)
		return string(b), cutOff(err)
	}
	for {
		n, err := readLong(in)
		if err != nil {
			return nil, err
		}
		h.bytes = binary.AppendVarint(h.bytes, n)
		if n == 0 {
			break
		}
		if n < 0 { // a count with its size in bytes
			n = -n
			long()
		}
		for ; n > 0; n-- {
			k, err := str()
			if err != nil {
				return nil, err
			}
			if h.meta[k], err = str(); err != nil {
				return nil, err
			}
		}
	}
	h.sync = make([]byte, 16)
	_, err := io.ReadFull(in, h.sync)
	h.bytes = append(h.bytes, h.sync...)
	return h, cutOff(err)
}

func readLong(in *bufio.Reader) (int64, error) {
	n, err := binary.ReadVarint(in)
	return n, cutOff(err)
}

// cutOff keeps a file that ends too early from looking as if it were whole.
func cutOff(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it is cut off", errDamaged)
	}
	return err
}
