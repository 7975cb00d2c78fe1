package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// closedAddress is one where nothing listens: it is that of one end of a connection, and for as long as there is that nobody else gets it.
func closedAddress(t *testing.T) string {
	t.Helper()
	c, err := net.Dial("tcp", silentAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// silentAddress is one where connections are taken and nothing is ever said.
func silentAddress(t *testing.T) string {
	t.Helper()
	return serve(t, func(c net.Conn) { io.Copy(io.Discard, c) })
}

// serve answers each connection.
func serve(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer(c)
			}()
		}
	}()
	return l.Addr().String()
}

// refusing is a Postgres server that asks for a password and then refuses with a SQLSTATE.
func refusing(t *testing.T, code, message string) string {
	t.Helper()
	return serve(t, func(c net.Conn) {
		b := pgproto3.NewBackend(c, c)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			return
		}
		b.Send(&pgproto3.AuthenticationCleartextPassword{})
		if b.Flush() != nil || b.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
			return
		}
		if _, err := b.Receive(); err != nil {
			return
		}
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: message})
		b.Flush()
	})
}

// Every way in which --to can be wrong is told with the cure, and none shows the password.
func TestTo_BadInput(t *testing.T) {
	ddl := write(t, "ddl.sql", people)
	topic := write(t, "topic.jsonl", "")
	wrong := refusing(t, "28P01", `password authentication failed for user "app"`)
	noDB := refusing(t, "3D000", `database "shop" does not exist`)
	full := refusing(t, "53300", `sorry, too many clients already`)
	closed, silent := closedAddress(t), silentAddress(t)
	const secret = "s3cr3tp4ss"
	for _, c := range []struct {
		name, to string
		want     []string
	}{
		{"no URL", "host=db password=" + secret, []string{"--to takes postgres://"}},
		{"other scheme", "mysql://app:" + secret + "@db/shop", []string{"--to takes postgres://"}},
		{"slash in the password", "postgres://app:" + secret + "/" + secret + "@db/shop", []string{"percent-encoded", "PGPASSWORD"}},
		{"digits, then a slash", "postgres://app:12/" + secret + "@db/shop", []string{"percent-encoded"}},
		{"question mark", "postgres://app:12?" + secret + "@db/shop", []string{"percent-encoded"}},
		{"hash", "postgres://app:" + secret + "#" + secret + "@db/shop", []string{"percent-encoded"}},
		{"percent", "postgres://app:" + secret + "%zz@db/shop", []string{"%25"}},
		{"space", "postgres://app:" + secret + " x@db/shop", []string{"percent-encoded"}},
		{"port", "postgres://app:" + secret + "@db:nope/shop", []string{"--to: ", "port"}},
		{"sslmode", "postgres://app:" + secret + "@db/shop?sslmode=nope", []string{"--to: ", "sslmode"}},
		{"pool", "postgres://app:" + secret + "@db/shop?pool_max_conns=1", []string{"pool_max_conns=1", "--lanes"}},
		{"wrong password", "postgres://app:" + secret + "@" + wrong + "/shop?sslmode=disable", []string{`database "shop" at ` + wrong + ` as user "app"`, "28P01", "PGPASSWORD"}},
		{"password as a parameter", "postgres://app@" + wrong + "/shop?sslmode=disable&password=" + secret, []string{"28P01"}},
		{"no such database", "postgres://app:" + secret + "@" + noDB + "/shop?sslmode=disable", []string{"3D000", "create the database"}},
		{"full", "postgres://app:" + secret + "@" + full + "/shop?sslmode=disable", []string{"53300", "max_connections"}},
		{"refused", "postgres://app:" + secret + "@" + closed + "/shop", []string{"no connection", closed, "check host, port"}},
		{"silent", "postgres://app:" + secret + "@" + silent + "/shop?sslmode=disable", []string{"no connection within 2s", silent}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := command // the servers that are there answer at once, but on a busy machine not within two seconds
			if c.name == "silent" {
				run = impatient
			}
			got := run(t, "replay", "--ddl", ddl, "--file", topic, "--to", c.to)
			if got.status != exitConfig || got.out != "" {
				t.Errorf("status %d, out %q", got.status, got.out)
			}
			for _, w := range c.want {
				if !strings.Contains(got.errs, w) {
					t.Errorf("%q is missing", w)
				}
			}
			if strings.Contains(got.errs, secret) || strings.Contains(got.errs, c.to) {
				t.Error("the password is shown")
			}
			if n := strings.Count(got.errs, "\n"); n > 3 {
				t.Errorf("%d lines", n)
			}
			if t.Failed() {
				t.Log(got.errs)
			}
		})
	}
}

// What is wrong with target and store is found before the first row, and the texts speak of this program's flags.
func TestTarget_BadInput(t *testing.T) {
	s := newScratch(t)
	ddl := write(t, "ddl.sql", people)
	topic := write(t, "topic.jsonl", `{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"eyJpZCI6MX0="}`)
	replay := func(more ...string) result {
		return command(t, append([]string{"replay", "--ddl", ddl, "--file", topic}, s.flags(more...)...)...)
	}
	expect := func(name string, got result, want ...string) {
		t.Helper()
		if got.status != exitConfig || got.out != "" {
			t.Errorf("%s: status %d, out %q", name, got.status, got.out)
		}
		for _, w := range want {
			if !strings.Contains(got.errs, w) {
				t.Errorf("%s: %q is missing in\n%s", name, w, got.errs)
			}
		}
		if strings.Contains(got.errs, "goroutine ") || strings.Contains(got.errs, "Options.CreateTable") || strings.Contains(got.errs, "Options.Schema") {
			t.Errorf("%s: %s", name, got.errs)
		}
	}
	expect("missing table", replay(), "people", "CREATE TABLE", "--create-table")
	expect("bad name", replay("--into", "a.b.c"), "a.b.c")
	s.exec(t, "CREATE TABLE narrow (id smallint, name text)")
	expect("narrow column", replay("--into", "narrow"), "narrow", `"id"`, "smallint")
	s.exec(t, "CREATE TABLE lacks (id bigint)")
	expect("missing column", replay("--into", "lacks"), "lacks", `"name"`)
	s.exec(t, "CREATE TABLE more (id bigint, name text, must int NOT NULL)")
	expect("column without a source", replay("--into", "more"), "more", `"must"`)

	if got := replay("--create-table"); got.status != exitDone {
		t.Fatalf("with --create-table: status %d: %s", got.status, got.errs)
	}
	version := s.one(t, "SELECT max(version) FROM format")
	s.exec(t, "UPDATE format SET version = 999")
	expect("newer store", replay("--create-table"), "999", s.schema)
	s.exec(t, fmt.Sprintf("UPDATE format SET version = %d", version))
	s.exec(t, "CREATE SCHEMA foreign_"+s.schema)
	defer s.exec(t, "DROP SCHEMA foreign_"+s.schema+" CASCADE")
	s.exec(t, "CREATE TABLE foreign_"+s.schema+".position (somebody_elses text)")
	got := command(t, "replay", "--ddl", ddl, "--file", topic, "--to", s.to, "--store-schema", "foreign_"+s.schema)
	expect("foreign store", got, "foreign_"+s.schema, "--store-schema")
	if n := s.one(t, "SELECT count(*) FROM people"); n != 1 {
		t.Errorf("%d rows: only one replay was to write", n)
	}
}

// A table that cannot be read is told before any server is asked.
func TestDDL_BadInput(t *testing.T) {
	topic := write(t, "topic.jsonl", "")
	const with = `) WITH ('connector' = 'kafka', 'topic' = 'x', 'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json')`
	for _, c := range []struct {
		name, ddl string
		flags     []string
		want      []string
	}{
		{"nothing", "", nil, []string{"no CREATE TABLE"}},
		{"grammar", "CREATE TABLE t (\n  id INT INT\n" + with, nil, []string{"ddl.sql", "line 2, column 10"}},
		{"two tables", "CREATE TABLE a (id INT" + with + ";CREATE TABLE b (id INT" + with, nil, []string{"--table", "`a`, `b`"}},
		{"no such table", "CREATE TABLE a (id INT" + with, []string{"--table", "c"}, []string{`"c"`, "`a`"}},
		{"connector", "CREATE TABLE a (id INT) WITH ('connector' = 'jdbc')", nil, []string{"'jdbc'", "'upsert-kafka'"}},
		{"format", strings.Replace("CREATE TABLE a (id INT"+with, "'json'", "'parquet'", 1), nil, []string{"'parquet'", "'json'"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ddl := write(t, "ddl.sql", c.ddl)
			for _, args := range [][]string{
				{"read", "--ddl", ddl, "--file", topic},
				{"run", "--bridge", "b", "--ddl", ddl, "--to", "postgres://localhost:1/x"},
				{"replay", "--ddl", ddl, "--file", topic, "--to", "postgres://localhost:1/x"},
			} {
				got := command(t, append(args, c.flags...)...)
				if got.status != exitConfig || got.out != "" {
					t.Errorf("%s: status %d, out %q", args[0], got.status, got.out)
				}
				for _, w := range c.want {
					if !strings.Contains(got.errs, w) {
						t.Errorf("%s: %q is missing in %s", args[0], w, got.errs)
					}
				}
			}
		})
	}
	missing := command(t, "read", "--ddl", "absent.sql", "--file", topic)
	if missing.status != exitConfig || !strings.Contains(missing.errs, "--ddl absent.sql: there is no such file") {
		t.Errorf("status %d: %s", missing.status, missing.errs)
	}
	missing = command(t, "read", "--ddl", write(t, "ddl.sql", people), "--file", "absent.jsonl")
	if missing.status != exitConfig || !strings.Contains(missing.errs, "absent.jsonl") {
		t.Errorf("status %d: %s", missing.status, missing.errs)
	}
}

// Secrets of options and flags are in no output, whatever fails.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "hunter2hunter2"
	ddl := write(t, "ddl.sql", `CREATE TABLE people (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'people', 'format' = 'json',
  'properties.bootstrap.servers' = '`+closedAddress(t)+`', 'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.mechanism' = 'PLAIN',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="`+secret+`";')`)
	bad := write(t, "bad.sql", `CREATE TABLE people (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'people', 'format' = 'json',
  'properties.sasl.jaas.config' = 'required password="`+secret+`";' 'x' = 'y')`)
	to := "postgres://app:" + secret + "@" + closedAddress(t) + "/shop"
	for _, args := range [][]string{
		{"read", "--ddl", ddl},
		{"read", "--ddl", bad},
		{"read", "--ddl", ddl, "--config", secret},
		{"read", "--ddl", ddl, "--config", "ssl.keystore.password=" + secret},
		{"read", "--ddl", ddl, "--config", "sasl.jaas.config=" + secret},
		{"read", "--ddl", ddl, "--config", "sasl.mechanism=" + "NOPE"},
		{"run", "--bridge", "b", "--ddl", ddl, "--to", to},
		{"run", "--bridge", "b", "--ddl", ddl, "--to", to, "--lanes", "x"},
		{"run", "--bridge", "b", "--ddl", ddl, "--to", to, "--nope"},
		{"run", "--ddl", ddl, "--to", to},
		{"run", "--bridge", "b", "--ddl", bad, "--to", to},
		{"replay", "--ddl", ddl, "--file", os.DevNull, "--to", to},
		{"replay", "--ddl", ddl, "--file", os.DevNull, "--to", to, "extra"},
	} {
		got := impatient(t, args...)
		if got.status == exitDone || strings.Contains(got.out+got.errs, secret) {
			t.Errorf("%v: status %d: %s%s", args[:3], got.status, got.out, got.errs)
		}
	}
	if s := os.Getenv("FLINKSINK_POSTGRES"); s != "" {
		// The server is there and the brokers are not: the password of a connection that works.
		got := impatient(t, "run", "--bridge", "b", "--ddl", ddl, "--to", s+"&password="+secret)
		if got.status != exitConfig || strings.Contains(got.out+got.errs, secret) {
			t.Errorf("status %d: %s%s", got.status, got.out, got.errs)
		}
	}
}
