package bridge

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Why properties have no effect.
const (
	forProducers  = "it is for producers"
	forJava       = "it configures parts of the Java client that this client does not have"
	forFlink      = "it is for Flink's own source"
	inSecurity    = "" // it is read together with others, by security()
	notKept       = "this client decides it by itself"
	bridgeCommits = "positions are saved with the rows; the group's offsets are committed after each checkpoint, as a hint for monitors"
)

// knownProperties returns every property that a Kafka consumer or producer of version 3 or 4 has
// (https://kafka.apache.org/documentation/#configuration), and those that Flink adds.
func knownProperties() map[string]property {
	m := map[string]property{
		"bootstrap.servers":    {apply: brokers},
		"client.id":            text(func(s string) kgo.Opt { return kgo.ClientID(s) }, 256),
		"client.rack":          text(func(s string) kgo.Opt { return kgo.Rack(s) }, 512),
		"group.instance.id":    text(func(s string) kgo.Opt { return kgo.InstanceID(s) }, 249),
		"group.id":             {}, // see GroupID
		"retry.backoff.ms":     {}, // see backoff
		"retry.backoff.max.ms": {},

		"fetch.min.bytes": size(0, 1<<31-1, func(n int32) []kgo.Opt { return []kgo.Opt{kgo.FetchMinBytes(n)} }),
		"fetch.max.bytes": size(1, 1<<30, func(n int32) []kgo.Opt {
			// The client wants room for one answer of that size; 100 MiB is its own default.
			return []kgo.Opt{kgo.FetchMaxBytes(n), kgo.BrokerMaxReadBytes(max(n, 100<<20))}
		}),
		"max.partition.fetch.bytes": size(1, 1<<30, func(n int32) []kgo.Opt { return []kgo.Opt{kgo.FetchMaxPartitionBytes(n)} }),
		"fetch.max.wait.ms": millis(0, 10*time.Millisecond, maxMillis, func(d time.Duration) []kgo.Opt {
			return []kgo.Opt{kgo.FetchMaxWait(d)}
		}),
		"check.crcs": boolean(func(p *properties, _ string, on bool) {
			if !on {
				p.add(kgo.DisableFetchCRCValidation())
			}
		}),
		"isolation.level": {apply: isolation},

		"session.timeout.ms": millis(0, 100*time.Millisecond, maxMillis, func(d time.Duration) []kgo.Opt {
			return []kgo.Opt{kgo.SessionTimeout(d)}
		}),
		"heartbeat.interval.ms": millis(1, time.Millisecond, maxMillis, func(d time.Duration) []kgo.Opt {
			return []kgo.Opt{kgo.HeartbeatInterval(d)}
		}),
		// The Java client tells the broker this one as its rebalance timeout.
		"max.poll.interval.ms": millis(1, 100*time.Millisecond, maxMillis, func(d time.Duration) []kgo.Opt {
			return []kgo.Opt{kgo.RebalanceTimeout(d)}
		}),
		"partition.assignment.strategy": {apply: assignors},
		"group.protocol":                {apply: groupProtocol},

		"request.timeout.ms": millis(0, 100*time.Millisecond, 15*time.Minute, func(d time.Duration) []kgo.Opt {
			return []kgo.Opt{kgo.RequestTimeoutOverhead(d)}
		}),
		"metadata.max.age.ms": millis(0, 10*time.Millisecond, time.Hour, func(d time.Duration) []kgo.Opt {
			// The client does not ask more often than every 5 s unless told so.
			return []kgo.Opt{kgo.MetadataMaxAge(d), kgo.MetadataMinAge(min(d, 5*time.Second))}
		}),
		"connections.max.idle.ms": millis(-1, 100*time.Millisecond, 15*time.Minute, func(d time.Duration) []kgo.Opt {
			return []kgo.Opt{kgo.ConnIdleTimeout(d)}
		}),
		"socket.connection.setup.timeout.ms": millis(1, time.Millisecond, maxMillis, func(d time.Duration) []kgo.Opt {
			return []kgo.Opt{kgo.DialTimeout(d)}
		}),

		"auto.offset.reset": {
			apply:   oneOf("earliest", "latest", "none"),
			ignored: "an offset that is gone is an error, never another offset; 'scan.startup.mode' says where a new bridge starts",
		},
		"enable.auto.commit": {apply: boolean(func(*properties, string, bool) {}).apply, ignored: bridgeCommits},
		"allow.auto.create.topics": {
			apply:   boolean(func(*properties, string, bool) {}).apply,
			ignored: "topics are never created by reading them; one that does not exist is an error",
		},
		"interceptor.classes":    {refused: "names Java code that may change what is read, which cannot run here: take it out if it does not"},
		"transaction.timeout.ms": {ignored: forProducers},
	}
	ignore(m, forProducers, "acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level", "compression.type",
		"compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "key.serializer", "linger.ms", "max.block.ms",
		"max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms", "partitioner.adaptive.partitioning.enable",
		"partitioner.availability.timeout.ms", "partitioner.class", "partitioner.ignore.keys", "retries",
		"transaction.two.phase.commit.enable", "transactional.id", "value.serializer")
	ignore(m, bridgeCommits, "auto.commit.interval.ms", "commit.offsets.on.checkpoint")
	ignore(m, notKept, "client.dns.lookup", "default.api.timeout.ms", "enable.metrics.push", "exclude.internal.topics",
		"max.poll.records", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "receive.buffer.bytes",
		"reconnect.backoff.max.ms", "reconnect.backoff.ms", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms")
	ignore(m, forJava, "auto.include.jmx.reporter", "group.remote.assignor", "internal.leave.group.on.close",
		"internal.throw.on.fetch.stable.offset.unsupported", "key.deserializer", "metric.reporters", "metrics.num.samples",
		"metrics.recording.level", "metrics.sample.window.ms", "security.providers", "share.acknowledgement.mode", "ssl.keymanager.algorithm",
		"ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "value.deserializer")
	// https://nightlies.apache.org/flink/flink-docs-stable/docs/connectors/datastream/kafka/#additional-properties
	ignore(m, forFlink, "client.id.prefix", "flink.disable-metrics", "flink.partition-discovery.interval-millis",
		"partition.discovery.interval.ms", "register.consumer.metrics", "register.kafka.metrics", "register.producer.metrics",
		"transaction-naming-strategy")
	ignore(m, inSecurity, "security.protocol", "sasl.client.callback.handler.class", "sasl.jaas.config", "sasl.kerberos.kinit.cmd",
		"sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter",
		"sasl.kerberos.ticket.renew.window.factor", "sasl.login.callback.handler.class", "sasl.login.class",
		"sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
		"sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
		"sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms", "sasl.mechanism", "sasl.oauthbearer.assertion.algorithm",
		"sasl.oauthbearer.assertion.claim.aud", "sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss",
		"sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds",
		"sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.private.key.file",
		"sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.template.file",
		"sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
		"sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer",
		"sasl.oauthbearer.header.urlencode", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
		"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
		"sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class",
		"sasl.oauthbearer.scope", "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name",
		"sasl.oauthbearer.token.endpoint.url", "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm",
		"ssl.engine.factory.class", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
		"ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location",
		"ssl.truststore.password", "ssl.truststore.type")
	return m
}

// maxMillis is the longest time that Kafka's 32-bit fields of milliseconds hold.
const maxMillis = (1<<31 - 1) * time.Millisecond

func ignore(m map[string]property, why string, names ...string) {
	for _, n := range names {
		m[n] = property{ignored: why}
	}
}

// text makes an option of a text of at most most bytes; an empty one counts as not given.
func text(option func(string) kgo.Opt, most int) property {
	return property{apply: func(p *properties, name, value string) {
		switch {
		case len(value) > most:
			p.bad(name, "is longer than %d bytes", most)
		case value != "":
			p.add(option(value))
		}
	}}
}

// oneOf checks that the value is one of those.
func oneOf(values ...string) func(p *properties, name, value string) {
	return func(p *properties, name, value string) {
		for _, v := range values {
			if value == v {
				return
			}
		}
		list := ""
		for i, v := range values {
			switch {
			case i == 0:
			case i == len(values)-1:
				list += " or "
			default:
				list += ", "
			}
			list += v
		}
		p.bad(name, "must be %s", list)
	}
}

func isolation(p *properties, name, value string) {
	if value == "read_uncommitted" {
		p.bad(name, "is read_uncommitted: rows of transactions that are aborted later would be written and never taken back, so a bridge reads "+
			"read_committed only; take it out")
		return
	}
	oneOf("read_committed", "read_uncommitted")(p, name, value)
}

func groupProtocol(p *properties, name, value string) {
	if value == "consumer" {
		p.bad(name, "is consumer: a bridge fences stale members by the generation of a classic group; take it out, or set it to classic")
		return
	}
	oneOf("classic", "consumer")(p, name, value)
}
