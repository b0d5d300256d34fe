package testserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const testToken = "3f1c2b9e-8f0a-4c57-9d3e-5a7f6b1c2d3e"

// ownConsul is Consul, whatever the environment says about an agent of the user's.
func ownConsul(t *testing.T, opts ...ConsulOption) *Server {
	t.Helper()
	t.Setenv(ConsulAddrEnv, "")
	return Consul(t, opts...)
}

// consulDo sends a request with the server's token and returns the status and the body.
func consulDo(t *testing.T, s *Server, token, method, path, body string) (status int, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr()+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Consul-Token", token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestConsul_StartsAServerThatKeepsSessions(t *testing.T) {
	s := ownConsul(t)
	if !s.Owned() || s.Password() != "" || s.URL() != "http://"+s.Addr() {
		t.Errorf("owned %t, password %q, URL %s", s.Owned(), s.Password(), s.URL())
	}
	status, body := consulDo(t, s, "", http.MethodPut, "/v1/session/create", `{"TTL":"10s"}`)
	var session struct{ ID string }
	if err := json.Unmarshal([]byte(body), &session); status != http.StatusOK || err != nil || session.ID == "" {
		t.Errorf("a session: %d, %s", status, body)
	}
}

func TestConsul_Restart_KeepsDataAndAddress(t *testing.T) {
	s := ownConsul(t)
	if status, body := consulDo(t, s, "", http.MethodPut, "/v1/kv/k", "v"); body != "true\n" && body != "true" {
		t.Fatalf("put: %d, %q", status, body)
	}
	addr := s.Addr()
	s.Kill9(t)
	s.Restart(t)
	if status, body := consulDo(t, s, "", http.MethodGet, "/v1/kv/k?raw&consistent", ""); body != "v" || s.Addr() != addr {
		t.Errorf("get: %d, %q from %s, which was %s", status, body, s.Addr(), addr)
	}
}

func TestConsul_ACL_DeniesWhatNoTokenAllows(t *testing.T) {
	s := ownConsul(t, ConsulACL(testToken))
	if s.Password() != testToken || s.URL() != "http://:"+testToken+"@"+s.Addr() {
		t.Errorf("password %q, URL %s", s.Password(), s.URL())
	}
	if status, _ := consulDo(t, s, "", http.MethodPut, "/v1/kv/k", "v"); status != http.StatusForbidden {
		t.Errorf("without a token: %d", status)
	}
	if status, body := consulDo(t, s, testToken, http.MethodPut, "/v1/kv/k", "v"); status != http.StatusOK {
		t.Errorf("with the token: %d, %s", status, body)
	}
	t.Setenv(ConsulAddrEnv, s.URL())
	if again := Consul(t); again.Owned() || again.Password() != testToken || again.Addr() != s.Addr() {
		t.Errorf("owned %t, password %q, address %s", again.Owned(), again.Password(), again.Addr())
	}
}

func TestConsul_TakesTheAgentInTheEnvironment(t *testing.T) {
	own := ownConsul(t)
	t.Setenv(ConsulAddrEnv, own.Addr())
	s := Consul(t)
	if s.Owned() || s.Addr() != own.Addr() || s.URL() != own.URL() {
		t.Errorf("owned %t, address %s, URL %s", s.Owned(), s.Addr(), s.URL())
	}
	if v := judge(t, func(t TB) { Consul(t, ConsulACL(testToken)) }); v.skipped == "" || v.failed != "" {
		t.Errorf("options: skipped %q, failed %q", v.skipped, v.failed)
	}
}

func TestConsul_FailsOnAnAgentInTheEnvironmentThatCannotBeUsed(t *testing.T) {
	for _, given := range []string{address(1), "http://" + host, "https://" + address(1), "http://%"} {
		t.Setenv(ConsulAddrEnv, given)
		if v := judge(t, func(t TB) { Consul(t) }); v.failed == "" {
			t.Errorf("%s was accepted", given)
		}
	}
}

func TestConsul_Config_ThatIsWrongFailsWithTheServersWords(t *testing.T) {
	t.Setenv(ConsulAddrEnv, "")
	v := judge(t, func(t TB) { Consul(t, ConsulConfig("nonsense = 1")) })
	if v.skipped != "" {
		t.Skip(v.skipped)
	}
	if !strings.Contains(v.failed, errEnded.Error()) || !strings.Contains(v.failed, "nonsense") {
		t.Errorf("failed with %q", v.failed)
	}
}

func TestConsul_IsNotMistakenForAnotherOnItsPort(t *testing.T) {
	s := ownConsul(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var c consulConfig
	if err := c.ready(ctx, s.Addr(), "another"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another node was taken for the server: %v", err)
	}
}

func TestConsulConfig_Prepare_TakesANewDataFolderEachTime(t *testing.T) {
	var c consulConfig
	dir := t.TempDir()
	used := map[string]bool{}
	for range 2 {
		p, err := c.prepare(t.Context(), "consul", dir, firstPort)
		if err != nil {
			t.Fatal(err)
		}
		used[p.args[len(p.args)-1]] = true
	}
	if len(used) != 2 {
		t.Errorf("data folders %v, want one for each start", used)
	}
}

func TestConsul_IsMissing_WithoutTheProgram(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv(ConsulAddrEnv, "")
	t.Setenv(RequireEnv, "consul")
	v := judge(t, func(t TB) { Consul(t) })
	if !strings.Contains(v.failed, "make servers") {
		t.Errorf("failed with %q", v.failed)
	}
}
