package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flinksink/flinksink/bridge"
)

// dataFlags say what becomes of messages that cannot be decoded or written.
type dataFlags struct {
	on     string
	budget int
}

func (f *dataFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.on, "on-data", bridge.Halt.String(), "`POLICY` for a record that cannot be decoded, or of which a row is refused: halt, dead-letter (kept beside the rows, in the same checkpoint) or skip")
	fs.IntVar(&f.budget, "data-budget", bridge.DefaultDataBudget, "`NUMBER` of records that one checkpoint may set aside or skip; one more stops the bridge (restarted, it has the budget anew: alert on that)")
}

// policy reads the flags, or says what is wrong with them.
func (f *dataFlags) policy() (bridge.DataPolicy, error) {
	var budget error
	if f.budget < 1 {
		budget = usage(fmt.Errorf("--data-budget is %d: it has to be 1 or more; to stop at the first record leave --on-data at halt", f.budget))
	}
	var names []string
	for p := bridge.Halt; p <= bridge.Skip; p++ {
		if p.String() == f.on {
			return p, budget
		}
		names = append(names, p.String())
	}
	return 0, errors.Join(usage(fmt.Errorf("--on-data %q is no policy: choose one of %s", f.on, strings.Join(names, ", "))), budget)
}
