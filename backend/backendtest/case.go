package backendtest

import (
	"fmt"
	"slices"
)

// A testCase is one thing that a driver has to do.
type testCase struct {
	name  string // of the subtest
	rule  rule   // of package backend that the case executes
	says  string // what of that rule, as a sentence
	needs need
	run   func(t *caseT)
}

// text is the rule as failures print it.
func (tc testCase) text() string { return tc.rule.String() + ": " + tc.says }

// need is what a case cannot do without.
type need uint8

const (
	needPartition need = 1 << iota
	needRestart
	needCorrupt
	needQuiet // nothing: the case counts what the process has
)

// alone reports whether the case may not have others beside it, as all cases with a need.
func (n need) alone() bool { return n != 0 }

// rule is the number of a rule of package backend, or an ability.
type rule int

const (
	ruleExclusion rule = iota + 1
	ruleHeld
	ruleIdempotence
	ruleFence
	ruleRenew
	ruleRelease
	ruleTime
	ruleContext
	rulePolicy
	ruleConcurrency
	ruleKeys
	ruleErrors
	ruleFormat
	rulePool
	abilityWaiter
	abilityWatcher
	abilitySlotAcquirer
	abilityRecords
	abilityLister
	abilityBreaker
	abilityLossNotifier
	abilityAdvisor
)

var ruleNames = [...]string{
	ruleExclusion:   "exclusion",
	ruleHeld:        "held is ordinary",
	ruleIdempotence: "idempotence by token",
	ruleFence:       "fence",
	ruleRenew:       "renew",
	ruleRelease:     "release",
	ruleTime:        "time",
	ruleContext:     "context",
	rulePolicy:      "no policy",
	ruleConcurrency: "concurrency",
	ruleKeys:        "keys",
	ruleErrors:      "errors",
	ruleFormat:      "format",
	rulePool:        "pooled leases and sessions",

	abilityWaiter:       "Waiter",
	abilityWatcher:      "Watcher",
	abilitySlotAcquirer: "SlotAcquirer",
	abilityRecords:      "Records",
	abilityLister:       "Lister",
	abilityBreaker:      "Breaker",
	abilityLossNotifier: "LossNotifier",
	abilityAdvisor:      "Advisor",
}

func (r rule) String() string {
	if r >= abilityWaiter {
		return "ability " + ruleNames[r]
	}
	return fmt.Sprintf("rule %d, %s", int(r), ruleNames[r])
}

// suite returns every case, in the order of the rules.
func suite() []testCase {
	return slices.Concat(
		exclusionCases(),
		expiryCases(),
		heldCases(),
		inspectCases(),
		repeatCases(),
		abandonCases(),
		fenceCases(),
		renewCases(),
		releaseCases(),
		keepCases(),
		limitsCases(),
		contextCases(),
		leakCases(),
		concurrencyCases(),
		contentionCases(),
		keyCases(),
		errorCases(),
		damageCases(),
		waiterCases(),
		watcherCases(),
		slotCases(),
		slotEndCases(),
		recordCases(),
		recordSetCases(),
		recordEndCases(),
		listerCases(),
		breakerCases(),
		lossCases(),
		advisorCases(),
		restartCases(),
		partitionCases(),
	)
}
