package protocol

import "github.com/flinksink/flinksink/changelog"

// This file begins and ends generations: acquire, open every sink, begin, seek; and what happens when a generation is over.

func (m *Machine) acquire() []Effect {
	if len(m.parts) == 0 {
		m.phase = unowned
		return m.done()
	}
	if m.cfg.Group && m.slept { // the group may have given them to another member meanwhile, whom an Acquire would fence (I11)
		return m.confirm()
	}
	m.phase = acquiring
	return []Effect{Acquire{m.parts}}
}

// open goes on to the next sink. Opened from all of them means that everything the ended generations decided is committed and everything
// else of theirs rolled back: only then may they be called settled (I8), and only then is the first Write.
func (m *Machine) open() []Effect {
	if m.interrupted {
		return m.giveUp()
	}
	if m.sink < m.cfg.Sinks {
		return []Effect{Open{m.sink, m.gen, m.ended}}
	}
	for _, e := range m.ended {
		m.settle = append(m.settle, e.Generation)
	}
	var unknown []changelog.Partition
	for _, p := range m.parts {
		if _, ok := find(m.from, p); !ok {
			unknown = append(unknown, p)
		}
	}
	if len(unknown) > 0 {
		m.phase = beginning
		return []Effect{Begin{unknown}}
	}
	return m.seek()
}

// seek moves the source where it does not stand at the saved positions. Partitions that are being added are left to the caller
// of Assign, whose consumer is not there yet.
func (m *Machine) seek() []Effect {
	if m.interrupted {
		return m.giveUp()
	}
	m.to = append([]changelog.Position(nil), m.from...)
	var to []changelog.Position
	for _, p := range m.from {
		if i, ok := find(m.at, p.Partition); ok && m.at[i].Offset == p.Offset {
			continue
		}
		if contains(m.added, p.Partition) {
			m.at = put(m.at, p)
			continue
		}
		to = append(to, p)
	}
	if len(to) > 0 {
		m.phase = seeking
		return []Effect{Seek{to}}
	}
	return m.start()
}

// start begins the running phase. What was there to settle, or begins for the first time, is saved at once, even with nothing read.
func (m *Machine) start() []Effect {
	if m.interrupted {
		return m.giveUp()
	}
	m.phase = running
	if (len(m.settle) > 0 || m.atOnce) && !m.cfg.Outer {
		return m.checkpoint(true)
	}
	return m.done()
}

// again waits and acquires anew, unless too many failures in a row were unclear.
func (m *Machine) again(c Class) []Effect {
	if m.interrupted {
		return m.giveUp()
	}
	m.tries++
	if c == Uncertain {
		m.unclear++
		if m.cfg.Attempts > 0 && m.unclear >= m.cfg.Attempts {
			return m.halt(Uncertain)
		}
	}
	m.phase = acquireWait
	return []Effect{Wait{m.tries, c}}
}

// confirm asks whether the partitions are still this lane's to acquire.
func (m *Machine) confirm() []Effect {
	if m.interrupted {
		return m.giveUp()
	}
	m.phase = confirming
	return []Effect{Confirm{}}
}

func (m *Machine) waited() []Effect {
	if m.interrupted {
		switch m.phase {
		case commitWait:
		case askWait:
			return m.unknown()
		default:
			return m.giveUp()
		}
	}
	m.slept = true
	switch m.phase {
	case acquireWait:
		return m.acquire()
	case confirmWait:
		return m.confirm()
	case askWait:
		m.phase = asking
		return []Effect{End{m.gen}}
	case commitWait:
		return m.commitAgain()
	}
	panic("protocol: waited for nothing")
}

// drop gives back what is gone and goes on with what is left: in a new generation, or in none.
func (m *Machine) drop() []Effect {
	owned := m.phase != unowned
	m.remove()
	if m.interrupted {
		return m.giveUp()
	}
	if len(m.parts) > 0 {
		if !owned {
			return m.done()
		}
		return m.acquire()
	}
	if !owned {
		return m.done()
	}
	m.phase = leaving
	return []Effect{End{m.gen}}
}

// leave follows the End of a lane that holds nothing any more. A failed one does no harm: whoever acquires the partitions ends the
// generation too.
func (m *Machine) leave() []Effect {
	m.phase = unowned
	return m.done()
}

// failed takes a bad answer to the effect that is out.
func (m *Machine) failed(c Class) []Effect {
	switch m.phase {
	case acquiring, opening, beginning, seeking:
		// Nothing of this generation is written. A generation whose Acquire or Open was unclear is used up: to open again is to acquire anew.
		switch c {
		case Transient, Uncertain:
			return m.again(c)
		case Fenced:
			return m.reportFenced(m.confirm())
		}
		if m.interrupted {
			return m.giveUp()
		}
		return m.halt(c)
	case preparing:
		return m.undecided(c, m.receipts)
	case saving:
		return m.unsaved(c)
	case asking:
		switch c {
		case Transient, Uncertain:
			return m.askAgain(c)
		}
		return m.halt(c)
	case committing:
		return m.uncommitted(c)
	case aborting:
		return m.nextAbort()
	case discarding:
		m.sink++
		return m.discard()
	case confirming:
		if m.interrupted {
			return m.giveUp()
		}
		m.tries++
		m.phase = confirmWait
		return []Effect{Wait{m.tries, c}}
	case leaving:
		return m.leave()
	case acquireWait, askWait, confirmWait, commitWait:
		m.interrupted = true // a Wait fails only when the caller's patience ends
		return m.waited()
	}
	panic("protocol: failure of nothing")
}
