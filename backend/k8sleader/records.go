package k8sleader

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/goleader/leader/backend"
)

// A record is a Lease without a holder. It has annotations beside format, key and ttl.
const (
	versionKey = domain + "version" // a random text and the end in ms, by the server's clock, 0 for none
	valueKey   = domain + "value"   // as text or in Base64, by what it begins with

	textMark   = "text:"
	base64Mark = "base64:"

	// cleanMost is how many expired records one call deletes.
	cleanMost = 64
)

// PutRecord compares and stores in one request; a new end, once a minute, takes another one that asks for the server's
// time. Of that only whole seconds are told, so a record ends up to two seconds late.
func (b *Backend) PutRecord(ctx context.Context, r backend.Record) (version string, err error) {
	if err := b.readyFor(ctx, r.Key); err != nil {
		return "", err
	}
	if r.TTL != 0 {
		if err := checkTTL(max(r.TTL, minTTL)); r.TTL < 0 || err != nil {
			return "", backend.WithKind(fmt.Errorf("a record cannot have a TTL of %v", r.TTL), backend.Misconfigured)
		}
	}
	least, most, err := b.serverTime(ctx, r.Key)
	if err != nil {
		return "", err
	}
	end := time.Time{}
	if r.TTL > 0 {
		end = most.Add(r.TTL)
	}
	object := b.newRecord(r, end)
	version = object.Annotations[versionKey]
	if r.Version == "" {
		return version, b.createRecord(ctx, object)
	}
	if isOver(r.Version, least) {
		return "", backend.ErrConflict
	}
	return version, b.replaceRecord(ctx, object, r.Version)
}

// GetRecords reads a set, 500 records in each request, with the server's clock in whole seconds. It deletes some of
// those that have expired.
func (b *Backend) GetRecords(ctx context.Context, prefix string) (list []backend.Record, now time.Time, err error) {
	if !strings.HasSuffix(prefix, "/") {
		return nil, time.Time{}, notARecord(prefix)
	}
	if err := b.readyFor(ctx, prefix); err != nil {
		return nil, time.Time{}, err
	}
	var (
		over   []*coordinationv1.Lease
		failed error
	)
	err = b.list(ctx, setLabel+"="+hashOf(prefix), func(object *coordinationv1.Lease, a *answer) bool {
		if now = a.date; now.IsZero() {
			failed = errNoDate
			return false
		}
		r, ok, err := readRecord(object, prefix, now)
		switch {
		case err != nil:
			failed = err
			return false
		case !ok:
		case isOver(r.Version, now):
			over = append(over, object)
		default:
			list = append(list, r)
		}
		return true
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, time.Time{}, err
	}
	for _, object := range over[:min(len(over), cleanMost)] {
		if err := b.deleteRecord(ctx, object); err != nil && !isConflict(err) {
			return nil, time.Time{}, err
		}
	}
	return list, now, nil
}

// DeleteRecord reads, compares and deletes, in two requests.
func (b *Backend) DeleteRecord(ctx context.Context, r backend.Record) error {
	if err := b.readyFor(ctx, r.Key); err != nil {
		return err
	}
	for try := 0; ; try++ {
		stored, now, err := b.stored(ctx, recordName(r.Key))
		if err != nil || stored == nil {
			return err
		}
		if version := stored.Annotations[versionKey]; version != r.Version && !isOver(version, now) {
			return backend.ErrConflict
		}
		if err = b.deleteRecord(ctx, stored); err == nil || !isConflict(err) || try == conflictRetries {
			return err
		}
	}
}

// newRecord is the object of a record with a new version.
func (b *Backend) newRecord(r backend.Record, end time.Time) *coordinationv1.Lease {
	ends := int64(0)
	if !end.IsZero() {
		ends = end.UnixMilli()
	}
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name:      recordName(r.Key),
		Namespace: b.namespace,
		Labels:    map[string]string{kindLabel: recordKind, setLabel: hashOf(setOf(r.Key))},
		Annotations: map[string]string{
			formatKey:  format,
			keyKey:     r.Key,
			versionKey: rand.Text() + "." + strconv.FormatInt(ends, 10),
			valueKey:   encodeValue(r.Value),
			ttlKey:     r.TTL.String(),
		},
	}}
	if r.TTL > 0 {
		object.Spec.LeaseDurationSeconds = new(seconds(r.TTL))
	}
	return object
}

// stored reads the object of a record, nil if there is none, and the server's time.
func (b *Backend) stored(ctx context.Context, name string) (object *coordinationv1.Lease, now time.Time, err error) {
	asked, a := ask(ctx)
	object, err = b.api.leases.Get(asked, name, metav1.GetOptions{})
	switch {
	case isMissing(err):
		return nil, a.date, nil
	case err != nil:
		return nil, time.Time{}, b.failed(asked, "get", err)
	case object.Labels[kindLabel] != recordKind:
		return nil, time.Time{}, unreadable(object, kindLabel, object.Labels[kindLabel])
	}
	return object, a.date, checkFormat(object)
}

// createRecord stores a record that must not exist.
func (b *Backend) createRecord(ctx context.Context, object *coordinationv1.Lease) error {
	asked, _ := ask(ctx)
	_, err := b.api.leases.Create(asked, object, metav1.CreateOptions{FieldManager: fieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return b.failed(asked, "create", err)
	}
	stored, now, err := b.stored(ctx, object.Name)
	switch {
	case err != nil:
		return err
	case stored == nil:
		return backend.ErrConflict
	case sameVersion(stored, object):
		return nil
	case !isOver(stored.Annotations[versionKey], now):
		return backend.ErrConflict
	}
	object.ResourceVersion = stored.ResourceVersion
	asked, _ = ask(ctx)
	_, err = b.api.leases.Update(asked, object, metav1.UpdateOptions{FieldManager: fieldManager})
	if !apierrors.IsConflict(err) && !isMissing(err) {
		return b.failed(asked, "update", err)
	}
	stored, _, err = b.stored(ctx, object.Name)
	if err == nil && !sameVersion(stored, object) {
		err = backend.ErrConflict
	}
	return err
}

// replaceRecord stores a record in the place of one with a version.
func (b *Backend) replaceRecord(ctx context.Context, object *coordinationv1.Lease, version string) error {
	notes := object.Annotations
	o := operations{}.test(noted(formatKey), format).test(noted(versionKey), version)
	for _, key := range []string{versionKey, valueKey, ttlKey} {
		o = o.set(noted(key), notes[key])
	}
	body, err := o.encode()
	if err != nil {
		return err
	}
	asked, _ := ask(ctx)
	options := metav1.PatchOptions{FieldManager: fieldManager}
	_, err = b.api.leases.Patch(asked, object.Name, types.JSONPatchType, body, options)
	if err == nil || !isChanged(err) && !isMissing(err) {
		return b.failed(asked, "patch", err)
	}
	stored, _, failed := b.stored(ctx, object.Name)
	switch {
	case failed != nil:
		return failed
	case sameVersion(stored, object):
		return nil
	case stored != nil && stored.Annotations[versionKey] == version: // so it is refused for another reason
		return b.failed(asked, "patch", err)
	}
	return backend.ErrConflict
}

// sameVersion reports whether a write that met another version met itself: the client repeats one when the server asks
// for that, though it may have been applied.
func sameVersion(stored, object *coordinationv1.Lease) bool {
	return stored != nil && stored.Annotations[versionKey] == object.Annotations[versionKey]
}

// deleteRecord deletes an object as it was read; a missing one is no error.
func (b *Backend) deleteRecord(ctx context.Context, object *coordinationv1.Lease) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: &object.UID, ResourceVersion: &object.ResourceVersion,
	}}
	asked, _ := ask(ctx)
	err := b.api.leases.Delete(asked, object.Name, options)
	if isMissing(err) {
		return nil
	}
	return b.failed(asked, "delete", err)
}

// checkFormat refuses the records of other releases.
func checkFormat(object *coordinationv1.Lease) error {
	if major, _, _ := strings.Cut(object.Annotations[formatKey], "."); major != format {
		return unreadable(object, formatKey, object.Annotations[formatKey])
	}
	return nil
}

// readRecord decodes an object of a set. ok is false for one that is not of it.
func readRecord(object *coordinationv1.Lease, prefix string, now time.Time) (r backend.Record, ok bool, err error) {
	notes := object.Annotations
	key := notes[keyKey]
	if setOf(key) != prefix || recordName(key) != object.Name {
		return backend.Record{}, false, nil
	}
	if err := checkFormat(object); err != nil {
		return backend.Record{}, false, err
	}
	end, err := endOf(notes[versionKey])
	if err != nil {
		return backend.Record{}, false, unreadable(object, versionKey, "")
	}
	r = backend.Record{Key: key, Version: notes[versionKey]}
	if r.Value, err = decodeValue(notes[valueKey]); err != nil {
		return backend.Record{}, false, unreadable(object, valueKey, "")
	}
	if !end.IsZero() {
		// The end is late by what is not known of the server's time, and no more is left than there ever was.
		ttl, err := time.ParseDuration(notes[ttlKey])
		if err != nil {
			return backend.Record{}, false, unreadable(object, ttlKey, notes[ttlKey])
		}
		r.TTL = max(min(end.Sub(now), ttl), 1)
	}
	return r, true, nil
}

// endOf is the end in a version, zero if there is none.
func endOf(version string) (time.Time, error) {
	_, text, ok := strings.Cut(version, ".")
	ms, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return time.Time{}, fmt.Errorf("%q is no version", version)
	}
	if ms == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(ms), nil
}

// isOver reports whether a version's end has passed.
func isOver(version string, now time.Time) bool {
	end, err := endOf(version)
	return err == nil && !end.IsZero() && !now.Before(end)
}

func encodeValue(v []byte) string {
	if utf8.Valid(v) {
		return textMark + string(v)
	}
	return base64Mark + base64.StdEncoding.EncodeToString(v)
}

func decodeValue(text string) ([]byte, error) {
	if v, ok := strings.CutPrefix(text, textMark); ok {
		return []byte(v), nil
	}
	v, ok := strings.CutPrefix(text, base64Mark)
	if !ok {
		return nil, errors.New("neither text nor Base64")
	}
	return base64.StdEncoding.DecodeString(v)
}

// setOf is a key of a record up to and with the slash; the id may have further ones.
func setOf(key string) string {
	mark := strings.IndexByte(key, '!')
	if mark < 0 {
		return ""
	}
	slash := strings.IndexByte(key[mark:], '/')
	if slash < 0 {
		return ""
	}
	return key[:mark+slash+1]
}

// readyFor says why no request may be sent for a record, or for a set.
func (b *Backend) readyFor(ctx context.Context, key string) error {
	if setOf(key) == "" {
		return notARecord(key)
	}
	return b.ready(ctx)
}

func notARecord(key string) error {
	return backend.WithKind(fmt.Errorf("%q is not built as name!kind/id", key), backend.Misconfigured)
}
