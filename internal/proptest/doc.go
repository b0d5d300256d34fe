// Package proptest holds the property tests of the root module, which requires nothing, rapid included.
package proptest
