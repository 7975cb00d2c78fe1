package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What goes wrong in a simulation.

// arrives makes a call later that its process has given up.
func (w *simWorld) arrives(op string, in time.Duration, do func(ctx context.Context) error) {
	w.count("a call arrives late")
	w.work.Go(func() {
		time.Sleep(in)
		w.note("late %s: %v", op, do(context.Background()))
	})
}

// later undoes a fault after its time.
func (w *simWorld) later(d time.Duration, do func()) {
	w.work.Go(func() {
		time.Sleep(d)
		do()
	})
}

// happen makes a fault.
func (w *simWorld) happen(f simFault) {
	if f.kind == simCall {
		return // its process has it from the beginning
	}
	w.mu.Lock()
	begun := len(w.at) == w.plan.parts
	w.mu.Unlock()
	if f.kind == simAnew && !begun { // what was never read has no topic yet
		return
	}
	p := w.in(f.slot)
	if p == nil && f.kind != simJoin && f.kind != simOutage && f.kind != simFail && f.kind != simAnew {
		return
	}
	w.count(simKinds[f.kind])
	w.note("fault %v", f)
	switch f.kind {
	case simKill:
		w.kill(p, f)
	case simPause:
		p.link.freeze()
		p.access.freeze()
		w.later(f.long, func() { p.access.thaw(); p.link.thaw() })
	case simCut:
		p.link.set(true, func() {})
	case simAway:
		p.link.set(true, func() { p.link.away = true })
		w.later(f.long, func() { w.reach(p) })
	case simSlow:
		p.link.set(false, func() { p.link.slow = 150 * time.Millisecond })
		w.later(f.long, func() { p.link.set(false, func() { p.link.slow = 0 }) })
	case simLose:
		p.link.set(false, func() { p.link.lose++ })
	case simKick:
		w.kick(p)
	case simLeave:
		p.back = f.long
		w.mu.Lock()
		p.told = true
		w.mu.Unlock()
		p.cancel()
	case simJoin:
		w.start(w.plan.slots + f.number)
	case simOutage:
		w.db.setAway(true)
		w.later(f.long, func() { w.db.setAway(false) })
	case simFail:
		w.db.setAway(true)
		w.db.failover()
		w.later(f.long, func() { w.db.setAway(false) })
	case simAnew:
		w.mu.Lock()
		w.anew = true
		w.mu.Unlock()
		if _, err := w.adm.DeleteTopics(context.Background(), simTopic); err != nil {
			w.fail("%v", err)
		}
		w.later(f.long, func() {
			if _, err := w.adm.CreateTopics(context.Background(), int32(w.plan.parts), 1, nil, simTopic); err != nil {
				w.fail("%v", err)
			}
		})
	}
}

// reach ends that a process does not reach the brokers, unless it is dead.
func (w *simWorld) reach(p *simProcess) {
	select {
	case <-p.gone:
	default:
		p.link.set(false, func() { p.link.away = false })
	}
}

// kick makes the group forget a member, as it does with one that it has not heard of for long.
func (w *simWorld) kick(p *simProcess) {
	p.b.mu.Lock()
	cur := p.b.cur
	p.b.mu.Unlock()
	if cur == nil {
		return
	}
	id, _ := cur.cl.GroupMetadata()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = "sim", id
	m := kmsg.NewLeaveGroupRequestMember()
	if m.MemberID = id; w.plan.static {
		instance := cur.instance()
		m.InstanceID = &instance
	}
	req.Members = append(req.Members, m)
	_, _ = req.RequestWith(context.Background(), w.cl) // it may not have joined yet
}

// bury makes the group forget the members of processes that are dead for longer than their session. A broker does that by itself; kfake was seen
// to keep one for ever, with partitions that then nobody reads.
func (w *simWorld) bury() {
	live := map[string]bool{}
	for slot := range w.current {
		if p := w.in(slot); p != nil {
			p.b.mu.Lock()
			if p.b.cur != nil {
				id, _ := p.b.cur.cl.GroupMetadata()
				live[id] = true
			}
			p.b.mu.Unlock()
		}
	}
	groups, err := w.adm.DescribeGroups(context.Background(), "sim")
	if err != nil {
		w.note("describing the group: %v", err)
		return
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = "sim"
	for _, m := range groups["sim"].Members {
		if !live[m.MemberID] {
			dead := kmsg.NewLeaveGroupRequestMember()
			dead.MemberID, dead.InstanceID = m.MemberID, m.InstanceID
			req.Members = append(req.Members, dead)
		}
	}
	if len(req.Members) > 0 {
		w.note("the group holds dead members: %d", len(req.Members))
		w.count("kfake forgets to end a session")
		_, _ = req.RequestWith(context.Background(), w.cl)
	}
}

// deliver lets calls arrive that live processes had given up.
func (w *simWorld) deliver() {
	w.mu.Lock()
	ps := slices.Clone(w.current)
	w.mu.Unlock()
	for _, p := range ps {
		if p != nil {
			w.work.Go(func() { _ = p.faults.Deliver(context.Background()) })
		}
	}
}

// calm ends everything that goes wrong.
func (w *simWorld) calm() {
	w.note("no more faults")
	w.mu.Lock()
	w.calmed = true
	w.mu.Unlock()
	w.db.setAway(false)
	for slot := range w.current {
		if p := w.in(slot); p != nil {
			p.faults.Stop()
			p.access.thaw()
			p.link.thaw()
			p.link.set(false, func() { p.link.slow, p.link.lose = 0, 0 })
			w.reach(p)
		}
	}
}

// kill ends a process for the rest of the world. It goes on for itself until it notices.
func (w *simWorld) kill(p *simProcess, f simFault) {
	p.death.Do(func() {
		p.dead = f.long
		p.access.kill(f.late)
		p.link.set(true, func() { p.link.away = true })
		p.link.thaw()
		close(p.gone)
		p.cancel()
	})
}
