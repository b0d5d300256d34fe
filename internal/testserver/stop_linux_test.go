package testserver

import "testing"

func TestServer_Stop_ReturnsWhenNoThreadGoesOn(t *testing.T) {
	t.Setenv(EtcdURLEnv, "")
	s := Etcd(t)
	pid := s.process.child.process.Pid
	for range 20 {
		if isStopped(pid) {
			t.Fatal("a server that runs is said to be stopped")
		}
		s.Stop(t)
		if !isStopped(pid) {
			t.Error("a thread goes on")
		}
		s.Cont(t)
	}
}
