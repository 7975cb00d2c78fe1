package ddl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const secret = "hunter2"

// secrets are options that hold the secret, each under a name or in a form that occurs with Flink.
var secrets = []struct{ key, value string }{
	{"properties.sasl.jaas.config", `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";`},
	{"properties.ssl.keystore.password", "hunter2"},
	{"properties.ssl.key.password", "hunter2"},
	{"properties.ssl.keystore.key", "hunter2"},
	{"properties.ssl.keystore.certificate.chain", "hunter2"},
	{"properties.ssl.truststore.password", "hunter2"},
	{"properties.ssl.truststore.certificates", "hunter2"},
	{"properties.sasl.oauthbearer.client.credentials.client.secret", "hunter2"},
	{"properties.sasl.oauthbearer.assertion.private.key.passphrase", "hunter2"},
	{"avro-confluent.basic-auth.user-info", "user:hunter2"},
	{"value.avro-confluent.bearer-auth.token", "hunter2"},
	{"avro-confluent.ssl.keystore.password", "hunter2"},
	{"avro-confluent.properties.basic.auth.user.info", "u:hunter2"},
	{"avro-confluent.url", "https://user:hunter2@registry:8081"},
	{"url", "jdbc:postgresql://host/db?user=u&password=hunter2"},
	{"PASSWORD", "hunter2"},
	{"api-key", "hunter2"},
	{"s3.access-key", "hunter2"},
	{"fs.azure.account.key.x", "hunter2"},
	{"some.credentials", "hunter2"},
	{"anything", "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"},
}

func TestSecretsAreNotPrinted(t *testing.T) {
	for _, s := range secrets {
		t.Run(s.key, func(t *testing.T) {
			text := "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', " + quoteString(s.key) + " = " + quoteString(s.value) + ")"
			table, err := Find(text, "t")
			if err != nil {
				t.Fatal(err)
			}
			if table.Options[s.key] != s.value || !strings.Contains(table.SQLWithSecrets(), secret) {
				t.Error("the secret itself is lost")
			}
			type holder struct {
				Options Options
				Table   *Table
			}
			for name, out := range printed(table, table.Options, holder{table.Options, table}, &holder{table.Options, table},
				[]any{table, table.Options}, map[string]any{"t": table, "o": table.Options}, table.Options.Redacted(), fmt.Errorf("x: %v, %+v", table, table.Options)) {
				if strings.Contains(out, secret) {
					t.Errorf("%s shows it: %s", name, out)
				}
			}
			if out := table.SQL(); strings.Contains(out, secret) || !strings.Contains(out, "'connector' = 'kafka'") || !strings.Contains(out, "= '******'") {
				t.Errorf("SQL: %s", out)
			}
			if _, err := Find(table.SQL(), "t"); err != nil {
				t.Errorf("redacted SQL does not parse: %v", err)
			}
			// Mistakes of every kind beside the secret: a quote left out at each place in turn, a word put in, a cut.
			for i := range text {
				for _, wrong := range []string{text[:i], text[:i] + "'" + text[i:], text[:i] + text[i+1:], text[:i] + "\n) x '" + text[i:], text[:i] + ";" + text[i:]} {
					if _, err := Parse(wrong); err != nil && strings.Contains(err.Error(), secret) {
						t.Fatalf("%v\nshows the secret of %s", err, wrong)
					}
				}
			}
		})
	}
}

// printed prints values in every way there is.
func printed(values ...any) map[string]string {
	out := map[string]string{}
	for i, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10.3v"} {
			out[fmt.Sprintf("%s of value %d", verb, i)] = fmt.Sprintf(verb, v)
		}
		out[fmt.Sprintf("Sprint of value %d", i)] = fmt.Sprint(v)
		if b, err := json.Marshal(v); err == nil {
			out[fmt.Sprintf("JSON of value %d", i)] = string(b)
		}
		var text, js bytes.Buffer
		slog.New(slog.NewTextHandler(&text, nil)).Info("x", "v", v, slog.Group("g", "v", v))
		slog.New(slog.NewJSONHandler(&js, nil)).Info("x", "v", v, slog.Group("g", "v", v))
		out[fmt.Sprintf("slog text of value %d", i)] = text.String()
		out[fmt.Sprintf("slog JSON of value %d", i)] = js.String()
	}
	return out
}

// TestPlainOptionsAreShown: what is no secret stays readable.
func TestPlainOptionsAreShown(t *testing.T) {
	for key, value := range map[string]string{
		"connector": "upsert-kafka", "key.format": "json", "key.fields": "a;b", "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY",
		"json.map-null-key.mode": "LITERAL", "properties.bootstrap.servers": "h:9092,i:9092", "properties.sasl.mechanism": "PLAIN",
		"properties.ssl.truststore.location": "/etc/ca.pem", "properties.transaction.timeout.ms": "1", "sink.transactional-id-prefix": "x",
		"avro-confluent.url": "http://registry:8081/a@b", "properties.sasl.username": "u", "topic-pattern": "a.*",
	} {
		if got := (Options{key: value}).Redacted()[key]; got != value {
			t.Errorf("%s is shown as %q", key, got)
		}
	}
	if got := (Options{"b": "it's", "a": "1", "password": ""}).String(); got != "('a' = '1', 'b' = 'it''s', 'password' = '')" {
		t.Error(got)
	}
	if got := fmt.Sprint((*Table)(nil), Options(nil)); got != "<nil> ()" {
		t.Error(got)
	}
}
