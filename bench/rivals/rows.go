package main

import (
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
)

const columns = "id BIGINT, customer STRING, item STRING, quantity INT, price DECIMAL(10, 2), weight DOUBLE, ordered TIMESTAMP(3), note STRING"

// order is a row of these columns, as rivals have to hand it over.
type order struct {
	ID       int64
	Customer string
	Item     string
	Quantity int32
	Price    price
	Weight   float64
	Ordered  wallClock
	Note     string
}

// price is a DECIMAL(10, 2): 128 bits at the column's scale, though fewer would do here.
type price struct {
	hi int64
	lo uint64
}

// wallClock is a TIMESTAMP: seconds since 1970 on a clock without a zone.
type wallClock struct {
	sec  int64
	nsec int32
}

// orderAt is the nth row, of about 200 bytes as JSON.
func orderAt(n int) order {
	h := mix(uint64(n))
	day := changelog.DaysOf(2024, int(1+h>>8%12), int(1+h>>12%28))
	return order{
		ID:       918273645546372 + int64(n),
		Customer: fmt.Sprintf("c-%08d", h%100000000),
		Item:     fmt.Sprintf("standard widget, blue, %04d", h%10000),
		Quantity: int32(1 + h%90),
		Price:    price{lo: 10000 + h%900000},
		Weight:   float64(1000+h%90000) / 1000,
		Ordered:  wallClock{day*86400 + int64(h>>16%86400), int32(h>>40%1000) * 1e6},
		Note:     fmt.Sprintf("leave at the door, bell %05d", h>>20%100000),
	}
}

// mix spreads the bits of n.
func mix(n uint64) uint64 {
	n *= 0x9E3779B97F4A7C15
	n ^= n >> 32
	n *= 0xBF58476D1CE4E5B9
	return n ^ n>>29
}

// rowOf is a row of ours.
func rowOf(o *order) changelog.Row {
	text := changelog.StringValue
	return changelog.Row{
		changelog.IntValue(o.ID), text(o.Customer), text(o.Item), changelog.IntValue(int64(o.Quantity)), changelog.DecimalValue(o.Price.hi, o.Price.lo, 2),
		changelog.DoubleValue(o.Weight), changelog.TimestampValue(o.Ordered.sec, o.Ordered.nsec), text(o.Note),
	}
}

// orderOf is what a row of ours holds.
func orderOf(row changelog.Row) (o order) {
	o.ID, o.Customer, o.Item, o.Quantity = row[0].Int(), row[1].Str(), row[2].Str(), int32(row[3].Int())
	o.Price.hi, o.Price.lo, _ = row[4].Decimal()
	o.Weight, o.Note = row[5].Double(), row[7].Str()
	o.Ordered.sec, o.Ordered.nsec = row[6].Timestamp()
	return o
}

// set parses what libraries have as text.
func (o *order) set(price, ordered string) (err error) {
	if o.Price, err = parsePrice([]byte(price)); err != nil {
		return err
	}
	o.Ordered, err = parseWallClock([]byte(ordered))
	return err
}

func parsePrice(text []byte) (p price, err error) {
	v, err := changelog.ParseDecimal(text, 10, 2)
	p.hi, p.lo, _ = v.Decimal()
	return p, err
}

var errTimestamp = errors.New("not a timestamp")

// parseWallClock reads yyyy-MM-dd HH:mm:ss and a fraction of at most nine digits. It is far quicker than time.Parse.
func parseWallClock(s []byte) (w wallClock, err error) {
	if len(s) < 19 || s[4] != '-' || s[7] != '-' || s[10] != ' ' || s[13] != ':' || s[16] != ':' {
		return w, errTimestamp
	}
	bad := byte(0)
	two := func(i int) int {
		a, b := s[i]-'0', s[i+1]-'0'
		if a > 9 || b > 9 {
			bad = 1
		}
		return int(a)*10 + int(b)
	}
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	if bad != 0 || month < 1 || month > 12 || day < 1 || day > monthDays(year, month) || hour > 23 || minute > 59 || second > 59 {
		return w, errTimestamp
	}
	if len(s) > 19 {
		if s[19] != '.' || len(s) > 29 {
			return w, errTimestamp
		}
		scale := int32(1e9)
		for _, c := range s[20:] {
			if c-'0' > 9 {
				return w, errTimestamp
			}
			w.nsec = w.nsec*10 + int32(c-'0')
			scale /= 10
		}
		w.nsec *= scale
	}
	w.sec = changelog.DaysOf(int64(year), month, day)*86400 + int64(hour*3600+minute*60+second)
	return w, nil
}

func monthDays(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
