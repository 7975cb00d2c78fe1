package registry

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
)

// pemOnly is the cure for stores in Java's formats, which the standard library cannot read.
const pemOnly = "names a file with nothing in PEM form, and only that can be read here: convert the store (keytool -importkeystore -deststoretype PKCS12, then " +
	"openssl pkcs12 -out store.pem, with -nodes for a key)"

// readTLS reads the stores of certificates. Passwords are not needed for PEM, and are not looked at.
func readTLS(o map[string]string, bad func(option, text string, args ...any)) *tls.Config {
	const trust, key = "ssl.truststore.location", "ssl.keystore.location"
	if o[trust] == "" && o[key] == "" {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if text := readPEM(trust, o[trust], bad); text != nil {
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			bad(trust, "names a file that holds no certificate (-----BEGIN CERTIFICATE-----)")
		}
	}
	if text := readPEM(key, o[key], bad); text != nil {
		pair, err := tls.X509KeyPair(text, text)
		if err != nil { // whose text is left out, since it is about a key
			bad(key, "must name a file with a private key, not encrypted, and the chain of certificates that belongs to it, in PEM form")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

func readPEM(option, file string, bad func(option, text string, args ...any)) []byte {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		bad(option, "cannot be read: %w", err)
		return nil
	}
	if block, _ := pem.Decode(text); block == nil {
		bad(option, pemOnly)
		return nil
	}
	return text
}
