package bridge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/google/go-cmp/cmp"
)

// TestOptions_FlinkCases: every table that Flink wrote to is accepted, as written and as SHOW CREATE TABLE prints it.
func TestOptions_FlinkCases(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "flink", "*", "show-create.sql"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		table, err := ddl.Find(string(b), "")
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if err := CheckOptions(table); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		topics, pattern, err := Topics(table)
		if err != nil || len(topics) != 1 || topics[0] != table.Options["topic"] || pattern != "" {
			t.Errorf("%s: topics %v, pattern %q, %v", f, topics, pattern, err)
		}
		if s, err := StartOf(table); err != nil || s.Mode != StartEarliest {
			t.Errorf("%s: start %v, %v", f, s, err)
		}
		if _, err := ClientOptions(table); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestCheckOptions(t *testing.T) {
	upsert := func(o map[string]string) map[string]string {
		all := map[string]string{"connector": "upsert-kafka", "format": "-", "key.format": "json", "value.format": "csv"}
		for k, v := range o {
			all[k] = v
		}
		return all
	}
	for _, c := range []struct {
		name    string
		options map[string]string
		want    []string
	}{
		{"good", map[string]string{"json.ignore-parse-errors": "true", "sink.partitioner": "fixed", "scan.startup.mode": "earliest-offset", "properties.x": "y"}, nil},
		{"all of kafka", map[string]string{
			"key.fields": "a", "key.fields-prefix": "", "key.format": "raw", "key.raw.charset": "UTF-8", "property-version": "1",
			"scan.bounded.mode": "unbounded", "scan.parallelism": "1", "scan.topic-partition-discovery.interval": "0", "scan.watermark.idle-timeout": "1 s",
			"sink.delivery-guarantee": "exactly-once", "sink.parallelism": "4", "sink.semantic": "none", "sink.transaction-naming-strategy": "POOLING",
			"sink.transactional-id-prefix": "x", "topic-pattern": "x", "value.fields-include": "ALL", "value.format": "json", "value.json.x": "format's own",
		}, nil},
		{"all of upsert", upsert(map[string]string{"sink.buffer-flush.interval": "1s", "sink.buffer-flush.max-rows": "5", "key.json.a": "", "value.csv.b": ""}), nil},
		{"no connector", map[string]string{"connector": "-"}, []string{"option 'connector' is missing: tables of 'kafka' and 'upsert-kafka' can be read"}},
		{"another connector", map[string]string{"connector": "jdbc", "url": "x"},
			[]string{"option 'connector' of table t: tables of 'kafka' and 'upsert-kafka' can be read, this is another connector"}},
		{"unknown", map[string]string{"nope": "1", "topics": "x", "scan.startup.modus": "x"}, []string{
			"option 'nope' is not one of connector 'kafka': correct it or take it out",
			"option 'scan.startup.modus' is not one of connector 'kafka' (did you mean 'scan.startup.mode'?): correct it or take it out",
			"option 'topics' is not one of connector 'kafka' (did you mean 'topic'?): correct it or take it out",
		}},
		{"another format", map[string]string{"csv.field-delimiter": ",", "value.json.ignore-parse-errors": "true"}, []string{
			"option 'csv.field-delimiter' is not one of connector 'kafka' (options of this table's formats begin with 'json.'): correct it or take it out",
			"option 'value.json.ignore-parse-errors' is not one of connector 'kafka' (options of this table's formats begin with 'json.'): correct it or take it out",
		}},
		{"prefix of format with value.format", map[string]string{"value.format": "json", "json.ignore-parse-errors": "true"}, []string{
			"option 'json.ignore-parse-errors' is not one of connector 'kafka' (options of this table's formats begin with 'value.json.'): correct it or take it out",
		}},
		{"upsert", upsert(map[string]string{"scan.startup.mode": "earliest-offset", "key.fields": "a", "format": "json", "sink.partitioner": "x"}), []string{
			"option 'format': 'upsert-kafka' knows 'value.format' and 'key.format' only: rename it to 'value.format'",
			"option 'key.fields': the key of 'upsert-kafka' is its PRIMARY KEY: take it out",
			"option 'scan.startup.mode': 'upsert-kafka' always starts at the earliest offset: take it out",
			"option 'sink.partitioner' is not one of connector 'upsert-kafka': correct it or take it out",
		}},
		{"bounded", map[string]string{"scan.bounded.mode": "latest-offset"}, []string{
			"option 'scan.bounded.mode': a bridge does not stop there: take it out, and set UntilEnd (--until-end) to stop at the end"}},
	} {
		t.Run(c.name, func(t *testing.T) { isConfig(t, CheckOptions(optionTable(c.options)), c.want...) })
	}
}

func TestTopics(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		topics  []string
		pattern string
		want    []string
	}{
		{map[string]string{"topic": "a"}, []string{"a"}, "", nil},
		{map[string]string{"topic": "a; b.c_D-1 ;;a"}, []string{"a", "b.c_D-1"}, "", nil},
		{map[string]string{"topic": "-", "topic-pattern": "orders-.*|x"}, nil, "orders-.*|x", nil},
		{map[string]string{"topic": "-"}, nil, "", []string{"option 'topic' is missing: name the topic, or set 'topic-pattern'"}},
		{map[string]string{"topic": ";"}, nil, "", []string{"option 'topic' is empty: name the topic"}},
		{map[string]string{"topic-pattern": "x"}, nil, "", []string{"options 'topic' and 'topic-pattern' exclude each other: keep one"}},
		{map[string]string{"topic": "-", "topic-pattern": ""}, nil, "", []string{"option 'topic-pattern' is empty: it matches no topic"}},
		{map[string]string{"topic": "-", "topic-pattern": "(?!a)b"}, nil, "", []string{"option 'topic-pattern' is no regular expression that can be read here " +
			"(RE2: no look-around, no back references, no possessive quantifiers): error parsing regexp: invalid or unsupported Perl syntax: `(?!`"}},
		{map[string]string{"topic": "a,b;..;c"}, nil, "", []string{
			`option 'topic': "a,b" cannot be the name of a topic: expected letters, digits, '.', '_' and '-', at most 249; several names have ';' between them`,
			`option 'topic': ".." cannot be the name of a topic: expected letters, digits, '.', '_' and '-', at most 249; several names have ';' between them`}},
	} {
		topics, pattern, err := Topics(optionTable(c.options))
		isConfig(t, err, c.want...)
		if !cmp.Equal(topics, c.topics) || pattern != c.pattern {
			t.Errorf("%v: topics %v, pattern %q", c.options, topics, pattern)
		}
	}
}

func TestStartOf(t *testing.T) {
	const form = "option 'scan.startup.specific-offsets' must have the form partition:0,offset:42;partition:1,offset:300; entry "
	const timestamp = "option 'scan.startup.mode' = 'timestamp' needs 'scan.startup.timestamp-millis', milliseconds since 1970 as a whole number from 0 on"
	offsets := func(list string) map[string]string {
		return map[string]string{"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": list}
	}
	for _, c := range []struct {
		options map[string]string
		start   Start
		want    string
	}{
		{nil, Start{}, ""},
		{map[string]string{"scan.startup.mode": "earliest-offset"}, Start{}, ""},
		{map[string]string{"scan.startup.mode": "Latest-Offset"}, Start{Mode: StartLatest}, ""},
		{map[string]string{"connector": "upsert-kafka", "scan.startup.mode": "latest-offset"}, Start{}, ""},
		{map[string]string{"scan.startup.mode": "group-offsets", "properties.group.id": "g"}, Start{Mode: StartGroup}, ""},
		{map[string]string{"scan.startup.mode": "group-offsets"}, Start{}, "option 'scan.startup.mode' = 'group-offsets' needs 'properties.group.id', the group whose offsets are meant"},
		{map[string]string{"scan.startup.mode": "earliest"}, Start{}, "option 'scan.startup.mode' must be one of earliest-offset, latest-offset, group-offsets, timestamp, specific-offsets"},
		{map[string]string{"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "1700000000123"}, Start{Mode: StartTimestamp, Timestamp: 1700000000123}, ""},
		{map[string]string{"scan.startup.mode": "timestamp"}, Start{}, timestamp},
		{map[string]string{"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "-1"}, Start{}, timestamp},
		{map[string]string{"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "2024-01-01"}, Start{}, timestamp},
		{offsets("partition:0,offset:42;partition:1,offset:300"), Start{Mode: StartOffsets, Offsets: map[int32]int64{0: 42, 1: 300}}, ""},
		{offsets("partition:0,offset:42;"), Start{Mode: StartOffsets, Offsets: map[int32]int64{0: 42}}, ""},
		{offsets(""), Start{}, form + "1 has not"},
		{offsets("partition:0,offset:42;offset:1,partition:1"), Start{}, form + "2 has not"},
		{offsets("partition:0"), Start{}, form + "1 has not"},
		{offsets("0:42"), Start{}, form + "1 has not"},
		{offsets("partition:0,offset:-1"), Start{}, form + "1 has not"},
		{offsets("partition:99999999999,offset:1"), Start{}, form + "1 has not"},
		{offsets("partition:0,offset:1;partition:0,offset:2"), Start{}, "option 'scan.startup.specific-offsets' lists partition 0 twice"},
		{map[string]string{"topic": "a;b", "scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:1"}, Start{},
			"option 'scan.startup.mode' = 'specific-offsets' needs a single topic, since offsets are listed by partition"},
	} {
		got, err := StartOf(optionTable(c.options))
		var want []string
		if c.want != "" {
			want = append(want, c.want)
		}
		isConfig(t, err, want...)
		if !cmp.Equal(got, c.start) {
			t.Errorf("%v: %+v, want %+v", c.options, got, c.start)
		}
	}
	if s := StartOffsets.String() + StartMode(9).String(); s != "specific-offsets"+"StartMode(9)" {
		t.Error(s)
	}
}

func TestGroupID(t *testing.T) {
	if g := GroupID(optionTable(map[string]string{"properties.group.id": " g "})); g != "g" {
		t.Errorf("%q", g)
	}
	if g := GroupID(optionTable(nil)); g != "" {
		t.Errorf("%q", g)
	}
}

func TestNearest(t *testing.T) {
	known := map[string]bool{"fetch.min.bytes": true, "fetch.max.bytes": true, "acks": true}
	for name, want := range map[string]string{"fetch.mn.bytes": "fetch.min.bytes", "FETCH.MAX.BYTES": "fetch.max.bytes", "ack": "acks", "something": "", "": ""} {
		got := nearest(name, known)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q", name, got)
		}
	}
}
