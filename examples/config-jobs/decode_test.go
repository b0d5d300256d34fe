package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/caarlos0/env/v11"
	"github.com/go-viper/mapstructure/v2"
	goccy "github.com/goccy/go-yaml"
	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/goleader/leader"
	"github.com/goleader/leader/backend/local"
	"github.com/goleader/leader/jobs"
)

const inYAML = `
service: shop
prefix: ""
failureMode: skip
wait: PT1.5S
lease: 30s
minLease: 1s
maxHold: P1D
autoExtend: false
retryFailed: true
missed: runOnce
jitter: 250ms
keep: P2W
drain: 10s
timeZone: Europe/Berlin
jobs:
  - name: report
    every: 1m
    lease: 5s
    autoExtend: true
  - name: cleanup
    cron: 0 2 * * *
    disabled: true
  - name: sync
    delay: 3s
`

const inJSON = `{
	"service": "shop", "prefix": "", "failureMode": "skip", "wait": "PT1.5S", "lease": "30s", "minLease": "1s", "maxHold": "P1D",
	"autoExtend": false, "retryFailed": true, "missed": "runOnce", "jitter": "250ms", "keep": "P2W", "drain": "10s",
	"timeZone": "Europe/Berlin",
	"jobs": [
		{"name": "report", "every": "1m", "lease": "5s", "autoExtend": true},
		{"name": "cleanup", "cron": "0 2 * * *", "disabled": true},
		{"name": "sync", "delay": "3s"}
	]
}`

// inEnvironment is as many variables.
var inEnvironment = map[string]string{
	"SERVICE": "shop", "PREFIX": "", "FAILURE_MODE": "skip", "WAIT": "PT1.5S", "LEASE": "30s", "MIN_LEASE": "1s", "MAX_HOLD": "P1D",
	"AUTO_EXTEND": "false", "RETRY_FAILED": "true", "MISSED": "runOnce", "JITTER": "250ms", "KEEP": "P2W", "DRAIN": "10s",
	"TIME_ZONE":   "Europe/Berlin",
	"JOBS_0_NAME": "report", "JOBS_0_EVERY": "1m", "JOBS_0_LEASE": "5s", "JOBS_0_AUTO_EXTEND": "true",
	"JOBS_1_NAME": "cleanup", "JOBS_1_CRON": "0 2 * * *", "JOBS_1_DISABLED": "true",
	"JOBS_2_NAME": "sync", "JOBS_2_DELAY": "3s",
}

// decoders decode a text with the packages that people use.
var decoders = map[string]func(text string, c *jobs.Config) error{
	"go.yaml.in/yaml/v3":       func(text string, c *jobs.Config) error { return yaml.Unmarshal([]byte(text), c) },
	"github.com/goccy/go-yaml": func(text string, c *jobs.Config) error { return goccy.Unmarshal([]byte(text), c) },
	"sigs.k8s.io/yaml":         func(text string, c *jobs.Config) error { return sigs.Unmarshal([]byte(text), c) },
	"mapstructure (koanf, viper)": func(text string, c *jobs.Config) error {
		var m map[string]any
		if err := yaml.Unmarshal([]byte(text), &m); err != nil {
			return err
		}
		d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: c, ErrorUnused: true})
		if err != nil {
			return err
		}
		return d.Decode(m)
	},
}

func checkSame(t *testing.T, got jobs.Config) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var want jobs.Config
	if err := json.Unmarshal([]byte(inJSON), &want); err != nil {
		t.Fatal(err)
	}
	wanted, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(wanted) {
		t.Errorf("%s\nwant\n%s", text, wanted)
	}
	if want.Prefix == nil || len(want.Jobs) != 3 || want.Jobs[0].Lease != "5s" || want.Keep != "P2W" {
		t.Errorf("what is compared with is wrong: %+v", want)
	}
}

func TestConfig_IsDecodedByThePackagesThatPeopleUse(t *testing.T) {
	for name, decode := range decoders {
		t.Run(name, func(t *testing.T) {
			var c jobs.Config
			if err := decode(inYAML, &c); err != nil {
				t.Fatal(err)
			}
			checkSame(t, c)
		})
	}
	t.Run("github.com/caarlos0/env/v11", func(t *testing.T) {
		var c jobs.Config
		if err := env.ParseWithOptions(&c, env.Options{Environment: inEnvironment}); err != nil {
			t.Fatal(err)
		}
		if c.Prefix == nil { // an empty variable is none, for this package
			c.Prefix = new("")
		}
		checkSame(t, c)
	})
}

func TestConfig_TheEnvironmentWins(t *testing.T) {
	var c jobs.Config
	if err := yaml.Unmarshal([]byte(inYAML), &c); err != nil {
		t.Fatal(err)
	}
	if err := env.ParseWithOptions(&c, env.Options{Environment: map[string]string{"LEASE": "7s"}}); err != nil {
		t.Fatal(err)
	}
	if c.Lease != "7s" || c.Wait != "PT1.5S" || len(c.Jobs) != 3 || c.Jobs[0].Lease != "5s" {
		t.Errorf("%+v; want the lease time alone to be replaced", c)
	}
}

// misspelt has keys that no setting has.
const misspelt = `
leese: 30s
jobs:
  - name: report
    every: 1m
    jiter: 1s
  - name: cleanup
    evry: 1m
`

func TestConfig_MisspeltKeys_AreRefusedByName(t *testing.T) {
	elector, err := leader.New(local.New())
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context) error { return nil }
	for name, decode := range decoders {
		t.Run(name, func(t *testing.T) {
			var c jobs.Config
			err := decode(misspelt, &c)
			if err == nil {
				_, err = jobs.New(elector, c, map[string]leader.Action{"report": nothing, "cleanup": nothing})
			}
			for _, want := range []string{"leese", "jiter", "evry"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not name %q", err, want)
				}
			}
		})
	}
}
