package leader

import (
	"slices"
	"testing"
)

func TestAnnouncer_TellsNothingBeforeTheAcquisition(t *testing.T) {
	var told []string
	tell := func(what string) func() { return func() { told = append(told, what) } }
	a := announcer{busy: true}
	a.say(now, tell("lost")) // by the scheduler, when the process stalls between the answer and the hook
	if len(told) != 0 {
		t.Fatalf("told %v before the acquisition", told)
	}
	a.call(tell("acquired"))
	a.say(now, tell("released"))
	if want := []string{"acquired", "lost", "released"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestAnnouncer_TellsOnAfterAHookThatPanics(t *testing.T) {
	var told []string
	tell := func(what string) func() { return func() { told = append(told, what) } }
	var a announcer
	func() {
		defer func() { _ = recover() }()
		a.say(now, func() {
			a.say(now, tell("waited"))
			panic("a hook")
		})
	}()
	a.say(now, tell("came later"))
	if want := []string{"waited", "came later"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
