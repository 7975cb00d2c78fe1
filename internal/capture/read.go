package capture

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/flinksink/flinksink/changelog"
)

// Record is one captured record. The topic is not part of the file, so Topic is "". LeaderEpoch is -1 and TimestampType is
// CreateTime.
type Record struct {
	changelog.Record
	Aborted bool // of a transaction that was aborted
	Open    bool // behind the last stable offset when it was captured
}

// Visible reports whether a read_committed consumer gets the record.
func (r *Record) Visible() bool { return !r.Aborted && !r.Open }

// MaxPartitions is how many partitions a capture may have. A topic needs all partitions up to the highest number, and a broker that is
// asked for tens of thousands is busy for minutes.
const MaxPartitions = 1000

// maxLine bounds the memory that one line can take: a message of 64 MiB, which few brokers take, three times in base64 and text.
const maxLine = 256 << 20

// ReadFile reads the capture at path. Errors name the file and the line.
func ReadFile(path string) ([]Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	defer f.Close()
	recs, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return recs, nil
}

// Read reads a capture. Empty lines are skipped. Errors name the line; a line that misses a field, knows a field that is not in the
// package comment, or goes back in offsets is an error, since a test that silently reads something else proves nothing.
func Read(r io.Reader) ([]Record, error) {
	var recs []Record
	last := map[int32]int64{}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), maxLine)
	n := 0
	for sc.Scan() {
		n++
		line := bytes.TrimSpace(sc.Bytes())
		if len(line) == 0 {
			continue
		}
		rec, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("capture: line %d: %w", n, err)
		}
		if l, ok := last[rec.Partition.Partition]; ok && rec.Offset <= l {
			return nil, fmt.Errorf("capture: line %d: offset %d of partition %d comes after offset %d", n, rec.Offset, rec.Partition.Partition, l)
		}
		last[rec.Partition.Partition] = rec.Offset
		recs = append(recs, rec)
	}
	if err := sc.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("capture: line %d: longer than %d bytes", n+1, maxLine)
		}
		return nil, fmt.Errorf("capture: line %d: %w", n+1, err)
	}
	return recs, nil
}

// line is the JSON form of a record. Raw messages tell an absent field from null.
type line struct {
	Partition *int32          `json:"partition"`
	Offset    *int64          `json:"offset"`
	Timestamp *int64          `json:"timestamp"`
	Key       json.RawMessage `json:"key"`
	Value     json.RawMessage `json:"value"`
	Headers   [][]*string     `json:"headers"`
	Aborted   bool            `json:"aborted"`
	Open      bool            `json:"open"`
	KeyText   string          `json:"keyText"`
	ValueText string          `json:"valueText"`
}

func parse(text []byte) (Record, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Record{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Record{}, errors.New("more than one JSON value")
	}
	if l.Partition == nil {
		return Record{}, errors.New("field partition: missing")
	}
	if *l.Partition < 0 || *l.Partition >= MaxPartitions {
		return Record{}, fmt.Errorf("field partition: %d, and a partition is a number from 0 to %d", *l.Partition, MaxPartitions-1)
	}
	if l.Offset == nil || *l.Offset < 0 {
		return Record{}, errors.New("field offset: a number from 0 is needed")
	}
	if l.Timestamp == nil {
		return Record{}, errors.New("field timestamp: missing")
	}
	if l.Aborted && l.Open {
		return Record{}, errors.New("fields aborted and open: a record cannot be both")
	}
	rec := Record{Aborted: l.Aborted, Open: l.Open}
	rec.Partition.Partition, rec.Offset, rec.Timestamp = *l.Partition, *l.Offset, *l.Timestamp
	rec.LeaderEpoch = -1
	var err error
	if rec.Key, err = payload(l.Key); err != nil {
		return Record{}, fmt.Errorf("field key: %w", err)
	}
	if rec.Value, err = payload(l.Value); err != nil {
		return Record{}, fmt.Errorf("field value: %w", err)
	}
	for i, h := range l.Headers {
		if len(h) != 2 || h[0] == nil {
			return Record{}, fmt.Errorf("field headers[%d]: expected [name, base64 or null]", i)
		}
		hdr := changelog.Header{Key: *h[0]}
		if h[1] != nil {
			if hdr.Value, err = decode(*h[1]); err != nil {
				return Record{}, fmt.Errorf("field headers[%d]: %w", i, err)
			}
		}
		rec.Headers = append(rec.Headers, hdr)
	}
	return rec, nil
}

// payload is nil for null and never nil for text.
func payload(raw json.RawMessage) ([]byte, error) {
	if raw == nil {
		return nil, errors.New("missing; null must be written out")
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, errors.New("expected base64 text or null")
	}
	if s == nil {
		return nil, nil
	}
	return decode(*s)
}

func decode(s string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}
