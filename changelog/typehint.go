package changelog

// unknown says that the token is the name of no built-in type, with the one that was likely meant.
func (p *typeParser) unknown() error {
	e := &TypeError{p.tok.start, "a Flink type", p.tok.describe(p.lexer.text)}
	after := *p
	after.next()
	if after.sign('.') || p.tok.kind != tokWord && p.tok.kind != tokQuoted {
		return e // a name of several parts was meant as one
	}
	if meant := likelyType(upperASCII(p.tok.value)); meant != "" {
		e.Found += ": did you mean " + meant
		if p.tok.kind == tokQuoted {
			e.Found += ", without quotes"
		}
		e.Found += "?"
	}
	return e
}

// typeWords returns the words that a built-in type begins with, the usual spelling before its synonyms.
func typeWords() []string {
	return []string{
		"INT", "BIGINT", "STRING", "VARCHAR", "CHAR", "BOOLEAN", "DECIMAL", "DOUBLE", "FLOAT", "TIMESTAMP", "TIMESTAMP_LTZ", "DATE", "TIME",
		"SMALLINT", "TINYINT", "BYTES", "BINARY", "VARBINARY", "ROW", "ARRAY", "MAP", "MULTISET", "INTERVAL", "VARIANT", "BITMAP", "INTEGER", "NUMERIC",
		"DEC", "CHARACTER", "STRUCTURED", "RAW",
	}
}

// likelyType returns the type that a word, in upper case, was likely meant to be: what other systems call so, or what differs by a slip
// of the pen. "" if there is none.
func likelyType(word string) string {
	switch word {
	case "TEXT", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT", "NTEXT", "CITEXT", "CLOB", "NCLOB", "STR", "JSON", "JSONB", "XML", "UUID",
		"UNIQUEIDENTIFIER", "ENUM", "INET", "CIDR":
		return "STRING"
	case "VARCHAR2", "NVARCHAR", "NVARCHAR2":
		return "VARCHAR"
	case "NCHAR", "BPCHAR":
		return "CHAR"
	case "SERIAL", "SERIAL8", "BIGSERIAL", "INT8", "INT64", "LONG":
		return "BIGINT"
	case "INT4", "INT32", "MEDIUMINT", "SERIAL4":
		return "INT"
	case "INT2", "INT16", "SMALLSERIAL", "SERIAL2", "SHORT":
		return "SMALLINT"
	case "BYTE":
		return "TINYINT"
	case "REAL", "FLOAT4", "FLOAT32":
		return "FLOAT"
	case "FLOAT8", "FLOAT64":
		return "DOUBLE"
	case "NUMBER", "MONEY", "BIGDECIMAL":
		return "DECIMAL"
	case "BOOL":
		return "BOOLEAN"
	case "DATETIME", "DATETIME2", "SMALLDATETIME", "TIMESTAMP_NTZ":
		return "TIMESTAMP"
	case "TIMESTAMPTZ", "TIMESTAMPLTZ", "DATETIMEOFFSET", "TIMESTAMP_TZ":
		return "TIMESTAMP_LTZ"
	case "TIMETZ":
		return "TIME"
	case "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "BYTEA", "IMAGE":
		return "BYTES"
	case "STRUCT", "RECORD":
		return "ROW"
	case "LIST":
		return "ARRAY"
	}
	// Half of a short word is soon another: only one slip then.
	most := 1
	if len(word) >= 6 {
		most = 2
	}
	best := ""
	for _, w := range typeWords() {
		if d := slips(word, w); d <= most {
			best, most = w, d-1
		}
	}
	return best
}

// slips returns how many letters were left out, put in, mistaken or exchanged with their neighbour between two words; any big number
// for a word much longer than any type's.
func slips(a, b string) int {
	const longest = 20
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var d [longest + 1][longest + 1]int
	for i := 0; i <= len(a); i++ {
		for j := 0; j <= len(b); j++ {
			switch {
			case i == 0:
				d[i][j] = j
			case j == 0:
				d[i][j] = i
			default:
				same := 1
				if a[i-1] == b[j-1] {
					same = 0
				}
				d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+same)
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					d[i][j] = min(d[i][j], d[i-2][j-2]+1)
				}
			}
		}
	}
	return d[len(a)][len(b)]
}
