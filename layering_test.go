package flinksink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/flinksink/flinksink"

// pkg is what go list says of one package.
type pkg struct {
	ImportPath   string
	Dir          string
	Standard     bool
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Module       *struct{ Path string }
}

// short is the package's path within the module; "" for packages of others.
func (p pkg) short() string { return short(p.ImportPath) }

func short(importPath string) string {
	if importPath == module {
		return "."
	}
	s, _ := strings.CutPrefix(importPath, module+"/")
	if s == importPath {
		return ""
	}
	return s
}

// goList needs the go command and nothing else.
func goList(t *testing.T, args ...string) (pkgs []pkg) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Dir,Standard,GoFiles,Imports,TestImports,XTestImports,Module"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// rule says what packages may import, beside the standard library. Patterns are those of path.Match, plus a trailing "/..." for
// everything below.
type rule struct {
	of     string   // the packages it binds
	ours   []string // packages of this module
	others []string // packages of other modules
	std    []string // when not nil, the only packages of the standard library
	reason string
}

// The first rule that binds a package counts.
var rules = []rule{
	{of: ".", reason: "the root is a map and holds no code"},
	{of: "changelog", reason: "changes are values; whoever only wants to read them must not link a broker or a database"},
	{of: "changelog/ddl", ours: []string{"changelog"}, reason: "a table's description knows no wire format"},
	{of: "changelog/explain", ours: []string{"changelog", "changelog/ddl", "changelog/format"}, reason: "a plan is judged by a table, and knows no sink and no broker"},
	{of: "changelog/format", ours: []string{"changelog", "changelog/ddl"}, reason: "assembly takes formats as values and names none"},
	{of: "changelog/format/all", ours: []string{"changelog", "changelog/format/*"}, reason: "it lists the formats and does nothing else"},
	{of: "changelog/format/avroconfluent", ours: []string{"changelog", "changelog/format/internal/flinkjson", "changelog/format/internal/flinkavro", "changelog/format/internal/registry"}, reason: "a format of the schema registry; formats do not know each other"},
	{of: "changelog/format/debeziumavro", ours: []string{"changelog", "changelog/format/internal/flinkjson", "changelog/format/internal/flinkavro", "changelog/format/internal/registry"}, reason: "a format of the schema registry; formats do not know each other"},
	{of: "changelog/format/internal/flinkavro", ours: []string{"changelog", "changelog/format/internal/flinkjson"}, reason: "what several formats are made of knows none of them"},
	{of: "changelog/format/internal/registry", ours: []string{"changelog", "changelog/format/internal/flinkjson", "changelog/format/internal/flinkavro"}, others: []string{"github.com/twmb/avro", "github.com/twmb/franz-go/pkg/sr"}, reason: "the one place that knows a schema registry and Avro's schemas"},
	{of: "changelog/format/protobuf", ours: []string{"changelog", "changelog/format/internal/flinkjson"}, others: []string{"google.golang.org/protobuf/...", "github.com/bufbuild/protocompile"}, reason: "the one format that needs descriptors of messages"},
	{of: "changelog/format/internal/registry/registrytest", reason: "a registry for tests"},
	{of: "changelog/format/internal/formattest", ours: []string{"changelog", "internal/rowtext"}, reason: "what tests of formats have in common knows none of them"},
	{of: "changelog/format/*", ours: []string{"changelog", "changelog/format/internal/flinkjson", "changelog/format/internal/flinkavro"}, reason: "a format turns bytes into changes; formats do not know each other"},
	{of: "changelog/format/internal/flinkjson", ours: []string{"changelog"}, reason: "what several formats are made of knows none of them"},
	{of: "sink", ours: []string{"changelog", "sink/internal/protocol"}, reason: "the contract knows no system behind it"},
	{of: "sink/internal/protocol", ours: []string{"changelog"}, std: []string{"cmp", "errors", "fmt", "maps", "slices", "strconv", "strings"},
		reason: "the machine has no clock, no I/O, no goroutine and no randomness, so that every run can be repeated"},
	{of: "sink/sinktest", ours: []string{"changelog", "sink"}, reason: "the test kit runs wherever go test runs"},
	{of: "sink/sinktest/kafkatopic", ours: []string{"changelog", "sink/sinktest"}, others: []string{"github.com/twmb/franz-go/pkg/kgo"}, reason: "the part of the test kit that needs a Kafka client stands apart, so that the rest links none"},
	{of: "sink/internal/ledger", ours: []string{"changelog", "sink"}, reason: "the rules of a store know no place where it is kept"},
	{of: "sink/filestore", ours: []string{"changelog", "sink", "sink/internal/ledger"}, reason: "a store knows the contract and the file system"},
	{of: "sink/kafka", ours: []string{"changelog", "changelog/ddl", "changelog/format", "sink"}, others: []string{"github.com/twmb/franz-go/..."}, reason: "an adapter imports the contract and its own SDK; the target is a table of Flink, whose formats the caller passes"},
	{of: "sink/s3", ours: []string{"changelog", "changelog/format/json", "sink", "sink/internal/ledger"}, others: []string{"github.com/aws/aws-sdk-go-v2/aws/...", "github.com/aws/aws-sdk-go-v2/service/s3/...", "github.com/aws/smithy-go/...", "github.com/klauspost/compress/..."}, reason: "an adapter imports the contract, the format that is its default, and its own SDK, without what finds keys and profiles, which is the program's; file formats that need more stand in packages of their own"},
	{of: "sink/s3/parquet", ours: []string{"changelog", "sink/s3"}, others: []string{"github.com/parquet-go/parquet-go/..."}, reason: "a file format, linked by who passes it"},
	{of: "sink/s3/avro", ours: []string{"changelog", "sink/s3"}, others: []string{"github.com/twmb/avro/..."}, reason: "a file format, linked by who passes it"},
	{of: "sink/s3/s3test", reason: "a server for tests knows nothing of what it tests"},
	{of: "sink/s3/internal/filetest", ours: []string{"changelog", "sink/s3"}, reason: "what tests of file formats have in common knows none of them"},
	{of: "sink/elastic", ours: []string{"changelog", "sink"}, others: []string{"github.com/elastic/go-elasticsearch/v8/esapi"}, reason: "an adapter imports the contract and its own SDK, of which the typed API takes minutes to compile"},
	{of: "sink/elastic/elastictest", reason: "a server for tests knows nothing of what it tests"},
	{of: "sink/postgres", ours: []string{"changelog", "sink"}, others: []string{"github.com/jackc/pgx/v5/..."}, reason: "an adapter imports the contract and its own SDK; adapters do not know each other"},
	{of: "bridge", ours: []string{"changelog", "changelog/ddl", "sink"}, others: []string{"github.com/twmb/franz-go/..."}, reason: "the bridge takes decoder and sink as values and names none"},
	{of: "bridge/statuspage", ours: []string{"bridge", "sink"}, reason: "it shows what a bridge tells of itself"},
	{of: "bridge/otelbridge", ours: []string{"bridge", "changelog", "sink"}, others: []string{"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric"}, reason: "metrics need the API; which SDK there is, the program says"},
	{of: "internal/rowtext", ours: []string{"changelog"}, reason: "text of rows, for people"},
	{of: "internal/capture", ours: []string{"changelog"}, others: []string{"github.com/twmb/franz-go/..."}, reason: "captures are read and loaded without a decoder, so that they can judge decoders"},
	{of: "testbed/...", ours: []string{"testbed/..."}, others: []string{"github.com/twmb/franz-go/...", "github.com/jackc/pgx/v5/...", "github.com/fergusstrange/embedded-postgres", "golang.org/x/sys/..."}, reason: "servers for tests know nothing of what they test"},
	{of: "cmd/...", ours: []string{"..."}, others: []string{"..."}, reason: "programs may use everything"},
	{of: "examples/...", ours: []string{"..."}, others: []string{"..."}, reason: "programs may use everything"},
	{of: "bench", ours: []string{"..."}, others: []string{"..."}, reason: "programs may use everything"},
	{of: "bench/internal/rows", reason: "it is data and knows nothing of what moves it; bench/peers, a module of its own, moves it too"},
	{of: "bench/internal/turns", reason: "it counts and knows nothing of what it counts; bench/rivals, a module of its own, measures by it too"},
}

// restricted packages have few importers. Tests, which these rules do not bind, may import them all.
var restricted = []struct {
	what   string
	by     []string
	reason string
}{
	{"sink/sinktest", []string{"sink/sinktest/...", "cmd/...", "examples/..."}, "the test kit never reaches a user's binary"},
	{"sink/elastic/elastictest", []string{"examples/..."}, "a server for tests never reaches a user's binary"},
	{"sink/s3/s3test", []string{"examples/...", "bench"}, "a server for tests never reaches a user's binary"},
	{"sink/s3/internal/filetest", nil, "it is for tests alone"},
	{"changelog/format/all", []string{"cmd/...", "examples/..."}, "a user links the formats that he passes and no others"},
	{"changelog/format/internal/formattest", nil, "it is for tests alone"},
	{"testbed/...", []string{"testbed/...", "cmd/...", "examples/...", "bench"}, "servers for tests never reach a user's binary"},
}

func matches(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

func anyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// breach says which rule an import breaks, or "".
func breach(importer, imported string, standard bool) string {
	i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.of, importer) })
	if i < 0 {
		return fmt.Sprintf("package %s has no rule: say in layering_test.go what it may import, and why", importer)
	}
	r := rules[i]
	ok := anyMatches(r.others, imported)
	allowed := "the standard library"
	if s := short(imported); s != "" {
		ok = anyMatches(r.ours, s)
		for _, x := range restricted {
			if matches(x.what, s) && !anyMatches(x.by, importer) {
				return fmt.Sprintf("%s imports %s, which only tests and %s may: %s", importer, s, strings.Join(x.by, ", "), x.reason)
			}
		}
	} else if standard {
		ok = r.std == nil || slices.Contains(r.std, imported)
		if r.std != nil {
			allowed = strings.Join(r.std, ", ")
		}
	}
	if ok {
		return ""
	}
	for _, a := range slices.Concat(r.ours, r.others) {
		allowed += ", " + a
	}
	return fmt.Sprintf("%s imports %s; it may import %s: %s", importer, imported, allowed, r.reason)
}

func TestImportLaw(t *testing.T) {
	std := map[string]bool{}
	for _, p := range goList(t, "std") {
		std[p.ImportPath] = true
	}
	ours := goList(t, "./...")
	for _, p := range ours {
		for _, i := range p.Imports {
			if b := breach(p.short(), i, std[i]); b != "" {
				t.Error(b)
			}
		}
	}
	if len(ours) < 10 {
		t.Fatalf("go list found %d packages; the law has seen too little", len(ours))
	}
}

// The law must be able to fail.
func TestImportLaw_Catches(t *testing.T) {
	for _, c := range []struct {
		importer, imported string
		standard           bool
		want               string
	}{
		{"changelog", "fmt", true, ""},
		{"changelog", module + "/sink", false, "must not link a broker"},
		{"changelog", "github.com/google/go-cmp/cmp", false, "changelog imports github.com/google/go-cmp/cmp"},
		{"changelog/format/json", module + "/changelog/format/raw", false, "do not know each other"},
		{"changelog/format/all", module + "/changelog/format/raw", false, ""},
		{"sink/internal/protocol", "time", true, "no clock"},
		{"sink/internal/protocol", "math/rand/v2", true, "no randomness"},
		{"sink/postgres", module + "/sink/elastic", false, "do not know each other"},
		{"sink/postgres", "github.com/jackc/pgx/v5/pgxpool", false, ""},
		{"sink/s3", "github.com/aws/aws-sdk-go-v2/service/s3/types", false, ""},
		{"sink/s3", "github.com/aws/aws-sdk-go-v2/config", false, "is the program's"},
		{"sink/postgres", module + "/sink/sinktest", false, "never reaches a user's binary"},
		{"bridge", module + "/changelog/format/json", false, "names none"},
		{"bridge", module + "/changelog/format/all", false, "links the formats that he passes"},
		{"bridge", module + "/testbed/kafka", false, "servers for tests"},
		{"bridge", "github.com/twmb/franz-go/pkg/kgo", false, ""},
		{"bridge", "go.opentelemetry.io/otel/metric", false, "names none"},
		{"bridge/otelbridge", "go.opentelemetry.io/otel/metric", false, ""},
		{"bridge/otelbridge", "go.opentelemetry.io/otel/sdk/metric", false, "the program says"},
		{"cmd/flinksink", module + "/changelog/format/all", false, ""},
		{"sink/nothing", "fmt", true, "has no rule"},
	} {
		got := breach(c.importer, c.imported, c.standard)
		if c.want == "" && got != "" || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("%s -> %s: got %q, want %q", c.importer, c.imported, got, c.want)
		}
	}
}

// What a user links is written down, module by module, so that nobody adds to it without noticing. The list may neither grow nor hold
// what is no longer needed.
func TestLinkedModules(t *testing.T) {
	const file = "testdata/law/modules.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type user struct {
		imports []string
		allowed map[string]bool
	}
	var users []*user
	for n, line := range strings.Split(string(text), "\n") {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "" {
			continue
		}
		f := strings.Fields(line)
		switch {
		case f[0] == "user":
			users = append(users, &user{imports: f[1:], allowed: map[string]bool{}})
		case len(users) == 0 || len(f) != 1:
			t.Fatalf("%s:%d: expected \"user PACKAGE...\" or one module", file, n+1)
		default:
			users[len(users)-1].allowed[f[0]] = true
		}
	}
	if len(users) < 2 {
		t.Fatalf("%s names %d users", file, len(users))
	}
	for _, u := range users {
		name := strings.Join(u.imports, " + ")
		args := []string{"-deps"}
		for _, i := range u.imports {
			args = append(args, "./"+i)
		}
		linked := map[string]bool{}
		for _, p := range goList(t, args...) {
			if p.Standard || p.Module == nil || p.Module.Path == module {
				continue
			}
			linked[p.Module.Path] = true
			if !u.allowed[p.Module.Path] {
				t.Errorf("a user of %s links %s (package %s), which %s does not list: do without, or add it there with the reason", name, p.Module.Path, p.ImportPath, file)
				u.allowed[p.Module.Path] = true // once is enough
			}
		}
		for m := range u.allowed {
			if !linked[m] {
				t.Errorf("%s lists %s for a user of %s, who does not link it: take it out", file, m, name)
			}
		}
	}
}
