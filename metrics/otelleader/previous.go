package otelleader

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/goleader/leader"
)

// maxPrevious is of how many names a tracer knows who led last.
const maxPrevious = 1000

// seat is what is led: a name, or one slot of a group, as each has fences of its own.
type seat struct {
	name string
	slot int
}

// term is a span under which a node led.
type term struct {
	span  trace.SpanContext
	node  string
	fence uint64
}

// previous knows who led last. The zero value is ready.
type previous struct {
	mu    sync.Mutex
	terms map[seat]*terms
}

// terms are the last two of a seat: of the newest one a tracer may hear twice, from a watch and from its own run.
type terms struct{ newest, before term }

// follow links the span of a run that got its lease to the one under which another node had it before, and remembers it.
func (p *previous) follow(r *run, l leader.LeaseInfo) {
	before, ok := p.saw(seat{l.Name, l.Slot}, term{r.span.SpanContext(), l.Node, l.Fence})
	if ok && before.node != l.Node && r.recorded {
		r.span.AddLink(link(before.span, "previous", before.fence))
	}
}

// saw remembers a term. It returns the last one known before it.
func (p *previous) saw(s seat, now term) (before term, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of(s)
	switch {
	case now.fence > known.newest.fence:
		known.before, known.newest = known.newest, now
	case now.fence < known.newest.fence:
		return term{}, false // what was seen late
	}
	return known.before, known.before.span.IsValid()
}

// of returns what is known of a seat, and makes room for it where there is none; mu is held.
func (p *previous) of(s seat) *terms {
	if known := p.terms[s]; known != nil {
		return known
	}
	if p.terms == nil {
		p.terms = make(map[seat]*terms)
	}
	if len(p.terms) >= maxPrevious {
		for some := range p.terms {
			delete(p.terms, some)
			break
		}
	}
	known := &terms{}
	p.terms[s] = known
	return known
}
