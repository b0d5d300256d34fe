package store_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
)

func open(ctx context.Context, t *testing.T, text string, o store.Options) (*store.Store, error) {
	t.Helper()
	l, err := store.Parse(text, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(ctx, l, o)
	if err == nil {
		t.Cleanup(func() { s.Close(time.Second) })
	}
	return s, err
}

func TestOpen_RightsAreThoseOnWhatTheURLNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://h":                       "~leader:* &leader:*",
		"redis://h?prefix=app:":           "~app:* &app:*",
		"etcd://h":                        "readwrite leader/",
		"etcd://h?prefix=app/":            "readwrite app/",
		"consul://h":                      `key_prefix "leader/"`,
		"consul://h?prefix=app/":          `key_prefix "app/"`,
		"postgres://h/d":                  "ON leader_leases, leader_leases_records, leader_history TO",
		"postgres://h/d?table=a":          "ON a, a_records, leader_history TO",
		"mysql://h/d":                     "tables leader_leases, leader_leases_records and leader_history,",
		"mysql://h/d?history_table=b":     "tables leader_leases, leader_leases_records and b,",
		"mysql://h/d?table=a&tls=false":   "tables a, a_records and leader_history,",
		"postgres://h/d?history_table=b.": "",
	} {
		s, err := open(t.Context(), t, text, store.Options{})
		switch {
		case want == "" && err == nil:
			t.Errorf("%s was opened", text)
		case want != "" && (err != nil || !strings.Contains(s.Rights, want)):
			t.Errorf("%s: %+v, %v, want %q", text, s, err, want)
		}
	}
}

func TestOpen_MongoRefusesOptionsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	_, err := open(t.Context(), t, "mongodb://u:secret@h/d?colection=x&replicaSet=r", store.Options{})
	if err == nil || !strings.Contains(err.Error(), "colection") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if _, err := open(t.Context(), t, "mongodb://h/d?collection=x&history_collection=y&replicaSet=r", store.Options{}); err != nil {
		t.Error(err)
	}
}

func TestOpen_EtcdEndsWithItsContext(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := listener.Accept(); err == nil {
			defer c.Close()
		}
		cancel()
	}()
	_, err = open(ctx, t, "etcd://u:secret@"+listener.Addr().String(), store.Options{})
	if backend.KindOf(err) != backend.Unavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, of kind %v", err, backend.KindOf(err))
	}
}

func TestOpen_AHistoryNeedsAPlace(t *testing.T) {
	t.Parallel()
	for scheme, ok := range map[string]bool{"redis": false, "etcd": false, "hazelcast": false, "mysql": true, "mongodb": true} {
		_, err := open(t.Context(), t, scheme+"://h/d", store.Options{History: true})
		if (err == nil) != ok {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// It sets what the clients have for the whole process, and is not parallel for that.
func TestSetLogger_HasWhatClientsSay(t *testing.T) {
	var text bytes.Buffer
	store.SetLogger(slog.New(slog.NewJSONHandler(&text, nil)))
	t.Cleanup(func() { store.SetLogger(slog.New(slog.DiscardHandler)) })
	mysql.NewConfig().Logger.Print("no ", "luck")
	if !strings.Contains(text.String(), `"the client says: no luck","client":"mysql"`) {
		t.Errorf("got %q", text.String())
	}
}
