package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
	"github.com/goleader/leader/internal/key"
)

const (
	// doctorName is the name that doctor takes.
	doctorName = "leaderctl-doctor"
	// trips is how often the round trip is measured.
	trips = 11
	// trialLease is how long the lease of doctor lasts at least, so that no slow answer is taken for a lack of rights.
	trialLease = 30 * time.Second
	// tripsPerLease is how many round trips a lease should have room for.
	tripsPerLease = 10
)

// examination makes the checks of doctor. Each returns an error only if the store cannot be asked.
type examination struct {
	tool      *tool
	store     *store.Store
	diagnosis *diagnosis
}

func (x *examination) found(check, found, advice string) {
	x.diagnosis.Findings = append(x.diagnosis.Findings, finding{check, found, advice})
}

func (x *examination) key() key.Key { return key.Key{Namespace: x.tool.namespace, Name: doctorName} }

// judge makes an error of the store a finding, unless it says that the store cannot be asked.
func (x *examination) judge(ctx context.Context, op string, err error) error {
	failure, ok := errors.AsType[*leader.BackendError](x.tool.failure(ctx, x.store, op, doctorName, err))
	if !ok || ctx.Err() != nil {
		return failure
	}
	switch failure.Kind {
	case backend.Denied:
		x.found("rights", fmt.Sprintf("the store refuses to %s: %v", op, err), "grant the account "+x.store.Rights)
	case backend.Misconfigured:
		x.found("setup", fmt.Sprintf("the store cannot %s: %v", op, err), x.setupAdvice())
	case backend.Unavailable, backend.Unknown:
		return failure
	}
	return nil
}

func (x *examination) setupAdvice() string {
	if x.store.Migrate != nil {
		return "create what is missing: leaderctl migrate"
	}
	return "mend what the store complains of"
}

// reach asks the store the simplest of all questions.
func (x *examination) reach(ctx context.Context) error {
	_, err := x.store.Driver.Inspect(ctx, x.key().String())
	if err == nil {
		return nil
	}
	x.diagnosis.code = exitFindings
	return x.judge(ctx, "read a lease", err)
}

// roundTrips compares the lease time with the time of a request.
func (x *examination) roundTrips(ctx context.Context) error {
	var took []time.Duration
	for range trips {
		began := time.Now()
		if _, err := x.store.Driver.Inspect(ctx, x.key().String()); err != nil {
			return x.judge(ctx, "read a lease", err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	typical, worst := took[len(took)/2], took[len(took)-1]
	shortest := max(roundUp(tripsPerLease*worst), shortestLease)
	if l, ok := backend.As[backend.Limited](x.store.Driver); ok {
		shortest = max(shortest, l.Limits().MinTTL)
	}
	d := x.diagnosis
	d.Typical, d.Worst, d.Shortest = typical.Seconds(), worst.Seconds(), shortest.Seconds()
	if x.tool.lease < tripsPerLease*typical {
		x.found("lease", fmt.Sprintf("a lease of %v is shorter than %d round trips of %v: a few slow answers lose it",
			x.tool.lease, tripsPerLease, typical.Round(time.Microsecond)),
			fmt.Sprintf("use a lease of at least %v, or a store that is nearer", shortest))
	}
	if nearest := leaseWithin(x.store.Driver, x.tool.lease); nearest != x.tool.lease {
		x.found("lease", fmt.Sprintf("a lease of %v is not to be had from this store", x.tool.lease),
			fmt.Sprintf("use a lease of %v, which is the nearest", nearest))
	}
	return nil
}

// roundUp is d in whole seconds.
func roundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// clock compares the store's clock with that of this machine.
func (x *examination) clock(ctx context.Context) error {
	records, ok := backend.As[backend.Records](x.store.Driver)
	if !ok {
		return nil
	}
	before := time.Now()
	_, now, err := records.GetRecords(ctx, x.key().Record(releaseKind, ""))
	if err != nil {
		return x.judge(ctx, "read records", err)
	}
	if now.IsZero() {
		return nil
	}
	after := time.Now()
	if now.Nanosecond() == 0 { // whole seconds: it may have been any instant of this one
		after, now = after.Add(time.Second/2), now.Add(time.Second/2)
		before = before.Add(-time.Second / 2)
	}
	offset := now.Sub(before.Add(after.Sub(before) / 2))
	seconds := offset.Seconds()
	x.diagnosis.Clock = &seconds
	unsure, margin := after.Sub(before)/2, marginOf(x.tool.lease)
	if offset.Abs()-unsure <= margin {
		return nil
	}
	where := "ahead of"
	if offset < 0 {
		where = "behind"
	}
	x.found("clock", fmt.Sprintf("the store's clock is %v %s this machine's, more than the safety margin of %v",
		offset.Abs().Round(time.Millisecond), where, margin),
		"let NTP set the clocks of both machines: leases are safe while the store's clock runs evenly, but when it is "+
			"corrected at once, or another server takes over, they end too early, and fences may fall back")
	return nil
}

// settings asks the backend for its advice.
func (x *examination) settings(ctx context.Context) error {
	a, ok := backend.As[backend.Advisor](x.store.Driver)
	if !ok {
		return nil
	}
	warnings, err := a.Advise(ctx)
	if err != nil {
		return x.judge(ctx, "read settings", err)
	}
	for _, w := range warnings {
		what, advice, _ := strings.Cut(w, "; ")
		if advice == "" {
			advice = "see the package comment of the backend"
		}
		x.found("settings", what, advice)
	}
	return nil
}

// history looks whether its table is there. A history that is down keeps no lease from being had: it is a finding.
func (x *examination) history(ctx context.Context) error {
	if x.store.History == nil {
		return nil
	}
	_, err := x.store.History.Recent(ctx, doctorName, 1)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return x.tool.historyFailure(ctx, x.store, "", err)
	}
	x.found("history", fmt.Sprintf("it cannot be read: %v", err), historyAdvice(err)+"; or do without: --history none")
	return nil
}

func historyAdvice(err error) string {
	switch {
	case errors.Is(err, store.ErrNoTable):
		return "create its table: leaderctl migrate"
	case backend.KindOf(err) == backend.Denied:
		return "grant its account SELECT, INSERT, UPDATE and DELETE on its table, or mend its password"
	case backend.KindOf(err) == backend.Misconfigured:
		return "mend what its database complains of"
	}
	return "look at its database and the network"
}

// rights tries everything that an elector does.
func (x *examination) rights(ctx context.Context) error {
	req := backend.Request{
		Key: x.key().String(), Token: rand.Text(), Owner: asker(),
		TTL: leaseWithin(x.store.Driver, max(x.tool.lease, trialLease)),
	}
	lease, err := x.store.Driver.TryAcquire(ctx, req)
	switch {
	case errors.Is(err, backend.ErrHeld):
		x.found("rights", "the rights to write were not all tried, because somebody else holds the name "+doctorName,
			"ask again when the other doctor has done, or when its lease has ended")
	case err != nil:
		return x.judge(ctx, "take a lease", err)
	default:
		if err := x.rightToHold(ctx, lease, req.TTL); err != nil {
			return err
		}
	}
	if err := x.rightToList(ctx); err != nil {
		return err
	}
	return x.rightToRecord(ctx)
}

func (x *examination) rightToHold(ctx context.Context, lease backend.Lease, ttl time.Duration) error {
	err := lease.Renew(ctx, ttl)
	if err != nil {
		err = x.judge(ctx, "renew a lease", err)
	}
	if failed := lease.Release(ctx, 0); failed != nil && err == nil {
		err = x.judge(ctx, "release a lease", failed)
	}
	return err
}

func (x *examination) rightToList(ctx context.Context) error {
	lister, ok := backend.As[backend.Lister](x.store.Driver)
	if !ok {
		return nil
	}
	for _, err := range lister.List(ctx, x.key().String(), true) {
		if err != nil {
			return x.judge(ctx, "list leases", err)
		}
		break
	}
	return nil
}

func (x *examination) rightToRecord(ctx context.Context) error {
	records, ok := backend.As[backend.Records](x.store.Driver)
	if !ok {
		return nil
	}
	r := backend.Record{Key: x.key().Record("doctor", rand.Text()), Value: []byte("{}"), TTL: time.Minute}
	var err error
	if r.Version, err = records.PutRecord(ctx, r); err != nil {
		return x.judge(ctx, "write a record", err)
	}
	if err := records.DeleteRecord(ctx, r); err != nil {
		return x.judge(ctx, "delete a record", err)
	}
	return nil
}
