package debezium

import (
	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkjson"
)

// EventPolicy says what becomes of a message that is no change of a row.
type EventPolicy uint8

const (
	// EventAsFlink is Flink's answer: an error, and with 'ignore-parse-errors' = 'true' the message is passed over.
	EventAsFlink EventPolicy = iota
	// EventSkip passes over the message.
	EventSkip
	// EventRefuse is an error, whatever 'ignore-parse-errors' says.
	EventRefuse
)

// apply settles a message of such an op; reason says what it is.
func (p EventPolicy) apply(reason string) *flinkjson.Failure {
	switch p {
	case EventSkip:
		return nil
	case EventRefuse:
		return flinkjson.Refuse(changelog.UnknownOp, reason)
	}
	return flinkjson.Misfit(changelog.UnknownOp, reason)
}
