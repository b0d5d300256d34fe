package testserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ownKube is Kube, whatever the environment says about a cluster of the user's.
func ownKube(t *testing.T, opts ...KubeOption) *KubeServer {
	t.Helper()
	t.Setenv(KubeconfigEnv, "")
	return Kube(t, opts...)
}

// kubeCall makes a request as the user of a kubeconfig and returns the status and the body.
func kubeCall(t *testing.T, config, method, path, body string) (status int, answer string) {
	t.Helper()
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Clusters []struct {
			Cluster struct {
				Server string
				CA     string `json:"certificate-authority"`
			}
		}
		Users []struct{ User struct{ Token string } }
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(c.Clusters[0].Cluster.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	url := c.Clusters[0].Cluster.Server + path
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.Users[0].User.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

const kubeLeases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

func makeKubeLease(t *testing.T, config, name string) int {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q}}`, name)
	status, _ := kubeCall(t, config, http.MethodPost, kubeLeases, body)
	return status
}

func TestKube_Restart_KeepsDataAndAddress(t *testing.T) {
	s := ownKube(t)
	if status := makeKubeLease(t, s.Config(), "a"); status != http.StatusCreated {
		t.Fatalf("create: status %d", status)
	}
	addr := s.Addr()
	s.Kill9(t)
	s.Kill9(t) // no error
	s.Restart(t)
	s.Restart(t) // while it runs
	status, answer := kubeCall(t, s.Config(), http.MethodGet, kubeLeases+"/a", "")
	if status != http.StatusOK || !strings.Contains(answer, `"name":"a"`) {
		t.Errorf("get: status %d, %s", status, answer)
	}
	if !s.Owned() || s.Addr() != addr {
		t.Errorf("owned %t, address %s became %s", s.Owned(), addr, s.Addr())
	}
}

func TestKube_RBAC_AllowsTheGuestNothing(t *testing.T) {
	s := ownKube(t, KubeRBAC())
	if status := makeKubeLease(t, s.Guest(), "a"); status != http.StatusForbidden {
		t.Errorf("the guest's create: status %d", status)
	}
	if status := makeKubeLease(t, s.Config(), "a"); status != http.StatusCreated {
		t.Errorf("create: status %d", status)
	}
}

func TestKube_TakesTheClusterInTheEnvironment(t *testing.T) {
	given := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(given, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(KubeconfigEnv, given)
	s := Kube(t)
	if s.Owned() || s.Config() != given || s.Addr() != "" {
		t.Errorf("owned %t, config %s, address %q", s.Owned(), s.Config(), s.Addr())
	}
	for name, f := range map[string]func(TB){
		"Kill9": s.Kill9, "Restart": s.Restart, "Stop": s.Stop, "Cont": s.Cont,
		"options": func(t TB) { Kube(t, KubeRBAC()) },
	} {
		if v := judge(t, f); v.skipped == "" || v.failed != "" {
			t.Errorf("%s: skipped %q, failed %q", name, v.skipped, v.failed)
		}
	}
	t.Setenv(KubeconfigEnv, given+"-missing")
	if v := judge(t, func(t TB) { Kube(t) }); v.failed == "" {
		t.Error("a missing kubeconfig was accepted")
	}
}
