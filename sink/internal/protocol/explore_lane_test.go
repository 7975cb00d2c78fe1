package protocol

// What lanes do in the world: an effect becomes requests, in order, as an adapter sends them; answers become events.

// feed gives a lane's machine an event, and answers by itself whatever asks nobody outside the process.
func (x *space) feed(w *world, l int, k told) {
	for {
		st := x.step(w.Lanes[l].Node, k)
		if st.broken != "" {
			w.bad(badInvariant)
			x.problem = st.broken
			return
		}
		ln, n := &w.Lanes[l], &x.nodes[st.to]
		ln.Node, ln.Step = st.to, 0
		if st.done {
			x.served(w, ln, n)
		}
		if n.halted {
			x.end(w, l)
			if st.halt != Fenced { // a fenced lane is made anew and waits for the group; what is lost, people must see to
				w.Lanes[l].Dead = 1
			}
			return
		}
		var local bool
		if k, local = x.local(w, l, n.out); !local {
			return
		}
	}
}

// served follows Done: the caller of Assign moves its source, the caller of Revoke gives back.
func (x *space) served(w *world, ln *lane, n *node) {
	for p := range uint8(nParts) {
		if ln.Adding>>p&1 == 1 && n.known>>p&1 == 1 {
			ln.Read[p] = n.at[p]
		}
	}
	ln.Adding = 0
	w.give(ln)
}

// give lets the group pass on what a lane gave back.
func (w *world) give(ln *lane) {
	if ln.Giving != 0 {
		for p := range uint8(nParts) {
			if ln.Giving>>p&1 == 1 {
				w.Assigned[p] = ln.GiveTo + 1
			}
		}
		w.Group++
		ln.Giving, ln.GiveTo = 0, 0
	}
}

// end puts a new process in a lane's place. The server ends an open transaction of a connection that is gone.
func (x *space) end(w *world, l int) {
	w.give(&w.Lanes[l])
	w.Lanes[l] = lane{Node: fresh}
}

// local answers an effect that needs no server.
func (x *space) local(w *world, l int, f want) (k told, ok bool) {
	ln := &w.Lanes[l]
	switch f.kind {
	case wantWait:
		return told{kind: tWaited}, true
	case wantSeek:
		for p := range uint8(nParts) {
			if f.parts>>p&1 == 1 {
				ln.Read[p] = f.to[p]
			}
		}
		return told{kind: tSought}, true
	case wantBegin:
		return told{kind: tBegun, parts: f.parts}, true
	case wantPrepare:
		if ln.Given[f.sink] == 0 {
			return told{kind: tPrepared, sink: f.sink, yes: true}, true
		}
	case wantOpen, wantDiscard:
		if len(x.requests(w, l)) == 0 {
			return x.answer(w, l, f), true
		}
	}
	return k, false
}

// requests lists what the effect that is out asks of servers.
func (x *space) requests(w *world, l int) []wire {
	ln, f := &w.Lanes[l], &x.nodes[w.Lanes[l].Node].out
	q := x.queue[:0]
	r := wire{Sink: f.sink, Lane: uint8(l), Gen: ln.Gen, Cp: f.cp}
	add := func(kind uint8) {
		r.Kind = kind
		q = append(q, r)
	}
	k := x.kinds[f.sink]
	session := func() { r.Name, r.Epoch = x.name(w, ln.Gen), ln.Epoch[f.sink] }
	switch f.kind {
	case wantAcquire:
		if x.outer {
			q = append(q, wire{Kind: rNext, Lane: uint8(l), Mask: f.parts, Group: ln.Run})
			break
		}
		q = append(q, wire{Kind: rAcquire, Lane: uint8(l), Mask: f.parts, Group: ln.Group})
	case wantConfirm:
		q = append(q, wire{Kind: rConfirm, Lane: uint8(l), Mask: x.nodes[ln.Node].held})
	case wantOpen:
		q = x.opening(w, l, f, q)
	case wantPrepare:
		r.What = ln.Given[f.sink]
		switch k {
		case sessions:
			session()
			add(rSend)
		case ownStore:
			add(rStatements)
		case convergent:
			add(rWrite)
		default:
			add(rPrepare)
		}
	case wantSave:
		r = wire{Kind: rSave, Lane: uint8(l), Gen: f.gen, Cp: f.cp, Receipts: f.receipts, Mask: f.ending, From: f.from, To: f.to}
		for s, k := range x.kinds {
			switch k {
			case sessions:
				r.Epoch = ln.Epoch[s]
			case ownStore:
				r.What = ln.InTx
			}
		}
		q = append(q, r)
	case wantEnd:
		q = append(q, wire{Kind: rEnd, Lane: uint8(l), Gen: f.gen})
	case wantCommit, wantAbort:
		kind := rCommit
		if f.kind == wantAbort {
			kind = rAbort
		}
		r.Gen = f.gen
		if k == sessions {
			session()
			kind += rCommitTxn - rCommit
		}
		add(kind)
	case wantDiscard:
		if r.Cp = ln.Tried[f.sink]; r.Cp != 0 {
			if k == sessions {
				session()
				add(rAbortTxn)
			} else if k != convergent {
				add(rAbort)
			}
		}
	}
	x.queue = q
	return q
}

// opening lists the requests of Open: commit what is decided, then fence, then roll back the rest.
func (x *space) opening(w *world, l int, f *want, q []wire) []wire {
	ln, k := &w.Lanes[l], x.kinds[f.sink]
	commits := func() {
		for h := uint8(1); h < nGens; h++ {
			if cp := x.listed(w, ln, f.sink, h); f.ending>>h&1 == 1 && cp != 0 {
				if k == sessions {
					q = append(q, wire{Kind: rCommitTxn, Sink: f.sink, Lane: uint8(l), Gen: h, Cp: cp, Name: x.name(w, h), Epoch: w.Gens[h].Epoch})
				} else {
					q = append(q, wire{Kind: rCommit, Sink: f.sink, Lane: uint8(l), Gen: h, Cp: cp})
				}
			}
		}
	}
	over := f.ending
	if k.sweeps() && !x.wrong.noSweep {
		// Settled ones too: a late request may have left something after the last sweep. But not those that are over, unsettled, and of
		// other partitions than the claim's: what they decided is not ours to know.
		for h := uint8(1); h < ln.Gen; h++ {
			if w.Gens[h].Settled == 1 || x.wrong.sweepsAll && w.Gens[h].Set != 0 && w.ended(h) {
				over |= 1 << h
			}
		}
	}
	fence := func() { // every generation of the claim, also one that never held a partition of ours: nobody else will
		fenced := f.ending
		for h := uint8(1); h < nGens && x.wrong.fencesOwnPartitions; h++ {
			if w.Gens[h].Set&w.Gens[ln.Gen].Set == 0 {
				fenced &^= 1 << h
			}
		}
		if fenced != 0 {
			q = append(q, wire{Kind: rFence, Sink: f.sink, Lane: uint8(l), Gen: ln.Gen, Mask: fenced})
		}
	}
	roll := func() {
		if over != 0 {
			r := wire{Kind: rRollBack, Sink: f.sink, Lane: uint8(l), Gen: ln.Gen, Mask: over}
			if x.outer { // what it keeps is what its own state lists, whatever the engine has decided since
				r.Name, r.Cp = ln.Base.Gen, x.listed(w, ln, f.sink, ln.Base.Gen)
			}
			q = append(q, r)
		}
	}
	switch k {
	case twoPhase:
		commits()
		fence()
		roll()
	case locked:
		commits()
		if !x.wrong.fenceFirst {
			roll()
		}
		fence()
		roll()
	case unfenced:
		commits()
		roll()
	case sessions:
		if !x.wrong.fenceBeforeCommit {
			commits()
		}
		for h := uint8(1); h < nGens; h++ {
			if name := x.name(w, h); over>>h&1 == 1 && name != x.name(w, ln.Gen) && (!x.wrong.sessionsNamedByPartition || w.Gens[ln.Gen].Set>>(name-1)&1 == 1) {
				q = append(q, wire{Kind: rInit, Sink: f.sink, Lane: uint8(l), Gen: h, Name: name})
			}
		}
		if x.wrong.fenceBeforeCommit {
			commits()
		}
		q = append(q, wire{Kind: rInit, Sink: f.sink, Lane: uint8(l), Gen: ln.Gen, Name: x.name(w, ln.Gen)})
	}
	return q
}

// answer is the good answer to an effect, once all its requests are done.
func (x *space) answer(w *world, l int, f want) told {
	ln := &w.Lanes[l]
	switch f.kind {
	case wantAcquire:
		k := told{kind: tAcquired, gen: ln.Gen, parts: f.parts & w.Known, ended: ln.Claim}
		pos := w.Pos
		if x.outer {
			pos, k.parts = ln.Base.Pos, 0
			if ln.Base.Gen != 0 {
				k.parts = f.parts
			}
		}
		for p := range uint8(nParts) {
			if k.parts>>p&1 == 1 {
				k.at[p] = pos[p]
			}
		}
		for h := uint8(1); h < nGens; h++ {
			for s := range uint8(nSinks) {
				if ln.Claim>>h&1 == 1 && x.listed(w, ln, s, h) != 0 {
					k.decided[h]++
				}
			}
		}
		return k
	case wantOpen:
		return told{kind: tOpened, sink: f.sink}
	case wantPrepare:
		if x.kinds[f.sink] == ownStore {
			ln.Tx, ln.InTx = 1, ln.Given[f.sink]
		}
		ln.Given[f.sink] = 0
		return told{kind: tPrepared, sink: f.sink, yes: !x.kinds[f.sink].twoSteps()}
	case wantSave:
		return told{kind: tSaved}
	case wantEnd:
		return told{kind: tAllEnded, gen: w.Gens[f.gen].Last}
	case wantCommit:
		return told{kind: tCommitted}
	case wantAbort:
		return told{kind: tAborted}
	case wantDiscard:
		ln.Given[f.sink], ln.Tried[f.sink] = 0, 0
		if x.kinds[f.sink] == ownStore {
			ln.Tx, ln.InTx = 0, 0
		}
		return told{kind: tDiscarded}
	}
	return told{kind: tConfirmed, yes: true}
}

// ask sends the lane's next request, which is answered at once. It reports whether anything happened.
func (x *space) ask(w *world, l int) bool {
	ln := &w.Lanes[l]
	f := x.nodes[ln.Node].out
	q := x.requests(w, l)
	r, n := q[ln.Step], len(q)
	if r.Kind == rSave && ln.Tx == 2 { // COMMIT on a connection that the server ended: nothing happened, and nobody says so
		ln.Tx, ln.InTx = 0, 0
		x.feed(w, l, told{kind: tFailed, class: Uncertain})
		return true
	}
	epoch := w.Sinks[r.Sink].Sessions[r.Name].Epoch
	switch x.deliver(w, r) {
	case ok:
		switch own := r.Gen == ln.Gen; {
		case r.acquires():
			if x.outer {
				if x.number(w, ln) <= ln.Gen { // what External sees by itself
					x.feed(w, l, told{kind: tFailed, class: Config})
					return true
				}
				x.claim = x.outerClaim(w, ln)
			}
			ln.Gen, ln.Claim, ln.Epoch = x.number(w, ln), x.claim, [nSinks]uint8{}
		case r.Kind == rSave:
			ln.Tx, ln.InTx = 0, 0
		case r.Kind == rInit && own, (r.Kind == rCommitTxn || r.Kind == rAbortTxn) && own && epoch == ln.Epoch[r.Sink]:
			ln.Epoch[r.Sink] = w.Sinks[r.Sink].Sessions[r.Name].Epoch
		}
		if ln.Step++; int(ln.Step) == n {
			x.feed(w, l, x.answer(w, l, f))
		}
		return true
	case refused:
		if r.Kind == rConfirm {
			x.feed(w, l, told{kind: tConfirmed})
			return true
		}
		if r.Kind == rSave {
			ln.Tx, ln.InTx = 0, 0
		}
		x.feed(w, l, told{kind: tFailed, class: Fenced})
		return true
	case gone:
		x.feed(w, l, told{kind: tFailed, class: Lost})
		return true
	}
	if r.Kind == rFence && ln.Step > 0 && q[ln.Step-1].Kind == rRollBack && !x.wrong.noLoop { // roll back what slipped in, by exact name, and fence again
		ln.Step--
		return true
	}
	return false
}

// fails answers the lane's next request with a failure; the request itself is not sent, or is under way.
func (x *space) fails(w *world, l int, r wire, c Class) {
	ln := &w.Lanes[l]
	if f := &x.nodes[ln.Node].out; f.kind == wantPrepare && c == Uncertain {
		ln.Tried[f.sink] = f.cp
	}
	if f := x.nodes[ln.Node].out; f.kind == wantDiscard && !x.wrong.failedDiscardKeeps {
		x.answer(w, l, f) // what the process holds itself is gone also when its server did not hear of it
	}
	switch {
	case r.Kind == rSave && c == Uncertain:
		ln.Tx, ln.InTx = 0, 0
	case r.Kind == rInit && r.Gen == ln.Gen && x.wrong.fenceCallRetried && c == Uncertain:
		return // the same call again, in the same generation
	}
	x.feed(w, l, told{kind: tFailed, class: c})
}

// read has a lane read one message, or all there is, and write it to every sink.
func (x *space) read(w *world, l int, all bool) {
	n := &x.nodes[w.Lanes[l].Node]
	k := told{kind: tAdvance}
	for p := range uint8(nParts) {
		for ln := &w.Lanes[l]; n.held>>p&1 == 1 && ln.Read[p] < nChanges && (all || k.parts == 0); {
			x.write(w, ln, p, nSinks)
			k.parts |= 1 << p
			k.at[p] = ln.Read[p]
			if !all {
				break
			}
		}
	}
	x.feed(w, l, k)
}

// write gives one message to the first sinks.
func (x *space) write(w *world, ln *lane, p uint8, sinks int) {
	what, step := message(p, ln.Read[p]), uint8(2)
	if x.wrong.insideMessage {
		what, step = change(p, ln.Read[p]), 1
	}
	for s := range sinks {
		if x.kinds[s] == absent {
			continue
		}
		if ln.Given[s]&what != 0 {
			w.bad(badDoubled)
		}
		ln.Given[s] |= what
	}
	ln.Read[p] += step
}
