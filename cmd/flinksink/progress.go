package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	redraw = 500 * time.Millisecond // of the line on a terminal
	tell   = 10 * time.Second       // between two lines where there is no terminal
)

// progress shows how far a bridge is: one line that is rewritten on a terminal, a line now and then elsewhere. It is also the writer
// of everything else that goes to the same place meanwhile, so that nothing is printed into the middle of the line.
type progress struct {
	show func() string // what the line says now; called without mu

	w       io.Writer
	width   func() int // of the terminal, 0 where it is not known; nil: w is none
	secrets []string

	mu    sync.Mutex // guards w and drawn
	drawn int        // characters on the line

	stop, done chan struct{}
}

// newProgress shows nothing until start.
func newProgress(w io.Writer, secrets []string) *progress {
	p := &progress{w: w, secrets: secrets}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.width = func() int {
			n, _, _ := term.GetSize(int(f.Fd()))
			return n
		}
	}
	return p
}

// start shows the line from now on, until end.
func (p *progress) start(show func() string) {
	p.show, p.stop, p.done = show, make(chan struct{}), make(chan struct{})
	every := tell
	if p.width != nil {
		every = redraw
	}
	go func() {
		defer close(p.done)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.draw(p.show())
			case <-p.stop:
				return
			}
		}
	}()
}

// end takes the line away. It returns once nothing is drawn any more.
func (p *progress) end() {
	if p.stop == nil {
		return
	}
	close(p.stop)
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) draw(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width == nil {
		fmt.Fprintln(p.w, line)
		return
	}
	if width := p.width(); width > 1 && len(line) >= width {
		line = line[:width-1] // a line that wraps cannot be rewritten; it is ASCII
	}
	p.clear()
	io.WriteString(p.w, line)
	p.drawn = len(line)
}

// clear overwrites the line with blanks, which every terminal understands. p.mu is held.
func (p *progress) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.drawn))
		p.drawn = 0
	}
}

// Write prints whole lines, without secrets.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if _, err := io.WriteString(p.w, hide(string(b), p.secrets)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// thousands prints a number in groups of three digits.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
