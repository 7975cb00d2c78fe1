package avroconfluent

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/registry/registrytest"
)

const (
	recordOfInt = `{"type":"record","name":"r","fields":[{"name":"id","type":"int"}]}`
	messageOf7  = "\x00\x00\x00\x00\x07\x04"
)

// An outage is no data error, and is forgotten; that a schema is not there is one.
func TestDecode_Registry(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(w http.ResponseWriter, r *http.Request) bool
		data  bool // a data error
		want  string
	}{
		{"500", answers(500, 50001, "Error in the backend data store"), false, "it answered 500, code 50001: Error in the backend data store"},
		{"503 of a proxy", answers(503, 0, ""), false, "it answered 503"},
		{"too many", answers(429, 42901, "slow down"), false, "it answered 429"},
		{"401", answers(401, 401, "Unauthorized"), false, "set 'basic-auth.user-info' or 'bearer-auth.token'"},
		{"403", answers(403, 40301, "no"), false, "code 40301: no; set"},
		{"404 of another server", answers(404, 0, ""), false, "is option 'url' the address of a schema registry?"},
		{"unknown id", answers(404, 40403, "Schema 7 not found"), true, "schema 7 cannot be fetched from the schema registry at http://registry: it answered 404, code 40403: Schema 7 not found"},
		{"not JSON", says("<html>"), false, "the answer is none of a schema registry"},
		{"cut off", says(`{"schema": "`), false, "the answer is none of a schema registry"},
		{"nothing", says(``), false, "the answer is none of a schema registry"},
		{"another kind", says(`{"schemaType":"PROTOBUF","schema":"syntax"}`), true, "schema 7, which is one of PROTOBUF and not of Avro"},
		{"no schema", says(`{"schema":"{\"type\":\"what\"}"}`), true, "schema 7, which cannot be parsed"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Write([]byte(`{"schema":"`))
			for range 17 {
				w.Write(make([]byte, 1<<20))
			}
			return true
		}, false, "the answer is longer than any schema"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &registrytest.Registry{Fault: c.fault}
			g.Put(7, registrytest.Schema{Text: recordOfInt})
			p := payloadOf(t, nil, "id INT")
			d, err := Format{HTTP: g.Client()}.NewDecoder(p)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err = decode(d, p, []byte(messageOf7))
				var data *changelog.DataError
				var out *changelog.UnavailableError
				if errors.As(err, &data) != c.data || errors.As(err, &out) == c.data || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%T: %v; want %s", err, err, c.want)
				}
			}
			g.Fault = nil // it is back
			for range 2 {
				if got, err := decode(d, p, []byte(messageOf7)); err != nil || got != `{"id":"2"}` {
					t.Errorf("%s, %v", got, err)
				}
			}
			if n := len(g.Requests()); n != 3 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func answers(status, code int, message string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if code == 0 {
			http.Error(w, "<html>secret</html>", status)
		} else {
			registrytest.Answer(w, status, code, message)
		}
		return true
	}
}

func says(body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprint(w, body)
		return true
	}
}

func TestEncode_Registry(t *testing.T) {
	g := &registrytest.Registry{Fault: answers(409, 409, "Schema being registered is incompatible with an earlier schema")}
	e, err := Format{HTTP: g.Client()}.NewEncoder(payloadOf(t, nil, "id INT"))
	if err != nil {
		t.Fatal(err)
	}
	row := &changelog.Change{Row: changelog.Row{changelog.IntValue(1)}}
	out, _, err := e.AppendPayload([]byte("x"), row)
	var outage *changelog.UnavailableError
	if !errors.As(err, &outage) || !strings.Contains(err.Error(), "under subject orders-value") || !strings.Contains(err.Error(), "change the table, or the subject's compatibility") || string(out) != "x" {
		t.Errorf("%q, %v", out, err)
	}
	g.Fault = nil
	if out, _, err := e.AppendPayload(nil, row); err != nil || string(out) != "\x00\x00\x00\x00\x01\x02\x02" {
		t.Errorf("%q, %v", out, err)
	}
}

// A server that is not there, and one that does not answer.
func TestDecode_NoServer(t *testing.T) {
	silent := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(silent)
	gone := httptest.NewServer(nil)
	gone.Close()
	for url, want := range map[string]string{
		gone.URL: "connection refused",
		srv.URL:  "no answer in time",
		strings.Replace(gone.URL, "//", "//anna:hush@", 1): "connection refused",
	} {
		p := payloadOf(t, map[string]string{"url": url}, "id INT")
		d, err := Format{Timeout: 50 * time.Millisecond}.NewDecoder(p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = decode(d, p, []byte(messageOf7))
		var out *changelog.UnavailableError
		if !errors.As(err, &out) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "anna") {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// Many that need one schema wait for one request.
func TestDecode_OneRequest(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	g := &registrytest.Registry{}
	g.Fault = func(http.ResponseWriter, *http.Request) bool {
		close(begun) // twice would panic
		<-goOn
		return false
	}
	g.Put(7, registrytest.Schema{Text: recordOfInt})
	p := payloadOf(t, nil, "id INT")
	d, err := Format{HTTP: g.Client()}.NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := decode(d, p, []byte(messageOf7)); err != nil || got != `{"id":"2"}` {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	<-begun
	close(goOn)
	wg.Wait()
	if got := g.Requests(); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// The cache is bounded, and what fell out of it is fetched again.
func TestDecode_CacheIsBounded(t *testing.T) {
	g := &registrytest.Registry{}
	p := payloadOf(t, nil, "id INT")
	d, err := Format{HTTP: g.Client()}.NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	const ids = 1500
	message := func(id int) []byte { return []byte{0, 0, 0, byte(id >> 8), byte(id), 4} }
	for id := range ids {
		g.Put(id, registrytest.Schema{Text: recordOfInt})
		if _, err := decode(d, p, message(id)); err != nil {
			t.Fatal(err)
		}
	}
	for id := range ids {
		if _, err := decode(d, p, message(id)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(g.Requests()); n < ids+500 || n > 2*ids {
		t.Errorf("%d requests for %d schemas, of which 1000 are kept", n, ids)
	}
}

// What only writers need does not keep a table from being read. Nobody heeds it in writing, here or in Flink.
func TestFormat_OptionsOfWriters(t *testing.T) {
	for _, options := range []map[string]string{
		{"properties.auto.register.schemas": "false"}, {"properties": "use.latest.version:true,basic.auth.user.info:u:p"},
		{"properties.value.subject.name.strategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"},
	} {
		p := payloadOf(t, options, "id INT")
		if _, err := (Format{}).NewDecoder(p); err != nil {
			t.Errorf("%v: %v", options, err)
		}
		if _, err := (Format{}).NewEncoder(p); err == nil || !strings.Contains(err.Error(), "would have no effect on what is written, here as in Flink") {
			t.Errorf("%v: to write: %v", options, err)
		}
	}
}

func TestFormat_Options(t *testing.T) {
	dir := t.TempDir()
	empty, wordless := filepath.Join(dir, "empty.jks"), filepath.Join(dir, "no.pem")
	for file, text := range map[string]string{empty: "\xfe\xed\xfe\xed", wordless: "-----BEGIN X-----\n-----END X-----\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		options map[string]string
		columns string
		want    []string // "" for none
	}{
		{map[string]string{"url": "http://a:1,https://b/path"}, "id INT", nil},
		{map[string]string{"url": "", "schema-registry.url": "http://a"}, "id INT", []string{"option 'url' is missing"}},
		{map[string]string{"url": ""}, "id INT", []string{"avro-confluent: option 'url' is missing"}},
		{map[string]string{"url": "hush.example:8081"}, "id INT", []string{"option 'url' must be an address that begins with http"}},
		{map[string]string{"url": "http://u:hush\x7f@x"}, "id INT", []string{"option 'url' must be"}},
		{map[string]string{"urls": "x", "shcema": "y"}, "id INT", []string{"unknown option 'urls'; the nearest that the format has is 'url'", "'shcema'; the nearest that the format has is 'schema'"}},
		{map[string]string{"properties.basic.auth.user.info": "u:p", "properties.schema.registry.ssl.truststore.type": "PEM"}, "id INT", nil},
		{map[string]string{"properties": "basic.auth.credentials.source:USER_INFO,basic.auth.user.info:u:hush"}, "id INT", nil},
		{map[string]string{"properties": "hush"}, "id INT", []string{"must be a list of key:value"}},
		{map[string]string{"properties.hush.hush": "hush"}, "id INT", []string{"option 'properties.hush.hush' is no property"}},
		{map[string]string{"basic-auth.user-info": "hush"}, "id INT", []string{"'basic-auth.user-info' must be user:password"}},
		{map[string]string{"basic-auth.credentials-source": "USER_INFO"}, "id INT", []string{"'basic-auth.user-info' is missing"}},
		{map[string]string{"basic-auth.credentials-source": "SASL_INHERIT"}, "id INT", []string{"must be 'USER_INFO' or 'URL'"}},
		{map[string]string{"bearer-auth.credentials-source": "OAUTHBEARER"}, "id INT", []string{"must be 'STATIC_TOKEN'"}},
		{map[string]string{"bearer-auth.credentials-source": "STATIC_TOKEN"}, "id INT", []string{"'bearer-auth.token' is missing"}},
		{map[string]string{"bearer-auth.token": "hush", "basic-auth.user-info": "u:hush"}, "id INT", []string{"exclude each other"}},
		{map[string]string{"ssl.truststore.location": filepath.Join(dir, "none")}, "id INT", []string{"'ssl.truststore.location' cannot be read"}},
		{map[string]string{"ssl.truststore.location": empty, "ssl.truststore.password": "hush", "ssl.keystore.location": empty}, "id INT", []string{"'ssl.truststore.location' names a file with nothing in PEM form", "'ssl.keystore.location' names a file with nothing"}},
		{map[string]string{"ssl.truststore.location": wordless, "ssl.keystore.location": wordless}, "id INT", []string{"holds no certificate", "must name a file with a private key"}},
		{map[string]string{"schema": "{"}, "id INT", []string{"option 'schema' cannot be parsed"}},
		{map[string]string{"schema": `{"type":"record","name":"r","fields":[{"name":"id","type":"long"}]}`}, "id INT", []string{"must have the types of the table, in the same order: it has ROW<id BIGINT NOT NULL> NOT NULL, and the table ROW<id INT> NOT NULL"}},
		{map[string]string{"schema": `["null",` + recordOfInt + `]`}, "id INT NOT NULL", []string{"must be a record, and no union"}},
		{map[string]string{"schema": `{"type":"record","name":"r","fields":[{"name":"r","type":["null","r"]}]}`}, "id INT", []string{"must have the types"}},
		{nil, "id TIMESTAMP(6)", []string{"avro-confluent: field id: Flink has no TIMESTAMP(6) in this format, only up to precision 3"}},
		{nil, "id TIMESTAMP_LTZ(3)", []string{"field id: Flink has no TIMESTAMP_LTZ in this format"}},
		{nil, "id ROW<a-b INT>", []string{"Avro's names have letters"}},
	} {
		p := payloadOf(t, c.options, strings.Replace(c.columns, "a-b", "`a-b`", 1))
		_, err := Format{}.NewDecoder(p)
		_, err2 := Format{}.NewEncoder(p)
		for _, err := range []error{err, err2} {
			if (err == nil) != (c.want == nil) {
				t.Errorf("%v %s: %v", c.options, c.columns, err)
				continue
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v %s: %v\nwant %s", c.options, c.columns, err, want)
				}
			}
			if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), "hush.hush", ""), "hush") {
				t.Errorf("%v: the error shows a secret: %v", c.options, err)
			}
		}
	}
	p := payloadOf(t, nil, "id INT")
	p.Topic = ""
	if _, err := (Format{}).NewDecoder(p); err != nil {
		t.Error(err)
	}
	if _, err := (Format{}).NewEncoder(p); err == nil || !strings.Contains(err.Error(), "option 'subject' is missing") {
		t.Errorf("%v", err)
	}
	p = payloadOf(t, map[string]string{"schema": `{"type":"record","name":"r","fields":[{"name":"f","type":{"type":"fixed","name":"F","size":2}}]}`}, "f VARBINARY(2) NOT NULL")
	if _, err := (Format{}).NewEncoder(p); err == nil || !strings.Contains(err.Error(), "the fixed F, which Flink reads and cannot write") {
		t.Errorf("%v", err)
	}
	p = payloadOf(t, map[string]string{"ssl.truststore.location": empty}, "id INT")
	if _, err := (Format{HTTP: &http.Client{}}).NewDecoder(p); err == nil {
		t.Error("a client beside ssl.*")
	}
}

// Credentials reach the registry, over TLS, and the second address where the first one is not there.
func TestFormat_Security(t *testing.T) {
	var headers []string
	g := &registrytest.Registry{}
	g.Put(7, registrytest.Schema{Text: recordOfInt})
	g.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		headers = append(headers, r.Header.Get("Authorization"))
		return false
	}
	srv := httptest.NewUnstartedServer(g)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	dir := t.TempDir()
	store, keys := filepath.Join(dir, "trust.pem"), filepath.Join(dir, "keys.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	key, err := pkcs8(srv.TLS.Certificates[0])
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{store: append([]byte("a comment\n"), certificate...), keys: append(key, certificate...)} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		options map[string]string
		want    string
	}{
		{map[string]string{"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "anna:a:b"}, "Basic YW5uYTphOmI="},
		{map[string]string{"url": strings.Replace(srv.URL, "//", "//anna:a%3Ab@", 1)}, "Basic YW5uYTphOmI="},
		{map[string]string{"properties.bearer.auth.token": "t"}, "Bearer t"},
		{map[string]string{"url": gone.URL + "," + srv.URL}, ""},
	} {
		options := map[string]string{"url": srv.URL, "ssl.truststore.location": store, "ssl.keystore.location": keys, "ssl.keystore.password": "not needed"}
		for k, v := range c.options {
			options[k] = v
		}
		p := payloadOf(t, options, "id INT")
		d, err := Format{}.NewDecoder(p)
		if err != nil {
			t.Fatal(err)
		}
		headers = nil
		if got, err := decode(d, p, []byte(messageOf7)); err != nil || got != `{"id":"2"}` || !slices.Equal(headers, []string{c.want}) {
			t.Errorf("%v: %s, %v, %q", c.options, got, err, headers)
		}
	}
	p := payloadOf(t, map[string]string{"url": srv.URL}, "id INT")
	d, err := Format{}.NewDecoder(p)
	if err != nil {
		t.Fatal(err)
	}
	var out *changelog.UnavailableError
	if _, err := decode(d, p, []byte(messageOf7)); !errors.As(err, &out) {
		t.Errorf("a certificate of nobody: %v", err)
	}
}

func pkcs8(c tls.Certificate) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
