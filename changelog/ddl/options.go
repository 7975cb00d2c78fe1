package ddl

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// Options are the options of a WITH clause. No way of printing them shows the value of a secret; index the map to have one. (A
// struct that holds Options in an unexported field must not be printed by %v: fmt then sees the bare map.)
type Options map[string]string

// redacted stands for a secret.
const redacted = "******"

// Keys returns the names of all options, sorted.
func (o Options) Keys() []string {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Redacted returns a copy in which ****** stands for every secret.
func (o Options) Redacted() Options {
	if o == nil {
		return nil
	}
	out := make(Options, len(o))
	for k, v := range o {
		out[k] = redact(k, v)
	}
	return out
}

// String returns the options as a WITH clause lists them, sorted, secrets as ******.
func (o Options) String() string { return "(" + o.list(", ", true) + ")" }

// GoString is String.
func (o Options) GoString() string { return o.String() }

// Format prints String for every verb.
func (o Options) Format(f fmt.State, verb rune) { io.WriteString(f, o.String()) }

// LogValue returns a group of the options, secrets as ******.
func (o Options) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, len(o))
	for _, k := range o.Keys() {
		attrs = append(attrs, slog.String(k, redact(k, o[k])))
	}
	return slog.GroupValue(attrs...)
}

// MarshalJSON writes an object, secrets as ******: options come from a statement and are not stored as JSON.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]string(o.Redacted())) }

func (o Options) list(separator string, hide bool) string {
	var b strings.Builder
	for i, k := range o.Keys() {
		if i > 0 {
			b.WriteString(separator)
		}
		v := o[k]
		if hide {
			v = redact(k, v)
		}
		b.WriteString(quoteString(k) + " = " + quoteString(v))
	}
	return b.String()
}

// redact returns what may be shown of the value of an option.
func redact(key, value string) string {
	if value != "" && (SecretName(key) || secretValue(value)) {
		return redacted
	}
	return value
}

// SecretName reports whether an option of that name holds a secret: passwords, keys, tokens, credentials, and whatever may hold
// one. The words are those of Flink's GlobalConfiguration.isSensitive and of Kafka's options of type PASSWORD, and some more.
func SecretName(key string) bool {
	k := strings.ToLower(key)
	for _, word := range []string{
		"password", "passwd", "passphrase", "secret", "token", "credential", "jaas", "apikey", "api-key", "api.key", "access-key",
		"access.key", "account.key", "auth-params", "service-key", "service.key", "private", "basic-auth", "basic.auth", "bearer",
		"user-info", "user.info", "userinfo", "http-headers", "keystore.key", "keystore.certificate", "truststore.certificates",
		"assertion",
	} {
		if strings.Contains(k, word) {
			return true
		}
	}
	return false
}

// secretValue reports whether a value looks like one that holds a secret under a name that does not tell.
func secretValue(v string) bool {
	l := strings.ToLower(v)
	if strings.Contains(l, "password=") || strings.Contains(l, "auth.user.info") || strings.Contains(l, "auth.token") || strings.Contains(l, "loginmodule") || strings.Contains(l, "private key-----") {
		return true
	}
	// https://user:password@host
	for {
		i := strings.Index(l, "://")
		if i < 0 {
			return false
		}
		l = l[i+3:]
		authority := l
		if end := strings.IndexAny(l, "/?#, "); end >= 0 {
			authority = l[:end]
		}
		if strings.Contains(authority, "@") {
			return true
		}
	}
}
