package capture

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// patience bounds how long a broker may take for what it has already agreed to.
const patience = 30 * time.Second

// waitFor asks until the answer is good. An error ends it.
func waitFor[T any](ctx context.Context, ask func() (v T, good bool, err error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the broker did not get there in 30s"))
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		v, good, err := ask()
		if err != nil || good {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// retried sends a request until its answer carries no retriable error code.
func retried[T any](ctx context.Context, send func() (resp T, code int16, err error)) (T, error) {
	var last error
	v, err := waitFor(ctx, func() (T, bool, error) {
		v, code, err := send()
		if err != nil {
			return v, false, err
		}
		last = kerr.ErrorForCode(code)
		// A coordinator that is still ending the transaction before says so, and kerr does not count that as retriable everywhere.
		if last != nil && !kerr.IsRetriable(last) && !errors.Is(last, kerr.ConcurrentTransactions) {
			return v, false, last
		}
		return v, last == nil, nil
	})
	if err != nil && last != nil && !errors.Is(err, last) {
		err = errors.Join(err, last)
	}
	return v, err
}
