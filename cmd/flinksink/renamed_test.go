package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// No error of the command names an option of Go: every text of the library that names one is renamed, or says what this command cannot set.
func TestRenamed_NoOptionsOfGo(t *testing.T) {
	setting := regexp.MustCompile(`\b\w*(Options|Settings)\.[A-Z]\w*|\bNoDowntime\b`)
	// Names that stand without the type they are of.
	bare := regexp.MustCompile(`\b(SoftDelete|AppendOnce|IgnoreDeletes|SkipUnchanged|TruncateNanos|PartitionBy|MaxDowntime|TransactionTimeout|DeadLetterTopic|InTransaction|TwoPhase|AppendOnly|Tombstone)\b`)
	unreachable := map[string]string{
		"CompactOptions.":         "flags are checked before",
		"GuardOptions.":           "a program's own decoder",
		"Options.Client":          "brokers of the table: its properties have no such setting",
		"Options.Codec":           "a number that a program gives",
		"Options.DataStream":      "no flag",
		"Options.EncodeAnew":      "no flag",
		"Options.Filter":          "a function",
		"Options.Grace":           "no flag",
		"Options.HoldRetractions": "no flag",
		"Options.InCheckpoint":    "a function",
		"Options.Into":            "several tables, a program's",
		"Options.Level":           "no flag",
		"Options.Map":             "a function",
		"Options.MaxFileBytes":    "flags are checked before",
		"Options.MaxRecordBytes":  "no flag",
		"Options.Mode is":         "a number that a program gives",
		"Options.OnData: ":        "a number that a program gives",
		"Options.PartSize":        "no flag",
		"Options.Partitioner":     "a function",
		"Options.Patience is":     "is told apart, and never shown",
		"Options.Meta %q":         "no flag",
		"Options.Pipeline":        "no flag",
		"Options.ProofTopic":      "no flag",
		"Options.Tables":          "several tables, a program's",
		"Options.Topics":          "several tables, a program's",
		"ReaderOptions.":          "the command names both",
		"Settings.":               "no flag",
		"SettleOptions.":          "flags are checked before",
		"SuccessOptions.Bridge":   "flags are checked before",
	}
	used := map[string]bool{}
	for _, dir := range []string{"sink", "sink/postgres", "sink/kafka", "sink/s3", "sink/s3/parquet", "sink/s3/avro", "sink/elastic", "sink/filestore", "bridge", "changelog", "changelog/*", "changelog/format/*"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 && !strings.Contains(dir, "*") {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(joined(parsed), func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				said := (&call{kinds: []kind{atPostgres, atKafka}}).renamed(text)
				if at := bare.FindString(said); at != "" && strings.Contains(said, " ") && !strings.Contains(said, " is %d: ") { // a name alone, and a number that a program gives
					t.Errorf("%s: %q names %s, which is no flag", set.Position(lit.Pos()), said, at)
				}
				for _, at := range setting.FindAllStringIndex(said, -1) {
					known := ""
					for _, k := range slices.Sorted(maps.Keys(unreachable)) {
						if strings.HasPrefix(said[at[0]:], k) {
							known = k
						}
					}
					if used[known] = true; known == "" {
						t.Errorf("%s: %q is said as %q", set.Position(lit.Pos()), text, said)
					}
				}
				return true
			})
		}
	}
	for k := range unreachable {
		if !used[k] {
			t.Errorf("%q is said nowhere", k)
		}
	}
}

// joined makes one literal of literals that are joined by +, as they are one text.
func joined(f *ast.File) *ast.File {
	var join func(e ast.Expr) (string, bool)
	join = func(e ast.Expr) (string, bool) {
		switch e := e.(type) {
		case *ast.BasicLit:
			if e.Kind == token.STRING {
				text, err := strconv.Unquote(e.Value)
				return text, err == nil
			}
		case *ast.BinaryExpr:
			left, ok := join(e.X)
			right, too := join(e.Y)
			if ok && too && e.Op == token.ADD {
				return left + right, true
			}
		}
		return "", false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok {
			if text, ok := join(b); ok {
				b.X = &ast.BasicLit{ValuePos: b.Pos(), Kind: token.STRING, Value: strconv.Quote(text)}
				b.Y = &ast.BadExpr{}
			}
		}
		return true
	})
	return f
}
