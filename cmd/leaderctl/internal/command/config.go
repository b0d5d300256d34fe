package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// environment is what the names of variables begin with.
const environment = "LEADER_"

// passwordKey is a setting that is no flag, as flags are shown to everybody in the list of processes.
const passwordKey = "password"

// once are flags that belong to one call: they have no default from elsewhere.
var once = []string{"help", "config", "fence", "slot", "reason", "by", "run-key", "all", "limit", "read-only"}

// creating are the commands that create what a store lacks. The others look, or change what is there.
var creating = []string{"run", "migrate"}

// configure gives the flags that were not given the values of the environment or else of the file.
func (t *tool) configure(c *cobra.Command, _ []string) error {
	if c.Name() == "help" || c.HasParent() && c.Parent().Name() == "completion" {
		return nil
	}
	t.create = slices.Contains(creating, c.Name())
	return usage(t.settings(c))
}

func (t *tool) settings(c *cobra.Command) error {
	file, err := t.readConfig()
	if err != nil {
		return err
	}
	var wrong []error
	known := map[string]bool{passwordKey: true}
	for _, each := range append(c.Root().Commands(), c.Root()) {
		each.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		each.PersistentFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	for name := range file {
		if !known[name] || slices.Contains(once, name) {
			wrong = append(wrong, fmt.Errorf("the configuration file has %q, which is no setting", name))
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed && !slices.Contains(once, f.Name) {
			wrong = append(wrong, setFrom(f, file))
		}
	})
	t.formatted = true
	if t.timeout <= 0 {
		wrong = append(wrong, fmt.Errorf("--timeout %v: it must be more than 0", t.timeout))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	return t.readPassword(c.Flags(), file)
}

// setFormat finds out whether JSON is wanted where a call was wrong before its settings were read.
func (t *tool) setFormat(root *cobra.Command) {
	f := root.PersistentFlags().Lookup("json")
	if t.formatted || f.Changed {
		return
	}
	file, _ := t.readConfig()
	_ = setFrom(f, file) // something else is to be said
}

// variable is the name of the environment variable of a flag.
func variable(flag string) string {
	return environment + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromFile reports whether a flag has its value from the file.
func fromFile(f *pflag.Flag, file map[string]string) bool {
	return !f.Changed && os.Getenv(variable(f.Name)) == "" && file[f.Name] != ""
}

// setFrom sets a flag from the environment or else the file.
func setFrom(f *pflag.Flag, file map[string]string) error {
	value, from := os.Getenv(variable(f.Name)), variable(f.Name)
	if value == "" {
		value, from = file[f.Name], "the configuration file's "+f.Name
	}
	if value == "" {
		return nil
	}
	if err := f.Value.Set(value); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// readPassword finds the password of the store: in the file that a flag names, else in the environment, else in what the
// configuration file says. That one is for the store of the same file alone.
func (t *tool) readPassword(flags *pflag.FlagSet, file map[string]string) (err error) {
	given, named := os.Getenv(variable(passwordKey)), flags.Lookup("password-file")
	theirs := fromFile(flags.Lookup("store"), file)
	t.secrets.Add(given, file[passwordKey])
	switch {
	case given != "" && !named.Changed:
		t.password = given
	case t.passwordFile != "" && (theirs || !fromFile(named, file)):
		t.password, err = readSecret(t.passwordFile)
		t.secrets.Add(t.password)
	case theirs:
		t.password = file[passwordKey]
	}
	return err
}

func readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// readConfig reads the file: one setting in a line, with a colon, in YAML.
func (t *tool) readConfig() (map[string]string, error) {
	path, must := t.config, t.config != ""
	if path == "" {
		path, must = os.Getenv(environment+"CONFIG"), true
	}
	if path == "" {
		path, must = defaultConfig(), false
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil, nil //nolint:nilnil // there need not be one
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	t.secrets.AddFrom(string(text))
	settings := make(map[string]string)
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return nil, fmt.Errorf("the configuration file %s is not made of lines like \"lease: 30s\"", path)
	}
	return settings, nil
}

func defaultConfig() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "leaderctl", "config.yaml")
}

// defaultConfigShown is the same on every machine, for texts.
func defaultConfigShown() string {
	return "leaderctl/config.yaml in the user's folder for configurations"
}
