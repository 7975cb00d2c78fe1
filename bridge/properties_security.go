package bridge

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// security reads security.protocol and, as far as it asks for them, the ssl.* and sasl.* properties. Like in the Java client, those
// that it does not ask for have no effect.
func (p *properties) security() {
	const name = "security.protocol"
	switch strings.ToUpper(p.values[name]) {
	case "", "PLAINTEXT":
	case "SSL":
		p.tls()
	case "SASL_PLAINTEXT":
		p.sasl()
	case "SASL_SSL":
		p.tls()
		p.sasl()
	default:
		p.bad(name, "must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
	}
}

// tls makes a TLS configuration of the ssl.* properties.
func (p *properties) tls() {
	before := len(p.errs)
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.values["ssl.engine.factory.class"] != "" {
		p.bad("ssl.engine.factory.class", "names Java code, which cannot run here: take it out and pass kgo.DialTLSConfig")
	}
	p.tlsVersions(c)
	p.cipherSuites(c)
	p.trustStore(c)
	p.keyStore(c)
	const identification = "ssl.endpoint.identification.algorithm"
	switch value, ok := p.values[identification]; {
	case !ok || strings.EqualFold(value, "https"):
	case value == "":
		withoutHostName(c)
	default:
		p.bad(identification, "must be https, or empty to leave the broker's host name unchecked")
	}
	if len(p.errs) == before {
		p.add(kgo.DialTLSConfig(c))
	}
}

// withoutHostName makes c check the broker's chain of certificates, but not that it is made out to the host that was dialed.
func withoutHostName(c *tls.Config) {
	roots := c.RootCAs
	c.InsecureSkipVerify = true // only of the built-in check, which cannot leave the host name out
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the broker sent no certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}

func (p *properties) tlsVersions(c *tls.Config) {
	const name = "ssl.enabled.protocols"
	value, ok := p.values[name]
	if !ok || value == "" {
		return
	}
	c.MinVersion, c.MaxVersion = 0, 0
	for _, s := range strings.Split(value, ",") {
		var v uint16
		switch strings.TrimSpace(s) {
		case "TLSv1":
			v = tls.VersionTLS10
		case "TLSv1.1":
			v = tls.VersionTLS11
		case "TLSv1.2":
			v = tls.VersionTLS12
		case "TLSv1.3":
			v = tls.VersionTLS13
		default:
			p.bad(name, "must list TLSv1.3, TLSv1.2, TLSv1.1 or TLSv1, with commas between them")
			return
		}
		if c.MinVersion == 0 || v < c.MinVersion {
			c.MinVersion = v
		}
		c.MaxVersion = max(c.MaxVersion, v)
	}
}

func (p *properties) cipherSuites(c *tls.Config) {
	const name = "ssl.cipher.suites"
	for _, s := range strings.Split(p.values[name], ",") {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		found := false
		for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
			if suite.Name == s {
				c.CipherSuites = append(c.CipherSuites, suite.ID)
				found = true
			}
		}
		if !found {
			p.bad(name, "lists a suite that Go's TLS does not have: leave it out (crypto/tls.CipherSuites lists those it has)")
			return
		}
	}
}

// pemOnly is the cure for stores in Java's formats, which the standard library cannot read.
const pemOnly = "only PEM can be read here: convert the store (keytool -importkeystore -deststoretype PKCS12, then openssl pkcs12 -out store.pem, " +
	"with -nodes for a key) and set '" + propertyPrefix + "%s' = 'PEM'"

// store returns the PEM text of a store: inline, or of the file that the location names. ok is false where there is none.
func (p *properties) store(typeName, locationName string, inline ...string) (text []byte, ok bool) {
	kind := strings.ToUpper(p.values[typeName])
	given := ""
	for _, name := range inline {
		if p.values[name] != "" {
			given = name
			text = append(append(text, p.values[name]...), '\n')
		}
	}
	location := p.values[locationName]
	switch {
	case given == "" && location == "":
		return nil, false
	case given != "" && location != "":
		p.bad(given, "and '%s%s' exclude each other: keep one", propertyPrefix, locationName)
		return nil, false
	case kind != "PEM" && given != "":
		p.bad(given, "needs '%s%s' = 'PEM'", propertyPrefix, typeName)
		return nil, false
	case kind != "PEM":
		p.bad(locationName, pemOnly, typeName)
		return nil, false
	case given != "":
		return text, true
	}
	text, err := os.ReadFile(location)
	if err != nil {
		p.bad(locationName, "cannot be read: %w", err)
		return nil, false
	}
	return text, true
}

func (p *properties) trustStore(c *tls.Config) {
	const kind, location, inline = "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates"
	text, ok := p.store(kind, location, inline)
	if !ok {
		return
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(text) {
		p.bad(p.given(inline, location), "holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
	}
}

func (p *properties) keyStore(c *tls.Config) {
	const kind, location, key, chain = "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain"
	text, ok := p.store(kind, location, chain, key)
	if !ok {
		return
	}
	where := p.given(key, location)
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			p.bad(where, "holds a private key that is encrypted, which cannot be read here: decrypt it (openssl pkcs8 -in key.pem -out plain.pem)")
			return
		}
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		// The cause may quote the key's bytes in no case that is known; it is left out all the same.
		p.bad(where, "must hold a private key and the chain of certificates that belongs to it, in PEM form")
		return
	}
	c.Certificates = []tls.Certificate{pair}
}

// given returns which of two properties is there.
func (p *properties) given(first, second string) string {
	if p.values[first] != "" {
		return first
	}
	return second
}
