package changelog

import (
	"fmt"
	"strconv"
)

// The types that take numbers: lengths, precisions, scales, and the units of an INTERVAL.

func (p *typeParser) sized(word string) (Type, error) {
	p.next()
	varying := word != "VARCHAR" && word != "VARBINARY" && p.takeWord("VARYING")
	t := Type{Length: 1}
	switch {
	case word == "VARCHAR" || varying && word != "BINARY":
		t.Root = RootVarchar
	case word == "VARBINARY" || varying:
		t.Root = RootVarbinary
	case word == "BINARY":
		t.Root = RootBinary
	default:
		t.Root = RootChar
	}
	if !p.takeSign('(') {
		// Flink's documentation says VARCHAR is VARCHAR(1), but its SQL makes it a STRING (FlinkTypeSystem.getDefaultPrecision,
		// and what SHOW CREATE TABLE prints).
		if t.Root == RootVarchar || t.Root == RootVarbinary {
			t.Length = MaxLength
		}
		return t, nil
	}
	var err error
	if t.Length, err = p.number("a length", 1, MaxLength); err != nil {
		return t, err
	}
	return t, p.needSign(')')
}

func (p *typeParser) decimal() (Type, error) {
	p.next()
	t := Type{Root: RootDecimal, Precision: 10}
	if !p.takeSign('(') {
		return t, nil
	}
	var err error
	if t.Precision, err = p.number("a precision", 1, MaxPrecision); err != nil {
		return t, err
	}
	if p.takeSign(',') {
		if t.Scale, err = p.number("a scale", 0, t.Precision); err != nil {
			return t, err
		}
	}
	if !p.takeSign(')') {
		return t, p.fail("',' or ')'")
	}
	return t, nil
}

func (p *typeParser) temporal(word string) (t Type, err error) {
	p.next()
	switch word {
	case "TIME":
		t = Type{Root: RootTime}
	case "TIMESTAMP":
		t = Type{Root: RootTimestamp, Precision: 6}
	default:
		t = Type{Root: RootTimestampLTZ, Precision: 6}
	}
	if err = p.optional("a precision", 0, 9, &t.Precision); err != nil || word == "TIMESTAMP_LTZ" {
		return t, err
	}
	switch {
	case p.takeWord("WITHOUT"):
		err = p.needWords("TIME", "ZONE")
	case word == "TIMESTAMP" && p.takeWord("WITH"):
		t.Root = RootTimestampTZ
		if p.takeWord("LOCAL") {
			t.Root = RootTimestampLTZ
		}
		err = p.needWords("TIME", "ZONE")
	}
	return t, err
}

func (p *typeParser) interval() (t Type, err error) {
	p.next()
	first, to := p.tok.upper, ""
	switch {
	case p.tok.kind != tokWord || intervalUnit(first, "") == 0:
		return t, p.fail("YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
	case first == "YEAR" || first == "MONTH":
		t.Root = RootIntervalYearMonth
	default:
		t.Root, t.Scale = RootIntervalDayTime, 6
	}
	t.Precision = 2
	p.next()
	switch first {
	case "YEAR":
		err = p.optional("digits of years", 1, 4, &t.Precision)
	case "DAY":
		err = p.optional("digits of days", 1, 6, &t.Precision)
	}
	if err == nil && p.takeWord("TO") {
		to = p.tok.upper
		if p.tok.kind != tokWord || to == "" || intervalUnit(first, to) == 0 {
			return t, p.fail("a finer unit than " + first)
		}
		p.next()
	}
	t.Interval = intervalUnit(first, to)
	if err == nil && (to == "SECOND" || to == "" && first == "SECOND") {
		err = p.optional("digits of a second", 0, 9, &t.Scale)
	}
	return t, err
}

// intervalUnit returns the resolution "first TO to", or of first alone if to is "", and 0 if there is none.
func intervalUnit(first, to string) IntervalUnit {
	text := first
	if to != "" {
		text += " TO " + to
	}
	for u := IntervalYear; u <= IntervalSecond; u++ {
		if from, until := u.words(); from+until == text {
			return u
		}
	}
	return 0
}

// optional reads a number in parentheses, if there is one.
func (p *typeParser) optional(what string, low, high int, n *int) (err error) {
	if !p.takeSign('(') {
		return nil
	}
	if *n, err = p.number(what, low, high); err != nil {
		return err
	}
	return p.needSign(')')
}

func (p *typeParser) number(what string, low, high int) (int, error) {
	if p.tok.kind == tokNumber {
		n, err := strconv.ParseInt(p.tok.value, 10, 64)
		if err == nil && n >= int64(low) && n <= int64(high) {
			p.next()
			return int(n), nil
		}
	}
	return 0, p.fail(fmt.Sprintf("%s from %d to %d", what, low, high))
}
