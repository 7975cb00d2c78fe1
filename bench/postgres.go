package main

import (
	"context"
	"fmt"

	"github.com/flinksink/flinksink/bench/internal/rows"
	"github.com/flinksink/flinksink/sink/postgres"
)

// head begins a section.
func (b *bench) head(s *servers, format string, args ...any) {
	b.say("\n"+format, args...)
	for _, a := range s.about {
		b.say("  %s", a)
	}
	b.say("  load average %s", loadAverage())
}

// rowsOf is how many rows of a shape a phase has: a wide one is worth three.
func (b *bench) rowsOf(shape *rows.Shape) int {
	if shape.Name == "wide" {
		return max(1, b.rows/3)
	}
	return b.rows
}

// postgres is the bridge beside what writes rows that are ready in memory, and beside the usual loop.
func (b *bench) postgres(ctx context.Context) error {
	s, err := b.servers(ctx)
	if err != nil {
		return err
	}
	b.head(s, "POSTGRES: Kafka to Postgres, one lane, transactions of %d", checkpointRows)
	b.say("  those without Kafka write rows that are ready in memory, in the order in which the topic's %d partitions give them; the broker's CPU counts for nobody", partitions)
	for _, shape := range b.shapes {
		n := b.rowsOf(shape)
		phases, err := b.phasesOf(ctx, s, insertsOf(shape, n), updatesOf(shape, n), deletesOf(shape, n))
		if err != nil {
			return err
		}
		seen := new(checkpoints)
		const copied, byUnnest, byMerge, byUpdate, byLoop, with = 0, 1, 2, 3, 4, 5
		c := contest{phases[:min(b.phases, len(phases))], []contender{
			copied:   {name: "COPY into the keyed table, no Kafka", do: here(copyInto(s.pool)), phases: 1},
			byUnnest: {name: "UNNEST of 5,000 (DELETE … USING), sorted, no Kafka", do: here(unnest(s.pool, checkpointRows))},
			byMerge:  {name: "COPY + merge, sorted, no Kafka", do: here(merge(s.pool)), phases: 2},
			byUpdate: {name: "UPDATE … FROM, sorted, no Kafka; loses new keys", do: here(updateFrom(s.pool)), phases: 2},
			byLoop:   {name: "usual loop: encoding/json, INSERT of 1,000", do: usual(s)},
			with:     {name: "flinksink bridge, exactly once", do: ours{s: s, profile: b.profile, seen: seen}.write},
		}, b.rounds}
		o, err := b.compete(ctx, s, c)
		if err != nil {
			return err
		}
		of := func(n int, of ...int) (f figure) {
			var fs []figure
			for _, i := range of {
				fs = append(fs, o.rates[n][i])
			}
			return highest(fs...)
		}
		b.say("%s: %d rows; a checkpoint of the bridge held %s changes on average; load average %s", shape.Name, n, seen, loadAverage())
		name := "postgres, " + shape.Name + ": "
		b.show(c, o, 0, o.rates[0][copied], "of COPY")
		b.goal(name+"new keys, of COPY into the keyed table", "", 0.8, o.rates[0][with].over(o.rates[0][copied])...)
		if len(c.phases) > 1 {
			best := of(1, byUnnest, byMerge)
			b.show(c, o, 1, best, "of the best bare shape")
			b.goal(name+"updates, of the best bare shape", "", 0.85, o.rates[1][with].over(best)...)
		}
		if len(c.phases) > 2 {
			b.show(c, o, 2, o.rates[2][byUnnest], "of DELETE … USING")
			b.goal(name+"deletes, of DELETE … USING", "", 0.8, o.rates[2][with].over(o.rates[2][byUnnest])...)
		}
	}
	return nil
}

// small is checkpoints of 1,000 changes.
func (b *bench) small(ctx context.Context) error {
	const size = 1000
	s, err := b.servers(ctx)
	if err != nil {
		return err
	}
	b.head(s, "SMALL: Kafka to Postgres, one lane, transactions of %d", size)
	for _, shape := range b.shapes {
		n := b.rowsOf(shape)
		phases, err := b.phasesOf(ctx, s, insertsOf(shape, n), updatesOf(shape, n))
		if err != nil {
			return err
		}
		seen := new(checkpoints)
		c := contest{phases, []contender{
			{name: "UNNEST upsert, sorted, no Kafka", do: here(unnest(s.pool, size))},
			{name: "flinksink bridge, exactly once", do: ours{s: s, changes: size, budget: 8 * size * b.recordSize(phases[1]), seen: seen}.write},
		}, b.rounds}
		o, err := b.compete(ctx, s, c)
		if err != nil {
			return err
		}
		b.say("%s: %d rows; a checkpoint of the bridge held %s changes on average", shape.Name, n, seen)
		for n, p := range phases {
			b.show(c, o, n, o.rates[n][0], "of UNNEST")
			b.goal(fmt.Sprintf("small, %s: %s, checkpoints of %d, of the bare UNNEST upsert", shape.Name, p.name, size), "", 0.8, o.rates[n][1].over(o.rates[n][0])...)
		}
	}
	return nil
}

// recordSize is the memory of a record in a bridge's queue. An eighth of the byte budget is what a bridge writes at once, so with a budget of so many
// records its checkpoints are small while there is a backlog too; with a larger one it writes what a fetch has brought.
func (b *bench) recordSize(p *phase) int {
	key, value := p.record(0)
	return len(key) + len(value) + 230
}

// pairedRounds is how many pairs a ratio near 1 needs at least: the interval of the median then spans all but the highest and the lowest.
const pairedRounds = 11

func (b *bench) paired() int {
	if b.fixed || b.quick {
		return b.rounds
	}
	return max(b.rounds, pairedRounds)
}

// guarantee is the same bridge with the guarantee and without.
func (b *bench) guarantee(ctx context.Context) error {
	s, err := b.servers(ctx)
	if err != nil {
		return err
	}
	b.head(s, "GUARANTEE: the same statements in transactions of %d, with the guarantee and without; %d pairs", checkpointRows, b.paired())
	for _, shape := range b.shapes {
		n := b.rowsOf(shape)
		phases, err := b.phasesOf(ctx, s, insertsOf(shape, n), updatesOf(shape, n), deletesOf(shape, n))
		if err != nil {
			return err
		}
		c := contest{phases, []contender{
			{name: "without the guarantee", do: ours{s: s, off: true}.write},
			{name: "flinksink bridge, exactly once", do: ours{s: s}.write},
		}, b.paired()}
		o, err := b.compete(ctx, s, c)
		if err != nil {
			return err
		}
		for n, p := range phases {
			b.show(c, o, n, o.rates[n][0], "of without")
			b.goal(fmt.Sprintf("guarantee, %s: %s, on, of off", shape.Name, p.name), "", 0.95, o.rates[n][1].over(o.rates[n][0])...)
		}
	}
	return nil
}

// modes is what the modes of sink/postgres cost beside each other.
func (b *bench) modes(ctx context.Context) error {
	s, err := b.servers(ctx)
	if err != nil {
		return err
	}
	b.head(s, "MODES: one lane, transactions of %d", checkpointRows)
	cs := []contender{{name: postgres.InTransaction.String(), do: ours{s: s}.write}}
	want := []float64{1}
	var most int
	if err := s.pool.QueryRow(ctx, "SELECT current_setting('max_prepared_transactions')::int").Scan(&most); err != nil {
		return err
	}
	if most > 0 {
		cs, want = append(cs, contender{name: postgres.Prepared.String(), do: ours{s: s, mode: postgres.Prepared}.write}), append(want, 0.85)
	} else {
		b.say("  NOT MEASURED: mode prepared, since max_prepared_transactions of the server is 0; set it to 10 and restart, or unset FLINKSINK_POSTGRES")
	}
	cs, want = append(cs, contender{name: postgres.Staged.String(), do: ours{s: s, mode: postgres.Staged}.write}), append(want, 0.6)
	for _, shape := range b.shapes {
		n := b.rowsOf(shape)
		phases, err := b.phasesOf(ctx, s, insertsOf(shape, n), updatesOf(shape, n), deletesOf(shape, n))
		if err != nil {
			return err
		}
		c := contest{phases, cs, b.rounds}
		o, err := b.compete(ctx, s, c)
		if err != nil {
			return err
		}
		for n, p := range phases {
			b.show(c, o, n, o.rates[n][0], "of in-transaction")
			for i := 1; i < len(cs); i++ {
				b.goal(fmt.Sprintf("modes, %s: %s, %s, of in-transaction", shape.Name, p.name, cs[i].name), "", want[i], o.rates[n][i].over(o.rates[n][0])...)
			}
		}
	}
	return nil
}

// lanes is one bridge with one lane and with two.
func (b *bench) lanes(ctx context.Context) error {
	s, err := b.servers(ctx)
	if err != nil {
		return err
	}
	b.head(s, "LANES: transactions of %d, a topic of %d partitions", checkpointRows, partitions)
	for _, shape := range b.shapes {
		n := b.rowsOf(shape)
		phases, err := b.phasesOf(ctx, s, insertsOf(shape, n), updatesOf(shape, n), deletesOf(shape, n))
		if err != nil {
			return err
		}
		c := contest{phases, []contender{
			{name: "one lane", do: ours{s: s}.write},
			{name: "two lanes", do: ours{s: s, lanes: 2}.write},
		}, b.rounds}
		o, err := b.compete(ctx, s, c)
		if err != nil {
			return err
		}
		for n, p := range phases {
			b.show(c, o, n, o.rates[n][0], "of one lane")
			b.goal(fmt.Sprintf("lanes, %s: %s, two lanes, of one", shape.Name, p.name), "", 1.2, o.rates[n][1].over(o.rates[n][0])...)
		}
	}
	return nil
}
