package scorer

import (
	"time"

	"github.com/goleader/leader"
)

// best is the highest score; the lowest is 0.
const best = 100

// SuccessRate scores the share of a candidate's runs that succeeded:
//
//	100 · successes / (successes + failures)
//
// Without runs it is 0. A node that has never led therefore leads only where no other has succeeded; with IdleTime in
// Weighted it gets its turn.
func SuccessRate() leader.Scorer { return leader.ScorerFunc(successRate) }

func successRate(c leader.Candidate, _ []leader.Candidate, _ time.Time) float64 {
	return best * c.SuccessRate()
}

// IdleTime scores how long a candidate has been without work, see [leader.Candidate.Idle], as a share of the longest such
// time among all, so that work goes round:
//
//	100 · idle / longest idle
//
// It is 0 for all if nobody has been idle.
func IdleTime() leader.Scorer { return leader.ScorerFunc(idleTime) }

func idleTime(c leader.Candidate, all []leader.Candidate, now time.Time) float64 {
	idle := c.Idle(now)
	longest := idle
	for _, other := range all {
		longest = max(longest, other.Idle(now))
	}
	if longest == 0 {
		return 0
	}
	return best * (float64(idle) / float64(longest))
}

// RecentSuccess scores how recent the last successful run of a candidate is, among all that ever succeeded:
//
//	1 + 99 · (last success − oldest) / (newest − oldest)
//
// It is 100 for all of them if they succeeded at the same instant, and 0 for candidates that never succeeded. Failures
// change nothing.
func RecentSuccess() leader.Scorer { return leader.ScorerFunc(recentSuccess) }

// once is what any success is worth.
const once = 1

func recentSuccess(c leader.Candidate, all []leader.Candidate, now time.Time) float64 {
	if c.LastOK.IsZero() {
		return 0
	}
	last := earlier(c.LastOK, now)
	oldest, newest := last, last
	for _, other := range all {
		if other.LastOK.IsZero() {
			continue
		}
		at := earlier(other.LastOK, now)
		oldest = earlier(oldest, at)
		if at.After(newest) {
			newest = at
		}
	}
	span := newest.Sub(oldest)
	if span == 0 {
		return best
	}
	share := float64(last.Sub(oldest)) / float64(span)
	// The conversion keeps compilers from fusing the two operations, which would round differently.
	return once + float64((best-once)*share)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
