// Package bench measures this library beside what it is made of and beside its peers. Its benchmarks give absolute
// times; the ratio command gives ratios, which are what a noisy machine can tell.
package bench
