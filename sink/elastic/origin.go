package elastic

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog"
)

// origin is where a document came from, as the field Options.Meta says it:
//
//	"flinksink":{"at":"orders/3/1201/0/4J_wAAAAQ4aZzq0AAAAAAA"}
//
// topic, partition, offset, incarnation, and the topic's id where it is known. It is one text, since it is in each document and the server reads, logs and
// stores it with each: as five members it cost a tenth of what the server does for a small document. A topic's name has no slash.
type origin struct {
	topic       string
	topicID     string // "": not known
	partition   int32
	offset      int64
	incarnation uint16
}

// from is the field as JSON has it.
type from struct{ At string }

// UnmarshalJSON leaves out what is no such object: a hand may have put anything there.
func (f *from) UnmarshalJSON(b []byte) error {
	var v struct {
		At string `json:"at"`
	}
	if json.Unmarshal(b, &v) == nil {
		f.At = v.At
	}
	return nil
}

// origin reads the field; false: something else wrote it.
func (f from) origin() (o origin, ok bool) {
	parts := strings.Split(f.At, "/")
	if len(parts) != 4 && len(parts) != 5 || parts[0] == "" {
		return o, false
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return o, false
	}
	if o.offset, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
		return o, false
	}
	incarnation, err := strconv.ParseUint(parts[3], 10, 16)
	if err != nil {
		return o, false
	}
	o.topic, o.partition, o.incarnation = parts[0], int32(partition), uint16(incarnation)
	if len(parts) == 5 {
		o.topicID = parts[4]
	}
	return o, true
}

// appendMeta appends the member that says where the document came from.
func (c *committer) appendMeta(dst []byte, ch *changelog.Change) []byte {
	dst = append(dst, c.metaName...)
	dst = append(dst, `{"at":`...)
	dst = appendString(dst, []byte(ch.Topic))
	dst[len(dst)-1] = '/' // in place of the quote
	dst = strconv.AppendInt(dst, int64(ch.Partition.Partition), 10)
	dst = append(dst, '/')
	dst = strconv.AppendInt(dst, ch.Offset, 10)
	dst = append(dst, '/')
	dst = strconv.AppendInt(dst, int64(c.incarnation), 10)
	if id := c.topicID(ch.Topic); id != "" {
		dst = append(append(dst, '/'), id...)
	}
	return append(dst, `"}`...)
}
