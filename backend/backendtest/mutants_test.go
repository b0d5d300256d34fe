package backendtest

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// mutantTTL is short, since the store is in this process.
	mutantTTL = 80 * time.Millisecond
	// mutantPatience is short, since a mutant that is stuck stays so.
	mutantPatience = time.Second
)

var matrix = flag.Bool("matrix", false, "run every case against every mutant and log all that fail")

// mutants are the sins of a faultyStore and the case that must catch each.
var mutants = []struct{ sin, caught string }{
	{"clients do not see each other", "Exclusion_RefusesASecondToken"},
	{"takes the owner for the token", "Exclusion_RefusesTheSameOwner"},
	{"locks the whole store", "Exclusion_IsPerKey"},
	{"never expires", "Expiry_FreesWithoutHelp"},
	{"prolongs what it loses against", "Expiry_FreesWithoutHelp"},
	{"rounds a TTL down", "Expiry_IsNeverEarly"},
	{"shows an expired lease", "Expiry_IsFreeToInspect"},
	{"reports held as a failure", "Held_IsAnOrdinaryAnswer"},
	{"waits for the holder", "Held_IsAnOrdinaryAnswer"},
	{"names the loser as the holder", "Held_NamesTheHolder"},
	{"writes on a losing attempt", "Held_ChangesNothing"},
	{"shows the last owner of a free key", "Inspect_ShowsAFreeKey"},
	{"loses the metadata", "Inspect_ShowsOwnerAndMetadata"},
	{"shares the caller's map", "Inspect_OwnsItsMetadata"},
	{"moves Since on renewal", "Inspect_ShowsTheTerm"},
	{"shows the time that has passed as remaining", "Inspect_ShowsTheTerm"},
	{"writes on inspect", "Inspect_ChangesNothing"},
	{"forgets the token", "Repeat_IsGranted"},
	{"repeat raises the fence", "Repeat_KeepsTheFence"},
	{"repeat does not refresh", "Repeat_MovesTheEnd"},
	{"repeat shortens", "Repeat_NeverShortens"},
	{"accepts a spent token", "Repeat_AfterReleaseIsRefused"},
	{"spends nothing on a late release", "Repeat_AfterALateReleaseIsRefused"},
	{"abandon does nothing", "Abandon_FreesItsOwn"},
	{"abandon frees another's lease", "Abandon_SparesAnother"},
	{"abandon of nothing fails", "Abandon_OfNothingIsNil"},
	{"abandon leaves the token fresh", "Abandon_RefusesARepeat"},
	{"abandon of a new key leaves no trace", "Abandon_RefusesALateAttempt"},
	{"abandon of an expired key leaves no trace", "Abandon_RefusesALateAttemptAfterExpiry"},
	{"reuses a fence", "Fence_GrowsByRelease"},
	{"takes a coarse clock for the fence", "Fence_GrowsByRelease"},
	{"keeps the fence of an expired lease", "Fence_GrowsThroughExpiry"},
	{"restarts the fence after a deletion", "Fence_GrowsAfterDeletion"},
	{"raises the fence on renewal", "Fence_IsConstant"},
	{"shows another fence", "Fence_IsTheSameEverywhere"},
	{"renews without effect", "Renew_MovesTheEnd"},
	{"a renewed lease never ends", "Renew_EndsToo"},
	{"renewal shortens", "Renew_NeverShortens"},
	{"renews an expired lease", "Renew_AfterExpiryIsLost"},
	{"revives a released lease", "Renew_AfterReleaseIsLost"},
	{"creates a record on renewal", "Renew_AfterDeletionIsLost"},
	{"renews without looking at the token", "Renew_SparesTheSuccessor"},
	{"release does nothing", "Release_Frees"},
	{"refuses a repeated release", "Release_IsIdempotent"},
	{"refuses a late release", "Release_AfterExpiryIsNil"},
	{"fails to release what was deleted", "Release_AfterDeletionIsNil"},
	{"releases without looking at the token", "Release_SparesTheSuccessor"},
	{"compares the owner on release", "Release_ComparesTheToken"},
	{"keeps a successor's key", "Release_KeepsNoSuccessor"},
	{"releases a repeated lease by its name", "Release_OfARepeatSparesTheSuccessor"},
	{"ignores keep", "Keep_HoldsTheKey"},
	{"keeps for ever", "Keep_Ends"},
	{"hides that a key is kept", "Keep_IsShown"},
	{"adds keep up", "Keep_IsSetAnew"},
	{"frees what is kept in a late release", "Keep_StaysAfterTheLeaseWouldHaveEnded"},
	{"frees what is kept in a late renewal", "Keep_StaysAfterTheLeaseWouldHaveEnded"},
	{"revives a kept lease", "Keep_EndsTheLease"},
	{"ends keep by a timer of its own", "Keep_OutlivesTheClient"},
	{"accepts any TTL", "Limits_RefuseATTLOutside"},
	{"accepts any TTL in a renewal", "Limits_RefuseARenewalOutside"},
	{"ignores the context", "Context_EndsAnAttempt"},
	{"takes a canceled renewal for a loss", "Context_EndsEveryCall"},
	{"takes a renewal that was cut short for a loss", "Context_CutsShortWithoutAnAnswer"},
	{"takes a release that was cut short for done", "Context_CutsShortWithoutAnAnswer"},
	{"leaves a record of a canceled attempt", "Context_LeavesNoRecord"},
	{"ties the lease to the attempt's context", "Context_IsOfTheAttemptAlone"},
	{"leaks a goroutine per term", "Leaks_CyclesLeaveNoGoroutine"},
	{"leaks a goroutine per losing attempt", "Leaks_LosingAttemptsLeaveNoGoroutine"},
	{"leaks a goroutine per canceled attempt", "Leaks_CanceledAttemptsLeaveNothing"},
	{"looks before it takes", "Concurrency_HasOneWinner"},
	{"gives each repeat at once a term", "Concurrency_JoinsRepeats"},
	{"writes back a stale record on renewal", "Concurrency_RenewsBesideRelease"},
	{"shares a buffer between calls", "Concurrency_KeepsKeysApart"},
	{"gives a held key away now and then", "Contention_IsSerial"},
	{"folds case", "Keys_KeepTheirCase"},
	{"trims names", "Keys_KeepTheirSpaces"},
	{"strips accents", "Keys_KeepTheirAccents"},
	{"replaces symbols", "Keys_KeepTheirSymbols"},
	{"cuts long keys", "Keys_MayBeLong"},
	{"drops the slot", "Keys_OfSlotsAreKeys"},
	{"shows the token in an error", "Errors_TellNoSecret"},
	{"overwrites a garbled record", "Damage_GarbledIsReported"},
	{"overwrites a foreign type", "Damage_WrongTypeIsReported"},
	{"reads a newer major version", "Damage_NewerMajorIsReported"},
	{"release wakes nobody", "Waiter_WakesOnRelease"},
	{"abandon wakes nobody", "Waiter_WakesOnAbandon"},
	{"wakes one waiter of many", "Waiter_WakesAll"},
	{"waiter does not compare", "Waiter_ComparesWithSeen"},
	{"waiter returns at once", "Waiter_Waits"},
	{"waiter ignores its context", "Waiter_EndsWithItsContext"},
	{"watcher skips the present", "Watcher_FollowsTheHolder"},
	{"watcher overlooks releases", "Watcher_FollowsTheHolder"},
	{"watcher ends without an error", "Watcher_EndsWithItsContext"},
	{"watcher does not notice that it was left", "Watcher_MayBeLeft"},
	{"exceeds the number of slots", "Slots_AdmitN"},
	{"gives the same number to every slot", "Slots_AreDistinct"},
	{"shares one fence among the slots", "Slots_HaveTheirOwnFences"},
	{"hides slots from other calls", "Slots_AreOrdinaryKeys"},
	{"groups of one prefix share slots", "Slots_OfGroupsDoNotMix"},
	{"names any holder of a full group", "Slots_NameTheHolderThatEndsFirst"},
	{"a repeated token takes a second slot", "Slots_RepeatGetsTheSame"},
	{"repeat does not refresh a slot", "Slots_RepeatMovesTheEnd"},
	{"gives repeats at once a slot each", "Slots_JoinRepeats"},
	{"a repeat that meets a change takes a free slot", "Slots_RepeatBesideChanges"},
	{"an attempt at a slot that meets a change is content", "Slots_FindAFreeOne"},
	{"looks before it takes a slot", "Slots_HaveOneWinnerEach"},
	{"gives a taken slot away now and then", "Slots_NeverExceedN"},
	{"accepts any TTL in a group", "Slots_RefuseATTLOutside"},
	{"ignores the context in a group", "Slots_EndWithTheContext"},
	{"overwrites a garbled slot", "Slots_SpareAHarmedRecord"},
	{"a repeated release of a slot raises capacity", "Slots_ReleaseTwiceFreesOne"},
	{"the release of an expired slot raises capacity", "Slots_LateReleaseFreesNone"},
	{"the release of a stale slot raises capacity", "Slots_StaleReleaseFreesNone"},
	{"a short lease ends its neighbours", "Slots_MixTTLs"},
	{"a long lease prolongs its neighbours", "Slots_MixTTLs"},
	{"a renewal moves its neighbours", "Slots_RenewAlone"},
	{"sticks to the first number of slots", "Slots_FollowN"},
	{"counts the leases of all slots", "Slots_FollowN"},
	{"gives a kept slot away", "Slots_MayBeKept"},
	{"looks for a spent token in the first slot alone", "Slots_RefuseASpentToken"},
	{"abandon frees another's lease", "Slots_AbandonFreesItsOwn"},
	{"abandon of a new key leaves no trace", "Slots_RefuseALateAttempt"},
	{"creates over an existing record", "Records_AreCreatedOnce"},
	{"puts without comparing", "Records_CompareVersions"},
	{"puts what is missing", "Records_CompareVersions"},
	{"counts versions anew after a deletion", "Records_NeverReuseAVersion"},
	{"takes the value for the version", "Records_NeverReuseAVersion"},
	{"looks before it puts", "Records_HaveOneWinner"},
	{"looks before it puts", "Records_LoseNoUpdate"},
	{"deletes without comparing", "Records_DeleteCompares"},
	{"fails to delete what is missing", "Records_DeleteOfNothingIsNil"},
	{"ignores the context of a put", "Records_EndWithTheContext"},
	{"ignores the context of a deletion", "Records_EndWithTheContext"},
	{"a restart forgets records", "Records_SurviveARestart"},
	{"misreads records of another set", "Records_AreSets"},
	{"takes a set for a pattern", "Records_AreSets"},
	{"replaces symbols in ids", "Records_KeepTheirIDs"},
	{"folds case in ids", "Records_KeepTheirIDs"},
	{"stores values as text", "Records_KeepBytes"},
	{"cuts long values", "Records_KeepBytes"},
	{"shares the bytes of a value", "Records_OwnTheirBytes"},
	{"returns the first page of a set", "Records_MayBeMany"},
	{"inspect shows a record", "Records_AreNoLeases"},
	{"records never expire", "Records_Expire"},
	{"records expire early", "Records_AreThereUntilTheirEnd"},
	{"an expired record is in the way", "Records_MayBePutAgain"},
	{"replaces an expired record", "Records_MayBePutAgain"},
	{"a record without a TTL ends at once", "Records_StayWithoutATTL"},
	{"keeps the first TTL of a record", "Records_SetTheTTLAnew"},
	{"shows no TTL", "Records_ShowWhatIsLeft"},
	{"the clock of records stands still", "Records_TellTheTime"},
	{"list forgets the fence", "List_ShowsHeldKeys"},
	{"list shows what is free", "List_ShowsHeldKeys"},
	{"list shows what is kept", "List_ShowsKeptKeysWithAll"},
	{"list never shows what is kept", "List_ShowsKeptKeysWithAll"},
	{"list shows what has expired", "List_ShowsExpiredKeysWithAll"},
	{"list never shows what has expired", "List_ShowsExpiredKeysWithAll"},
	{"list shows time left of an expired lease", "List_ShowsExpiredKeysWithAll"},
	{"lists the store's own keys", "List_GivesKeysBack"},
	{"list drops the slot", "List_GivesKeysBack"},
	{"takes a prefix for a pattern", "List_TakesThePrefixAsItIs"},
	{"list yields the first page alone", "List_ShowsMany"},
	{"lists records", "List_LeavesOutRecords"},
	{"list does not notice that it was left", "List_MayBeLeft"},
	{"list holds the store meanwhile", "List_MayBeUsedWithin"},
	{"list ends without an error", "List_EndsWithItsContext"},
	{"list shows what is of a wrong type", "List_IgnoresForeignRecords"},
	{"list fails because of a foreign record", "List_IgnoresForeignRecords"},
	{"list shows what is garbled", "List_LeavesOutGarbledRecords"},
	{"list stops at what it cannot read", "List_LeavesOutGarbledRecords"},
	{"list shows what is of a newer major version", "List_LeavesOutNewerMajors"},
	{"break does nothing", "Break_EndsTheLease"},
	{"breaks without a fence", "Break_ComparesTheFence"},
	{"breaks under an earlier fence", "Break_SparesTheSuccessor"},
	{"break of a free key is nil", "Break_OfAFreeKeyIsAConflict"},
	{"breaks nothing that is kept", "Break_FreesAKeptKey"},
	{"break forgets to spend the token", "Break_SpendsTheToken"},
	{"reuses the fence of a broken lease", "Break_GrowsTheFence"},
	{"break wakes nobody", "Break_WakesWaiters"},
	{"break of a slot frees the whole group", "Break_FreesASlot"},
	{"ignores the context of a break", "Break_EndsWithTheContext"},
	{"never tells a loss", "Loss_IsTold"},
	{"tells a loss that is none", "Loss_IsNoFalseAlarm"},
	{"advice fails", "Advise_Answers"},
	{"advice shows a token", "Advise_TellsNoSecret"},
	{"advice hides why it ended", "Advise_EndsWithTheContext"},
	{"trusts a lease that a restart forgot", "Restart_HasOneHolder"},
	{"restarts the fence with the store", "Restart_KeepsTheFence"},
	{"hangs on a frozen connection", "Partition_EndsCalls"},
	{"hangs on a frozen connection", "Partition_EndsAbilities"},
	{"waiter hangs on a frozen connection", "Partition_EndsWaiters"},
	{"stays broken after a partition", "Partition_Heals"},
	{"trusts itself after a partition", "Partition_ReplacesTheHolder"},
	{"applies a stuck attempt after all", "Partition_LeavesNoOrphan"},
}

// TestMutants runs the suite against drivers of which each commits one sin, and wants the case caught that is for it.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.sin, func(t *testing.T) {
			i := slices.IndexFunc(suite(), func(tc testCase) bool { return tc.name == m.caught })
			if i < 0 {
				t.Fatalf("no case is called %s", m.caught)
			}
			failures := record(t, suite()[i], m.sin)
			if len(failures) == 0 {
				t.Fatalf("%s does not catch it", m.caught)
			}
			t.Logf("caught by %s, %s", m.caught, failures[0])
			if *matrix {
				t.Logf("also by %s", strings.Join(others(t, m.sin, m.caught), ", "))
			}
		})
	}
}

// TestMutants_EveryCaseCatchesOne holds that no case passes whatever a driver does.
func TestMutants_EveryCaseCatchesOne(t *testing.T) {
	for name := range Cases() {
		if !slices.ContainsFunc(mutants, func(m struct{ sin, caught string }) bool { return m.caught == name }) {
			t.Errorf("no mutant is caught by %s", name)
		}
	}
}

// others returns the cases that a sin fails, without the given one.
func others(t *testing.T, sin, caught string) []string {
	t.Helper()
	var mu sync.Mutex
	var failed []string
	each(func(tc testCase) {
		if tc.name != caught && len(record(t, tc, sin)) > 0 {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, tc.name)
		}
	})
	return failed
}

// record runs one case against a driver with a sin and returns the failures.
func record(t *testing.T, tc testCase, sin string) []string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tc.execute(r, openFaulty(sin, mutantTTL), mutantPatience)
	}()
	<-done
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

// A recorder is a testing.TB that collects failures instead of failing.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Skip(args ...any) { r.Errorf("skipped: %s", fmt.Sprint(args...)) }

func (r *recorder) Skipf(format string, args ...any) { r.Errorf("skipped: "+format, args...) }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}
