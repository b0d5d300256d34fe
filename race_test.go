//go:build race

package leader_test

// defaultSeeds is how many seeds the property test tries, fewer where the race detector slows it down.
const defaultSeeds = 30
