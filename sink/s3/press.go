package s3

import (
	"hash"
	"sync"
)

// press compresses what is written to it in a goroutine of its own, so that rows are encoded on one core while those before them are compressed on
// another. The goroutine begins with the first full chunk: a small file has none, and is compressed by Close.
//
// The goroutine waits for nothing but chunks, so Write is held up by compression alone, and Close and drop end it.
type press struct {
	z     compressor // the goroutine's while it runs
	hash  hash.Hash  // of the compressed bytes; the goroutine's too
	chunk []byte     // that is being filled
	some  bool       // a chunk was full since the last take
	full  chan []byte
	empty chan []byte
	done  chan struct{} // nil: the goroutine has not begun; closed by it at its end

	mu  sync.Mutex // guards out and err
	out []byte     // compressed bytes that nobody has taken yet
	err error
}

const (
	chunkBytes = 64 << 10
	// maxChunks is how many full ones may wait. With them, one that is being filled and one that is being compressed, an open file holds a quarter of a
	// MiB beside its part.
	maxChunks = 2
)

// newPress takes a compressor that press gives back at its end, and a hash that is the caller's again then.
func newPress(cs *compressors, c Compression, level int, h hash.Hash) (*press, error) {
	p := &press{hash: h}
	var err error
	p.z, err = cs.get(c, level, (*pressed)(p))
	return p, err
}

// pressed takes compressed bytes.
type pressed press

func (p *pressed) Write(b []byte) (int, error) {
	p.hash.Write(b)
	p.mu.Lock()
	p.out = append(p.out, b...)
	p.mu.Unlock()
	return len(b), nil
}

// Write implements [io.Writer].
func (p *press) Write(b []byte) (int, error) {
	p.chunk = append(p.chunk, b...)
	if len(p.chunk) < chunkBytes {
		return len(b), nil
	}
	if p.done == nil {
		p.full, p.empty, p.done = make(chan []byte, maxChunks), make(chan []byte, maxChunks), make(chan struct{})
		go p.run()
	}
	p.full <- p.chunk
	p.some = true
	select {
	case p.chunk = <-p.empty:
	default:
		p.chunk = make([]byte, 0, chunkBytes+chunkBytes/16)
	}
	return len(b), p.failure()
}

func (p *press) run() {
	defer close(p.done)
	for c := range p.full {
		if p.failure() == nil {
			p.fail(p.write(c))
		}
		if cap(c) > 2*chunkBytes {
			continue // of one long row
		}
		select {
		case p.empty <- c[:0]:
		default:
		}
	}
}

func (p *press) write(c []byte) error {
	_, err := p.z.Write(c)
	return err
}

func (p *press) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

func (p *press) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// take calls f with the compressed bytes that there are.
func (p *press) take(f func([]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.out)
	p.out, p.some = p.out[:0], false
}

// stop ends the goroutine.
func (p *press) stop() {
	if p.done != nil {
		close(p.full)
		<-p.done
		p.done = nil
	}
}

// Close compresses the rest, and ends the compressed file. take has all of it then.
func (p *press) Close() error {
	p.stop()
	if err := p.failure(); err != nil {
		return err
	}
	if err := p.write(p.chunk); err != nil {
		return err
	}
	return p.z.Close()
}

// drop frees the compressor of a file that nobody wants.
func (p *press) drop(cs *compressors) {
	p.stop()
	cs.put(p.z)
	p.z, p.chunk, p.out = nil, nil, nil // the compressor knows p until it is used again
}
