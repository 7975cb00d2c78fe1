package sinktest

import "fmt"

// sweepLimit bounds a scenario that makes ever more calls the later its fault comes.
const sweepLimit = 10_000

// Sweep runs scenario once for every call that it makes, each time with a fault at the next one, until a run ends before its fault
// fires; that run must succeed too. An error names the fault, in the form that [ParseFault] reads, and is the first there was. A
// scenario makes its world anew each time.
func Sweep(when When, scenario func(f *Faults) error) error {
	for i := 1; i <= sweepLimit; i++ {
		fault := Fault{At: i, When: when}
		f := Faulty(fault)
		if err := scenario(f); err != nil {
			return fmt.Errorf("with the fault %q: %w", fault, err)
		}
		if f.Fired() != nil {
			if i == 1 {
				return fmt.Errorf("sinktest: the scenario makes no call that a fault %q could meet", fault)
			}
			return nil
		}
	}
	return fmt.Errorf("sinktest: the scenario still makes calls after %d", sweepLimit)
}
