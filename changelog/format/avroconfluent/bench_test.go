package avroconfluent

import (
	"math/big"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
	"github.com/twmb/avro"
)

// The rows of a topic whose writer has the table's schema, one whose writer has another, and the parser's own package on the same bytes.
func BenchmarkDecode(b *testing.B) {
	columns := []string{"id BIGINT", "customer STRING", "item STRING", "quantity INT", "price DECIMAL(10, 2)", "weight DOUBLE", "ordered TIMESTAMP(3)", "shipped BOOLEAN"}
	text := changelog.StringValue
	row := changelog.Row{changelog.IntValue(918273645), text("c-00918273"), text("standard widget, blue"), changelog.IntValue(12),
		changelog.DecimalValue(0, 149995, 2), changelog.DoubleValue(0.375), changelog.TimestampValue(1715933350, 123e6), changelog.BoolValue(false)}
	g := &registrytest.Registry{}
	p := payloadOf(b, nil, columns...)
	e, err := Format{HTTP: g.Client()}.NewEncoder(p)
	if err != nil {
		b.Fatal(err)
	}
	message, _, err := e.AppendPayload(nil, &changelog.Change{Row: row})
	if err != nil {
		b.Fatal(err)
	}
	decode := func(b *testing.B, columns ...string) {
		p := payloadOf(b, nil, columns...)
		d, err := Format{HTTP: g.Client()}.NewDecoder(p)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(message)))
		b.ReportAllocs()
		batch := changelog.NewBatch(p.Table)
		for i := 0; b.Loop(); i++ {
			if i%4096 == 0 {
				batch.Reset()
			}
			if err := d.DecodePayload(batch, message, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("same", func(b *testing.B) { decode(b, columns...) })
	b.Run("resolved", func(b *testing.B) {
		decode(b, "weight DOUBLE", "quantity BIGINT", "id BIGINT", "added INT", "customer STRING")
	})
	b.Run("library", func(b *testing.B) {
		s, err := avro.Parse(g.Subject("orders-value"))
		if err != nil {
			b.Fatal(err)
		}
		type order struct {
			ID       *int64     `avro:"id"`
			Customer *string    `avro:"customer"`
			Item     *string    `avro:"item"`
			Quantity *int32     `avro:"quantity"`
			Price    *big.Rat   `avro:"price"`
			Weight   *float64   `avro:"weight"`
			Ordered  *time.Time `avro:"ordered"`
			Shipped  *bool      `avro:"shipped"`
		}
		b.SetBytes(int64(len(message)))
		b.ReportAllocs()
		for b.Loop() {
			var o order
			if _, err := s.Decode(message[5:], &o); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(message)))
		b.ReportAllocs()
		var out []byte
		for b.Loop() {
			if out, _, err = e.AppendPayload(out[:0], &changelog.Change{Row: row}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
