package protocol_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flinksink/flinksink/sink/sinktest"
)

const root = "../../../"

var (
	codeRef    = regexp.MustCompile("`([^`]+)`")
	lawName    = regexp.MustCompile(`^L\d+$`)
	invariant  = regexp.MustCompile(`^I\d+$`)
	testName   = regexp.MustCompile(`^([a-z/]+):(Test\w+)(/[\w-]+)?$`)
	quotedName = regexp.MustCompile(`"([^"]+)"`)
	references = regexp.MustCompile(`\[[^\]]*\]`)
)

// TestPage reads docs/protocol.md: every claim and every row of its tables names what holds it, and all that is named exists.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(root + "docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range wrongs(string(page)) {
		t.Error(problem)
	}
}

// TestPage_FindsMistakes: the reader of the page is worth nothing if it passes these.
func TestPage_FindsMistakes(t *testing.T) {
	for _, text := range []string{
		"C1. A claim.",
		"C1. A claim [`L99`].",
		"C1. A claim [`I99`].",
		"C1. A claim [`sink/internal/protocol:TestNothing`].",
		"C1. A claim [`sink/nowhere:TestExplore`].",
		"C1. A claim [`sink/internal/protocol:TestExplore/nowhere`].",
		`C1. A claim [mistake "that nobody planted"].`,
		"C1. A claim [see there].",
		"C1. A claim [`L01`, `Save`].",
		"| a | row |\n|---|---|\n| without | reference |",
		"# A heading and nothing else",
	} {
		if len(wrongs(text)) == 0 {
			t.Errorf("nothing is wrong with %q", text)
		}
	}
}

// wrongs says what is wrong with a page.
func wrongs(page string) (problems []string) {
	claims := 0
	for _, part := range strings.Split(page, "\n\n") {
		part = strings.TrimSpace(part)
		switch {
		case regexp.MustCompile(`^C\d+\. `).MatchString(part):
			claims++
			problems = append(problems, unsupported(part)...)
		case strings.HasPrefix(part, "|"):
			for _, row := range strings.Split(part, "\n")[2:] {
				claims++
				problems = append(problems, unsupported(row)...)
			}
		case strings.HasPrefix(part, "1. ") && strings.Contains(part, "\n2. "):
			for _, step := range strings.Split(part, "\n") {
				claims++
				problems = append(problems, unsupported(step)...)
			}
		default:
			problems = append(problems, missing(part)...)
		}
	}
	if claims == 0 {
		problems = append(problems, "the page claims nothing")
	}
	return problems
}

// unsupported says what is wrong with the references of one claim, that there are none included.
func unsupported(claim string) []string {
	if !references.MatchString(claim) {
		return []string{"nothing is named that holds this: " + claim}
	}
	return missing(claim)
}

// missing says which references in brackets lead to nothing.
func missing(text string) (problems []string) {
	for _, group := range references.FindAllString(text, -1) {
		found := 0
		for _, m := range codeRef.FindAllStringSubmatch(group, -1) {
			found++
			if err := exists(m[1]); err != nil {
				problems = append(problems, fmt.Sprintf("%v, in: %s", err, group))
			}
		}
		for _, m := range quotedName.FindAllStringSubmatch(group, -1) {
			found++
			name := strings.Join(strings.Fields(m[1]), " ")
			if !planted(name) {
				problems = append(problems, fmt.Sprintf("no mistake %q is planted", name))
			}
		}
		if found == 0 {
			problems = append(problems, "brackets without a reference: "+group)
		}
	}
	return problems
}

func exists(ref string) error {
	switch {
	case lawName.MatchString(ref):
		if !slices.ContainsFunc(sinktest.Laws(), func(l sinktest.Law) bool { return l.ID == ref }) {
			return fmt.Errorf("there is no law %s", ref)
		}
	case invariant.MatchString(ref):
		doc, err := os.ReadFile("doc.go")
		if err != nil {
			return err
		}
		if !regexp.MustCompile(`//\t` + ref + `\s`).Match(doc) {
			return fmt.Errorf("there is no invariant %s", ref)
		}
	case testName.MatchString(ref):
		m := testName.FindStringSubmatch(ref)
		files, err := filepath.Glob(root + m[1] + "/*_test.go")
		if err != nil {
			return err
		}
		var text strings.Builder
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			text.Write(b)
		}
		if !strings.Contains(text.String(), "func "+m[2]+"(t *testing.T)") {
			return fmt.Errorf("there is no %s in %s", m[2], m[1])
		}
		if sub := strings.TrimPrefix(m[3], "/"); sub != "" && !strings.Contains(text.String(), `"`+sub+`"`) {
			return fmt.Errorf("%s has no part %s", m[2], sub)
		}
	default:
		return fmt.Errorf("%q is no law, invariant or test", ref)
	}
	return nil
}

// planted reports a mistake of explore_mistakes_test.go, by the trace that is kept of it.
func planted(name string) bool {
	traces, err := filepath.Glob("testdata/explore/*.txt")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(traces, func(f string) bool {
		b, err := os.ReadFile(f)
		return err == nil && strings.Contains(string(b), "\nmistake "+name+"\n")
	})
}
