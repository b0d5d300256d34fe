// Package jobs runs the jobs that a configuration declares, each on one of all nodes, once for each of its fire times.
//
//	# jobs.yaml
//	lease: 30s
//	jobs:
//	  - name: report
//	    every: 1m
//	  - name: cleanup
//	    cron: "0 2 * * *"
//	    missed: runOnce
//
// The program has the actions:
//
//	var config jobs.Config
//	if err := yaml.Unmarshal(text, &config); err != nil { ... }
//	table, err := jobs.New(elector, config, map[string]leader.Action{"report": report, "cleanup": cleanup},
//		jobs.WithCron(cron.ParseStandard))
//	...
//	err = table.Run(ctx)
//
// [New] checks the configuration as a whole, reports everything that is wrong with it at once, and starts nothing. Only a
// table without any error can be run, so that no configuration starts half of the jobs. Package schedule says what a run
// is, and what its settings mean.
//
// # Decoding
//
// A [Config] is made of texts, numbers of jobs, and yes or no. It has tags for encoding/json, for the YAML packages, and
// for github.com/caarlos0/env; packages on top of mapstructure, such as koanf and viper, need none. Durations and policies
// stay texts until New looks at them, so that it can name all that are wrong, and not only the first.
//
// A key that no setting has, a misspelt one, is kept by the decoders of JSON and YAML, and is an error of New. Other
// decoders have an option for that (ErrorUnused of mapstructure), but none can tell of a misspelt environment variable.
package jobs
