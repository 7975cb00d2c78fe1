package postgres

import "testing"

// TypesOfPage is the table of types in docs/postgres.md for tests outside of the package: what fits, by the row's first cell.
func TypesOfPage(t *testing.T) map[string][]string {
	out := make(map[string][]string)
	for _, r := range typesOfPage(t) {
		out[r.flink] = r.fits
	}
	return out
}
