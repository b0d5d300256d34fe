// Package browsertest has the tests that look at the pages of package status with a real browser. It is a module of its
// own, so that nobody else needs what drives one.
//
// The tests need Chromium. With go test -artifacts they keep their pictures. The picture of the documentation is made anew
// by LEADER_STATUS_PICTURE=../../docs/images/status.png go test -run OrdinaryDay.
package browsertest
