package status

import (
	"strings"
	"testing"
)

func TestRedact_HidesSecrets(t *testing.T) {
	for _, text := range []string{
		"dial: pass=hunter2 refused", "auth=hunter2", "DB_PASS=hunter2", `{"pass": "hunter2", "n": 1}`, `auth='hunter 2 hunter2'`,
		"GET https://ghp_hunter2@github.com/x: 403", "HTTP://hunter2@host",
		"https://b.s3.amazonaws.com/k?X-Amz-Date=20240229&X-Amz-Signature=hunter2&x=1", "x-goog-signature=hunter2",
		"Cookie: sid=hunter2; other=hunter2", "cookie=hunter2", "Set-Cookie: sid=hunter2",
		"redis://:hunter2@h", "PGPASSWORD=hunter2", "Proxy-Authorization: Basic aHVudGVyMg== hunter",
	} {
		if got := redact(text); strings.Contains(got, "hunter2") || strings.Contains(got, "aHVudGVyMg") || !strings.Contains(got, hidden) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestRedact_SparesOrdinaryWords(t *testing.T) {
	for _, text := range []string{
		"auth: denied", "first pass: 3 of 5", "bypass=1 compass=north", "an author=alice wrote it", "the signature: bad",
		"no session for cookie: none", "see https://host/a@b and https://host:80/x", "ssh://git@host, postgres://app@db/x",
		"mail alice@example.com", "no basic idea", "passenger=7",
	} {
		if got := redact(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestRedactAll_HidesByKey(t *testing.T) {
	got := redactAll(map[string]string{
		"cookie": "s", "Session-Cookie": "s", "pass": "s", "db.pass": "s", "auth": "s", "proxy_auth": "s", "signature": "s",
		"api-key": "s", "author": "a", "compass": "n", "zone": "z", "passengers": "7",
	})
	for key, value := range got {
		shown := key == "author" || key == "compass" || key == "zone" || key == "passengers"
		if (value != hidden) != shown {
			t.Errorf("%q is shown as %q", key, value)
		}
	}
}
