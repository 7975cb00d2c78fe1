package ogg

import (
	"errors"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// Flink reads both times as its SQL function TO_TIMESTAMP does (DateTimeUtils.parseTimestampData), to milliseconds, on a clock in UTC.

// opTS reads yyyy-MM-dd HH:mm:ss and a fraction. The clock may be missing, months to seconds may have one digit, a day up to 31 is at most
// the last of its month, and 24:00:00 is the midnight that follows.
func opTS(v changelog.Value) (changelog.Value, error) {
	bad := errors.New("not a time in the form yyyy-MM-dd HH:mm:ss.SSSSSS")
	p := scanner{s: v.Str()}
	sign := p.take("+")
	year, digits := p.digits(19)
	if digits < 4 || (digits > 4) != sign || year == 0 || year > maxYear || !p.take("-") {
		return v, bad
	}
	month, n := p.digits(2)
	if n == 0 || !p.take("-") {
		return v, bad
	}
	day, n := p.digits(2)
	if n == 0 {
		day = 1
	}
	c := clock{}
	if p.take(" ") {
		var ok bool
		if c, ok = p.clock(2); !ok || c.hour > 24 || c.minute > 59 || c.second > 59 || c.hour == 24 && (c.minute|c.second|c.nanos) != 0 {
			return v, bad
		}
	}
	if p.s != "" || month < 1 || month > 12 || day < 1 || day > 31 {
		return v, bad
	}
	c.nanos -= c.nanos % 1e6
	return c.on(year, month, min(day, lastOf(year, month))), nil
}

// currentTS reads yyyy-MM-dd'T'HH:mm:ss.SSSSSS, or what java.sql's Timestamp and Date take; whatever else is NULL.
func currentTS(v changelog.Value) (changelog.Value, error) {
	p := scanner{s: v.Str()}
	if year, month, day, c, ok := p.iso(); ok {
		c.nanos -= c.nanos % 1e6
		return c.on(year, month, min(day, lastOf(year, month))), nil
	}
	p = scanner{s: strings.TrimFunc(v.Str(), func(r rune) bool { return r <= ' ' })}
	year, n := p.digits(5)
	if n != 4 || !p.take("-") {
		return changelog.Value{}, nil
	}
	month, n := p.digits(3)
	if n == 0 || n > 2 || !p.take("-") {
		return changelog.Value{}, nil
	}
	day, n := p.digits(3)
	if n == 0 || n > 2 || month < 1 || month > 12 || day < 1 || day > 31 {
		return changelog.Value{}, nil
	}
	c := clock{}
	if p.take(" ") {
		var ok bool
		// java.util.Date counts on beyond 24 hours and 60 minutes.
		if c, ok = p.clock(10); !ok || strings.HasSuffix(v.Str(), ".") {
			return changelog.Value{}, nil
		}
	}
	if p.s != "" {
		return changelog.Value{}, nil
	}
	if year == 0 {
		year = 1 // java.util.Date's year before 1
	}
	return c.on(year, month, day), nil
}

const maxYear = 999_999_999

// scanner reads a text from its start.
type scanner struct{ s string }

func (p *scanner) take(s string) bool {
	rest, ok := strings.CutPrefix(p.s, s)
	p.s = rest
	return ok
}

// digits reads at most n digits and returns how many there were; a value beyond maxYear is maxYear + 1.
func (p *scanner) digits(n int) (v int64, read int) {
	for read < n && read < len(p.s) && p.s[read]-'0' <= 9 {
		v = min(v*10+int64(p.s[read]-'0'), maxYear+1)
		read++
	}
	p.s = p.s[read:]
	return v, read
}

type clock struct{ hour, minute, second, nanos int64 }

// clock reads H:m:s of at most width digits each, and a fraction of at most nine.
func (p *scanner) clock(width int) (c clock, ok bool) {
	for i, dst := range []*int64{&c.hour, &c.minute, &c.second} {
		if i > 0 && !p.take(":") {
			return c, false
		}
		n := 0
		if *dst, n = p.digits(width); n == 0 {
			return c, false
		}
	}
	if p.take(".") {
		c.nanos, _ = p.fraction(9)
	}
	return c, true
}

func (p *scanner) fraction(most int) (nanos int64, digits int) {
	nanos, digits = 0, 0
	scale := int64(1e9)
	for digits < most && digits < len(p.s) && p.s[digits]-'0' <= 9 {
		scale /= 10
		nanos += int64(p.s[digits]-'0') * scale
		digits++
	}
	p.s = p.s[digits:]
	return nanos, digits
}

// iso reads the pattern of GoldenGate's current_ts, each part with all of its digits.
func (p *scanner) iso() (year, month, day int64, c clock, ok bool) {
	two := func(sep string) (v int64) {
		n := 0
		if ok = ok && p.take(sep); ok {
			v, n = p.digits(2)
			ok = n == 2
		}
		return v
	}
	sign := p.take("+")
	year, n := p.digits(19)
	ok = n >= 4 && (n > 4) == sign && year > 0 && year <= maxYear
	month, day = two("-"), two("-")
	c.hour, c.minute, c.second = two("T"), two(":"), two(":")
	if ok = ok && p.take("."); ok {
		c.nanos, n = p.fraction(6)
		ok = n == 6
	}
	ok = ok && p.s == "" && month >= 1 && month <= 12 && day >= 1 && day <= 31 && c.minute <= 59 && c.second <= 59 &&
		(c.hour < 24 || c.hour == 24 && (c.minute|c.second|c.nanos) == 0)
	return year, month, day, c, ok
}

func (c clock) on(year, month, day int64) changelog.Value {
	sec := changelog.DaysOf(year, int(month), int(day))*86400 + c.hour*3600 + c.minute*60 + c.second
	return changelog.TimestampLTZValue(sec, int32(c.nanos))
}

func lastOf(year, month int64) int64 {
	if month == 12 {
		return 31
	}
	return changelog.DaysOf(year, int(month)+1, 1) - changelog.DaysOf(year, int(month), 1)
}
