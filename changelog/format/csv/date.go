package csv

import (
	"bytes"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// parseDate is java.sql.Date.valueOf(s).toLocalDate(): yyyy-[m]m-[d]d in the calendar that has Julian days before 15 October 1582. A day
// beyond its month's end counts on. guess reports that the day is another one than the text says.
func parseDate(s []byte) (v changelog.Value, guess, ok bool) {
	first := bytes.IndexByte(s, '-')
	if first < 0 {
		return v, false, false
	}
	second := bytes.IndexByte(s[first+1:], '-')
	if second < 0 {
		return v, false, false
	}
	second += first + 1
	year, ok1 := field(s[:first], 4, 4)
	month, ok2 := field(s[first+1:second], 1, 2)
	day, ok3 := field(s[second+1:], 1, 2)
	if !ok1 || !ok2 || !ok3 || month < 1 || month > 12 || day < 1 || day > 31 {
		return v, false, false
	}
	days := changelog.DaysOf(year, int(month), int(day))
	if days >= cutover {
		y, m, d := changelog.CivilOf(days)
		return changelog.DateValue(days), y != year || int64(m) != month || int64(d) != day, true
	}
	days = julianDays(year, month, day)
	y, m, d := changelog.CivilOf(days)
	if days < cutover {
		// What Java shows of such a day is Julian, and Flink takes it for a day of the proleptic Gregorian calendar.
		if y, m, d = julianOf(days); y < 1 {
			y = 1 - y
		}
		if m == 2 && d == 29 && (y%4 != 0 || y%100 == 0 && y%400 != 0) {
			return v, false, false
		}
		days = changelog.DaysOf(y, m, d)
	}
	return changelog.DateValue(days), y != year || int64(m) != month || int64(d) != day, true
}

// cutover is 15 October 1582.
const cutover = -141427

// field reads a number of so many characters, which Integer.parseInt allows a sign.
func field(s []byte, least, most int) (int64, bool) {
	v, ok := flinkjson.Integer(s)
	n := 0
	for range string(s) {
		n++
	}
	return v, ok && n >= least && n <= most
}

// julianDays are the days from 1970-01-01 to a day of the Julian calendar, where every fourth year has a leap day.
func julianDays(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + floorDiv(year, 4) + (153*(month-3)+2)/5 + day - 1 - julianShift
}

// julianShift are the days from 1 March of the year 0, Julian, to 1970-01-01.
const julianShift = 719470

func julianOf(days int64) (year int64, month, day int) {
	days += julianShift
	// Years begin in March, so that the leap day comes last.
	cycle := floorDiv(days, 1461)
	rest := days - cycle*1461
	y := min(rest/365, 3)
	year = cycle*4 + y
	dayOfYear := rest - y*365
	m := (5*dayOfYear + 2) / 153
	day = int(dayOfYear-(153*m+2)/5) + 1
	if m < 10 {
		return year, int(m) + 3, day
	}
	return year + 1, int(m) - 9, day
}

// floorDiv rounds towards minus infinity; d is positive.
func floorDiv(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}
