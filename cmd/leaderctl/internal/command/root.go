// Package command has the commands of the tool, one in each file.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend"
	"github.com/goleader/leader/cmd/leaderctl/internal/redact"
	"github.com/goleader/leader/cmd/leaderctl/internal/store"
)

// closeTime is how long the end of a client may take: it must not keep a result from its caller.
const closeTime = 2 * time.Second

// openPause is the mean time between two tries to open a store.
const openPause = time.Second

// tool is what all commands share.
type tool struct {
	out       io.Writer // what is printed has to be without secrets, see text and printJSON
	err       io.Writer // for text, which loses its secrets here
	errLines  io.Writer // for JSON, beside the output; as for out
	secrets   *redact.Secrets
	formatted bool // the settings were read, or tried to be: json is what the user wants

	url          string // of the store
	history      string // URL of the history, "" for the store's own, "none"
	create       bool   // the command may create what a store lacks
	patient      bool   // the command waits for ever, also for a store that is down
	namespace    string
	password     string
	passwordFile string
	timeout      time.Duration
	lease        time.Duration // 0 if none was given
	json         bool
	config       string
}

// Main runs the tool and returns its exit code.
func Main(ctx context.Context, args []string, out, errs io.Writer) int {
	secrets := new(redact.Secrets)
	for _, text := range append(ownEnvironment(), args...) {
		secrets.AddFrom(text)
	}
	t := &tool{out: out, err: secrets.Writer(errs), errLines: errs, secrets: secrets}
	root := t.root() //nolint:contextcheck // what is made has the context of its call
	root.SetArgs(args)
	root.SetOut(t.out)
	root.SetErr(t.err)
	err := root.ExecuteContext(ctx)
	if e, ok := errors.AsType[*exitError](err); err != nil && (!ok || e.err != nil) {
		t.setFormat(root)
		t.complain(err)
	}
	return codeOf(err)
}

// ownEnvironment are the variables that this tool is set with. Passwords of others are none of its secrets.
func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(v, environment) })
}

// complain tells the user of an error.
func (t *tool) complain(err error) {
	text := strings.TrimPrefix(err.Error(), "leader: ")
	if t.json {
		t.printErr(struct {
			Error string `json:"error"`
			Exit  int    `json:"exit"`
		}{text, codeOf(err)})
		return
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(t.err, "leaderctl: "+printable(strings.TrimSuffix(line, "\n")))
	}
}

const rootHelp = `leaderctl runs commands on the node that leads, and shows who leads, since when and for how long.

The store is named by a URL:

  %s

Every flag can also be given as an environment variable, --store as LEADER_STORE, or in a file as "store: …", which is
%s or what --config or LEADER_CONFIG names. A flag is
stronger than the environment, and that is stronger than the file.

A password need not be in the URL: it can be in LEADER_PASSWORD, or in a file that --password-file names. Errors, log lines
and JSON show xxxxx in its place. Exit codes: 113 usage, 114 skipped, 115 lease lost, 116 store unavailable,
117 store refuses, 118 internal, 119 findings of doctor, 120 fence not current.`

func (t *tool) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "leaderctl",
		Short:             "Run commands where they lead, and see who leads",
		Long:              fmt.Sprintf(rootHelp, strings.Join(store.Examples(), "\n  "), defaultConfigShown()),
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: t.configure,
		Args:              cobra.NoArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	f := root.PersistentFlags()
	f.StringVarP(&t.url, "store", "s", "", "`URL` of the store")
	f.StringVar(&t.history, "history", "", "`URL` of the database with the history, or none; default is the store itself")
	f.StringVarP(&t.namespace, "namespace", "n", "", "keeps names apart from the same ones elsewhere in the store")
	f.StringVar(&t.passwordFile, "password-file", "", "`file` with the password of the store, not of --history")
	f.DurationVar(&t.timeout, "timeout", 10*time.Second, "how long a question to the store may take")
	f.BoolVar(&t.json, "json", false, "print JSON")
	f.StringVar(&t.config, "config", "", "configuration `file`")
	root.AddCommand(t.runCommand(), t.listCommand(), t.inspectCommand(), t.watchCommand(), t.candidatesCommand(),
		t.historyCommand(), t.releaseCommand(), t.doctorCommand(), t.migrateCommand(), t.versionCommand())
	for _, c := range root.Commands() {
		if c.Args != nil {
			args := c.Args
			c.Args = func(c *cobra.Command, list []string) error { return usage(args(c, list)) }
		}
	}
	root.Args = func(_ *cobra.Command, list []string) error {
		if len(list) > 0 {
			return usage(fmt.Errorf("there is no command %q, see leaderctl --help", list[0]))
		}
		return nil
	}
	return root
}

// open opens the store, and the history if that is elsewhere. end is to be called when both are needed no more.
func (t *tool) open(ctx context.Context) (s *store.Store, end func(), err error) {
	store.SetLogger(t.logger())
	s, err = t.openStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	switch t.history {
	case "":
		return s, func() { s.Close(closeTime) }, nil
	case "none":
		s.History = nil
		return s, func() { s.Close(closeTime) }, nil
	}
	// The store's password is not for another server.
	other, err := t.openURL(ctx, t.history, "", store.Options{Create: t.create, History: true})
	if err != nil {
		s.Close(closeTime)
		return nil, nil, fmt.Errorf("--history: %w", err)
	}
	s.History, s.HistoryIn = other.History, other.Driver.Name()
	return s, func() { other.Close(closeTime); s.Close(closeTime) }, nil
}

// openStore tries again while the store is down, if the command waits for ever: some clients connect at once.
func (t *tool) openStore(ctx context.Context) (*store.Store, error) {
	for {
		s, err := t.openURL(ctx, t.url, t.password, store.Options{Lease: t.lease, Create: t.create})
		if !t.patient || backend.KindOf(err) != backend.Unavailable || ctx.Err() != nil {
			return s, err
		}
		t.logger().WarnContext(ctx, "the store cannot be opened: trying again", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(openPause/2 + rand.N(openPause)):
		}
	}
}

func (t *tool) openURL(ctx context.Context, url, password string, o store.Options) (*store.Store, error) {
	l, err := store.Parse(url, password)
	if err != nil {
		return nil, usage(err)
	}
	t.secrets.Add(l.Secrets()...)
	s, err := store.Open(ctx, l, o)
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() == nil && backend.KindOf(err) == backend.Unknown:
		return nil, usage(err)
	}
	return nil, withCause(ctx, err) // the store was asked, and the kind says how that ended
}

// within is ctx with the time for a question, and ends by a signal.
func (t *tool) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := untilSignal(ctx)
	bounded, cancel := context.WithTimeout(ctx, t.timeout)
	return bounded, func() { cancel(); stop() }
}

// untilSignal is ctx, which a signal ends too.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case sig := <-signals:
			if s, ok := sig.(syscall.Signal); ok {
				cancel(signaled{s})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// elector returns an elector on the store with the options of all commands.
func (t *tool) elector(s *store.Store, opts ...leader.Option) (*leader.Single, error) {
	return leader.New(unadvised{s.Driver}, append(t.options(), opts...)...)
}

func (t *tool) options() []leader.Option {
	opts := []leader.Option{leader.WithLogger(t.logger())}
	if t.namespace != "" {
		opts = append(opts, leader.WithNamespace(t.namespace))
	}
	return opts
}

func (t *tool) logger() *slog.Logger {
	if t.json {
		o := &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: t.withoutSecrets}
		return slog.New(slog.NewJSONHandler(t.errLines, o))
	}
	return slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// withoutSecrets is an attribute of a log line for JSON.
func (t *tool) withoutSecrets(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindAny && a.Value.Kind() != slog.KindString {
		return a
	}
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(t.secrets.Text(err.Error()))
		return a
	}
	a.Value = slog.AnyValue(t.secrets.Document(a.Value.Any()))
	return a
}

// unadvised is a driver of which no advice is logged: doctor is asked for it.
type unadvised struct{ backend.Driver }

// Advise has none.
func (unadvised) Advise(context.Context) ([]string, error) { return nil, nil }

// Unwrap leads to all other abilities.
func (u unadvised) Unwrap() backend.Driver { return u.Driver }
