package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// optionNames are the options of AvroConfluentFormatOptions.
var optionNames = []string{
	"basic-auth.credentials-source", "basic-auth.user-info", "bearer-auth.credentials-source", "bearer-auth.token", "properties", "schema",
	"ssl.keystore.location", "ssl.keystore.password", "ssl.truststore.location", "ssl.truststore.password", "subject", "url",
}

// properties are those of the registry's client in Java that mean something here, each with the option that says the same, if there is one.
var properties = map[string]string{
	"schema.registry.ssl.keystore.location":   "ssl.keystore.location",
	"schema.registry.ssl.keystore.password":   "ssl.keystore.password",
	"schema.registry.ssl.keystore.type":       "",
	"schema.registry.ssl.truststore.location": "ssl.truststore.location",
	"schema.registry.ssl.truststore.password": "ssl.truststore.password",
	"schema.registry.ssl.truststore.type":     "",
	"basic.auth.credentials.source":           "basic-auth.credentials-source",
	"basic.auth.user.info":                    "basic-auth.user-info",
	"schema.registry.basic.auth.user.info":    "basic-auth.user-info",
	"bearer.auth.credentials.source":          "bearer-auth.credentials-source",
	"bearer.auth.token":                       "bearer-auth.token",
}

// writersOnly are properties of Confluent's serializers, which say how a writer registers or finds its schema. Flink hands them to the registry's
// client, which takes no notice of them: its writer always registers its schema under the subject. They change nothing that is read.
var writersOnly = []string{
	"auto.register.schemas", "avro.reflection.allow.null", "avro.remove.java.properties", "avro.use.logical.type.converters", "id.compatibility.strict",
	"key.subject.name.strategy", "latest.compatibility.strict", "normalize.schemas", "use.latest.version", "use.latest.with.metadata", "use.schema.id",
	"value.subject.name.strategy",
}

// settings are what the options say.
type settings struct {
	urls           []string // without user and password
	subject        string
	schema         string // the table's own, "" for none
	user, password string
	token          string
	tls            *tls.Config // nil: the options say nothing of it
	unwritten      []string    // of writersOnly
}

// readSettings reads the options of the format called format. Every mistake is reported; no error holds a secret.
func readSettings(format string, options map[string]string) (s settings, err error) {
	var errs []error
	bad := func(option, text string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: option '%s' %w", format, option, fmt.Errorf(text, args...)))
	}
	o := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value := options[name]
		property, isProperty := strings.CutPrefix(name, "properties.")
		switch {
		case name == "schema-registry.url", name == "schema-registry.subject": // their names before Flink 1.14
			name = strings.TrimPrefix(name, "schema-registry.")
			if _, both := options[name]; !both {
				o[name] = value
			}
		case isProperty:
			s.addProperty(o, options, property, value, bad)
		case name == "properties":
			for _, pair := range strings.Split(value, ",") {
				if k, v, ok := strings.Cut(strings.TrimSpace(pair), ":"); ok {
					s.addProperty(o, options, k, v, bad)
				} else if pair != "" {
					bad(name, "must be a list of key:value, with commas between")
				}
			}
		case slices.Contains(optionNames, name):
			o[name] = value
		default:
			errs = append(errs, flinkjson.UnknownOption(format, name, optionNames))
		}
	}
	s.subject, s.schema = o["subject"], o["schema"]
	s.address(o, bad)
	s.credentials(o, bad)
	s.tls = readTLS(o, bad)
	return s, errors.Join(errs...)
}

func (s *settings) addProperty(o, options map[string]string, name, value string, bad func(option, text string, args ...any)) {
	option, known := properties[name]
	switch {
	case slices.Contains(writersOnly, name):
		s.unwritten = append(s.unwritten, name)
	case !known:
		bad("properties."+name, "is no property of a registry's client that is read here; those that are: %s", strings.Join(slices.Sorted(maps.Keys(properties)), ", "))
	case option == "":
		o[name] = value
	default:
		if _, both := options[option]; !both {
			o[option] = value
		}
	}
}

// address reads the registry's address, or several with commas between, which are tried in turn.
func (s *settings) address(o map[string]string, bad func(option, text string, args ...any)) {
	if o["url"] == "" {
		bad("url", "is missing; it is the address of the schema registry, such as http://localhost:8081")
		return
	}
	for _, text := range strings.Split(o["url"], ",") {
		u, err := url.Parse(strings.TrimSpace(text)) // whose error holds the text, and so maybe a password
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad("url", "must be an address that begins with http:// or https://")
			return
		}
		if u.User != nil {
			s.user = u.User.Username()
			s.password, _ = u.User.Password()
		}
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		s.urls = append(s.urls, u.String())
	}
}

// credentials reads them by the names that Confluent's client has for their sources. Where the source is not given, that of the option that is.
func (s *settings) credentials(o map[string]string, bad func(option, text string, args ...any)) {
	info := o["basic-auth.user-info"]
	switch source := o["basic-auth.credentials-source"]; source {
	case "", "USER_INFO":
		user, password, ok := strings.Cut(info, ":")
		switch {
		case ok:
			s.user, s.password = user, password
		case info != "":
			bad("basic-auth.user-info", "must be user:password")
		case source != "":
			bad("basic-auth.user-info", "is missing, and 'basic-auth.credentials-source' is 'USER_INFO'")
		}
	case "URL":
	default:
		bad("basic-auth.credentials-source", "must be 'USER_INFO' or 'URL'; set 'USER_INFO' and 'basic-auth.user-info' = 'user:password'")
	}
	token := o["bearer-auth.token"]
	switch source := o["bearer-auth.credentials-source"]; {
	case source != "" && source != "STATIC_TOKEN":
		bad("bearer-auth.credentials-source", "must be 'STATIC_TOKEN'; for tokens that change pass an HTTP client that adds them")
	case source != "" && token == "":
		bad("bearer-auth.token", "is missing, and 'bearer-auth.credentials-source' is 'STATIC_TOKEN'")
	}
	if token != "" && s.user != "" {
		bad("bearer-auth.token", "and a user with a password exclude each other: keep one")
	}
	s.token = token
}
