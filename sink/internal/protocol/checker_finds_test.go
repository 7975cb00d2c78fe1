package protocol

import (
	"strings"
	"testing"
)

// TestChecker_Finds breaks each invariant by a run that no machine makes: a line that begins with ">" is an event, the lines after it are what
// came of it. The checker must not pass it.
func TestChecker_Finds(t *testing.T) {
	const begun = `
> assign t/0 t/1
acquire t/0 t/1
> acquired generation 7 at t/0@10 t/1@20, ended 3
open sink 0 for generation 7, settle 3
> opened sink 0
done
`
	const prepared = begun + `> advance to t/0@15
> barrier
prepare sink 0 for checkpoint 7.1 from t/0@10 t/1@20 to t/0@15 t/1@20
> prepared sink 0
`
	const save = "save checkpoint 7.1 from t/0@10 t/1@20 to t/0@15 t/1@20, to commit sink 0 at 7.1\n"
	for _, c := range []struct{ invariant, run string }{
		{"I1", prepared + "commit sink 0 at 7.1"},
		{"I1", prepared + save + "> saved\ncommit sink 0 at 7.1\n> committed\ncommit sink 0 at 7.1"},
		{"I2", begun + "> barrier\nsave checkpoint 7.1 from t/0@10 t/1@20 to t/0@10 t/1@20"},
		{"I2", prepared + "save checkpoint 7.1 from t/0@10 t/1@20 to t/0@15 t/1@20"},
		{"I2", prepared + save + "> failed: transient\n" + save},
		{"I3", prepared + save + "> saved\nabort sink 0 at 7.1"},
		{"I3", prepared + save + "> failed: fenced\nabort sink 0 at 7.1"},
		{"I4", prepared + save + "> failed: uncertain\nabort sink 0 at 7.1"},
		{"I4", prepared + save + "> failed: uncertain\nacquire t/0 t/1"},
		{"I5", prepared + save + "> failed: transient\ndiscard sink 0\n> discarded\nprepare sink 0 for checkpoint 7.1 from t/0@10 t/1@20 to t/0@15 t/1@20"},
		{"I6", begun + "> lose t/1\ndiscard sink 0\n> discarded\nacquire t/0 t/1"},
		{"I6", begun + "> revoke t/1\ndone\n> barrier\nprepare sink 0 for checkpoint 7.1 from t/0@10 t/1@20 to t/0@15 t/1@20"},
		{"I7", prepared + "save checkpoint 7.1 from t/0@11 t/1@20 to t/0@15 t/1@20, to commit sink 0 at 7.1"},
		{"I7", prepared + "save checkpoint 7.1 from t/0@10 t/1@20 to t/0@9 t/1@20, to commit sink 0 at 7.1"},
		{"I8", prepared + "save checkpoint 7.1 from t/0@10 t/1@20 to t/0@15 t/1@20, to commit sink 0 at 7.1, settled 3 4"},
		{"I9", begun + "> barrier\nacquire t/0 t/1\nacquire t/0 t/1"},
		{"I9", begun + "> barrier\nhalt: lost\nacquire t/0 t/1"},
		{"I10", prepared + save + "> saved\nprepare sink 0 for checkpoint 7.2 from t/0@15 t/1@20 to t/0@15 t/1@20"},
		{"I11", "> assign t/0\nacquire t/0\n> failed: transient\nwait before try 1 (transient)\n> waited\nacquire t/0"},
		{"I12", begun + "> write to sink 0 failed: transient, read t/0\nacquire t/0 t/1"},
	} {
		if err := follow(newChecker(Settings{Sinks: 1, Group: true}), c.run); err == nil || !strings.HasPrefix(err.Error(), c.invariant+":") {
			t.Errorf("%s is broken by this, and the checker says %v:\n%s", c.invariant, err, c.run)
		}
	}
	if err := follow(newChecker(Settings{Sinks: 1, Group: true}), prepared+save+"> saved\ncommit sink 0 at 7.1\n> committed\nhint t/0@15 t/1@20\ndone, checkpoint 7.1"); err != nil {
		t.Errorf("nothing is wrong with this one, and the checker says %v", err)
	}
}

// follow tells a checker a run as text.
func follow(c *checker, run string) error {
	var e Event
	var fx []Effect
	for _, line := range append(strings.Split(strings.TrimSpace(run), "\n"), "> barrier") {
		if text, ok := strings.CutPrefix(line, "> "); ok {
			if e != nil {
				if err := c.step(e, fx); err != nil {
					return err
				}
			}
			var err error
			if e, err = ParseEvent(text); err != nil {
				return err
			}
			fx = nil
			continue
		}
		f, err := ParseEffect(line)
		if err != nil {
			return err
		}
		fx = append(fx, f)
	}
	return nil
}
