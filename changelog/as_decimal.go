package changelog

import (
	"encoding/binary"
	"math/big"
)

// Decimal is a DECIMAL as a Go value of its own, exact and comparable with == within a scale: what [As] puts into a struct. The zero
// Decimal is 0 with scale 0.
type Decimal struct {
	hi    int64
	lo    uint64
	scale uint8
}

func decimalOf(v Value) Decimal { return Decimal{int64(v.hi), v.lo, v.scale} }

// Scale returns the number of digits after the point.
func (d Decimal) Scale() int { return int(d.scale) }

// Unscaled returns the number without its point: 12.50 is 1250 with scale 2.
func (d Decimal) Unscaled() *big.Int {
	u, negative := magnitude(d.value())
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], u.hi)
	binary.BigEndian.PutUint64(b[8:], u.lo)
	i := new(big.Int).SetBytes(b[:])
	if negative {
		i.Neg(i)
	}
	return i
}

// Rat returns the exact number.
func (d Decimal) Rat() *big.Rat {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.scale)), nil)
	return new(big.Rat).SetFrac(d.Unscaled(), power)
}

// String returns plain digits with all digits of the scale: "-0.05", "100".
func (d Decimal) String() string { return string(AppendDecimal(nil, d.value())) }

// MarshalText returns what String does; encoding/json writes it in quotes, so that no reader rounds it to a float64.
func (d Decimal) MarshalText() ([]byte, error) { return AppendDecimal(nil, d.value()), nil }

func (d Decimal) value() Value { return DecimalValue(d.hi, d.lo, int(d.scale)) }
