package protocol

import "slices"

// This file runs a checkpoint: prepare, save, commit; and what each failure on that way leads to.

func (m *Machine) checkpoint(atOnce bool) []Effect {
	m.cp++
	m.atOnce = atOnce
	m.receipts = nil
	m.phase, m.sink = preparing, 0
	return m.prepare()
}

// prepare goes on to the next sink, and to Save after the last (I2).
func (m *Machine) prepare() []Effect {
	if m.interrupted { // Save was certainly not sent
		return m.cleanUp(m.receipts, thenRetry, Transient)
	}
	if m.sink < m.cfg.Sinks {
		return []Effect{Prepare{m.sink, m.gen, m.cp, slices.Clone(m.from), slices.Clone(m.to)}}
	}
	m.phase = saving
	return []Effect{Save{m.gen, m.cp, slices.Clone(m.from), slices.Clone(m.to), m.receipts, m.settle}}
}

// saved follows the decision: from here on the only way is forward.
func (m *Machine) saved() []Effect {
	m.decided, m.decidedGen = m.cp, m.gen
	m.from = slices.Clone(m.to)
	m.settle = nil
	if !m.atOnce {
		m.tries, m.unclear = 0, 0
	}
	m.pending, m.receipts, m.retry = m.receipts, nil, nil
	m.commits = 0
	m.phase, m.sink = committing, 0
	return m.commit()
}

// commit goes on to the next decided receipt; all of them are tried in each pass even if one fails.
func (m *Machine) commit() []Effect {
	if m.sink < len(m.pending) {
		return []Effect{Commit{m.pending[m.sink]}}
	}
	if m.lost {
		return m.halt(Lost)
	}
	if len(m.retry) > 0 {
		m.pending, m.retry = m.retry, nil
		if m.interrupted { // decided: the next owner's first duty
			m.cleared()
			return m.giveUp()
		}
		m.commits++
		var fx []Effect
		if !m.paused {
			m.paused = true
			fx = append(fx, Pause{m.parts})
		}
		if m.cfg.AlarmAfter > 0 && m.commits >= m.cfg.AlarmAfter {
			fx = append(fx, Alarm{m.commits})
		}
		if m.cfg.StopAfter > 0 && m.commits >= m.cfg.StopAfter { // decided: the next owner's first duty
			m.cleared()
			m.phase = halted
			return append(fx, Halt{Class: Uncertain, Tries: m.commits})
		}
		m.phase = commitWait
		return append(fx, Wait{m.commits, Uncertain})
	}
	m.cleared()
	fx := []Effect{Hint{slices.Clone(m.from)}}
	if m.paused {
		m.paused = false
		fx = append(fx, Resume{m.parts})
	}
	return append(fx, m.checkpointed()...)
}

func (m *Machine) cleared() { m.pending, m.retry = nil, nil }

func (m *Machine) commitAgain() []Effect {
	if m.interrupted {
		m.cleared()
		return m.giveUp()
	}
	m.phase, m.sink = committing, 0
	return m.commit()
}

// checkpointed goes on with the request that the checkpoint was for.
func (m *Machine) checkpointed() []Effect {
	m.phase = running
	wasAtOnce := m.atOnce
	m.atOnce = false
	if wasAtOnce {
		return m.done() // the generation was just begun; the request that led to it is served with that
	}
	switch m.req {
	case assign:
		if m.interrupted {
			return m.giveUp()
		}
		return m.acquire()
	case revoke:
		return m.drop()
	}
	return m.done()
}

// uncommitted takes a failed Commit.
func (m *Machine) uncommitted(c Class) []Effect {
	switch c {
	case Fenced: // the successor's Open commits it
		m.cleared()
		return m.cleanUp(nil, thenConfirm, Fenced)
	case Lost:
		m.lost = true // the others are committed first
	default:
		m.retry = append(m.retry, m.pending[m.sink])
	}
	m.sink++
	return m.commit()
}

// unsaved takes a failed Save.
func (m *Machine) unsaved(c Class) []Effect {
	switch c {
	case Uncertain:
		// It may be the decision, now or when a request that is still on its way arrives. End stops the latter and tells. The Save is
		// not sent again: a second one that is told "fenced" would say nothing about the first.
		m.phase = asking
		return []Effect{End{m.gen}}
	case Fenced:
		return m.undecided(Fenced, nil)
	}
	return m.undecided(c, m.receipts) // certainly refused
}

func (m *Machine) askAgain(c Class) []Effect {
	m.tries++
	if c == Uncertain {
		m.unclear++
		if m.cfg.Attempts > 0 && m.unclear >= m.cfg.Attempts {
			return m.halt(Uncertain)
		}
	}
	if m.interrupted {
		return m.unknown()
	}
	m.phase = askWait
	return []Effect{Wait{m.tries, c}}
}

// unknown gives up while nobody tells what became of the Save. The next Acquire ends the generation for good and its claim tells. What the
// sinks still hold open is dropped, or it would be in that generation's first checkpoint.
func (m *Machine) unknown() []Effect { return m.cleanUp(nil, thenAcquire, Uncertain) }

// undecided takes a failure before the decision: the work is dropped and done again, or the lane is over. prepared is what may
// be aborted, because its Save was certainly never sent or certainly refused (I3).
func (m *Machine) undecided(c Class, prepared []Receipt) []Effect {
	if m.req == revoke && m.gone != nil {
		// Not tried again: whoever gets the partitions reads from the saved positions.
		if c == Fenced {
			prepared = nil
		}
		return m.cleanUp(prepared, thenDrop, c)
	}
	switch c {
	case Transient, Uncertain:
		return m.cleanUp(prepared, thenRetry, c)
	case Fenced:
		return m.cleanUp(nil, thenConfirm, c)
	case Redo: // no pause: it fails for another reason next time, or not at all
		return m.cleanUp(prepared, thenAcquire, c)
	}
	return m.cleanUp(prepared, thenHalt, c)
}

// cleanUp aborts what was prepared and discards what was not, then does what then says. Failures on the way do no harm: the next
// Open rolls back what is left, by exact name.
func (m *Machine) cleanUp(aborts []Receipt, then action, c Class) []Effect {
	m.aborts = slices.Clone(aborts)
	m.then, m.class = then, c
	m.receipts = nil
	return m.nextAbort()
}

func (m *Machine) nextAbort() []Effect {
	if len(m.aborts) > 0 {
		r := m.aborts[0]
		m.aborts = m.aborts[1:]
		m.phase = aborting
		return []Effect{Abort{r}}
	}
	m.phase, m.sink = discarding, 0
	return m.discard()
}

func (m *Machine) discard() []Effect {
	if m.sink < m.cfg.Sinks {
		return []Effect{Discard{m.sink}}
	}
	switch m.then {
	case thenRetry:
		return m.again(m.class)
	case thenAcquire:
		if m.interrupted {
			return m.giveUp()
		}
		if m.req == revoke {
			return m.drop()
		}
		return m.acquire()
	case thenConfirm:
		return m.reportFenced(m.confirm())
	case thenDrop:
		if m.req == revoke && m.class == Fenced {
			return m.reportFenced(m.drop())
		}
		return m.drop()
	}
	return m.halt(m.class)
}
