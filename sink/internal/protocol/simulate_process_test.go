package protocol

import (
	"slices"

	"github.com/flinksink/flinksink/changelog"
)

// simProcess is a member of the group with some lanes.
type simProcess struct {
	s           *simulation
	id          int
	alive       bool
	member      bool
	pausedUntil int64
	generation  int32 // of the group, as far as it knows
	lanes       []*simLane
}

// simLane is one machine and what its driver keeps.
type simLane struct {
	p        *simProcess
	number   int
	extra    uint8 // memory of a planted mistake
	m        *Machine
	c        *checker
	out      Effect
	token    int // of the effect that is out: an answer to another is late
	dead     bool
	adding   []changelog.Partition
	revoking []changelog.Partition
	read     map[changelog.Partition]int64
	given    [][]span // to each sink, not prepared
	tried    []work   // a Prepare that failed, for Discard to roll back
	gen      int64
	group    int32 // the group generation that it last acquired or confirmed with
	lastCut  int64
}

func (s *simulation) start(lanes int) *simProcess {
	p := &simProcess{s: s, id: s.next, alive: true, member: true}
	s.next++
	for n := range lanes {
		l := &simLane{p: p, number: n}
		l.renew()
		p.lanes = append(p.lanes, l)
	}
	s.procs = append(s.procs, p)
	s.note("process %d starts with %d lanes", p.id, lanes)
	s.rebalance()
	s.after(1+s.r.Int64N(20), p.beat)
	return p
}

// renew gives the lane a machine that holds nothing.
func (l *simLane) renew() {
	cfg := Settings{Sinks: len(l.p.s.sinks), AlarmAfter: 3, Group: true}
	l.m, l.c, l.out, l.token, l.extra = New(cfg), newChecker(cfg), nil, l.token+1, 0
	l.adding, l.revoking = nil, nil
	l.read = make(map[changelog.Partition]int64)
	l.given, l.tried = make([][]span, cfg.Sinks), make([]work, cfg.Sinks)
}

// beat is the process's heartbeat: it hears of the group, and each lane does something.
func (p *simProcess) beat() {
	s := p.s
	if !p.alive || s.failed != nil {
		return
	}
	if p.pausedUntil > s.now {
		s.after(p.pausedUntil-s.now, p.beat)
		return
	}
	s.after(20+s.r.Int64N(30), p.beat)
	if s.fault(0.004, "a process crashes") {
		s.note("process %d crashes", p.id)
		p.alive = false
		s.after(300, s.rebalance) // its session times out
		if s.r.IntN(3) > 0 {
			s.after(s.r.Int64N(500), func() { s.start(len(p.lanes)) })
		}
		return
	}
	if s.fault(0.006, "a process is stopped") {
		p.pausedUntil = s.now + 50 + s.r.Int64N(1500)
		s.note("process %d is stopped until %d", p.id, p.pausedUntil)
		s.after(300, func() {
			if p.pausedUntil > s.now && p.member {
				p.member = false
				s.note("process %d is thrown out", p.id)
				s.rebalance()
			}
		})
		return
	}
	if !p.member && s.r.IntN(3) == 0 { // it hears of it, some time after it woke
		p.member = true
		s.rebalance()
	}
	if p.member {
		p.generation = s.group.generation
	}
	for _, l := range p.lanes {
		l.work()
	}
}

// mine reports whether a partition is this lane's among those of the process.
func (l *simLane) mine(part changelog.Partition) bool {
	return l.p.s.group.owner[part] == l.p && int(part.Partition)%len(l.p.lanes) == l.number
}

// work does one thing that the lane's caller would do.
func (l *simLane) work() {
	s := l.p.s
	if l.dead {
		return
	}
	if l.out != nil {
		if s.fault(0.01, "patience ends") {
			l.step(Interrupt{})
		}
		return
	}
	held := l.m.Partitions()
	var add, gone, back []changelog.Partition
	for _, part := range s.parts {
		switch has := slices.Contains(held, part); {
		case has && !l.mine(part):
			gone = append(gone, part)
		case has && s.group.moving[part] != nil:
			back = append(back, part)
		case !has && l.mine(part) && s.group.moving[part] == nil && l.p.member:
			add = append(add, part)
		}
	}
	switch {
	case len(gone) > 0:
		if l.p.member || s.r.IntN(3) == 0 { // who was thrown out goes on for a while
			l.step(Lose{gone})
			return
		}
	case len(back) > 0:
		l.revoking = back
		l.step(Revoke{back})
		return
	case len(add) > 0:
		l.adding = add
		l.step(Assign{add})
		return
	}
	if len(held) == 0 {
		return
	}
	if !l.m.Owned() || s.now-l.lastCut > 150 {
		l.lastCut = s.now
		l.step(Barrier{})
		return
	}
	part := held[s.r.IntN(len(held))]
	at, known := l.m.Position(part)
	switch {
	case !known:
		return
	case at.TopicID[0] != s.topic: // the broker knows no such topic id
		s.note("process %d lane %d ends: the topic is another one", l.p.id, l.number)
		l.dead = true
		return
	}
	from := l.read[part]
	to := min(from+1+s.r.Int64N(4), s.messages)
	if from >= to {
		return
	}
	l.read[part] = to
	for i := range l.given {
		if s.fault(0.01, "a sink refuses a batch") {
			l.step(WriteFailed{i, []Class{Transient, Uncertain, Redo}[s.r.IntN(3)], []changelog.Partition{part}})
			return
		}
		l.given[i] = append(l.given[i], span{part, from, to})
	}
	at.Offset = to
	l.step(Advance{[]changelog.Position{at}})
}

// step feeds the machine and performs what it wants.
func (l *simLane) step(e Event) {
	s := l.p.s
	if s.failed != nil {
		return
	}
	s.steps++
	var fx []Effect
	if s.wrong != nil {
		fx, l.extra = s.wrong(l.m, e, l.extra)
	} else {
		fx = l.m.Step(e)
	}
	if s.log != nil {
		s.note("process %d lane %d > %v", l.p.id, l.number, e)
		for _, f := range fx {
			s.note("process %d lane %d %v", l.p.id, l.number, f)
		}
	}
	if err := l.c.step(e, fx); err != nil && s.wrong == nil {
		s.fail("process %d lane %d: %w", l.p.id, l.number, err)
		return
	}
	if _, ok := e.(Interrupt); ok {
		return
	}
	l.out = nil
	for _, f := range fx {
		switch f := f.(type) {
		case Done:
			l.served()
		case Halt:
			if f.Class != Fenced {
				l.dead = true
				s.note("process %d lane %d is over: %v", l.p.id, l.number, f.Class)
				return
			}
			l.giveBack()
			l.renew()
		default:
			if wantsAnswer(f) {
				l.out = f
				l.token++
				l.perform(f)
			}
		}
	}
}

func (l *simLane) giveBack() {
	for _, part := range l.revoking {
		if to := l.p.s.group.moving[part]; to != nil {
			l.p.s.give(part, to)
		}
	}
	l.revoking = nil
}

func (l *simLane) served() {
	for _, part := range l.adding {
		if at, ok := l.m.Position(part); ok {
			l.read[part] = at.Offset
			if at.TopicID[0] != l.p.s.topic {
				l.dead = true
			}
		}
	}
	l.adding = nil
	l.giveBack()
}

// answer comes back to a process that may have crashed, be stopped, or have given up.
func (l *simLane) answer(token int, e Event) {
	s := l.p.s
	switch {
	case !l.p.alive || l.dead || l.token != token || l.out == nil || s.failed != nil:
	case l.p.pausedUntil > s.now:
		s.after(l.p.pausedUntil-s.now, func() { l.answer(token, e) })
	default:
		l.step(e)
	}
}

// ask sends a request over the network. deliver is its moment at the server. then is told what it said.
func (l *simLane) ask(what string, store bool, deliver func() Event, then func(Event)) {
	s := l.p.s
	latency := func() int64 { return 1 + s.r.Int64N(8) }
	const patience = 100
	there := func() Event {
		if store && s.store.away > s.now {
			return nil
		}
		return deliver()
	}
	unclear := func() { s.after(patience, func() { then(Failed{Uncertain}) }) }
	switch {
	case s.fault(0.02, what+" is certainly refused"):
		s.after(latency(), func() { then(Failed{Transient}) })
	case s.fault(0.02, what+" never arrives"):
		unclear()
	case s.fault(0.02, "the answer to "+what+" is lost"):
		s.after(latency(), func() { there() })
		unclear()
	case s.fault(0.03, what+" arrives late"):
		s.late = append(s.late, s.after(patience+s.r.Int64N(3000), func() {
			s.note("late: %s of process %d", what, l.p.id)
			there()
		}))
		unclear()
	default:
		s.after(latency(), func() {
			if a := there(); a != nil {
				s.after(latency(), func() { then(a) })
			} else {
				unclear()
			}
		})
	}
}

// perform does one effect.
func (l *simLane) perform(f Effect) {
	s, token := l.p.s, l.token
	answer := func(e Event) { l.answer(token, e) }
	soon := func(e Event) { s.after(0, func() { answer(e) }) }
	switch f := f.(type) {
	case Acquire:
		group := l.p.generation
		l.ask("Acquire", true, func() Event { return s.acquire(f.Partitions, group) }, func(e Event) {
			if a, ok := e.(Acquired); ok && l.token == token {
				l.gen = a.Generation
			}
			answer(e)
		})
	case Open:
		l.open(f, token)
	case Begin:
		var at []changelog.Position
		for _, p := range f.Partitions {
			at = append(at, changelog.Position{Partition: p, TopicID: changelog.TopicID{s.topic}})
		}
		soon(Begun{at})
	case Seek:
		for _, p := range f.To {
			if p.TopicID[0] != s.topic {
				soon(Failed{Lost})
				return
			}
			l.read[p.Partition] = p.Offset
		}
		soon(Sought{})
	case Prepare:
		l.prepare(f, token)
	case Save:
		var tx *simTx
		if s.sinks[0].kind == ownStore {
			tx = s.store.gen(f.Generation).tx
		}
		l.ask("Save", true, func() Event { return s.save(f, tx) }, answer)
	case End:
		l.ask("End", true, func() Event {
			s.store.end(f.Generation)
			return AllEnded{s.store.gen(f.Generation).last}
		}, answer)
	case Commit:
		l.ask("Commit", false, func() Event {
			return s.commit(s.sinks[f.Receipt.Sink], work{f.Receipt.Generation, f.Receipt.Checkpoint})
		}, answer)
	case Abort:
		l.ask("Abort", false, func() Event {
			delete(s.sinks[f.Receipt.Sink].staged, work{f.Receipt.Generation, f.Receipt.Checkpoint})
			return Aborted{}
		}, answer)
	case Discard:
		w := l.tried[f.Sink]
		l.given[f.Sink], l.tried[f.Sink] = nil, work{}
		k := s.sinks[f.Sink]
		switch {
		case k.kind == ownStore && l.gen > 0:
			if g := s.store.gen(l.gen); g.tx != nil {
				g.tx.dead, g.tx = true, nil
			}
		case k.kind.twoSteps() && w != (work{}):
			l.ask("Discard", false, func() Event {
				delete(k.staged, w)
				return Discarded{}
			}, answer)
			return
		}
		soon(Discarded{})
	case Confirm:
		parts := slices.Clone(l.m.Partitions())
		l.ask("Confirm", false, func() Event {
			for _, part := range parts {
				if !l.p.member || s.group.owner[part] != l.p {
					return Confirmed{}
				}
			}
			l.p.generation = s.group.generation
			return Confirmed{true}
		}, answer)
	case Wait:
		s.after(10*int64(min(f.N, 10)), func() { answer(Waited{}) })
	}
}

func (l *simLane) prepare(f Prepare, token int) {
	s, k, w := l.p.s, l.p.s.sinks[f.Sink], work{f.Generation, f.Checkpoint}
	what := l.given[f.Sink]
	if len(what) == 0 && k.kind != ownStore {
		s.after(0, func() { l.answer(token, Prepared{f.Sink, true}) })
		return
	}
	l.ask("Prepare", k.kind == ownStore, func() Event {
		if k.kind == ownStore {
			g := s.store.gen(f.Generation)
			if g.ended {
				return Failed{Fenced}
			}
			if l.token != token { // the connection of a call that was given up is gone
				return nil
			}
			g.tx = &simTx{sink: k, what: what}
			return Prepared{f.Sink, true}
		}
		return s.prepare(k, w, what)
	}, func(e Event) {
		if l.token == token {
			if _, failed := e.(Failed); failed {
				l.tried[f.Sink] = w
			} else {
				l.given[f.Sink] = nil
			}
		}
		l.answer(token, e)
	})
}

// open sends an adapter's requests one by one: commit what is decided, fence, roll back the rest.
func (l *simLane) open(f Open, token int) {
	s, k := l.p.s, l.p.s.sinks[f.Sink]
	type request struct {
		what string
		do   func() Event
	}
	var reqs []request
	if k.kind.twoSteps() {
		for _, e := range f.Ended {
			for _, r := range s.store.gen(e.Generation).pending {
				if r.Sink == f.Sink {
					reqs = append(reqs, request{"Commit of the claim", func() Event { return s.commit(k, work{r.Generation, r.Checkpoint}) }})
				}
			}
		}
		reqs = append(reqs,
			request{"Fence", func() Event {
				for _, e := range f.Ended {
					k.fenced[e.Generation] = true
				}
				return Opened{f.Sink}
			}},
			request{"Rollback", func() Event { s.rollBack(k, f.Ended); return Opened{f.Sink} }})
	}
	var next func()
	next = func() {
		if len(reqs) == 0 {
			l.answer(token, Opened{f.Sink})
			return
		}
		r := reqs[0]
		reqs = reqs[1:]
		l.ask(r.what, false, r.do, func(e Event) {
			if _, failed := e.(Failed); failed {
				l.answer(token, e)
				return
			}
			if l.p.alive && l.token == token {
				next()
			}
		})
	}
	next()
}
