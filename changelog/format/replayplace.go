package format

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// place is where in its source's log a change stands.
type place struct {
	source string   // the log; "" for a message that has no place
	order  [4]int64 // compared from the left
	clock  int64    // the source's clock, or 0
	exact  bool     // no other change has this place
	change change   // what stands there, where it is not exact
}

func (p place) compare(q place) int { return slices.Compare(p.order[:], q.order[:]) }

// places are the readers of places by the value's format. A message that is null or none of the format has no place: the decoder says what is
// wrong with it.
var places = map[string]func(value []byte) (place, error){
	"debezium-json": debeziumPlace,
	"maxwell-json":  maxwellPlace,
	"ogg-json":      oggPlace,
}

type debeziumEnvelope struct {
	Op     string          `json:"op"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Source *struct {
		Connector string          `json:"connector"`
		Name      string          `json:"name"`
		DB        string          `json:"db"`
		Snapshot  json.RawMessage `json:"snapshot"` // a text, and a boolean before Debezium 1.3
		Sequence  string          `json:"sequence"` // of Postgres: a JSON array of two numbers as text
		ServerID  int64           `json:"server_id"`
		File      string          `json:"file"`
		Pos       int64           `json:"pos"`
		Row       int64           `json:"row"`
		TsMs      int64           `json:"ts_ms"`
	} `json:"source"`
	Transaction *struct {
		TotalOrder int64 `json:"total_order"`
	} `json:"transaction"`
	Payload *debeziumEnvelope `json:"payload"`
}

// debeziumPlace follows the documentation of Debezium's source blocks. Postgres sends the changes of a transaction when it commits, so it is
// the position of the last commit that grows first: source.sequence, and not source.lsn. Of MySQL the binary log's file, position and row do.
// An update of a PRIMARY KEY is a delete and an insert of one place, in this order.
func debeziumPlace(value []byte) (p place, err error) {
	var e debeziumEnvelope
	if value == nil || json.Unmarshal(value, &e) != nil {
		return p, nil
	}
	if e.Payload != nil {
		e = *e.Payload
	}
	s := e.Source
	if e.Op == "r" || s != nil && snapshot(s.Snapshot) {
		return p, nil
	}
	step := int64(1)
	if e.Op == "d" {
		step = 0
	}
	if s != nil {
		p.clock = s.TsMs
	}
	switch {
	case s != nil && s.Sequence != "":
		var seq []*string
		if json.Unmarshal([]byte(s.Sequence), &seq) != nil || len(seq) != 2 || seq[1] == nil {
			break
		}
		commit := int64(0)
		if seq[0] != nil {
			commit, _ = strconv.ParseInt(*seq[0], 10, 64)
		}
		lsn, bad := strconv.ParseInt(*seq[1], 10, 64)
		if bad != nil {
			break
		}
		p.source = s.Connector + "\x00" + s.Name + "\x00" + s.DB
		p.order = [4]int64{commit, lsn, 0, step}
		if e.Transaction != nil && e.Transaction.TotalOrder > 0 {
			p.order[2], p.exact = e.Transaction.TotalOrder, true
		} else {
			p.change = changeOf(e.Op, e.Before, e.After)
		}
		return p, nil
	case s != nil && s.File != "":
		name, number := binlog(s.File)
		p.source = strings.Join([]string{s.Connector, s.Name, strconv.FormatInt(s.ServerID, 10), name}, "\x00")
		p.order, p.exact = [4]int64{number, s.Pos, s.Row, step}, true
		return p, nil
	}
	return p, unplaced("'source' has neither 'sequence' (Debezium for Postgres) nor 'file' (for MySQL)")
}

func snapshot(s json.RawMessage) bool {
	switch string(s) {
	case "", "null", "false", `"false"`:
		return false
	}
	return true
}

// binlog takes the number off the name of a file of MySQL's binary log.
func binlog(file string) (name string, number int64) {
	i := strings.LastIndexByte(file, '.')
	number, err := strconv.ParseInt(file[i+1:], 10, 64)
	if err != nil {
		return file, 0
	}
	return file[:i+1], number
}

// maxwellPlace reads 'position', which Maxwell writes with output_binlog_position, and the row's number in its transaction.
func maxwellPlace(value []byte) (p place, err error) {
	var e struct {
		Type     string `json:"type"`
		Position string `json:"position"`
		Server   int64  `json:"server_id"`
		XOffset  *int64 `json:"xoffset"`
		Ts       int64  `json:"ts"`
	}
	if value == nil || json.Unmarshal(value, &e) != nil || strings.HasPrefix(e.Type, "bootstrap-") {
		return p, nil
	}
	file, at, ok := cutLast(e.Position, ":")
	pos, bad := strconv.ParseInt(at, 10, 64)
	if !ok || bad != nil {
		return p, unplaced("it has no 'position'; set Maxwell's output_binlog_position = true")
	}
	name, number := binlog(file)
	p = place{source: strconv.FormatInt(e.Server, 10) + "\x00" + name, order: [4]int64{number, pos}, clock: e.Ts}
	// The last row of a transaction has 'commit' in place of a number.
	if p.order[2] = 1 << 62; e.XOffset != nil {
		p.order[2] = *e.XOffset
	}
	p.exact = true
	return p, nil
}

// oggPlace reads 'pos', the sequence number and the position in the trail.
func oggPlace(value []byte) (p place, err error) {
	var e struct {
		Pos  string `json:"pos"`
		OpTs string `json:"op_ts"`
	}
	if value == nil || json.Unmarshal(value, &e) != nil {
		return p, nil
	}
	digits := strings.TrimLeft(e.Pos, "0")
	if e.Pos == "" || len(digits) > 36 || strings.Trim(digits, "0123456789") != "" {
		return p, unplaced("it has no 'pos' of digits; set gg.handler.name.format.includePosition = true")
	}
	low := max(len(digits)-18, 0)
	p = place{source: "ogg", exact: true}
	// The digits of a time are in the order of the times; 17 go down to a millisecond.
	at := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, e.OpTs)
	p.clock, _ = strconv.ParseInt(at[:min(len(at), 17)], 10, 64)
	p.order[0], _ = strconv.ParseInt(cmp.Or(digits[:low], "0"), 10, 64)
	p.order[1], _ = strconv.ParseInt(cmp.Or(digits[low:], "0"), 10, 64)
	return p, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func unplaced(why string) *changelog.DataError {
	return dataError(changelog.Missing, "", "", "the message has no place in its source's log, and a ReplayGuard cannot tell whether it was sent before: "+why+"; without a guard it is read as it is")
}
