package kafka

import (
	"context"
	"time"
)

// ShortenNews has a sink take a topic for missing after d.
func ShortenNews(s *Sink, d time.Duration) { s.c.news = d }

// Hears asks as long as a topic may still be made known.
func Hears(ctx context.Context, most time.Duration, ask func() error) error {
	return newCluster(nil).hears(ctx, most, ask)
}
