package bridge

import "github.com/flinksink/flinksink/sink"

// both returns hooks that call those of a and then those of b.
func both(a, b sink.Hooks) sink.Hooks {
	return sink.Hooks{
		Acquired:  each(a.Acquired, b.Acquired),
		Begun:     each(a.Begun, b.Begun),
		Prepared:  each(a.Prepared, b.Prepared),
		Saving:    each(a.Saving, b.Saving),
		Saved:     each(a.Saved, b.Saved),
		Committed: each(a.Committed, b.Committed),
		Aborted:   each2(a.Aborted, b.Aborted),
		Retry:     each2(a.Retry, b.Retry),
		Fenced:    each(a.Fenced, b.Fenced),
		Alarm:     each2(a.Alarm, b.Alarm),
		Step:      each(a.Step, b.Step),
		Written: func(t string, n, size int) {
			if a.Written != nil {
				a.Written(t, n, size)
			}
			if b.Written != nil {
				b.Written(t, n, size)
			}
		},
	}
}

func each[T any](a, b func(T)) func(T) {
	return func(x T) {
		if a != nil {
			a(x)
		}
		if b != nil {
			b(x)
		}
	}
}

func each2[T, U any](a, b func(T, U)) func(T, U) {
	return func(x T, y U) {
		if a != nil {
			a(x, y)
		}
		if b != nil {
			b(x, y)
		}
	}
}
