# The commands of this repository. M names one module, as its folder: make test M=backend/redisleader.

.PHONY: help test servers check fmt bench matrix rehearse release

help: ## lists the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## runs the tests of every module against real servers; GOTESTFLAGS go to go test
	@bash internal/tools/test.sh "$(M)"

servers: ## installs the test servers, where that is possible
	@bash internal/tools/servers.sh

check: ## formatting, go.mod, vet, lint, and builds for Linux, macOS and Windows
	@bash internal/tools/check.sh "$(M)"

fmt: ## formats the Go files
	@bash internal/tools/fmt.sh "$(M)"

bench: servers ## runs the benchmarks
	go test -C bench -run '^$$' -bench . -benchmem ./...

matrix: ## regenerates docs/backends.md from the results of the conformance suite
	@bash internal/tools/matrix.sh

rehearse: ## acts as an outside user: gets and builds every module of the working tree from a module proxy
	@bash internal/tools/rehearse.sh

release: ## makes a release on a branch of its own, with its tags: make release VERSION=v1.2.3
	@bash internal/tools/release.sh "$(VERSION)"
