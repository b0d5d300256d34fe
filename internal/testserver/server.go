package testserver

import "context"

// Server is a running server. Its methods are called by one goroutine at a time; each takes the test, or subtest, that
// is to fail or to be skipped.
type Server struct {
	addr     string
	url      string
	password string
	process  *process // nil if the server is the user's own
}

// Addr is the host and port.
func (s *Server) Addr() string { return s.addr }

// URL is the address with the credentials, in the form of the environment variable that replaces the server.
func (s *Server) URL() string { return s.url }

// Password is what clients authenticate with, empty if they need not.
func (s *Server) Password() string { return s.password }

// Owned reports whether the server was started here, so that Kill9, Restart, Stop and Cont work. On a server that the
// user named in the environment they skip the test.
func (s *Server) Owned() bool { return s.process != nil }

// Kill9 ends the server without warning and returns when it is gone. It is no error if it is gone already.
func (s *Server) Kill9(t TB) {
	t.Helper()
	s.needOwned(t)
	s.process.kill()
}

// Restart starts the server again, with the same data at the same address, after a Kill9 if it still runs, and returns
// when it answers.
func (s *Server) Restart(t TB) {
	t.Helper()
	s.Kill9(t)
	// A fault may be undone in a clean-up, where the test's context has ended.
	if err := s.process.start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatalf("restart: %v", err)
	}
}

// Stop freezes the server: connections stay, nothing is answered until Cont.
func (s *Server) Stop(t TB) {
	t.Helper()
	s.needOwned(t)
	if err := s.process.stop(); err != nil {
		t.Fatalf("stop the server: %v", err)
	}
}

// Cont lets a stopped server go on. It is no error if it has not been stopped.
func (s *Server) Cont(t TB) {
	t.Helper()
	s.needOwned(t)
	if err := s.process.cont(); err != nil {
		t.Fatalf("continue the server: %v", err)
	}
}

func (s *Server) needOwned(t TB) {
	t.Helper()
	if !s.Owned() {
		t.Skipf("this needs a server that the test may harm, and %s is the user's own", s.addr)
	}
}
