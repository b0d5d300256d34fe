//go:build !race

package leader_test

// defaultSeeds is how many seeds the property test tries.
const defaultSeeds = 100
