package changelog_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flinksink/flinksink/changelog"
)

func TestDaysOf(t *testing.T) {
	for _, tt := range []struct {
		year       int64
		month, day int
		days       int64
	}{
		{1970, 1, 1, 0},
		{1969, 12, 31, -1},
		{2000, 2, 29, 11016},
		{1582, 10, 15, -141427}, // no gap before it: the calendar is proleptic
		{1582, 10, 14, -141428},
		{1, 1, 1, -719162},
		{0, 12, 31, -719163},
		{0, 2, 29, -719469},
		{-1, 12, 31, -719529},
		{9999, 12, 31, 2932896},
		{999999999, 12, 31, 365241780471}, // LocalDate.MAX.toEpochDay()
		{-999999999, 1, 1, -365243219162}, // LocalDate.MIN.toEpochDay()
	} {
		if got := changelog.DaysOf(tt.year, tt.month, tt.day); got != tt.days {
			t.Errorf("DaysOf(%d, %d, %d) = %d, want %d", tt.year, tt.month, tt.day, got, tt.days)
		}
		if y, m, d := changelog.CivilOf(tt.days); y != tt.year || m != tt.month || d != tt.day {
			t.Errorf("CivilOf(%d) = %d, %d, %d, want %d, %d, %d", tt.days, y, m, d, tt.year, tt.month, tt.day)
		}
	}
}

// Package time has the same calendar.
func TestCivilOf_AgreesWithTime(t *testing.T) {
	for days := int64(-800_000); days <= 3_100_000; days += 7 {
		want := time.Unix(days*86400, 0).UTC()
		y, m, d := changelog.CivilOf(days)
		if y != int64(want.Year()) || m != int(want.Month()) || d != want.Day() {
			t.Fatalf("CivilOf(%d) = %d, %d, %d, want %v", days, y, m, d, want)
		}
		if back := changelog.DaysOf(y, m, d); back != days {
			t.Fatalf("DaysOf(CivilOf(%d)) = %d", days, back)
		}
	}
}

func TestDaysOf_EveryDayFollowsTheOneBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.Int64Range(-365243219162, 365241780470).Draw(t, "days")
		y, m, d := changelog.CivilOf(days)
		if back := changelog.DaysOf(y, m, d); back != days {
			t.Fatalf("DaysOf(%d, %d, %d) = %d, want %d", y, m, d, back, days)
		}
		y2, m2, d2 := changelog.CivilOf(days + 1)
		next := y2 == y && m2 == m && d2 == d+1 || d2 == 1 && (y2 == y && m2 == m+1 || y2 == y+1 && m == 12 && m2 == 1)
		if !next {
			t.Fatalf("%d-%d-%d is followed by %d-%d-%d", y, m, d, y2, m2, d2)
		}
	})
}
