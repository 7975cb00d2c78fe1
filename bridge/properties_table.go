package bridge

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flinksink/flinksink/changelog/ddl"
)

// The connectors whose tables can be read.
const (
	connectorKafka  = "kafka"
	connectorUpsert = "upsert-kafka"
)

// connectorOptions returns the options that Flink 2.2 lists for a connector, without properties.* and those of formats, with what
// older releases had.
func connectorOptions(connector string) map[string]bool {
	m := map[string]bool{}
	for _, n := range []string{
		"connector", "key.fields-prefix", "key.format", "property-version", "properties.bootstrap.servers",
		"scan.bounded.mode", "scan.bounded.specific-offsets", "scan.bounded.timestamp-millis", "scan.parallelism",
		"scan.topic-partition-discovery.interval", "scan.watermark.alignment.group", "scan.watermark.alignment.max-drift",
		"scan.watermark.alignment.update-interval", "scan.watermark.emit.strategy", "scan.watermark.idle-timeout",
		"sink.delivery-guarantee", "sink.parallelism", "sink.transaction-naming-strategy", "sink.transactional-id-prefix",
		"topic", "topic-pattern", "value.fields-include", "value.format",
	} {
		m[n] = true
	}
	own := []string{
		"format", "key.fields", "properties.group.id", "scan.startup.mode", "scan.startup.specific-offsets", "scan.startup.timestamp-millis",
		"sink.partitioner", "sink.semantic",
	}
	if connector == connectorUpsert {
		own = []string{"sink.buffer-flush.interval", "sink.buffer-flush.max-rows"}
	}
	for _, n := range own {
		m[n] = true
	}
	return m
}

// CheckOptions checks the names of a table's options, but for properties.* ([ClientOptions] does) and those that belong to its
// formats ("json.ignore-parse-errors", "key.json..." and so on: the formats do). Like Flink it refuses what the connector does not
// know, by name, and options of a format that the table does not use. scan.bounded.* is refused: a bridge does not stop there.
// The error joins one [*sink.Error] of class [sink.ErrConfig] for each mistake.
func CheckOptions(t *ddl.Table) error {
	connector, ok := t.Options["connector"]
	switch {
	case !ok:
		return optionError("option 'connector' is missing: tables of 'kafka' and 'upsert-kafka' can be read")
	case connector != connectorKafka && connector != connectorUpsert:
		return optionError("option 'connector' of table %s: tables of 'kafka' and 'upsert-kafka' can be read, this is another connector", t.Name())
	}
	known := connectorOptions(connector)
	prefixes := formatPrefixes(t.Options, connector)
	var errs []error
	for _, key := range t.Options.Keys() {
		switch {
		case strings.HasPrefix(key, propertyPrefix):
		case known[key]:
		case slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) }):
		case connector == connectorUpsert && strings.HasPrefix(key, "scan.startup."):
			errs = append(errs, optionError("option '%s': 'upsert-kafka' always starts at the earliest offset: take it out", key))
		case connector == connectorUpsert && key == "key.fields":
			errs = append(errs, optionError("option 'key.fields': the key of 'upsert-kafka' is its PRIMARY KEY: take it out"))
		case connector == connectorUpsert && key == "format":
			errs = append(errs, optionError("option 'format': 'upsert-kafka' knows 'value.format' and 'key.format' only: rename it to 'value.format'"))
		default:
			errs = append(errs, optionError("option '%s' is not one of connector '%s'%s%s: correct it or take it out",
				key, connector, nearest(key, known), otherPrefix(key, prefixes)))
		}
	}
	if mode := strings.ToLower(t.Options["scan.bounded.mode"]); mode != "" && mode != "unbounded" {
		errs = append(errs, optionError("option 'scan.bounded.mode': a bridge does not stop there: take it out, and set UntilEnd (--until-end) to stop at the end"))
	}
	return errors.Join(errs...)
}

// formatPrefixes returns what the options of the table's formats begin with (FactoryUtil.formatPrefix in Flink).
func formatPrefixes(o ddl.Options, connector string) []string {
	var out []string
	if f := o["key.format"]; f != "" {
		out = append(out, "key."+f+".")
	}
	if f := o["value.format"]; f != "" {
		out = append(out, "value."+f+".")
	} else if f := o["format"]; f != "" && connector == connectorKafka {
		out = append(out, f+".")
	}
	return out
}

// otherPrefix explains an option that looks like one of a format.
func otherPrefix(key string, prefixes []string) string {
	if !strings.Contains(key, ".") || len(prefixes) == 0 || strings.HasPrefix(key, "scan.") || strings.HasPrefix(key, "sink.") {
		return ""
	}
	return fmt.Sprintf(" (options of this table's formats begin with '%s')", strings.Join(prefixes, "' or '"))
}

// Topics returns what the table reads: the topics of 'topic' ("a;b" lists two), or 'topic-pattern', a regular expression over whole
// names. The error joins one [*sink.Error] of class [sink.ErrConfig] for each mistake.
func Topics(t *ddl.Table) (topics []string, pattern string, err error) {
	list, hasList := t.Options["topic"]
	pattern, hasPattern := t.Options["topic-pattern"]
	switch {
	case hasList && hasPattern:
		return nil, "", optionError("options 'topic' and 'topic-pattern' exclude each other: keep one")
	case !hasList && !hasPattern:
		return nil, "", optionError("option 'topic' is missing: name the topic, or set 'topic-pattern'")
	case hasPattern && pattern == "":
		return nil, "", optionError("option 'topic-pattern' is empty: it matches no topic")
	case hasPattern:
		// Java's expressions have more than Go's; what both have means the same.
		if _, err := regexp.Compile("^(?:" + pattern + ")$"); err != nil {
			return nil, "", optionError("option 'topic-pattern' is no regular expression that can be read here (RE2: no look-around, no back "+
				"references, no possessive quantifiers): %w", err)
		}
		return nil, pattern, nil
	}
	var errs []error
	for _, name := range strings.Split(list, ";") {
		name = strings.TrimSpace(name)
		if name == "" || slices.Contains(topics, name) {
			continue
		}
		if !legalTopic(name) {
			errs = append(errs, optionError("option 'topic': %q cannot be the name of a topic: expected letters, digits, '.', '_' and '-', at most "+
				"249; several names have ';' between them", name))
			continue
		}
		topics = append(topics, name)
	}
	if len(topics) == 0 && len(errs) == 0 {
		errs = append(errs, optionError("option 'topic' is empty: name the topic"))
	}
	if len(errs) > 0 {
		return nil, "", errors.Join(errs...)
	}
	return topics, "", nil
}

func legalTopic(name string) bool {
	legal := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
	}
	return len(name) <= 249 && name != "." && name != ".." && strings.IndexFunc(name, func(r rune) bool { return !legal(r) }) < 0
}

// StartMode says where a partition is read from that nothing is stored for, Flink's 'scan.startup.mode'.
type StartMode uint8

const (
	StartEarliest  StartMode = iota // the first offset there is
	StartLatest                     // the end, at the time the partition is first seen
	StartGroup                      // the offset that the consumer group has committed
	StartTimestamp                  // the first record with that timestamp or a later one
	StartOffsets                    // given offsets
)

// String returns Flink's name of the mode.
func (m StartMode) String() string {
	if int(m) < len(startModes()) {
		return startModes()[m]
	}
	return fmt.Sprintf("StartMode(%d)", uint8(m))
}

func startModes() []string {
	return []string{"earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"}
}

// Start says where a partition is read from that nothing is stored for. The zero value is the earliest offset.
type Start struct {
	Mode      StartMode
	Timestamp int64           // milliseconds since the Unix epoch; StartTimestamp
	Offsets   map[int32]int64 // by partition; StartOffsets
}

const (
	startMode      = "scan.startup.mode"
	startTimestamp = "scan.startup.timestamp-millis"
	startOffsets   = "scan.startup.specific-offsets"
)

// StartOf returns what 'scan.startup.mode' and its companions say. Without it, and for 'upsert-kafka' always, it is the earliest
// offset: a table that was made to be written to does not say, and a sink is to hold all of it. (Flink's own default is group-offsets,
// which fails without 'properties.group.id'.) The error joins one [*sink.Error] of class [sink.ErrConfig] for each mistake.
func StartOf(t *ddl.Table) (Start, error) {
	mode, ok := t.Options[startMode]
	if !ok || t.Options["connector"] == connectorUpsert {
		return Start{}, nil
	}
	i := slices.IndexFunc(startModes(), func(m string) bool { return strings.EqualFold(m, strings.TrimSpace(mode)) })
	if i < 0 {
		return Start{}, optionError("option '%s' must be one of %s", startMode, strings.Join(startModes(), ", "))
	}
	s := Start{Mode: StartMode(i)}
	switch s.Mode {
	case StartGroup:
		if GroupID(t) == "" {
			return Start{}, optionError("option '%s' = 'group-offsets' needs 'properties.group.id', the group whose offsets are meant", startMode)
		}
	case StartTimestamp:
		var err error
		s.Timestamp, err = strconv.ParseInt(strings.TrimSpace(t.Options[startTimestamp]), 10, 64)
		if err != nil || s.Timestamp < 0 {
			return Start{}, optionError("option '%s' = 'timestamp' needs '%s', milliseconds since 1970 as a whole number from 0 on", startMode, startTimestamp)
		}
	case StartOffsets:
		topics, _, _ := Topics(t)
		if len(topics) != 1 {
			return Start{}, optionError("option '%s' = 'specific-offsets' needs a single topic, since offsets are listed by partition", startMode)
		}
		var err error
		if s.Offsets, err = parseOffsets(t.Options[startOffsets]); err != nil {
			return Start{}, err
		}
	}
	return s, nil
}

// parseOffsets reads partition:0,offset:42;partition:1,offset:300.
func parseOffsets(list string) (map[int32]int64, error) {
	out := map[int32]int64{}
	for i, part := range strings.Split(strings.TrimSuffix(list, ";"), ";") {
		p, o, ok := strings.Cut(part, ",")
		p, hasPartition := strings.CutPrefix(strings.TrimSpace(p), "partition:")
		o, hasOffset := strings.CutPrefix(strings.TrimSpace(o), "offset:")
		partition, perr := strconv.ParseInt(p, 10, 32)
		offset, oerr := strconv.ParseInt(o, 10, 64)
		if !ok || !hasPartition || !hasOffset || perr != nil || oerr != nil || partition < 0 || offset < 0 {
			return nil, optionError("option '%s' must have the form partition:0,offset:42;partition:1,offset:300; entry %d has not", startOffsets, i+1)
		}
		if _, twice := out[int32(partition)]; twice {
			return nil, optionError("option '%s' lists partition %d twice", startOffsets, partition)
		}
		out[int32(partition)] = offset
	}
	return out, nil
}

// ignoredStart lists companions of a start mode that was not chosen.
func ignoredStart(t *ddl.Table) []string {
	var out []string
	for _, c := range []struct {
		option string
		mode   StartMode
	}{{startOffsets, StartOffsets}, {startTimestamp, StartTimestamp}} {
		if _, ok := t.Options[c.option]; ok && !strings.EqualFold(strings.TrimSpace(t.Options[startMode]), c.mode.String()) {
			out = append(out, fmt.Sprintf("option '%s' has no effect: '%s' is not '%s'", c.option, startMode, c.mode))
		}
	}
	return out
}
