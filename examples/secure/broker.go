package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// broker is an in-process broker that speaks TLS and lets one user in.
type broker struct {
	addr           string
	authority      string // PEM of the certificate that signed the broker's
	user, password string

	cluster *kfake.Cluster
}

func newBroker(ctx context.Context) (*broker, error) {
	certificate, authority, err := issue()
	if err != nil {
		return nil, err
	}
	b := &broker{authority: authority, user: "reader", password: rand.Text()}
	b.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}}),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", b.user, b.password))
	if err != nil {
		return nil, err
	}
	b.addr = b.cluster.ListenAddrs()[0]
	if err := b.produce(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *broker) close() { b.cluster.Close() }

func (b *broker) produce(ctx context.Context) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.authority))
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.DefaultProduceTopic("orders"), kgo.DialTLSConfig(&tls.Config{RootCAs: roots}),
		kgo.SASL(scram.Auth{User: b.user, Pass: b.password}.AsSha512Mechanism()))
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.ProduceSync(ctx,
		&kgo.Record{Key: []byte(`{"id":1}`), Value: []byte(`{"id":1,"customer":"ann"}`)},
		&kgo.Record{Key: []byte(`{"id":2}`), Value: []byte(`{"id":2,"customer":"bob"}`)},
		&kgo.Record{Key: []byte(`{"id":2}`)},
		&kgo.Record{Key: []byte(`{"id":3}`), Value: []byte(`{"id":3,"customer":"eve"}`)},
	).FirstErr()
}

// issue makes a certificate for this machine and the authority that signed it.
func issue() (tls.Certificate, string, error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, &signer.PublicKey, signer)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	host := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter}
	leaf, err := x509.CreateCertificate(rand.Reader, host, authority, &key.PublicKey, signer)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})), nil
}
