package history_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/goleader/leader/history"
)

// writer returns a function that writes a record.
func writer(t *testing.T, m *history.Memory) func(id, name string, s history.Status) {
	t.Helper()
	return func(id, name string, s history.Status) {
		if err := m.Write(t.Context(), []history.Record{{ID: id, Name: name, Status: s}}); err != nil {
			t.Fatal(err)
		}
	}
}

func show(list []history.Record) string {
	var words []string
	for _, r := range list {
		words = append(words, r.ID+" "+r.Status.String())
	}
	return strings.Join(words, ", ")
}

func TestMemory_KeepsTheLastRecords(t *testing.T) {
	m := history.NewMemory(3)
	write := writer(t, m)
	write("1", "a", history.Running)
	write("2", "b", history.Running)
	write("3", "a", history.Succeeded)
	write("1", "a", history.Failed)
	if got := show(m.Recent("", 10)); got != "1 Failed, 3 Succeeded, 2 Running" {
		t.Errorf("all: %s", got)
	}
	if got := show(m.Recent("a", 10)); got != "1 Failed, 3 Succeeded" {
		t.Errorf("of a: %s", got)
	}
	write("4", "a", history.Skipped)
	write("5", "a", history.Lost)
	write("1", "a", history.Canceled)
	if got := show(m.Recent("", 2)); got != "1 Canceled, 5 Lost" {
		t.Errorf("the last two: %s", got)
	}
	if got := show(m.Recent("", 10)); got != "1 Canceled, 5 Lost, 4 Skipped" {
		t.Errorf("all: %s", got)
	}
	if got := m.Recent("c", 10); len(got) != 0 {
		t.Errorf("of nobody: %v", got)
	}
}

// The end of a run that began long ago is news.
func TestMemory_Recent_IsInTheOrderOfWhatHappened(t *testing.T) {
	m := history.NewMemory(0)
	write := writer(t, m)
	write("led", "billing", history.Running)
	for i := range 400 {
		write(strconv.Itoa(i), "tick", history.Succeeded)
	}
	write("led", "billing", history.Lost)
	if got := show(m.Recent("", 2)); got != "led Lost, 399 Succeeded" {
		t.Errorf("the last two: %s", got)
	}
}

func TestMemory_RecentOf_TellsStatusesApart(t *testing.T) {
	m := history.NewMemory(0)
	write := writer(t, m)
	write("1", "a", history.Running)
	write("2", "b", history.Lost)
	write("3", "a", history.Lost)
	write("1", "a", history.Lost)
	if got := show(m.RecentOf(history.Lost, 2)); got != "1 Lost, 3 Lost" {
		t.Errorf("the last two: %s", got)
	}
	if got := m.RecentOf(history.Running, 10); len(got) != 0 {
		t.Errorf("running: %v", got)
	}
}

func TestMemory_SkippedRunsMakeRoomFirst(t *testing.T) {
	m := history.NewMemory(10)
	write := writer(t, m)
	for i := range 4 {
		write(fmt.Sprint("lost-", i), "billing", history.Lost)
	}
	for i := range 1000 {
		write(strconv.Itoa(i), "tick", history.Skipped)
		write(strconv.Itoa(i), "tick", history.Skipped) // as after a lost answer
	}
	if got := len(m.RecentOf(history.Lost, 10)); got != 4 {
		t.Errorf("%d losses are left, want all 4", got)
	}
	if got := show(m.RecentOf(history.Skipped, 10)); got != "999 Skipped, 998 Skipped, 997 Skipped, 996 Skipped, 995 Skipped, 994 Skipped" {
		t.Errorf("of the skipped: %s", got)
	}
	for i := range 20 {
		write(fmt.Sprint("run-", i), "job", history.Succeeded)
	}
	if got := show(m.Recent("", 20)); strings.Contains(got, "Lost") || strings.Count(got, "Skipped") != 0 {
		t.Errorf("older records are left: %s", got)
	}
}
