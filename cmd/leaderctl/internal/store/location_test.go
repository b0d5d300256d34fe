package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goleader/leader/cmd/leaderctl/internal/store"
)

func TestParse_ReadsAllKindsOfURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, user, password, hosts, path, shown string }{
		{"redis://localhost", "", "", "localhost", "", "redis://localhost"},
		{"redis://:pw@h:6379/2", "", "pw", "h:6379", "2", "redis://:xxxxx@h:6379/2"},
		{"postgres://u:p%40w@h/db?sslmode=disable", "u", "p@w", "h", "db", "postgres://u:xxxxx@h/db?sslmode=disable"},
		{"mongodb://u:p@a:1,b:2/db?replicaSet=r", "u", "p", "a:1 b:2", "db", "mongodb://u:xxxxx@a:1,b:2/db?replicaSet=r"},
		{"etcd://[::1]:2379", "", "", "[::1]:2379", "", "etcd://[::1]:2379"},
		{"sqlite:leader.db", "", "", "", "leader.db", "sqlite:leader.db"},
		{"sqlite:/var/lib/a b.db", "", "", "", "/var/lib/a b.db", "sqlite:/var/lib/a%20b.db"},
		{"kubernetes:", "", "", "", "", "kubernetes:"},
		{"kubernetes:ns?context=x", "", "", "", "ns", "kubernetes:ns?context=x"},
		{"postgres:///db?host=%2Frun", "", "", "", "db", "postgres:///db?host=%2Frun"},
		{"postgres://u:pw@/db?host=%2Frun", "u", "pw", "", "db", "postgres://u:xxxxx@/db?host=%2Frun"},
		{"consul://:a-token@h?token=t", "", "a-token", "h", "", "consul://:xxxxx@h?token=xxxxx"},
	} {
		l, err := store.Parse(c.text, "")
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if l.User != c.user || l.Password != c.password || strings.Join(l.Hosts, " ") != c.hosts || l.Path != c.path {
			t.Errorf("%s: %+v", c.text, l)
		}
		if l.String() != c.shown {
			t.Errorf("%s is shown as %s, want %s", c.text, l, c.shown)
		}
		again, err := store.Parse(l.URL(), "")
		if err != nil || again.URL() != l.URL() || again.Password != l.Password || !slices.Equal(again.Hosts, l.Hosts) {
			t.Errorf("%s: its URL %q is read as %+v, %v", c.text, l.URL(), again, err)
		}
	}
}

func TestParse_ThePasswordOfTheURLIsStronger(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"redis://h": "given", "redis://u@h": "given", "redis://u:own@h": "own"} {
		l, err := store.Parse(text, "given")
		if err != nil || l.Password != want {
			t.Errorf("%s: %+v, %v", text, l, err)
		}
	}
}

func TestParse_SaysWhatIsWrongWithoutThePassword(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "localhost", "redis://u:secret@h:1:2", "redis://u:secret@", "redis://u:secret@a,,b/", "redis://u:sec%zzret@h",
		"redis://u:secret@h/%zz", "redis://u:secret@h?a=%zz", "redis://u:secret@h h/",
	} {
		l, err := store.Parse(text, "")
		if err == nil && len(l.Hosts) > 0 {
			t.Errorf("%q is read as %+v", text, l)
		}
		if err != nil && strings.Contains(err.Error(), "sec") && strings.Contains(err.Error(), "ret@") {
			t.Errorf("%q: the error shows the password: %v", text, err)
		}
	}
}

func TestParse_ShowsNothingOfAPasswordThatIsNotEscaped(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"redis://:first/last@h:6379", "redis://u:first?last@h", "redis://u:12/last@h:6379/0", "redis://u:12?last@h", "redis://:1#2/last@h",
	} {
		l, err := store.Parse(text, "")
		if err == nil {
			t.Errorf("%q is read as %+v", text, l)
			continue
		}
		for _, part := range []string{"first", "last", "12"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error shows a part of the password: %v", text, err)
			}
		}
	}
}

func TestOpen_RefusesWhatItWouldNotLookAt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis:redis.internal:6379": "redis://host", // else it would be this machine's
		"mysql:host/db":             "mysql://host",
		"etcd://h:2379/team":        "?prefix=",
		"consul://h:8500/team":      "?prefix=",
		"consul://a-token@h":        "consul://:token@host",
		"kubernetes://ns":           "kubernetes:namespace",
		"sqlite://leader.db":        "sqlite:path",
	} {
		l, err := store.Parse(text, "")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		s, err := store.Open(t.Context(), l, store.Options{})
		if err == nil {
			s.Close(time.Second)
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "a-token") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSchemes_AreAll(t *testing.T) {
	t.Parallel()
	want := []string{
		"consul", "dynamodb", "etcd", "hazelcast", "kubernetes", "mongodb", "mysql", "postgres", "postgresql", "redis", "rediss",
		"sqlite", "zookeeper",
	}
	if got := store.Schemes(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
