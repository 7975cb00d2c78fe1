package registry

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/flinksink/flinksink/changelog"
	"github.com/flinksink/flinksink/changelog/format/internal/flinkavro"
	"github.com/twmb/avro"
)

// guessed says what Flink gets wrong in silence, "" for nothing: it takes no notice of a writer's logical types, so that microseconds are read as
// milliseconds and digits at another scale. Kafka Connect's and Debezium's names for types without a logical type are heeded too.
func guessed(n *avro.SchemaNode, p *flinkavro.Plan) string {
	logical, named := n.LogicalType, connectName(n)
	switch p.Type.Root {
	case changelog.RootDate:
		if logical != "" && logical != "date" || named != "" && named != "io.debezium.time.Date" && named != "org.apache.kafka.connect.data.Date" {
			return told(n, p, "days")
		}
	case changelog.RootTime:
		if logical != "" && logical != "time-millis" || named != "" && named != "io.debezium.time.Time" && named != "org.apache.kafka.connect.data.Time" {
			return told(n, p, "milliseconds of a day")
		}
	case changelog.RootTimestamp:
		switch {
		case logical == "timestamp-millis", logical == "local-timestamp-millis":
		case logical != "", named != "" && named != "io.debezium.time.Timestamp" && named != "org.apache.kafka.connect.data.Timestamp":
			return told(n, p, "milliseconds")
		}
	case changelog.RootDecimal:
		if n.LogicalType == "decimal" && n.Scale != p.Type.Scale {
			return fmt.Sprintf("the message was written with a decimal of scale %d, and the column is %s; Flink would read other digits; declare the column at that scale", n.Scale, p.Type)
		}
		if n.Type == "string" {
			return fmt.Sprintf("the message was written with text, and the column is %s; Flink would read its bytes as a number; declare a STRING", p.Type)
		}
	case changelog.RootChar, changelog.RootVarchar:
		if n.Type == "bytes" && logical != "" {
			return fmt.Sprintf("the message was written with bytes of logical type %s, and the column is %s; Flink would read them as text", logical, p.Type)
		}
	}
	return ""
}

// connectName is what Kafka Connect calls a type of time that Avro has no word for.
func connectName(n *avro.SchemaNode) string {
	name, _ := n.Props["connect.name"].(string)
	if strings.HasPrefix(name, "io.debezium.time.") || strings.HasPrefix(name, "org.apache.kafka.connect.data.") {
		return name
	}
	return ""
}

func told(n *avro.SchemaNode, p *flinkavro.Plan, unit string) string {
	return fmt.Sprintf("the message was written with %s of %s, and the column is %s; Flink would read it as %s; declare a BIGINT or an INT, or have it written in them",
		n.Type, semantics(n), p.Type, unit)
}

// semantics is what a type says of its values beyond their form.
func semantics(n *avro.SchemaNode) string { return cmp.Or(n.LogicalType, connectName(n)) }
