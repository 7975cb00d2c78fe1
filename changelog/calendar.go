package changelog

// A day number counts days since 1970-01-01 in the proleptic Gregorian calendar (the Gregorian rules applied to all years, year 0
// is 1 BC), as java.time.LocalDate does: Flink's DATE is LocalDate.toEpochDay.
//
// Both directions work on eras of 400 years, which all have the same 146097 days, with the year begun in March so that the leap
// day comes last (Howard Hinnant, "chrono-compatible low-level date algorithms").

const (
	daysPerEra  = 146097
	yearsPerEra = 400
	eraShift    = 719468 // days from 0000-03-01 to 1970-01-01
)

// DaysOf returns the days from 1970-01-01 to the given day. It is exact for years from -999999999 to 999999999 and for every month
// and day that exist; a day beyond its month's end counts on into the next month. month is in 1..12.
func DaysOf(year int64, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, yearsPerEra)
	yearOfEra := year - era*yearsPerEra
	dayOfYear := int64(153*(month-3)+2)/5 + int64(day) - 1
	dayOfEra := yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear
	return era*daysPerEra + dayOfEra - eraShift
}

// CivilOf returns the year, month (1..12) and day (1..31) of a day number: the inverse of [DaysOf].
func CivilOf(days int64) (year int64, month, day int) {
	days += eraShift
	era := floorDiv(days, daysPerEra)
	dayOfEra := days - era*daysPerEra
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := int(dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100))
	m := (5*dayOfYear + 2) / 153 // 0 is March
	day = dayOfYear - (153*m+2)/5 + 1
	year = yearOfEra + era*yearsPerEra
	if m < 10 {
		return year, m + 3, day
	}
	return year + 1, m - 9, day
}

// floorDiv rounds towards minus infinity; d is positive.
func floorDiv(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}
