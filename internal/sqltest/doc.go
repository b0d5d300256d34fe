// Package sqltest holds the tests of the root module on real SQL databases, whose drivers that module does not require.
package sqltest
