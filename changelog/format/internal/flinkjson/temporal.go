package flinkjson

import "github.com/flinksink/flinksink/changelog"

// Dates and times follow java.time's formatters as Flink builds them (TimeFormats):
//
//	DATE           ISO_LOCAL_DATE, strict
//	TIME           HH:mm:ss with a fraction of 0 to 9 digits, smart
//	TIMESTAMP      SQL: date, blank, time as above, smart; ISO-8601: ISO_LOCAL_DATE_TIME, strict
//	TIMESTAMP_LTZ  as the smart ones, then a Z; ISO-8601 with seconds optional
//
// Smart lets a day up to 31 pass and makes it the last day of its month, and takes 24:00:00 for the midnight that follows.

// parseTemporal reads a DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ. millis says that a TIME has them: from Flink 2.3 on. guess reports that the value is not what the text says.
func parseTemporal(root changelog.Root, iso, millis bool, s []byte) (v changelog.Value, guess, ok bool) {
	switch root {
	case changelog.RootDate:
		d, n := scanDate(s)
		if n != len(s) || n == 0 || d.day > monthDays(d.year, d.month) {
			return v, false, false
		}
		days := changelog.DaysOf(d.year, d.month, d.day)
		// Flink casts the day to an int, which wraps for years beyond some five million.
		return changelog.DateValue(int64(int32(days))), int64(int32(days)) != days, true
	case changelog.RootTime:
		t, n := scanTime(s, false)
		if n != len(s) || n == 0 {
			return v, false, false
		}
		if millis {
			fraction := t.nanos / 1e6 * 1e6
			return changelog.TimeValue(int64(t.second%86400)*1e9 + int64(fraction)), t.nanos != fraction || t.second == 86400, true
		}
		// Flink 2.2 keeps whole seconds only, and forgets that 24:00:00 belongs to the next day.
		return changelog.TimeValue(int64(t.second%86400) * 1e9), t.nanos != 0 || t.second == 86400, true
	}
	ltz := root == changelog.RootTimestampLTZ
	strict := iso && !ltz
	d, n := scanDate(s)
	if n == 0 || n >= len(s) {
		return v, false, false
	}
	switch {
	case !iso && s[n] == ' ', iso && s[n] == 'T', strict && s[n] == 't':
	default:
		return v, false, false
	}
	rest := s[n+1:]
	if ltz {
		if len(rest) == 0 || rest[len(rest)-1] != 'Z' {
			return v, false, false
		}
		rest = rest[:len(rest)-1]
	}
	t, n := scanTime(rest, iso)
	if n == 0 || n != len(rest) || strict && t.second == 86400 {
		return v, false, false
	}
	if last := monthDays(d.year, d.month); d.day > last {
		if strict {
			return v, false, false
		}
		d.day, guess = last, true
	}
	sec := changelog.DaysOf(d.year, d.month, d.day)*86400 + int64(t.second)
	if ltz {
		return changelog.TimestampLTZValue(sec, t.nanos), guess, true
	}
	return changelog.TimestampValue(sec, t.nanos), guess, true
}

type date struct {
	year       int64
	month, day int
}

// scanDate reads yyyy-MM-dd and returns how many bytes it took, 0 when there is no date. The year has 4 digits, or a minus and 4 to 10
// digits, or a plus and 5 to 10 digits; the month is in 1..12, the day in 1..31.
func scanDate(s []byte) (d date, n int) {
	sign := byte(0)
	if len(s) > 0 && (s[0] == '+' || s[0] == '-') {
		sign = s[0]
		n++
	}
	first := n
	for n < len(s) && n-first < 10 && s[n]-'0' <= 9 {
		d.year = d.year*10 + int64(s[n]-'0')
		n++
	}
	switch digits := n - first; {
	case digits < 4,
		sign == 0 && digits > 4,
		sign == '+' && digits == 4,
		sign == '-' && d.year == 0,
		d.year > 999_999_999:
		return d, 0
	}
	if sign == '-' {
		d.year = -d.year
	}
	var ok bool
	if d.month, ok = twoDigits(s, n, '-'); !ok || d.month < 1 || d.month > 12 {
		return d, 0
	}
	if d.day, ok = twoDigits(s, n+3, '-'); !ok || d.day < 1 || d.day > 31 {
		return d, 0
	}
	return d, n + 6
}

type clock struct {
	second int // of the day; 86400 for 24:00:00
	nanos  int32
}

// scanTime reads HH:mm:ss and a fraction and returns how many bytes it took, 0 when there is no time.
func scanTime(s []byte, secondsOptional bool) (t clock, n int) {
	if len(s) < 5 {
		return t, 0
	}
	hour, ok1 := pair(s)
	minute, ok2 := twoDigits(s, 2, ':')
	if !ok1 || !ok2 || minute > 59 || hour > 24 {
		return t, 0
	}
	n = 5
	second, ok := twoDigits(s, 5, ':')
	if ok {
		n = 8
		if second > 59 {
			return t, 0
		}
		if n < len(s) && s[n] == '.' {
			n++
			scale := int32(1e9)
			for n < len(s) && scale > 1 && s[n]-'0' <= 9 {
				t.nanos = t.nanos*10 + int32(s[n]-'0')
				scale /= 10
				n++
			}
			t.nanos *= scale
		}
	} else if !secondsOptional {
		return t, 0
	}
	t.second = hour*3600 + minute*60 + second
	if hour == 24 && (t.second != 86400 || t.nanos != 0) {
		return t, 0
	}
	return t, n
}

// twoDigits reads a separator and two digits at s[i:].
func twoDigits(s []byte, i int, sep byte) (int, bool) {
	if len(s)-i < 3 || s[i] != sep {
		return 0, false
	}
	return pair(s[i+1:])
}

func pair(s []byte) (int, bool) {
	a, b := s[0]-'0', s[1]-'0'
	return int(a)*10 + int(b), a <= 9 && b <= 9
}

func monthDays(year int64, month int) int {
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
