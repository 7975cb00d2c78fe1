package bridge

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/sink"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// optionTable makes a table of options; those of a small good table stand where nothing else is said, "-" takes one out.
func optionTable(options map[string]string) *ddl.Table {
	o := ddl.Options{"connector": "kafka", "topic": "t", "format": "json", "properties.bootstrap.servers": "localhost:9092"}
	maps.Copy(o, options)
	for k, v := range o {
		if v == "-" {
			delete(o, k)
		}
	}
	return &ddl.Table{Table: "t", Options: o}
}

// isConfig checks that err is one *sink.Error of class ErrConfig for each line, whose texts are these.
func isConfig(t *testing.T, err error, want ...string) {
	t.Helper()
	const prefix = "flinksink: read table options: configuration: "
	var got []string
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			text, ok := strings.CutPrefix(line, prefix)
			if !ok {
				t.Errorf("%q does not begin with %q", line, prefix)
			}
			got = append(got, text)
		}
		var e *sink.Error
		if !errors.As(err, &e) || !errors.Is(err, sink.ErrConfig) || sink.ClassOf(err) != sink.ErrConfig {
			t.Errorf("%v is no *sink.Error of class ErrConfig", err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("errors (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// javaProperties is what Kafka's own clients know.
func javaProperties(t *testing.T) (lines [][]string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "kafka-clients-4.1.1.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(b), "\n") {
		if f := strings.Split(l, "\t"); len(f) >= 3 {
			lines = append(lines, append(f, "")[:4])
		}
	}
	if len(lines) < 200 {
		t.Fatalf("%d properties", len(lines))
	}
	return lines
}

func TestProperties_AllOfJavaAreKnown(t *testing.T) {
	known := knownProperties()
	var unknown []string
	for _, f := range javaProperties(t) {
		if _, ok := known[f[1]]; !ok {
			unknown = append(unknown, f[1])
		}
		if f[2] == "PASSWORD" && !ddl.SecretName(propertyPrefix+f[1]) {
			t.Errorf("%s is a password to Kafka, and would be printed", f[1])
		}
	}
	if len(unknown) > 0 {
		t.Errorf("not known: %v", unknown)
	}
}

// TestProperties_DefaultsOfJava: a table that spells out what the Java consumer does anyway is fine, but for reading uncommitted.
func TestProperties_DefaultsOfJava(t *testing.T) {
	options := map[string]string{}
	for _, f := range javaProperties(t) {
		if f[0] == "consumer" && f[3] != "null" && !strings.HasPrefix(f[3], "[") && f[1] != "isolation.level" {
			options[propertyPrefix+f[1]] = f[3]
		}
	}
	if _, err := ClientOptions(optionTable(options)); err != nil {
		t.Error(err)
	}
	options["properties.isolation.level"] = "read_uncommitted"
	_, err := ClientOptions(optionTable(options))
	isConfig(t, err, "option 'properties.isolation.level' is read_uncommitted: rows of transactions that are aborted later would be written and "+
		"never taken back, so a bridge reads read_committed only; take it out")
}

// TestProperties_Become: each property with what it sets in the client.
func TestProperties_Become(t *testing.T) {
	for _, c := range []struct {
		name, value string
		option      any
		want        any
	}{
		{"bootstrap.servers", " a:1, SASL_SSL://b.c:2,,[::1]:3 ", kgo.SeedBrokers, []string{"a:1", "b.c:2", "[::1]:3"}},
		{"client.id", "me", kgo.ClientID, "me"},
		{"client.rack", "r1", kgo.Rack, "r1"},
		{"group.instance.id", "i1", kgo.InstanceID, "i1"},
		{"fetch.min.bytes", "7", kgo.FetchMinBytes, int32(7)},
		{"fetch.max.bytes", "1000", kgo.FetchMaxBytes, int32(1000)},
		{"fetch.max.bytes", "0", kgo.FetchMaxBytes, int32(1)},
		{"fetch.max.bytes", "209715200", kgo.FetchMaxBytes, int32(200 << 20)},
		{"fetch.max.bytes", "209715200", kgo.BrokerMaxReadBytes, int32(200 << 20)},
		{"fetch.max.bytes", "2147483647", kgo.FetchMaxBytes, int32(1 << 30)},
		{"max.partition.fetch.bytes", "5000", kgo.FetchMaxPartitionBytes, int32(5000)},
		{"fetch.max.wait.ms", "250", kgo.FetchMaxWait, 250 * time.Millisecond},
		{"fetch.max.wait.ms", "0", kgo.FetchMaxWait, 10 * time.Millisecond},
		{"check.crcs", "false", kgo.DisableFetchCRCValidation, true},
		{"check.crcs", "TRUE", kgo.DisableFetchCRCValidation, false},
		{"isolation.level", "read_committed", kgo.FetchIsolationLevel, 1},
		{"session.timeout.ms", "30000", kgo.SessionTimeout, 30 * time.Second},
		{"heartbeat.interval.ms", "1000", kgo.HeartbeatInterval, time.Second},
		{"max.poll.interval.ms", "120000", kgo.RebalanceTimeout, 2 * time.Minute},
		{"request.timeout.ms", "40000", kgo.RequestTimeoutOverhead, 40 * time.Second},
		{"request.timeout.ms", "3600000", kgo.RequestTimeoutOverhead, 15 * time.Minute},
		{"metadata.max.age.ms", "60000", kgo.MetadataMaxAge, time.Minute},
		{"metadata.max.age.ms", "1000", kgo.MetadataMinAge, time.Second},
		{"metadata.max.age.ms", "86400000", kgo.MetadataMaxAge, time.Hour},
		{"connections.max.idle.ms", "540000", kgo.ConnIdleTimeout, 9 * time.Minute},
		{"connections.max.idle.ms", "-1", kgo.ConnIdleTimeout, 15 * time.Minute},
		{"socket.connection.setup.timeout.ms", "3000", kgo.DialTimeout, 3 * time.Second},
		{"client.id", "", kgo.ClientID, "kgo"},
		{"auto.offset.reset", "latest", kgo.ConsumeResetOffset, kgo.NoResetOffset()},
		{"group.protocol", "classic", kgo.FetchIsolationLevel, 1},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			opts, err := ClientOptions(optionTable(map[string]string{propertyPrefix + c.name: c.value}))
			if err != nil {
				t.Fatal(err)
			}
			cl, err := kgo.NewClient(opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			if got := cl.OptValue(c.option); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestProperties_Assignors(t *testing.T) {
	opts, err := ClientOptions(optionTable(map[string]string{"properties.partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor," +
		" org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.CooperativeStickyAssignor,RoundRobinAssignor,StickyAssignor"}))
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var names []string
	for _, b := range cl.OptValue(kgo.Balancers).([]kgo.GroupBalancer) {
		names = append(names, b.ProtocolName())
	}
	if got := strings.Join(names, " "); got != "range cooperative-sticky roundrobin sticky" {
		t.Error(got)
	}
}

func TestProperties_Backoff(t *testing.T) {
	opts, err := ClientOptions(optionTable(map[string]string{"properties.retry.backoff.ms": "200", "properties.retry.backoff.max.ms": "1000"}))
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	f := cl.OptValue(kgo.RetryBackoffFn).(func(int) time.Duration)
	for try, want := range map[int]time.Duration{1: 200, 2: 400, 3: 800, 4: 1000, 1000: 1000} {
		want *= time.Millisecond
		if got := f(try); got < want*8/10 || got > want*12/10 {
			t.Errorf("try %d waits %s, want about %s", try, got, want)
		}
	}
}

func TestProperties_Mistakes(t *testing.T) {
	for _, c := range []struct {
		name    string
		options map[string]string
		want    []string
	}{
		{"none", nil, nil},
		{"no brokers", map[string]string{"properties.bootstrap.servers": "-"},
			[]string{"option 'properties.bootstrap.servers' is missing: name the brokers, as 'host:9092,other:9092'"}},
		{"empty brokers", map[string]string{"properties.bootstrap.servers": " , "},
			[]string{"option 'properties.bootstrap.servers' is empty: name the brokers, as 'host:9092,other:9092'"}},
		{"no port", map[string]string{"properties.bootstrap.servers": "a:1,b"},
			[]string{"option 'properties.bootstrap.servers' must list brokers as host:port with commas between them; broker 2 of the list is none"}},
		{"user in broker", map[string]string{"properties.bootstrap.servers": "u:p@a:1"},
			[]string{"option 'properties.bootstrap.servers' must list brokers as host:port with commas between them; broker 1 of the list is none"}},
		{"unknown, near", map[string]string{"properties.fetch.min.byte": "1"},
			[]string{"option 'properties.fetch.min.byte' is no property of a Kafka client (did you mean 'fetch.min.bytes'?): correct it or take it out"}},
		{"unknown, far", map[string]string{"properties.x.y": "1"},
			[]string{"option 'properties.x.y' is no property of a Kafka client: correct it or take it out"}},
		{"of another client", map[string]string{"properties.sasl.username": "u"},
			[]string{"option 'properties.sasl.username' is no property of a Kafka client: correct it or take it out"}},
		{"no number", map[string]string{"properties.fetch.min.bytes": "1k"},
			[]string{"option 'properties.fetch.min.bytes' must be a whole number from 0 to 2147483647"}},
		{"negative", map[string]string{"properties.session.timeout.ms": "-1"},
			[]string{"option 'properties.session.timeout.ms' must be a whole number from 0 to 9223372036854"}},
		{"no boolean", map[string]string{"properties.check.crcs": "yes", "properties.enable.auto.commit": "1"},
			[]string{"option 'properties.check.crcs' must be true or false", "option 'properties.enable.auto.commit' must be true or false"}},
		{"no choice", map[string]string{"properties.auto.offset.reset": "smallest", "properties.isolation.level": "serializable"},
			[]string{"option 'properties.auto.offset.reset' must be earliest, latest or none", "option 'properties.isolation.level' must be read_committed or read_uncommitted"}},
		{"next generation group", map[string]string{"properties.group.protocol": "consumer"},
			[]string{"option 'properties.group.protocol' is consumer: a bridge fences stale members by the generation of a classic group; take it out, or set it to classic"}},
		{"own assignor", map[string]string{"properties.partition.assignment.strategy": "com.x.MyAssignor"},
			[]string{"option 'properties.partition.assignment.strategy' lists a class that is not one of Kafka's own: use RangeAssignor, RoundRobinAssignor, StickyAssignor or CooperativeStickyAssignor"}},
		{"interceptor", map[string]string{"properties.interceptor.classes": "com.x.I"},
			[]string{"option 'properties.interceptor.classes' names Java code that may change what is read, which cannot run here: take it out if it does not"}},
		{"contradiction", map[string]string{"properties.session.timeout.ms": "2000", "properties.heartbeat.interval.ms": "3000"},
			[]string{"'properties.*': heartbeat interval 3s is erroneously larger than the session timeout 2s"}},
		{"long client id", map[string]string{"properties.client.id": strings.Repeat("x", 257)}, []string{"option 'properties.client.id' is longer than 256 bytes"}},
		{"protocol", map[string]string{"properties.security.protocol": "TLS"},
			[]string{"option 'properties.security.protocol' must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"}},
		{"all at once", map[string]string{"properties.a": "1", "properties.fetch.max.bytes": "x", "properties.bootstrap.servers": "-", "properties.security.protocol": "SASL_SSL", "properties.ssl.truststore.location": "/x.jks"},
			[]string{
				"option 'properties.a' is no property of a Kafka client: correct it or take it out",
				"option 'properties.fetch.max.bytes' must be a whole number from 0 to 2147483647",
				"option 'properties.bootstrap.servers' is missing: name the brokers, as 'host:9092,other:9092'",
				"option 'properties.ssl.truststore.location' only PEM can be read here: convert the store (keytool -importkeystore -deststoretype PKCS12, then openssl pkcs12 -out store.pem, with -nodes for a key) and set 'properties.ssl.truststore.type' = 'PEM'",
				"option 'properties.sasl.mechanism' is GSSAPI (Kafka's default), which is not built in: set PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, or take the security and SASL properties out and pass kgo.SASL with a Kerberos mechanism of your own",
			}},
		{"security that is not asked for", map[string]string{"properties.sasl.mechanism": "X", "properties.ssl.truststore.location": "/x.jks", "properties.sasl.jaas.config": "?"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts, err := ClientOptions(optionTable(c.options))
			isConfig(t, err, c.want...)
			if (err == nil) != (len(opts) > 0) {
				t.Errorf("%d options with %v", len(opts), err)
			}
		})
	}
}

// TestProperties_NoValueInErrors: whatever is wrong with a property, its value is not told.
func TestProperties_NoValueInErrors(t *testing.T) {
	const secret = "hunter2"
	for name := range knownProperties() {
		for _, protocol := range []string{"PLAINTEXT", "SASL_SSL"} {
			for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "X"} {
				for _, value := range []string{secret, "x required password=\"" + secret, "PlainLoginModule required username=hunter2 password=hunter2 x", "https://u:" + secret + "@[h", "-----BEGIN CERTIFICATE-----\n" + secret} {
					o := map[string]string{"properties.security.protocol": protocol, "properties.sasl.mechanism": mechanism, "properties.ssl.keystore.type": "PEM", "properties.ssl.truststore.type": "PEM"}
					o[propertyPrefix+name] = value
					if name == "ssl.keystore.location" || name == "ssl.truststore.location" {
						continue // a path, which is told
					}
					if _, err := ClientOptions(optionTable(o)); err != nil && strings.Contains(err.Error(), secret) {
						t.Fatalf("%s: %v", name, err)
					}
				}
			}
		}
	}
}

func TestIgnored(t *testing.T) {
	got := Ignored(optionTable(map[string]string{
		"properties.auto.offset.reset": "latest", "properties.acks": "all", "properties.max.poll.records": "5", "properties.client.id": "x",
		"scan.startup.mode": "latest-offset", "scan.startup.timestamp-millis": "5",
	}))
	want := []string{
		"option 'properties.auto.offset.reset' has no effect: an offset that is gone is an error, never another offset; 'scan.startup.mode' says where a new bridge starts",
		"option 'properties.max.poll.records' has no effect: this client decides it by itself",
		"option 'scan.startup.timestamp-millis' has no effect: 'scan.startup.mode' is not 'timestamp'",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
