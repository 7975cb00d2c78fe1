package main

import (
	"fmt"
	"time"
)

// within refuses a number that a flag does not take.
func within(flag string, n, least, most int64) error {
	switch {
	case n < least:
		return usage(fmt.Errorf("%s is %d: it has to be %d or more", flag, n, least))
	case n > most:
		return usage(fmt.Errorf("%s is %d: it has to be %d or less", flag, n, most))
	}
	return nil
}

// notBelow refuses a time that a flag does not take.
func notBelow(flag string, d, least time.Duration) error {
	switch {
	case d >= least:
		return nil
	case least == 0:
		return usage(fmt.Errorf("%s is %s: it has to be 0s or longer", flag, d))
	}
	return usage(fmt.Errorf("%s is %s: it has to be %s or longer", flag, d, least))
}
