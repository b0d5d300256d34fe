package testserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// DynamoURLEnv is the environment variable with the URL, http[s]://host[:port], of the DynamoDB endpoint that [Dynamo]
// returns instead of starting a stand-in. Credentials and Region are those of the AWS SDK's environment. It is not
// emptied.
const DynamoURLEnv = "LEADER_DYNAMODB_URL"

// dynamoFolder is what internal/tools/servers/dynalite.sh builds.
const dynamoFolder = "dynalite-4.0.0"

const dynamoMissing = `the stand-in for DynamoDB is not built, or there is no node: "make servers" does it with Node.js ` +
	`and npm (apt-get install --no-install-recommends nodejs npm); or set ` + DynamoURLEnv

// dynamoHealthy is what the stand-in says when it is asked for a page.
const dynamoHealthy = "healthy: dynamodb."

// Dynamo starts an empty stand-in for DynamoDB that ends with the test: dynalite, whose data is in a file, so that a
// restart after a kill forgets nothing. It accepts any credentials, has no limits of throughput, and ignores
// ReturnValuesOnConditionCheckFailure. Where it is not built the test is skipped, see [RequireEnv]. If [DynamoURLEnv]
// names an endpoint it is used, with what is in it.
func Dynamo(t TB) *Server {
	t.Helper()
	if given := os.Getenv(DynamoURLEnv); given != "" {
		return givenDynamo(t, given)
	}
	program := built(dynamoFolder, "serve.js")
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		missing(t, "dynamo", dynamoMissing)
	}
	dir := t.TempDir()
	p, addr, err := launch(t.Context(), func(port int) (*process, error) {
		return prepareDynamo(node, program, dir, port), nil
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(p.kill)
	return &Server{addr: addr, url: "http://" + addr, process: p}
}

func givenDynamo(t TB, given string) *Server {
	t.Helper()
	u, err := url.Parse(given)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		t.Fatalf("%s: want http[s]://host[:port]", DynamoURLEnv)
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
	defer cancel()
	conn, err := dialWire(ctx, addr)
	if err != nil {
		t.Fatalf("%s: %v", DynamoURLEnv, err)
	}
	_ = conn.Close()
	return &Server{addr: addr, url: given}
}

func prepareDynamo(node, program, dir string, port int) *process {
	args := []string{program, host, strconv.Itoa(port), filepath.Join(dir, "data")}
	p := &process{name: "dynamo", path: node, args: args, dir: dir}
	p.ready = func(ctx context.Context, _ int) error {
		if !strings.Contains(p.log(), "READY ") {
			return errors.New("the server has not said that it is ready")
		}
		return pingDynamo(ctx, address(port))
	}
	return p
}

// pingDynamo looks whether the server at addr is the stand-in.
func pingDynamo(ctx context.Context, addr string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return err
	}
	request.Close = true // no connection is left behind
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(body), dynamoHealthy) {
		return fmt.Errorf("it answers %.80q", body)
	}
	return nil
}
