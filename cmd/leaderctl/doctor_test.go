//go:build unix

package main_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/goleader/leader/backend/backendtest/netfault"
	"github.com/goleader/leader/internal/testserver"
)

// diagnose runs doctor, which has to end with code, and returns what it found by check.
func diagnose(t *testing.T, code int, store string, flags ...string) map[string]string {
	t.Helper()
	text := must(t, code, []string{"LEADER_STORE=" + store}, append([]string{"doctor", "--json"}, flags...)...)
	var d struct {
		Findings []struct{ Check, Found, Advice string }
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	found := map[string]string{}
	for _, f := range d.Findings {
		if f.Advice == "" {
			t.Errorf("no advice: %+v", f)
		}
		found[f.Check] += f.Found + "; " + f.Advice + "\n"
	}
	return found
}

// wantFinding fails unless exactly that check has found something, with all of the parts in its text.
func wantFinding(t *testing.T, found map[string]string, check string, parts ...string) {
	t.Helper()
	if len(found) != 1 {
		t.Errorf("want one finding, of %s: %q", check, found)
	}
	for _, part := range parts {
		if !strings.Contains(found[check], part) {
			t.Errorf("%s: want %q in %q", check, part, found[check])
		}
	}
}

func TestDoctor_FindsNothingInASoundStore(t *testing.T) {
	t.Parallel()
	if found := diagnose(t, 0, testserver.Redis(t).URL()); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	text := must(t, 0, onExisting(t), "doctor")
	for _, part := range []string{"round trip", "shortest lease", "store's clock", "nothing found"} {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in\n%s", part, text)
		}
	}
}

func TestDoctor_FindsAnEvictingRedis(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig("maxmemory 100mb", "maxmemory-policy allkeys-lru"))
	wantFinding(t, diagnose(t, 119, redis.URL()), "settings", "allkeys-lru", "use noeviction")
}

func TestDoctor_FindsARedisWithoutAppendOnlyFile(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig("appendonly no"))
	wantFinding(t, diagnose(t, 119, redis.URL()), "settings", "appendonly is no", "use appendonly yes")
}

func TestDoctor_FindsALeaseThatIsShorterThanTenRoundTrips(t *testing.T) {
	t.Parallel()
	proxy, err := netfault.Listen(t.Context(), testserver.Redis(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	proxy.Delay(40 * time.Millisecond)
	store := "redis://" + proxy.Addr()
	wantFinding(t, diagnose(t, 119, store, "--lease", "60ms"), "lease", "shorter than 10 round trips", "use a lease of at least")
	if found := diagnose(t, 0, store, "--lease", "1m"); len(found) > 0 {
		t.Errorf("a long one: %q", found)
	}
}

func TestDoctor_FindsAClockThatIsOff(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t).Addr()
	for _, c := range []struct {
		offset time.Duration
		want   string
	}{{time.Hour, "ahead of"}, {-3 * time.Minute, "behind"}} {
		store := "redis://" + shiftedClock(t, redis, c.offset)
		found := diagnose(t, 119, store, "--read-only")
		wantFinding(t, found, "clock", c.want, "NTP")
		text, _, _ := strings.Cut(strings.TrimPrefix(found["clock"], "the store's clock is "), " ")
		if d, err := time.ParseDuration(text); err != nil || (d-c.offset.Abs()).Abs() > time.Second {
			t.Errorf("a clock that is off by %v is said to be so by %q: %v", c.offset, text, err)
		}
	}
	if found := diagnose(t, 0, "redis://"+shiftedClock(t, redis, time.Second), "--read-only"); len(found) > 0 {
		t.Errorf("within the margin: %q", found)
	}
}

// reading is the time in µs, as Redis tells it: an integer that is the whole line.
var reading = regexp.MustCompile(`(?m)^:(1[0-9]{15})\r$`)

// shiftedClock is the address of a server whose clock is off by d: a proxy that changes what the server says.
func shiftedClock(t *testing.T, target string, d time.Duration) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target) //nolint:noctx // it is on this machine
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { shift(client, server, d); _ = client.Close() }()
		}
	}()
	return listener.Addr().String()
}

// shift copies replies, each of which comes at once.
func shift(to io.Writer, from io.Reader, d time.Duration) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		text := reading.ReplaceAllFunc(chunk[:n], func(line []byte) []byte {
			micros, _ := strconv.ParseInt(string(bytes.Trim(line, ":\r")), 10, 64)
			return []byte(":" + strconv.FormatInt(micros+d.Microseconds(), 10) + "\r")
		})
		if _, bad := to.Write(text); err != nil || bad != nil {
			return
		}
	}
}

func TestDoctor_FindsAMissingTable(t *testing.T) {
	t.Parallel()
	store := testserver.Postgres(t).URL()
	wantFinding(t, diagnose(t, 119, store), "setup", "leader_leases", "leaderctl migrate")
	must(t, 0, []string{"LEADER_STORE=" + store}, "migrate")
	if found := diagnose(t, 0, store); len(found) > 0 {
		t.Errorf("after migrate: %q", found)
	}
}

func TestDoctor_FindsAMissingHistory(t *testing.T) {
	t.Parallel()
	store := testserver.Postgres(t).URL()
	must(t, 0, []string{"LEADER_STORE=" + store}, "migrate", "--history", "none")
	wantFinding(t, diagnose(t, 119, store), "history", "leader_history", "leaderctl migrate", "--history none")
	if found := diagnose(t, 0, store, "--history", "none"); len(found) > 0 {
		t.Errorf("without a history: %q", found)
	}
}

func TestDoctor_FindsAMissingRightInPostgreSQL(t *testing.T) {
	t.Parallel()
	store := testserver.Postgres(t).URL()
	must(t, 0, []string{"LEADER_STORE=" + store}, "migrate")
	db, err := sql.Open("pgx", store)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"CREATE USER reader PASSWORD 'pass-of-reader'",
		"GRANT SELECT ON leader_leases, leader_leases_records, leader_history TO reader",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	u, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("reader", "pass-of-reader")
	found := diagnose(t, 119, u.String())
	wantFinding(t, found, "rights", "refuses to take a lease", "permission denied", "GRANT SELECT, INSERT, UPDATE, DELETE")
	if found := diagnose(t, 0, u.String(), "--read-only"); len(found) > 0 {
		t.Errorf("it may read: %q", found)
	}
	u.User = url.UserPassword("reader", "not-that-one")
	wantFinding(t, diagnose(t, 119, u.String()), "rights", "password authentication failed")
}

func TestDoctor_FindsAMissingRightInRedis(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisConfig("user reader on >pass-of-reader ~* &* +@all -set -hset -hmset"))
	store := "redis://reader:pass-of-reader@" + redis.Addr()
	found := diagnose(t, 119, store)
	if !strings.Contains(found["rights"], "refuses to take a lease") || !strings.Contains(found["rights"], "ACL SETUSER") {
		t.Errorf("found %q", found)
	}
}

func TestDoctor_SaysWhatItCouldNotTry(t *testing.T) {
	t.Parallel()
	store := strings.TrimPrefix(onSQLite(t)[0], "LEADER_STORE=")
	o := &jobFlags{folder: t.TempDir(), mark: "holder", work: watchdog}
	holder := tool(t, nil, append([]string{"run", "leaderctl-doctor", "--store", store, "--"}, job(o)...)...)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the holder", func() bool { return len(readJournal(t, o.folder)) > 0 })
	wantFinding(t, diagnose(t, 119, store), "rights", "not all tried", "ask again")
	holder.signal(t, syscall.SIGTERM)
	holder.wait(t)
	if found := diagnose(t, 0, store); len(found) > 0 {
		t.Errorf("afterwards: %q", found)
	}
}

func TestDoctor_FindsALeaseThatIsNotToBeHad(t *testing.T) {
	t.Parallel()
	u := testserver.Consul(t).URL() // its shortest lease is 10 s
	store := withScheme(t, u, "consul", "")
	found := diagnose(t, 119, store, "--lease", "2s")
	if !strings.Contains(found["lease"], "not to be had") || found["setup"] != "" {
		t.Errorf("found %q", found)
	}
	if found := diagnose(t, 119, store, "--lease", "2s", "--read-only"); !strings.Contains(found["lease"], "not to be had") {
		t.Errorf("without writing: %q", found)
	}
}

func TestDoctor_CannotAskAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	v := tool(t, nil, "doctor", "--store", "redis://127.0.0.1:1")
	if code := v.run(t); code != 116 || !strings.Contains(v.errs.String(), "connection refused") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
	redis := testserver.Redis(t)
	redis.Stop(t)
	defer redis.Cont(t)
	v = tool(t, nil, "doctor", "--store", redis.URL(), "--timeout", "1s")
	began := time.Now()
	if code := v.run(t); code != 116 {
		t.Errorf("frozen: %d: %s", code, v.errs.String())
	}
	if took := time.Since(began); took > watchdog/2 {
		t.Errorf("it took %v", took)
	}
}
