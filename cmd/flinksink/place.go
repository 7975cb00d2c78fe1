package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// place is what a URL of --to or --store names: a kind of system, and where in it.
type place struct {
	kind kind
	url  string // as it was written
}

// kind is a kind of system that changes, or positions, go to.
type kind string

const (
	atPostgres kind = "postgres"
	atKafka    kind = "kafka"
	atS3       kind = "s3"
	atIndex    kind = "elastic"
	atFile     kind = "file"
)

// spelling is how a place of the kind is written.
func (k kind) spelling() string {
	switch k {
	case atPostgres:
		return "postgres://user@host:port/database?sslmode=..."
	case atKafka:
		return "kafka://host:9092,host:9092/topic"
	case atS3:
		return "s3://bucket/prefix"
	case atIndex:
		return "https://host:9200/index"
	}
	return "file:PATH"
}

// kindOf reads the scheme.
func kindOf(url string) kind {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok {
		return ""
	}
	switch {
	case scheme == "file":
		return atFile
	case !strings.HasPrefix(url, scheme+"://"):
		return ""
	}
	return map[string]kind{"postgres": atPostgres, "postgresql": atPostgres, "kafka": atKafka, "s3": atS3, "http": atIndex, "https": atIndex}[scheme]
}

// placeOf reads a URL of a flag that takes the kinds. What may be secret in it is kept out of every output from here on.
func (c *call) placeOf(flag, url string, takes ...kind) (place, error) {
	secrets := passwords(url)
	for _, p := range secrets {
		c.secret(p)
	}
	p := place{kindOf(url), url}
	// A URL that is well formed and holds no password may be shown, in a command to run.
	if len(secrets) > 0 || p.kind == "" || p.public() != url {
		c.secret(url)
	}
	if slices.Contains(takes, p.kind) {
		return p, nil
	}
	var spelled []string
	for _, k := range takes {
		spelled = append(spelled, k.spelling())
	}
	return place{}, config("%s takes %s", flag, strings.Join(spelled, ", or "))
}

// public is the URL without its secrets.
func (p place) public() string {
	switch p.kind {
	case atPostgres:
		return publicURL(p.url)
	case atFile:
		return p.url
	}
	if strings.ContainsAny(p.url, "@?#") {
		return p.kind.spelling()
	}
	return p.url
}

// withoutUser refuses what no URL of the kind has: such a place is named, and who may use it is told elsewhere.
func (p place) withoutUser(flag, cure string) error {
	if strings.ContainsAny(p.url, "@?# \\") {
		return config("%s takes %s, without user, password or parameters: %s", flag, p.kind.spelling(), cure)
	}
	return nil
}

// broker is a place in Kafka.
type broker struct {
	seeds []string
	topic string
}

// broker reads kafka://host:port,.../topic.
func (p place) broker(flag string) (broker, error) {
	if err := p.withoutUser(flag, "give the client its settings by --kafka-config, e.g. --kafka-config security.protocol=SASL_SSL"); err != nil {
		return broker{}, err
	}
	auth, rest := authority(p.url)
	b := broker{topic: strings.Trim(rest, "/")}
	for _, s := range strings.Split(auth, ",") {
		if s == "" {
			return broker{}, config("%s takes %s, and here an address is missing", flag, p.kind.spelling())
		}
		b.seeds = append(b.seeds, s)
	}
	if strings.Contains(b.topic, "/") {
		return broker{}, config("%s has more than the name of a topic behind the brokers: %s", flag, p.kind.spelling())
	}
	return b, nil
}

// folder is a place in a bucket.
type folder struct{ bucket, prefix string }

// String is the folder as a URL.
func (d folder) String() string { return "s3://" + path.Join(d.bucket, d.prefix) }

// folder reads s3://bucket/prefix.
func (p place) folder(flag string) (folder, error) {
	if err := p.withoutUser(flag, "the server is chosen by --s3-endpoint and --s3-region, the keys by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"); err != nil {
		return folder{}, err
	}
	bucket, rest := authority(p.url)
	if bucket == "" {
		return folder{}, config("%s takes %s, and the name of the bucket is missing", flag, p.kind.spelling())
	}
	return folder{bucket, strings.Trim(rest, "/")}, nil
}

// file reads file:PATH, also as file:///PATH.
func (p place) file() string {
	name := strings.TrimPrefix(p.url, "file:")
	if rest, ok := strings.CutPrefix(name, "//"); ok {
		name = rest
	}
	return name
}

// article names a kind's places for people.
func (k kind) article() string {
	return cmp.Or(map[kind]string{atPostgres: "a Postgres database", atKafka: "a Kafka topic", atS3: "a folder of a bucket", atIndex: "an Elasticsearch index", atFile: "a file"}[k], fmt.Sprintf("kind %q", string(k)))
}
