//go:build unix

package main_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goleader/leader/internal/testserver"
)

// write makes a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfig_AFlagIsStrongerThanTheEnvironmentAndThatThanTheFile(t *testing.T) {
	t.Parallel()
	file := write(t, "config.yaml", "node: by-file\nlease: 20s\n")
	node := func(settings []string, flags ...string) string {
		args := append(append([]string{"run", "job"}, flags...), "--", "sh", "-c", "echo $LEADER_NODE")
		return strings.TrimSpace(must(t, 0, append(onSQLite(t), settings...), args...))
	}
	if got := node([]string{"LEADER_CONFIG=" + file}); got != "by-file" {
		t.Errorf("file: %q", got)
	}
	if got := node(nil, "--config", file); got != "by-file" {
		t.Errorf("file by flag: %q", got)
	}
	if got := node([]string{"LEADER_CONFIG=" + file, "LEADER_NODE=by-environment"}); got != "by-environment" {
		t.Errorf("environment: %q", got)
	}
	if got := node([]string{"LEADER_CONFIG=" + file, "LEADER_NODE=by-environment"}, "--node", "by-flag"); got != "by-flag" {
		t.Errorf("flag: %q", got)
	}
}

func TestConfig_TheFileOfTheUserIsFound(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	folder := filepath.Join(home, "leaderctl")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(home, "leader.db")
	if err := os.WriteFile(filepath.Join(folder, "config.yaml"), []byte("store: sqlite:"+store+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, 0, []string{"XDG_CONFIG_HOME=" + home}, "run", "job", "--", "true")
	if _, err := os.Stat(store); err != nil {
		t.Error(err)
	}
}

func TestConfig_MistakesAreSaid(t *testing.T) {
	t.Parallel()
	existing := onExisting(t)
	for _, c := range []struct {
		name     string
		settings []string
		args     []string
		want     string
	}{
		{"an unknown setting", []string{"LEADER_CONFIG=" + write(t, "c", "stoer: x\n")}, []string{"list"}, `"stoer"`},
		{"a flag of one call", []string{"LEADER_CONFIG=" + write(t, "c", "fence: 5\n")}, []string{"list"}, `"fence"`},
		{"no YAML", []string{"LEADER_CONFIG=" + write(t, "c", "{")}, []string{"list"}, "not made of lines"},
		{"no such file", []string{"LEADER_CONFIG=/nowhere/at/all"}, []string{"list"}, "/nowhere/at/all"},
		{"a bad value", []string{"LEADER_TIMEOUT=soon"}, []string{"list"}, "LEADER_TIMEOUT"},
		{"a bad value of the file", []string{"LEADER_CONFIG=" + write(t, "c", "timeout: soon\n")}, []string{"list"}, "timeout"},
		{"no time", nil, []string{"list", "--timeout", "0s"}, "--timeout"},
		{"a name that is none", nil, []string{"release", "", "--fence", "1"}, "name"},
		{"a namespace that is none", nil, []string{"doctor", "--namespace", "a\tb"}, "namespace"},
		{"a lease that is none", nil, []string{"doctor", "--lease", "-1s"}, "--lease"},
		{"no password", []string{"LEADER_PASSWORD_FILE=/nowhere/at/all"}, []string{"list"}, "password"},
	} {
		v := tool(t, slices.Concat(existing, c.settings), c.args...)
		if code := v.run(t); code != 113 || !strings.Contains(v.errs.String(), c.want) {
			t.Errorf("%s: %d, want %q in %q", c.name, code, c.want, v.errs.String())
		}
	}
}

const password = "p@ss/w%rd:x"

func TestPassword_ComesFromEnvironmentOrFile(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisPassword(password))
	store := "LEADER_STORE=redis://" + redis.Addr()
	must(t, 0, []string{store, "LEADER_PASSWORD=" + password}, "list")
	must(t, 0, []string{store, "LEADER_PASSWORD_FILE=" + write(t, "password", password+"\n")}, "list")
	must(t, 0, []string{store}, "list", "--password-file", write(t, "password", password))
	config := write(t, "c", "store: redis://"+redis.Addr()+"\npassword: '"+password+"'\n")
	must(t, 0, []string{"LEADER_CONFIG=" + config}, "list")
	must(t, 0, []string{"LEADER_STORE=" + redis.URL(), "LEADER_PASSWORD=another"}, "list")
	must(t, 117, []string{store}, "list")
}

func TestPassword_AFileNamedByAFlagIsStrongerThanTheEnvironment(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisPassword(password))
	right, wrong := write(t, "right", password), write(t, "wrong", "not-that-one")
	store := "LEADER_STORE=redis://" + redis.Addr()
	must(t, 0, []string{store, "LEADER_PASSWORD=not-that-one"}, "list", "--password-file", right)
	must(t, 117, []string{store, "LEADER_PASSWORD=" + password}, "list", "--password-file", wrong)
	must(t, 0, []string{store, "LEADER_PASSWORD=" + password, "LEADER_PASSWORD_FILE=" + wrong}, "list")
}

func TestPassword_OfTheConfigurationFileIsForTheStoreInItAlone(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t, testserver.RedisPassword(password))
	store := "redis://" + redis.Addr()
	for _, line := range []string{"password: '" + password + "'\n", "password-file: " + write(t, "password", password) + "\n"} {
		config := "LEADER_CONFIG=" + write(t, "c", "store: "+store+"\n"+line)
		must(t, 0, []string{config}, "list")
		must(t, 117, []string{config}, "list", "--store", store)
		must(t, 117, []string{config, "LEADER_STORE=" + store}, "list")
	}
}

func TestArguments_ThatAreWrongAreSaidInTheFormatOfTheSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings, args []string
	}{
		{[]string{"LEADER_JSON=true"}, []string{"inspect"}},
		{[]string{"LEADER_JSON=true"}, []string{"list", "--no-such-flag"}},
		{[]string{"LEADER_JSON=true", "LEADER_CONFIG=/nowhere/at/all"}, []string{"list"}},
		{[]string{"LEADER_CONFIG=" + write(t, "c", "json: true\n")}, []string{"run", "job"}},
		{nil, []string{"inspect", "--json"}},
	} {
		v := tool(t, c.settings, c.args...)
		var said struct {
			Error string
			Exit  int
		}
		code := v.run(t)
		if err := json.Unmarshal(v.errs.Bytes(), &said); err != nil || code != 113 || said.Exit != 113 || said.Error == "" {
			t.Errorf("%q %q: %d, %v: %s", c.settings, c.args, code, err, v.errs.String())
		}
	}
	v := tool(t, []string{"LEADER_JSON=true"}, "inspect", "--json=false")
	v.run(t)
	if !strings.HasPrefix(v.errs.String(), "leaderctl: ") {
		t.Errorf("a flag is stronger: %s", v.errs.String())
	}
}

func TestPassword_IsNotForTheHistory(t *testing.T) {
	t.Parallel()
	one := testserver.Redis(t, testserver.RedisPassword(password))
	other := testserver.Postgres(t) // it asks for one
	u, err := url.Parse(other.URL())
	if err != nil {
		t.Fatal(err)
	}
	given, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	settings := []string{"LEADER_STORE=" + one.URL(), "LEADER_PASSWORD=" + given, "LEADER_HISTORY=" + u.String()}
	v := tool(t, settings, "history")
	v.run(t)
	if !strings.Contains(v.errs.String(), "password") {
		t.Errorf("the history was opened with the store's password: %q", v.errs.String())
	}
}

func TestPassword_IsNeverPrinted(t *testing.T) {
	t.Parallel()
	const escaped = "p%40ss%2Fw%25rd%3Ax"
	hosts := []string{
		"redis://u:%s@127.0.0.1:1", "rediss://u:%s@127.0.0.1:1/x?oops=1", "postgres://u:%s@127.0.0.1:1/d?sslmode=oops",
		"postgres://u:%s@127.0.0.1:1/d", "mysql://u:%s@127.0.0.1:1/d", "mysql://u:%s@127.0.0.1:1/d?tls=oops",
		"mongodb://u:%s@127.0.0.1:1/d?timeoutMS=500", "mongodb://u:%s@127.0.0.1:1/?oops=1&authMechanism=oops",
		"etcd://u:%s@127.0.0.1:1", "consul://:%s@127.0.0.1:1", "zookeeper://u:%s@127.0.0.1:1", "sqlite://u:%s@h/x",
		"kubernetes://u:%s@h/x", "oops://u:%s@h", "redis://u:%s@h:1:1/", "redis://u:%s@h/%%zz",
	}
	for i, host := range hosts {
		store := strings.Replace(strings.ReplaceAll(host, "%%", "%"), "%s", escaped, 1)
		calls := [][]string{
			{"list", "--store", store, "--timeout", "500ms"}, {"list", "--store", store, "--timeout", "500ms", "--json"},
		}
		if i == 0 {
			calls = append(calls, []string{"doctor", "--json", "--timeout", "500ms"}, []string{"list", "--help", "--store", store},
				[]string{"list", "--lease", store}, []string{"inspect", store, "--timeout", store},
				[]string{"run", "job", "--lease", "2s", "--", "true"}, []string{store})
		}
		for _, args := range calls {
			v := tool(t, []string{"LEADER_STORE=" + store, "LEADER_HISTORY=" + store}, args...)
			code := v.run(t)
			text := v.out.String() + v.errs.String()
			if strings.Contains(text, password) || strings.Contains(text, escaped) {
				t.Errorf("%q prints the password: %d\n%s", args, code, text)
			}
		}
	}
	redis := testserver.Redis(t, testserver.RedisPassword("the-right-one"))
	v := tool(t, nil, "list", "--store", "redis://:the-wrong-one@"+redis.Addr())
	if code := v.run(t); code != 117 || strings.Contains(v.errs.String(), "the-wrong-one") {
		t.Errorf("%d: %s", code, v.errs.String())
	}
}

func TestHelp_ShowsNothingOfTheEnvironment(t *testing.T) {
	t.Parallel()
	plain := must(t, 0, nil, "run", "--help")
	set := must(t, 0, []string{"LEADER_STORE=redis://u:verysecret@h", "LEADER_NODE=n1", "LEADER_LEASE=7s"}, "run", "--help")
	if plain != set {
		t.Errorf("got\n%s\nwant\n%s", set, plain)
	}
}

func TestCompletion_OffersCommandsFlagsAndNames(t *testing.T) {
	t.Parallel()
	settings, running := scene(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{""}, []string{"run\t", "doctor\t", "release\t"}},
		{[]string{"inspect", ""}, []string{"feed\n", "work/ers\n"}},
		{[]string{"release", ""}, []string{"feed\n"}},
		{[]string{"run", "--le"}, []string{"--lease"}},
		{[]string{"candidates", "feed", "--strategy", ""}, []string{"fifo\n", "success-rate\n"}},
	} {
		text := must(t, 0, settings, append([]string{"__complete"}, c.args...)...)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%q: want %q in\n%s", c.args, want, text)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if text := must(t, 0, nil, "completion", shell); !strings.Contains(text, "leaderctl") {
			t.Errorf("%s: %s", shell, text)
		}
	}
	if text := must(t, 0, []string{"LEADER_STORE=redis://127.0.0.1:1"}, "__complete", "inspect", ""); strings.Contains(text, "refused") {
		t.Errorf("a store that is down: %s", text)
	}
	for _, v := range running {
		v.signal(t, 15)
		v.wait(t)
	}
}
