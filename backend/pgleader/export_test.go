package pgleader

import "time"

// Hasten shortens what a listening connection waits for: before it closes because nobody is interested, and before it asks
// a silent server for a sign of life. It is called before anybody listens.
func (b *Backend) Hasten(sweep, quiet time.Duration) { b.feed.sweep, b.feed.quiet = sweep, quiet }
