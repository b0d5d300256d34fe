#!/usr/bin/env bash
# Runs the tests of every module, or of the one given, with the race detector and in random order, over all failures,
# and ends with one line for each module. GOTESTFLAGS are passed on to go test.

source "$(dirname "$0")/lib.sh"

bash "$tools/servers.sh"

# Where servers.sh installs everything, a missing server is a defect, not a reason to skip.
if ((EUID == 0)) && command -v apt-get >/dev/null; then
	export LEADER_REQUIRE=${LEADER_REQUIRE-all}
fi

gotestsum=$(tool_path gotestsum)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

read -ra flags <<<"-shuffle=on -timeout=10m ${GOTESTFLAGS:-}"
note=
if command -v "$(go env CC)" >/dev/null; then
	flags+=(-race)
	export CGO_ENABLED=1
else
	note="no C compiler: the tests ran without the race detector"
fi

summary=()
failed=0
list=$(modules "${1:-}")
for module in $list; do
	has_packages "$module" || continue
	printf '\n== %s\n' "$module"
	state=ok
	begin=$SECONDS
	(cd "$module" && "$gotestsum" --format=standard-quiet -- "${flags[@]}" ./...) 2>&1 | tee "$log" || {
		state=FAIL
		failed=1
	}
	# gotestsum closes with "DONE 12 tests, 3 skipped, 1 failure in 2.5s".
	closing=$(grep '^DONE ' "$log" | tail -n 1) || true
	tests=$(sed -nE 's/^DONE ([0-9]+) tests?.*/\1/p' <<<"$closing")
	skipped=$(sed -nE 's/.* ([0-9]+) skipped.*/\1/p' <<<"$closing")
	summary+=("$(printf '%-4s  %-28s %4ds  %5d tests  %3d skipped' \
		"$state" "$module" $((SECONDS - begin)) "${tests:-0}" "${skipped:-0}")")
done

printf '\n'
[[ -z $note ]] || echo "$note"
printf '%s\n' "${summary[@]}"
exit $failed
