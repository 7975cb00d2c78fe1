package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/sink"
	"github.com/twmb/franz-go/pkg/kerr"
)

// classOf returns the class of an error of the broker or the connection, or byDefault where it says nothing about the world. A class that is
// there already stays.
func classOf(err, byDefault error) error {
	var classed *sink.Error
	var data *changelog.DataError
	switch {
	case errors.As(err, &classed):
		return sink.ClassOf(classed)
	case errors.As(err, &data):
		return sink.ErrRejected
	case errors.Is(err, errFenced):
		return sink.ErrFenced
	case errors.Is(err, errUsedUp):
		return sink.ErrTransient
	}
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		return byDefault
	}
	switch ke.Code {
	case kerr.ProducerFenced.Code, kerr.InvalidProducerEpoch.Code, kerr.InvalidProducerIDMapping.Code:
		return sink.ErrFenced
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code, kerr.InvalidRecord.Code, kerr.InvalidTimestamp.Code:
		return sink.ErrRejected
	case kerr.TopicAuthorizationFailed.Code, kerr.TransactionalIDAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code,
		kerr.GroupAuthorizationFailed.Code, kerr.SaslAuthenticationFailed.Code, kerr.UnknownTopicOrPartition.Code, kerr.InvalidTopicException.Code,
		kerr.InvalidTransactionTimeout.Code, kerr.UnsupportedVersion.Code, kerr.UnsupportedForMessageFormat.Code, kerr.UnsupportedCompressionType.Code,
		kerr.InvalidRequiredAcks.Code, kerr.PolicyViolation.Code, kerr.SecurityDisabled.Code, kerr.OffsetMetadataTooLarge.Code, kerr.InvalidGroupID.Code:
		return sink.ErrConfig
	}
	return byDefault
}

// cured is an error with what to do, said once.
type cured struct {
	err  error
	what string
}

func (c *cured) Error() string { return c.err.Error() + ": " + c.what }
func (c *cured) Unwrap() error { return c.err }

// cure adds what to do to the errors that people meet here.
func cure(err error) error {
	var ke *kerr.Error
	if !errors.As(err, &ke) || errors.As(err, new(*cured)) {
		return err
	}
	say := func(what string) error { return &cured{err, what} }
	switch ke.Code {
	case kerr.TopicAuthorizationFailed.Code:
		return say("the client's user needs WRITE, READ and DESCRIBE on the topic (READ to find the end of a transaction)")
	case kerr.TransactionalIDAuthorizationFailed.Code:
		return say("the client's user needs WRITE on transactional ids that begin with Options.Prefix (an ACL of pattern type PREFIXED)")
	case kerr.GroupAuthorizationFailed.Code:
		return say("the client's user needs READ on Options.Group")
	case kerr.UnknownTopicOrPartition.Code:
		return say("create the topic; nothing here does")
	case kerr.InvalidTransactionTimeout.Code:
		return say("lower Options.TransactionTimeout, or raise transaction.max.timeout.ms of the brokers")
	case kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code:
		return say("raise max.message.bytes of the topic")
	case kerr.InvalidRecord.Code:
		return say("a topic with cleanup.policy=compact takes no record without a key: give the table a key, or the topic another policy")
	case kerr.InvalidTimestamp.Code:
		return say("the record's timestamp is further from now than message.timestamp.before.max.ms or message.timestamp.after.max.ms of the topic allow")
	case kerr.OffsetMetadataTooLarge.Code:
		return say("raise offset.metadata.max.bytes of the brokers to their default, 4096")
	}
	return err
}

// failure makes err an error of an operation. A class that is there stays; else it is what the broker's answer says, else byDefault.
func failure(op, sinkName, bridge string, byDefault, err error) error {
	if err == nil {
		return nil
	}
	var e *sink.Error
	if errors.As(err, &e) {
		out := *e
		if out.Op == "" {
			out.Op = op
		}
		out.Sink, out.Bridge, out.Err = sinkName, bridge, cure(out.Err)
		return &out
	}
	class := classOf(err, byDefault)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		class = byDefault
	}
	return &sink.Error{Op: op, Sink: sinkName, Bridge: bridge, Class: class, Err: cure(err)}
}

func refuse(class error, format string, a ...any) error {
	return &sink.Error{Class: class, Err: fmt.Errorf(format, a...)}
}
