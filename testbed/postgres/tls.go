package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certify puts a key and a certificate where the server looks for them. The certificate is its own authority, for localhost and 127.0.0.1; a client that
// wants more than that the connection is encrypted can take server.crt of the data folder as the root.
func certify(data string, as identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("testbed/postgres: %w", err)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "localhost"},
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(30 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return fmt.Errorf("testbed/postgres: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("testbed/postgres: %w", err)
	}
	for name, block := range map[string]*pem.Block{"server.crt": {Type: "CERTIFICATE", Bytes: cert}, "server.key": {Type: "PRIVATE KEY", Bytes: private}} {
		path := filepath.Join(data, name)
		// The server refuses a key that others could read.
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return fmt.Errorf("testbed/postgres: %w", err)
		}
		if err := as.own(path); err != nil {
			return fmt.Errorf("testbed/postgres: %w", err)
		}
	}
	return nil
}
