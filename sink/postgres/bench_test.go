package postgres_test

import (
	"fmt"
	"testing"

	"github.com/flinksink/flinksink/changelog"
)

// BenchmarkWrite takes narrow rows through whole checkpoints: inserts of new keys, then updates of the same.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1000, 20000} {
		for _, kind := range []string{"insert", "update"} {
			b.Run(fmt.Sprintf("%s/%d", kind, size), func(b *testing.B) {
				e := newEnv(b)
				e.exec("CREATE TABLE kv (k bigint PRIMARY KEY, a text, b numeric(10,2), c timestamp(3))")
				w := e.writer(e.pool(nil), e.options(), table(b, "kv", upsert, "k", "k BIGINT NOT NULL", "a STRING", "b DECIMAL(10, 2)", "c TIMESTAMP(3)"))
				batch := func(n int) []changelog.Change {
					cs := make([]changelog.Change, size)
					for i := range cs {
						id := int64(n*size + i)
						cs[i] = w.change(changelog.UpdateAfter, num(id*7919%1000003+id/1000003*1000003), str("some text of a row"), changelog.DecimalValue(0, uint64(id%1e6), 2), changelog.TimestampValue(1700000000+id, 0))
					}
					return cs
				}
				rounds := 0
				if kind != "insert" {
					for rounds = range 20000/size + 1 {
						w.put(batch(rounds)...)
					}
				}
				n := 0
				for b.Loop() {
					at := n
					if kind == "update" {
						at = n % (rounds + 1)
					}
					cs := batch(at)
					w.put(cs...)
					n++
				}
				b.ReportMetric(float64(n*size)/b.Elapsed().Seconds()/1000, "krows/s")
			})
		}
	}
}
