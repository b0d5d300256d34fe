package testserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

// kubeFiles are the files of an API server: its keys, its users, its log.
type kubeFiles struct {
	dir    string
	tokens map[string]string // by user
}

// newKubeFiles writes what an API server has to find in dir when it starts.
func newKubeFiles(dir string) (*kubeFiles, error) {
	f := &kubeFiles{dir: dir, tokens: map[string]string{"admin": rand.Text(), "guest": rand.Text()}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(f.path("account.key"), block, 0o600); err != nil {
		return nil, err
	}
	// Token, name, id, groups. The members of system:masters are above all roles.
	users := fmt.Sprintf("%s,admin,admin,system:masters\n%s,guest,guest\n", f.tokens["admin"], f.tokens["guest"])
	return f, os.WriteFile(f.path("users.csv"), []byte(users), 0o600)
}

func (f *kubeFiles) path(name string) string { return filepath.Join(f.dir, name) }

// args are the flags of an API server that listens on port, over the etcd at an address.
func (f *kubeFiles) args(port int, etcd string) []string {
	return []string{
		"--etcd-servers=http://" + etcd,
		"--bind-address=" + host,
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + f.dir,
		"--token-auth-file=" + f.path("users.csv"),
		"--service-account-issuer=https://kubernetes.test",
		"--service-account-key-file=" + f.path("account.key"),
		"--service-account-signing-key-file=" + f.path("account.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--disable-admission-plugins=ServiceAccount",
		// It would publish the server's address to pods, and refuses a loopback address.
		"--endpoint-reconciler-type=none",
		"--profiling=false",
	}
}

// ready looks whether an API server that has the certificate in the folder is ready at addr.
func (f *kubeFiles) ready(ctx context.Context, addr string) error {
	certificate, err := os.ReadFile(f.path("apiserver.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+f.tokens["admin"])
	return answersOK(transport, request)
}

func answersOK(transport http.RoundTripper, request *http.Request) error {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// kubeconfig writes a kubeconfig of a user. It is JSON, which is YAML too.
func (f *kubeFiles) kubeconfig(user, addr string) (path string, err error) {
	type named map[string]any
	text, err := json.MarshalIndent(named{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []named{{
			"name":    "test",
			"cluster": named{"server": "https://" + addr, "certificate-authority": f.path("apiserver.crt")},
		}},
		"users":           []named{{"name": user, "user": named{"token": f.tokens[user]}}},
		"contexts":        []named{{"name": user, "context": named{"cluster": "test", "user": user}}},
		"current-context": user,
	}, "", "  ")
	if err != nil {
		return "", err
	}
	path = f.path(user + ".kubeconfig")
	return path, os.WriteFile(path, text, 0o600)
}
