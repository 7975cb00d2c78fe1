package bridge

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
)

// authority is a certificate authority with PEM texts as a store in PEM form holds them.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key, a.pem, _ = a.issue("authority", nil)
	return a
}

// issue makes a certificate for a host, signed by a, or by itself if a has none yet.
func (a *authority) issue(host string, edit func(*x509.Certificate)) (*x509.Certificate, *ecdsa.PrivateKey, string, string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = c, key
	}
	if edit != nil {
		edit(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return c, key, encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)
}

// ping asks the cluster something with the client that the options make.
func ping(t *testing.T, c *kfake.Cluster, options map[string]string) error {
	t.Helper()
	o := map[string]string{"properties.bootstrap.servers": strings.ReplaceAll(strings.Join(c.ListenAddrs(), ","), "127.0.0.1", "localhost")}
	for k, v := range options {
		o[propertyPrefix+k] = v
	}
	opts, err := ClientOptions(optionTable(o))
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(opts, kgo.RetryTimeout(time.Second), kgo.RequestRetries(1))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return cl.Ping(ctx)
}

func fakeCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func jaasOf(module, user, pass string) string {
	return fmt.Sprintf(`org.apache.kafka.common.security.%s required username="%s" password="%s";`, module, user, pass)
}

// TestSASL: the broker lets in who has the password, by each mechanism, and nobody else.
func TestSASL(t *testing.T) {
	c := fakeCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", `p"'\ ä`), kfake.Superuser("SCRAM-SHA-256", "v", "q"), kfake.Superuser("SCRAM-SHA-512", "w", "r"))
	base := map[string]string{"security.protocol": "SASL_PLAINTEXT"}
	with := func(mechanism, jaas string) map[string]string {
		return map[string]string{"security.protocol": base["security.protocol"], "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
	}
	for name, o := range map[string]map[string]string{
		"plain":     with("PLAIN", jaasOf("plain.PlainLoginModule", "u", `p\"'\\ ä`)),
		"shaded":    with("PLAIN", "org.apache.flink.kafka.shaded."+jaasOf("plain.PlainLoginModule", "u", `p\"'\\ ä`)),
		"scram 256": with("SCRAM-SHA-256", jaasOf("scram.ScramLoginModule", "v", "q")),
		"scram 512": with("SCRAM-SHA-512", jaasOf("scram.ScramLoginModule", "w", "r")),
	} {
		if err := ping(t, c, o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ping(t, c, with("PLAIN", jaasOf("plain.PlainLoginModule", "u", "wrong"))); err == nil {
		t.Error("a wrong password is let in")
	} else if strings.Contains(err.Error(), "wrong") {
		t.Errorf("the password is told: %v", err)
	}
	if err := ping(t, c, nil); err == nil {
		t.Error("let in without a password")
	}
}

// TestTLS: stores in PEM form, inline and in files; a broker is checked unless the table says not to check its host name.
func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	server := func(host string) *kfake.Cluster {
		_, _, cert, key := ca.issue(host, nil)
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(ca.cert)
		return fakeCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: tls.VersionTLS12}))
	}
	good, elsewhere := server("localhost"), server("elsewhere")
	_, _, cert, key := ca.issue("client", nil)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inline := map[string]string{
		"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.pem,
		"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": cert,
	}
	files := map[string]string{
		"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": file("ca.pem", "a comment\n"+ca.pem),
		"ssl.keystore.type": "pem", "ssl.keystore.location": file("key.pem", key+cert),
	}
	and := func(o map[string]string, more ...string) map[string]string {
		out := map[string]string{}
		for k, v := range o {
			out[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			if more[i+1] == "-" {
				delete(out, more[i])
			} else {
				out[more[i]] = more[i+1]
			}
		}
		return out
	}
	for _, c := range []struct {
		name    string
		cluster *kfake.Cluster
		options map[string]string
		ok      bool
	}{
		{"inline", good, inline, true},
		{"files", good, files, true},
		{"version and suite", good, and(files, "ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "ssl.cipher.suites", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), true},
		{"newer version only", good, and(files, "ssl.enabled.protocols", "TLSv1.3"), false},
		{"https", good, and(files, "ssl.endpoint.identification.algorithm", "HTTPS"), true},
		{"no trust", good, and(inline, "ssl.truststore.certificates", "-"), false},
		{"other trust", good, and(inline, "ssl.truststore.certificates", newAuthority(t).pem), false},
		{"no key", good, and(inline, "ssl.keystore.key", "-", "ssl.keystore.certificate.chain", "-"), false},
		{"no TLS", good, nil, false},
		{"other host", elsewhere, inline, false},
		{"other host, unchecked", elsewhere, and(inline, "ssl.endpoint.identification.algorithm", ""), true},
		{"other trust, host unchecked", elsewhere, and(inline, "ssl.endpoint.identification.algorithm", "", "ssl.truststore.certificates", newAuthority(t).pem), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := ping(t, c.cluster, c.options); (err == nil) != c.ok {
				t.Errorf("let in: %t, want %t: %v", err == nil, c.ok, err)
			}
		})
	}

	const pemOnly = "only PEM can be read here: convert the store (keytool -importkeystore -deststoretype PKCS12, then openssl pkcs12 -out store.pem, with -nodes for a key) and set "
	for _, c := range []struct {
		name    string
		options map[string]string
		want    string
	}{
		{"java store", and(files, "ssl.truststore.type", "-"), "option 'properties.ssl.truststore.location' " + pemOnly + "'properties.ssl.truststore.type' = 'PEM'"},
		{"pkcs12 store", and(files, "ssl.keystore.type", "PKCS12"), "option 'properties.ssl.keystore.location' " + pemOnly + "'properties.ssl.keystore.type' = 'PEM'"},
		{"inline without type", and(inline, "ssl.truststore.type", "-"), "option 'properties.ssl.truststore.certificates' needs 'properties.ssl.truststore.type' = 'PEM'"},
		{"both", and(files, "ssl.truststore.certificates", ca.pem), "option 'properties.ssl.truststore.certificates' and 'properties.ssl.truststore.location' exclude each other: keep one"},
		{"no certificate", and(inline, "ssl.truststore.certificates", key), "option 'properties.ssl.truststore.certificates' holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)"},
		{"no file", and(files, "ssl.truststore.location", filepath.Join(dir, "none")), "option 'properties.ssl.truststore.location' cannot be read: open " + filepath.Join(dir, "none") + ": no such file or directory"},
		{"key without chain", and(inline, "ssl.keystore.certificate.chain", "-"), "option 'properties.ssl.keystore.key' must hold a private key and the chain of certificates that belongs to it, in PEM form"},
		{"chain of another key", and(inline, "ssl.keystore.certificate.chain", ca.pem), "option 'properties.ssl.keystore.key' must hold a private key and the chain of certificates that belongs to it, in PEM form"},
		{"encrypted key", and(inline, "ssl.keystore.key", strings.ReplaceAll(key, "PRIVATE", "ENCRYPTED PRIVATE")),
			"option 'properties.ssl.keystore.key' holds a private key that is encrypted, which cannot be read here: decrypt it (openssl pkcs8 -in key.pem -out plain.pem)"},
		{"version", and(files, "ssl.enabled.protocols", "SSLv3"), "option 'properties.ssl.enabled.protocols' must list TLSv1.3, TLSv1.2, TLSv1.1 or TLSv1, with commas between them"},
		{"suite", and(files, "ssl.cipher.suites", "TLS_X"), "option 'properties.ssl.cipher.suites' lists a suite that Go's TLS does not have: leave it out (crypto/tls.CipherSuites lists those it has)"},
		{"identification", and(files, "ssl.endpoint.identification.algorithm", "ldap"), "option 'properties.ssl.endpoint.identification.algorithm' must be https, or empty to leave the broker's host name unchecked"},
		{"engine", and(files, "ssl.engine.factory.class", "com.x.F"), "option 'properties.ssl.engine.factory.class' names Java code, which cannot run here: take it out and pass kgo.DialTLSConfig"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := map[string]string{}
			for k, v := range c.options {
				o[propertyPrefix+k] = v
			}
			_, err := ClientOptions(optionTable(o))
			isConfig(t, err, c.want)
		})
	}
}

func TestSASL_Mistakes(t *testing.T) {
	for _, c := range []struct{ name, mechanism, jaas, want string }{
		{"no config", "PLAIN", "", `option 'properties.sasl.jaas.config' is missing: expected org.apache.kafka...PlainLoginModule required ...;`},
		{"other module", "PLAIN", jaasOf("scram.ScramLoginModule", "u", "p"), "option 'properties.sasl.jaas.config' must name Kafka's own PlainLoginModule for this sasl.mechanism"},
		{"no semicolon", "PLAIN", "x.PlainLoginModule required username=a password=b", "option 'properties.sasl.jaas.config' is not well formed: expected key=value or ';', and a ';' at the end"},
		{"no password", "SCRAM-SHA-256", "x.ScramLoginModule required username=a;", `option 'properties.sasl.jaas.config' must give username="..." and password="..."`},
		{"kerberos", "", "", "option 'properties.sasl.mechanism' is GSSAPI (Kafka's default), which is not built in: set PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, or take the security and SASL properties out and pass kgo.SASL with a Kerberos mechanism of your own"},
		{"amazon", "AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAMLoginModule required;", "option 'properties.sasl.mechanism' is AWS_MSK_IAM, whose credentials come from the AWS SDK: take the security and SASL properties out and pass kgo.SASL with franz-go's pkg/sasl/aws"},
		{"unknown", "DIGEST-MD5", "", "option 'properties.sasl.mechanism' must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"},
		{"no endpoint", "OAUTHBEARER", "x.OAuthBearerLoginModule required clientId=a clientSecret=b;", "option 'properties.sasl.oauthbearer.token.endpoint.url' is missing: it says where tokens come from"},
		{"unsecured", "OAUTHBEARER", `x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a";`, "option 'properties.sasl.jaas.config' asks for a token without a signature, which is not supported: set 'properties.sasl.oauthbearer.token.endpoint.url'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ClientOptions(optionTable(map[string]string{
				"properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": c.mechanism, "properties.sasl.jaas.config": c.jaas,
			}))
			isConfig(t, err, c.want)
		})
	}
	_, err := ClientOptions(optionTable(map[string]string{
		"properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": "PLAIN", "properties.sasl.jaas.config": jaasOf("plain.PlainLoginModule", "u", "p"),
		"properties.sasl.login.callback.handler.class": "com.x.Handler",
	}))
	isConfig(t, err, "option 'properties.sasl.login.callback.handler.class' names Java code, which cannot run here: take it out and pass kgo.SASL")
}

// TestOAuth: what is asked of the token endpoint, what the broker is sent, and for how long a token is kept.
func TestOAuth(t *testing.T) {
	answer, status, asked := `{"access_token":"tok1","expires_in":100}`, 200, 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		id, secret, _ := r.BasicAuth()
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		if r.Method != "POST" || id != "me" || secret != "hunter2" || r.Form.Get("grant_type") != "client_credentials" || r.Form.Get("scope") != "a b" {
			t.Errorf("asked %s %v as %s:%s", r.Method, r.Form, id, secret)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer srv.Close()
	opts, err := ClientOptions(optionTable(map[string]string{
		"properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": "OAUTHBEARER",
		"properties.sasl.oauthbearer.token.endpoint.url":          srv.URL,
		"properties.sasl.login.callback.handler.class":            "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
		"properties.sasl.jaas.config":                             `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="hunter2" scope="a b" extension_logicalCluster="lkc";`,
		"properties.sasl.oauthbearer.jwt.retriever.class":         "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
		"properties.sasl.oauthbearer.expected.audience":           "x",
		"properties.sasl.oauthbearer.clock.skew.seconds":          "30",
		"properties.sasl.login.refresh.min.period.seconds":        "60",
		"properties.sasl.oauthbearer.scope.claim.name":            "scope",
		"properties.sasl.login.read.timeout.ms":                   "10000",
		"properties.sasl.oauthbearer.assertion.claim.jti.include": "false",
	}))
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	mechanisms := cl.OptValue(kgo.SASL).([]sasl.Mechanism)
	if len(mechanisms) != 1 || mechanisms[0].Name() != "OAUTHBEARER" {
		t.Fatalf("%v", mechanisms)
	}
	for range 3 {
		_, first, err := mechanisms[0].Authenticate(t.Context(), "host")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(first, []byte("auth=Bearer tok1")) || !bytes.Contains(first, []byte("logicalCluster=lkc")) {
			t.Errorf("sent %q", first)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times for one token", asked)
	}

	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	s := &tokens{endpoint: u, id: "me", secret: "hunter2", scope: "a b", timeout: patience, client: srv.Client(), now: func() time.Time { return now }}
	token := func() string {
		a, err := s.auth(t.Context())
		if err != nil {
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "leak") {
				t.Errorf("tells too much: %v", err)
			}
			return err.Error()
		}
		return a.Token
	}
	if got := token(); got != "tok1" {
		t.Error(got)
	}
	answer = `{"id_token":"tok2"}`
	now = now.Add(79 * time.Second)
	if got := token(); got != "tok1" {
		t.Errorf("%s before four fifths of its life", got)
	}
	now = now.Add(2 * time.Second)
	if got := token(); got != "tok2" {
		t.Errorf("%s after four fifths of its life", got)
	}
	asked = 0
	token() // tok2 came without a life: each connection asks
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	for _, c := range []struct {
		status       int
		answer, want string
	}{
		{401, `{"error":"leak"}`, "it answers 401 Unauthorized"},
		{200, `leak`, "its answer is not the JSON of a token"},
		{200, `{"token":"leak"}`, "its answer holds no access_token"},
	} {
		status, answer = c.status, c.answer
		if got, want := token(), "OAUTHBEARER: no token from "+srv.URL+": "+c.want; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("tok3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = &tokens{endpoint: &url.URL{Scheme: "file", Path: file}, now: time.Now}
	if got := token(); got != "tok3" {
		t.Error(got)
	}
	if err := os.WriteFile(file, []byte("tok4"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := token(); got != "tok4" {
		t.Error(got)
	}
}

func TestParseJAAS(t *testing.T) {
	for _, c := range []struct {
		text, module string
		options      map[string]string
		err          string
	}{
		{`a.B required;`, "a.B", map[string]string{}, ""},
		{"a.B REQUIRED\n  username = \"u\"\n  password='p;=\"' x=y;\n", "a.B", map[string]string{"username": "u", "password": `p;="`, "x": "y"}, ""},
		{`a.B required p="a\"b\\c\n\101\777z";`, "a.B", map[string]string{"p": "a\"b\\c\nA?7z"}, ""},
		{`/* x */ a.B required // y` + "\n" + ` p=q;`, "a.B", map[string]string{"p": "q"}, ""},
		{`a.B required p="";`, "a.B", map[string]string{"p": ""}, ""},
		{``, "", nil, "expected the name of a login module"},
		{`a.B`, "", nil, "expected 'required' after the login module"},
		{`a.B wanted;`, "", nil, "expected 'required' after the login module"},
		{`a.B required p;`, "", nil, "expected '=' after the name of an option"},
		{`a.B required p=;`, "", nil, "expected a value after '='"},
		{`a.B required p=q`, "", nil, "expected key=value or ';', and a ';' at the end"},
		{`a.B required p="q;`, "", nil, "a value in quotes has no closing quote"},
		{"a.B required p=\"q\n\";", "", nil, "a value in quotes ends at the end of the line without its closing quote"},
		{`a.B required; c.D required;`, "", nil, "expected nothing after the ';': there is one login module"},
	} {
		module, options, err := parseJAAS(c.text)
		got := ""
		if err != nil {
			got = err.Error()
			module, options = "", nil
		}
		if module != c.module || !cmp.Equal(options, c.options) || got != c.err {
			t.Errorf("%q: %q %q %s", c.text, module, options, got)
		}
	}
}

func FuzzParseJAAS(f *testing.F) {
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\"";`)
	f.Add(`a.B required /* x */ p='\0413' // y`)
	f.Fuzz(func(t *testing.T, text string) {
		module, options, err := parseJAAS(text)
		if err == nil && (module == "" || options == nil) {
			t.Errorf("%q: neither module nor error", text)
		}
	})
}
