package postgres

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/jackc/pgx/v5/pgtype"
)

func fitInt(size int, to *pgType) (binder, bool) {
	switch to.oid {
	case pgtype.Int2OID:
		return binder{pgtype.Int2ArrayOID, pgtype.Int2OID, "", putInt(2)}, size <= 2
	case pgtype.Int4OID:
		return binder{pgtype.Int4ArrayOID, pgtype.Int4OID, "", putInt(4)}, size <= 4
	case pgtype.Int8OID:
		return binder{pgtype.Int8ArrayOID, pgtype.Int8OID, "", putInt(8)}, true
	case pgtype.Float4OID:
		return binder{pgtype.Float4ArrayOID, pgtype.Float4OID, "", putFloat4}, size <= 2
	case pgtype.Float8OID:
		return binder{pgtype.Float8ArrayOID, pgtype.Float8OID, "", putFloat8}, size <= 4
	case pgtype.NumericOID:
		before, after := numericDigits(to)
		return binder{pgtype.NumericArrayOID, pgtype.NumericOID, "", putNumeric(before, after)}, after >= 0 && before >= digitsOfInt(size)
	}
	return binder{}, false
}

func digitsOfInt(size int) int {
	switch size {
	case 1:
		return 3
	case 2:
		return 5
	case 4:
		return 10
	}
	return 19
}

func fitDecimal(src *changelog.Type, to *pgType) (binder, bool) {
	whole := src.Precision - src.Scale
	switch to.oid {
	case pgtype.NumericOID:
		before, after := numericDigits(to)
		return binder{pgtype.NumericArrayOID, pgtype.NumericOID, "", putNumeric(before, after)}, before >= whole && after >= src.Scale
	case pgtype.Int2OID:
		return binder{pgtype.Int2ArrayOID, pgtype.Int2OID, "", putInt(2)}, src.Scale == 0 && whole <= 4
	case pgtype.Int4OID:
		return binder{pgtype.Int4ArrayOID, pgtype.Int4OID, "", putInt(4)}, src.Scale == 0 && whole <= 9
	case pgtype.Int8OID:
		return binder{pgtype.Int8ArrayOID, pgtype.Int8OID, "", putInt(8)}, src.Scale == 0 && whole <= 18
	}
	return binder{}, false
}

// unbounded is more digits than any numeric has.
const unbounded = 1 << 20

// numericDigits returns how many digits a numeric column holds before and after the point. From Postgres 15 on a scale can be
// negative or above the precision (numeric_typmod_scale in the server's numeric.c).
func numericDigits(t *pgType) (before, after int) {
	if t.mod < 4 {
		return unbounded, unbounded
	}
	m := int(t.mod) - 4
	precision, scale := m>>16&0xffff, ((m&0x7ff)^1024)-1024
	return precision - scale, scale
}

// fractionUnit returns the nanoseconds of the last digit that the column keeps.
func fractionUnit(src *changelog.Type, to *pgType, r rule) (unit int64, ok bool) {
	keeps := 6
	if to.mod >= 0 {
		keeps = int(to.mod)
	}
	unit = 1
	for range 9 - keeps {
		unit *= 10
	}
	return unit, src.Precision <= keeps || keeps == 6 && r.truncate && !r.key
}

// kindOf is the kind of the values of a scalar type, KindNull for all others.
func kindOf(t *changelog.Type) changelog.ValueKind {
	if k := t.Root.ValueKind(); k < changelog.KindArray {
		return k
	}
	return changelog.KindNull
}
