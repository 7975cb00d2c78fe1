package s3

import "context"

// start runs a request beside the caller, once one of the lane's slots is free. The request outlives the call and its context; Prepare waits for it, and Discard
// and Close cut it off and wait.
func (c *committer) start(ctx context.Context, f *file, request func(ctx context.Context) error) error {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.failure(); err != nil {
		<-c.slots
		return err
	}
	if c.work == nil {
		c.work, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	}
	work := c.work
	go func() {
		defer func() { <-c.slots }()
		if err := request(work); err != nil {
			f.mu.Lock()
			f.err = err
			f.mu.Unlock()
		}
	}()
	return nil
}

// drain waits until no request is under way: then all slots are free.
func (c *committer) drain(ctx context.Context) (err error) {
	n := 0
	for ; n < cap(c.slots) && err == nil; n++ {
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			err = ctx.Err()
			n--
		}
	}
	for range n {
		<-c.slots
	}
	return err
}

// failure returns the first error of a request of the checkpoint.
func (c *committer) failure() error {
	for _, files := range [][]*file{c.done, c.open} {
		for _, f := range files {
			f.mu.Lock()
			err := f.err
			f.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	return nil
}
