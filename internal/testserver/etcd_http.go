package testserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// etcdCall sends a request to the HTTP side of an etcd. body and answer are JSON; a nil body sends none.
func etcdCall(ctx context.Context, method, addr, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	url := "http://" + addr + path
	req, err := http.NewRequestWithContext(ctx, method, url, content) //nolint:gosec // A server of the test's.
	if err != nil {
		return err
	}
	req.Close = true                        // a kept connection would outlive the server
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // Likewise.
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %.200s", method, path, resp.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// etcdStatus is what a member says of itself and of the leader.
type etcdStatus struct {
	Header struct {
		Member string `json:"member_id"`
	}
	Leader string
}

func etcdStatusOf(ctx context.Context, addr string) (etcdStatus, error) {
	var s etcdStatus
	err := etcdCall(ctx, http.MethodPost, addr, "/v3/maintenance/status", struct{}{}, &s)
	return s, err
}
