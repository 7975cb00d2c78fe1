package main

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever signs a password has, escaped or not: no part of it that is long enough to mean something is shown, by whatever goes wrong.
func TestTo_AnyPassword(t *testing.T) {
	ddl := write(t, "ddl.sql", people)
	topic := write(t, "topic.jsonl", "")
	closed := closedAddress(t)
	rapid.Check(t, func(rt *rapid.T) {
		// Signs that none of our texts holds in such an order, and all that mean something in a URL.
		password := rapid.StringMatching(`[QZX789/?#@:%&= \[\]\\]{4,16}`).Draw(rt, "password")
		place := rapid.SampledFrom([]string{
			"postgres://app:%@" + closed + "/shop",
			"postgres://%@" + closed + "/shop?sslmode=nope",
			"postgresql://app:%@" + closed + "/shop?sslmode=disable",
			"postgres://app@" + closed + "/shop?password=%",
			"postgres://app@" + closed + "/shop?sslpassword=%&sslmode=nope",
			"postgres://:%@/",
			"host=x password=%",
			"%",
		}).Draw(rt, "place")
		user, isUser := "", strings.HasPrefix(place, "postgres://%@")
		if isUser { // a name and a password: only what follows the first colon is secret
			user = "app:"
		}
		to := strings.Replace(place, "%", user+password, 1)
		var out, errs strings.Builder
		c := &call{patience: patience}
		status := c.execute(t.Context(), []string{"replay", "--ddl", ddl, "--file", topic, "--to", to}, nil, &out, &errs)
		if status != exitConfig {
			rt.Fatalf("%q: status %d: %s", to, status, errs.String())
		}
		text := out.String() + errs.String()
		for i := 0; i+4 <= len(password); i++ {
			part := password[i : i+4]
			// Parts that our own texts hold: the list of signs, and addresses.
			if strings.ContainsAny(part, "QZX") && strings.Contains(text, part) {
				rt.Fatalf("%q: %q is shown: %s", to, part, text)
			}
		}
	})
}
