package leadertest

import (
	"log/slog"
	"time"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
)

// node is the id of every elector here.
const node = "leadertest"

// Always returns an elector that is elected at each attempt.
func Always() leader.Elector { return Script(Elected()) }

// Never returns an elector that is never elected, because holder leads every name, as its State shows. An empty holder
// is one whose name is not known.
func Never(holder string) leader.Elector { return Script(HeldBy(holder)) }

// Losing returns an elector that is elected at each attempt and loses each lease after that time, or 10 ms if that is
// longer, with [leader.ErrTakenOver], unless it was released before. A Campaign on it leads again and again.
func Losing(after time.Duration) leader.Elector { return Script(LostAfter(after)) }

// Script returns an elector whose attempts take one step each, whatever the name. The last step is repeated for ever.
// State and Watch take none: they show the lease that the elector has of the name or, without one, what the next step
// will say. Without steps all fails, with [leader.ErrMisconfigured].
func Script(steps ...Step) leader.Elector { return newElector(newStore(steps)) }

func newElector(d backend.Driver, opts ...leader.Option) *leader.Single {
	silent := slog.New(slog.DiscardHandler)
	e, err := leader.New(d, append(opts, leader.WithNodeID(node), leader.WithLogger(silent))...)
	if err != nil {
		panic(err) // cannot be: the options are those of this package
	}
	return e
}
