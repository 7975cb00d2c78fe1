package main

import (
	"errors"
	"unicode/utf8"

	hamba "github.com/hamba/avro/v2"
	twmb "github.com/twmb/avro"
)

// schema is what Flink derives of the columns.
const schema = `{"type":"record","name":"record","namespace":"org.apache.flink.avro.generated","fields":[
	{"name":"id","type":["null","long"],"default":null},
	{"name":"customer","type":["null","string"],"default":null},
	{"name":"item","type":["null","string"],"default":null},
	{"name":"quantity","type":["null","int"],"default":null},
	{"name":"price","type":["null",{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}],"default":null},
	{"name":"weight","type":["null","double"],"default":null},
	{"name":"ordered","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null},
	{"name":"note","type":["null","string"],"default":null}]}`

// avroOrder is an order as both libraries read it: columns may be NULL, so they are pointers. A big.Rat and a time.Time would take them longer
// than the bytes and the number that these are made of.
type avroOrder struct {
	ID       *int64   `avro:"id"`
	Customer *string  `avro:"customer"`
	Item     *string  `avro:"item"`
	Quantity *int32   `avro:"quantity"`
	Price    *[]byte  `avro:"price"`
	Weight   *float64 `avro:"weight"`
	Ordered  *int64   `avro:"ordered"`
	Note     *string  `avro:"note"`
}

var (
	errNull  = errors.New("a column is NULL")
	errWidth = errors.New("a decimal of no byte, or of more than 16")
)

func (a *avroOrder) order() (o order, err error) {
	if a.ID == nil || a.Customer == nil || a.Item == nil || a.Quantity == nil || a.Price == nil || a.Weight == nil || a.Ordered == nil || a.Note == nil {
		return o, errNull
	}
	unscaled := *a.Price
	if len(unscaled) == 0 || len(unscaled) > 16 {
		return o, errWidth
	}
	hi := int64(int8(unscaled[0])) >> 7
	lo := uint64(hi)
	for _, c := range unscaled {
		hi, lo = hi<<8|int64(lo>>56), lo<<8|uint64(c)
	}
	for _, text := range [...]string{*a.Customer, *a.Item, *a.Note} { // at which neither library looks
		if !utf8.ValidString(text) {
			return o, errUTF8
		}
	}
	ms := *a.Ordered
	return order{
		ID: *a.ID, Customer: *a.Customer, Item: *a.Item, Quantity: *a.Quantity, Price: price{hi, lo}, Weight: *a.Weight,
		Ordered: wallClock{ms / 1000, int32(ms%1000) * 1e6}, Note: *a.Note,
	}, nil
}

// avroEnvelope is what Flink's debezium-avro-confluent writes.
type avroEnvelope struct {
	Before *avroOrder `avro:"before"`
	After  *avroOrder `avro:"after"`
	Op     *string    `avro:"op"`
}

func (e *avroEnvelope) order() (order, error) {
	if e.After == nil || e.Op == nil {
		return order{}, errNull
	}
	return e.After.order()
}

// ordered is an avroOrder or an avroEnvelope, through a pointer.
type ordered[M any] interface {
	*M
	order() (order, error)
}

// avroRivals read messages that begin with header bytes, which a client of a registry cuts off, and whose schema is known when they do.
func avroRivals[M any, P ordered[M]](header int, schema func() string) []rival {
	return []rival{
		{name: "hamba/avro", decode: func(messages [][]byte, into *[]order) error {
			s, err := hamba.Parse(schema())
			if err != nil {
				return err
			}
			return avroOrders[M, P](messages, into, func(m []byte, v *M) error { return hamba.Unmarshal(s, m[header:], v) })
		}},
		{name: "twmb/avro", decode: func(messages [][]byte, into *[]order) error {
			s, err := twmb.Parse(schema())
			if err != nil {
				return err
			}
			return avroOrders[M, P](messages, into, func(m []byte, v *M) error {
				_, err := s.Decode(m[header:], v)
				return err
			})
		}},
	}
}

func avroOrders[M any, P ordered[M]](messages [][]byte, into *[]order, read func([]byte, *M) error) error {
	for _, m := range messages {
		var v M
		if err := read(m, &v); err != nil {
			return err
		}
		o, err := P(&v).order()
		if err != nil {
			return err
		}
		*into = append(*into, o)
	}
	return nil
}
