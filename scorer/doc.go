// Package scorer has scorers for [leader.Scored]: what makes a candidate better than another.
//
//	strategy := leader.Scored(scorer.Weighted(
//		scorer.Part{Weight: 3, Scorer: scorer.SuccessRate()},
//		scorer.Part{Weight: 1, Scorer: scorer.IdleTime()},
//	))
//
// Every score lies between 0 and 100 and is never NaN, whatever the candidate: counts below zero count as none, instants
// that have not come yet as now, and what is not known as the worst. Equal arguments give equal scores on every node and
// architecture, so that all nodes elect the same candidate. All scorers may be used concurrently and keep no state.
//
// A scorer of one's own is any [leader.Scorer]; in Weighted it should keep to the same scale.
package scorer
