package status

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/history"
)

// maxForm is the longest body of a request to force a release.
const maxForm = 16 << 10

// maxWho is the longest name of who asks, in bytes.
const maxWho = 200

// maxName is the longest name and namespace, in bytes, and maxLost the longest text of a record that says why.
const (
	maxName = 255
	maxLost = 512
)

// outcomeUnknown begins the error of a record of which nobody knows whether the lease was released.
const outcomeUnknown = "whether the lease was released is not known"

// demand is a request to force a release.
type demand struct {
	id
	slot  int
	fence uint64
	who   string
}

// release ends somebody else's lease, if the fence is the current one. Nothing is done that could not be recorded.
func (p *Page) release(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, text string) { reply(w, code, map[string]string{"error": text}) }
	if err := p.cross.Check(r); err != nil {
		refuse(http.StatusForbidden, "the request comes from another site")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	who, err := p.options.Authorize(r)
	if err == nil && who == "" {
		err = errors.New("the authorizer did not say who asks")
	}
	if err != nil {
		p.logger().LogAttrs(r.Context(), slog.LevelWarn, "forced release refused", slog.Any("err", err))
		refuse(http.StatusForbidden, "you are not allowed to do this")
		return
	}
	d, err := demandOf(r)
	if err != nil {
		refuse(http.StatusBadRequest, err.Error())
		return
	}
	d.who = shortened(printable(who), maxWho)
	if d.namespace == "" {
		d.namespace = p.options.Namespace
	}
	if p.options.Namespace != "" && d.namespace != p.options.Namespace {
		refuse(http.StatusForbidden, "the name is of another namespace")
		return
	}
	code, text := p.force(context.WithoutCancel(r.Context()), d)
	if code != http.StatusOK {
		refuse(code, text)
		return
	}
	reply(w, code, map[string]string{"released": d.name})
}

// demandOf reads a form.
func demandOf(r *http.Request) (d demand, err error) {
	if err := r.ParseForm(); err != nil {
		return d, errors.New("the form cannot be read")
	}
	form := r.PostForm
	d.namespace, d.name = form.Get("namespace"), form.Get("name")
	if d.name == "" {
		return d, errors.New("the name is missing")
	}
	for _, text := range []string{d.name, d.namespace} {
		if len(text) > maxName || text != printable(text) {
			return d, errors.New("the name or namespace is none that a lease may have")
		}
	}
	if text := form.Get("slot"); text != "" {
		d.group = true
		if d.slot, err = strconv.Atoi(text); err != nil || d.slot < 0 || d.slot >= maxSlots {
			return d, errors.New("the slot is no slot number")
		}
	}
	if d.fence, err = strconv.ParseUint(form.Get("fence"), 10, 64); err != nil || d.fence == 0 {
		return d, errors.New("the fence is missing, or no number")
	}
	return d, nil
}

// shortened is text cut to at most limit bytes.
func shortened(text string, limit int) string {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}

// force records the demand, meets it, and records what became of it.
func (p *Page) force(ctx context.Context, d demand) (code int, text string) {
	record := p.recordOf(d)
	if err := p.write(ctx, record); err != nil {
		p.logger().LogAttrs(ctx, slog.LevelWarn, "forced release cannot be recorded", slog.Any("err", err))
		return http.StatusServiceUnavailable, "nothing was done, as it cannot be recorded in the history"
	}
	err := waitFor(ctx, func(ctx context.Context) error { return p.breaker.Break(ctx, d.slotKey(d.slot), d.fence) })
	code = http.StatusOK
	record.Status, record.Finished = history.Lost, time.Now().Round(0)
	record.Lost = shortened(fmt.Sprintf("released by force, as %q asked", d.who), maxLost)
	switch {
	case errors.Is(err, backend.ErrConflict):
		code, text = http.StatusConflict, "the fence is not the current one: somebody else leads by now, or nobody does"
	case err != nil:
		code, text = http.StatusBadGateway, outcomeUnknown+": "+problemOf(err)
	}
	if err != nil {
		record.Status, record.Lost, record.Error = history.NotRun, "", text
	}
	p.logger().LogAttrs(ctx, slog.LevelWarn, "forced release",
		slog.String("leader.name", d.name), slog.Uint64("leader.fence", d.fence), slog.String("leader.node", record.Node),
		slog.String("by", d.who), slog.Any("err", err))
	if err := p.write(ctx, record); err != nil {
		p.logger().LogAttrs(ctx, slog.LevelWarn, "the end of a forced release cannot be recorded", slog.Any("err", err))
	}
	p.mu.Lock()
	p.board.read = time.Time{} // there is something new
	p.mu.Unlock()
	p.soon()
	return code, text
}

// recordOf is the demand as the history has it.
func (p *Page) recordOf(d demand) history.Record {
	now := time.Now().Round(0)
	r := history.Record{
		ID: rand.Text(), Name: d.name, Key: d.slotKey(d.slot), Slot: d.slot, Fence: d.fence, Status: history.Running,
		Started: now, Metadata: map[string]string{forcedBy: d.who},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.board.names[d.id]; k != nil && k.leases[d.slot].Fence == fence(d.fence) {
		r.Node = k.leases[d.slot].last()
	}
	return r
}

// write hands a record to the history, which may hang.
func (p *Page) write(ctx context.Context, r history.Record) error {
	return waitFor(ctx, func(ctx context.Context) error { return p.options.History.Write(ctx, []history.Record{r}) })
}
