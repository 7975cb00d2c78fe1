// Command secure reads a topic from brokers that ask for TLS and SASL (SCRAM), in the two ways there are to say so.
//
//	go run ./examples/secure
//
// The first is the table's own: what Flink was told as 'properties.*' in the CREATE TABLE means the same here. Certificates are PEM, in the
// text or in files ('properties.ssl.truststore.location'); a store of the JKS or PKCS12 kind is refused with the command that converts it. The
// password need not stand in the file: put it into the table's options from wherever secrets are kept. No option's value is ever
// part of an error or a log line.
//
// The second is the program's: options of the franz-go client in bridge.Options.Client, which come after the table's. So a service that has
// its TLS configuration and its credentials already passes those, and rotates them as it does elsewhere (kgo.SASL takes a function). A
// table that names neither then connects with them.
//
// From the shell it is: flinksink run --ddl orders.sql --config security.protocol=SASL_SSL --config sasl.mechanism=SCRAM-SHA-512 ...
//
// The broker is a part of this program (broker.go), with a certificate authority and a user that are made up anew at each start, and lets in
// nobody else.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/flinksink/flinksink/bridge"
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/ddl"
	"github.com/flinksink/flinksink/changelog/format"
	"github.com/flinksink/flinksink/changelog/format/json"
	"github.com/flinksink/flinksink/sink/sinktest"
)

const createTable = `CREATE TABLE orders (
  id BIGINT, customer STRING, PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'orders', 'key.format' = 'json', 'value.format' = 'json',
  'properties.bootstrap.servers' = 'localhost:9093'%s)`

// secured are the options that Flink needs for such brokers.
const secured = `,
  'properties.security.protocol' = 'SASL_SSL',
  'properties.sasl.mechanism' = 'SCRAM-SHA-512',
  'properties.ssl.truststore.type' = 'PEM'`

// fromTable says all of it in the table, but for what is secret or long, which is put into its options here.
func fromTable(b *broker) (*ddl.Table, *bridge.Options, error) {
	table, err := ddl.Find(fmt.Sprintf(createTable, secured), "orders")
	if err != nil {
		return nil, nil, err
	}
	table.Options["properties.ssl.truststore.certificates"] = b.authority
	table.Options["properties.sasl.jaas.config"] = fmt.Sprintf(
		`org.apache.kafka.common.security.scram.ScramLoginModule required username="%s" password="%s";`, b.user, b.password)
	return table, nil, nil
}

// fromOptions says nothing of it in the table, and all of it to the client.
func fromOptions(b *broker) (*ddl.Table, *bridge.Options, error) {
	table, err := ddl.Find(fmt.Sprintf(createTable, ""), "orders")
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.authority)) {
		return nil, nil, fmt.Errorf("the authority's certificate is not PEM")
	}
	credentials := func(context.Context) (scram.Auth, error) { // asked at each connection: a changed password is used from then on
		return scram.Auth{User: b.user, Pass: b.password}, nil
	}
	return table, &bridge.Options{Client: []kgo.Opt{
		kgo.DialTLSConfig(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}),
		kgo.SASL(scram.Sha512(credentials)),
	}}, nil
}

// read reads the topic to its end and prints the table.
func read(ctx context.Context, w io.Writer, name string, b *broker, table *ddl.Table, o *bridge.Options) error {
	table.Options["properties.bootstrap.servers"] = b.addr
	decoder, err := format.New(table, []changelog.Format{json.Format{}}, nil)
	if err != nil {
		return err
	}
	from, err := bridge.FromTable(table, decoder)
	if err != nil {
		return err
	}
	if o == nil {
		o = &bridge.Options{}
	}
	o.UntilEnd = true
	memory := sinktest.NewServer()
	run, err := bridge.New(name, from, sinktest.NewSink(memory, &sinktest.SinkOptions{InTransaction: true}), o)
	if err != nil {
		return err
	}
	if err := run.Run(ctx); err != nil {
		return err
	}
	for _, row := range memory.Table("orders") {
		fmt.Fprintf(w, "%s: order %d of %s\n", name, row[0].Int(), strings.Clone(row[1].Str()))
	}
	return nil
}

func run(ctx context.Context, w io.Writer) error {
	b, err := newBroker(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	table, o, err := fromTable(b)
	if err == nil {
		err = read(ctx, w, "from-the-table", b, table, o)
	}
	if err != nil {
		return err
	}
	if table, o, err = fromOptions(b); err != nil {
		return err
	}
	return read(ctx, w, "from-options", b, table, o)
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
