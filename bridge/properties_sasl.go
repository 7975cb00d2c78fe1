package bridge

import (
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const jaasConfig = "sasl.jaas.config"

// sasl makes a mechanism of the sasl.* properties.
func (p *properties) sasl() {
	for _, c := range [][2]string{
		{"sasl.login.callback.handler.class", "OAuthBearerLoginCallbackHandler"},
		{"sasl.client.callback.handler.class", "OAuthBearerSaslClientCallbackHandler"},
		{"sasl.login.class", "OAuthBearerRefreshingLogin"},
	} {
		if v := p.values[c[0]]; v != "" && className(v) != c[1] {
			p.bad(c[0], "names Java code, which cannot run here: take it out and pass kgo.SASL")
		}
	}
	const name = "sasl.mechanism"
	switch m := strings.ToUpper(p.values[name]); m {
	case "PLAIN":
		if user, pass, _, ok := p.login("PlainLoginModule"); ok {
			p.add(kgo.SASL(plain.Auth{User: user, Pass: pass}.AsMechanism()))
		}
	case "SCRAM-SHA-256", "SCRAM-SHA-512":
		user, pass, options, ok := p.login("ScramLoginModule")
		if !ok {
			return
		}
		auth := scram.Auth{User: user, Pass: pass, IsToken: strings.EqualFold(options["tokenauth"], "true")}
		if m == "SCRAM-SHA-256" {
			p.add(kgo.SASL(auth.AsSha256Mechanism()))
		} else {
			p.add(kgo.SASL(auth.AsSha512Mechanism()))
		}
	case "OAUTHBEARER":
		p.oauth()
	case "", "GSSAPI":
		p.bad(name, "is GSSAPI (Kafka's default), which is not built in: set PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, or take the "+
			"security and SASL properties out and pass kgo.SASL with a Kerberos mechanism of your own")
	case "AWS_MSK_IAM":
		p.bad(name, "is AWS_MSK_IAM, whose credentials come from the AWS SDK: take the security and SASL properties out and pass kgo.SASL with "+
			"franz-go's pkg/sasl/aws")
	default:
		p.bad(name, "must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
	}
}

// login returns user and password of sasl.jaas.config, whose module must be that one.
func (p *properties) login(module string) (user, pass string, options map[string]string, ok bool) {
	options, ok = p.jaas(module)
	if !ok {
		return "", "", nil, false
	}
	user, hasUser := options["username"]
	pass, hasPass := options["password"]
	if !hasUser || user == "" || !hasPass || pass == "" {
		p.bad(jaasConfig, `must give username="..." and password="..."`)
		return "", "", nil, false
	}
	return user, pass, options, true
}

// jaas returns the options of sasl.jaas.config.
func (p *properties) jaas(module string) (map[string]string, bool) {
	value := p.values[jaasConfig]
	if value == "" {
		p.bad(jaasConfig, `is missing: expected org.apache.kafka...%s required ...;`, module)
		return nil, false
	}
	found, options, err := parseJAAS(value)
	if err != nil {
		p.bad(jaasConfig, "is not well formed: %w", err)
		return nil, false
	}
	if className(found) != module {
		p.bad(jaasConfig, "must name Kafka's own %s for this sasl.mechanism", module)
		return nil, false
	}
	return options, true
}

// parseJAAS reads `module flag key=value key="value" ...;`, as Kafka's JaasConfig does with Java's StreamTokenizer. Errors show
// nothing of s.
func parseJAAS(s string) (module string, options map[string]string, err error) {
	t := &jaasScanner{rest: s}
	if module, err = t.word(); err != nil || module == "" {
		return "", nil, errors.New("expected the name of a login module")
	}
	flag, err := t.word()
	if err != nil {
		return "", nil, err
	}
	switch strings.ToLower(flag) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return "", nil, errors.New("expected 'required' after the login module")
	}
	options = map[string]string{}
	for !t.mark(';') {
		key, err := t.word()
		if err != nil {
			return "", nil, err
		}
		if key == "" {
			return "", nil, errors.New("expected key=value or ';', and a ';' at the end")
		}
		if !t.mark('=') {
			return "", nil, errors.New("expected '=' after the name of an option")
		}
		if options[key], err = t.value(); err != nil {
			return "", nil, err
		}
	}
	t.blanks()
	if t.rest != "" {
		return "", nil, errors.New("expected nothing after the ';': there is one login module")
	}
	return module, options, nil
}

type jaasScanner struct{ rest string }

// blanks goes past white space and the comments of Java.
func (t *jaasScanner) blanks() {
	for {
		t.rest = strings.TrimLeft(t.rest, " \t\r\n")
		switch {
		case strings.HasPrefix(t.rest, "//"):
			_, t.rest, _ = strings.Cut(t.rest, "\n")
		case strings.HasPrefix(t.rest, "/*"):
			_, t.rest, _ = strings.Cut(t.rest[2:], "*/")
		default:
			return
		}
	}
}

func (t *jaasScanner) mark(c byte) bool {
	t.blanks()
	if t.rest == "" || t.rest[0] != c {
		return false
	}
	t.rest = t.rest[1:]
	return true
}

// word returns the word that is next, "" if none is.
func (t *jaasScanner) word() (string, error) {
	t.blanks()
	if strings.HasPrefix(t.rest, `"`) || strings.HasPrefix(t.rest, "'") {
		return t.value()
	}
	i := strings.IndexAny(t.rest, " \t\r\n=;\"'")
	if i < 0 {
		i = len(t.rest)
	}
	w := t.rest[:i]
	t.rest = t.rest[i:]
	return w, nil
}

// value returns a word, or a text in quotes with the escapes of Java.
func (t *jaasScanner) value() (string, error) {
	t.blanks()
	if t.rest == "" || t.rest[0] != '"' && t.rest[0] != '\'' {
		w, err := t.word()
		if err == nil && w == "" {
			err = errors.New("expected a value after '='")
		}
		return w, err
	}
	quote := t.rest[0]
	var b strings.Builder
	for i := 1; i < len(t.rest); i++ {
		c := t.rest[i]
		switch {
		case c == quote:
			t.rest = t.rest[i+1:]
			return b.String(), nil
		case c == '\n' || c == '\r':
			return "", errors.New("a value in quotes ends at the end of the line without its closing quote")
		case c == '\\' && i+1 < len(t.rest):
			i++
			switch e := t.rest[i]; e {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case 'b':
				b.WriteByte('\b')
			case 'f':
				b.WriteByte('\f')
			case 'a':
				b.WriteByte('\a')
			case 'v':
				b.WriteByte('\v')
			default:
				n, digits := octal(t.rest[i:])
				if digits == 0 {
					b.WriteByte(e)
					break
				}
				b.WriteRune(rune(n))
				i += digits - 1
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("a value in quotes has no closing quote")
}

// octal reads up to three octal digits, the first of three at most 3.
func octal(s string) (n, digits int) {
	for digits < 3 && digits < len(s) && s[digits] >= '0' && s[digits] <= '7' {
		if digits == 2 && s[0] > '3' {
			break
		}
		n = n*8 + int(s[digits]-'0')
		digits++
	}
	return n, digits
}
