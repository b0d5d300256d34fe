package hazelcastleader

import "context"

// GeneratorName is the name of the Flake id generator by which the clock is read.
const GeneratorName = generatorName

// ShareAttempts makes two backends one, for attempts on groups, which then has two connections.
func ShareAttempts(a, b *Backend) { b.attempts = a.attempts }

// Now reads the clock and returns the Flake id.
func (b *Backend) Now(ctx context.Context) (int64, error) {
	at, err := b.now(ctx)
	return at.id, err
}
