#!/usr/bin/env bash
# Runs the tests of every module, or of the one given, with the race detector and in random order, over all failures,
# and ends with one line for each module. GOTESTFLAGS are passed on to go test. Most tests wait for leases to end, so
# several modules run at a time, JOBS says how many, and the output is shown of those that fail. That of a single module
# is shown as it comes, on file descriptor 3.

source "$(dirname "$0")/lib.sh"

bash "$tools/servers.sh"

# Where servers.sh installs everything, a missing server is a defect, not a reason to skip.
if ((EUID == 0)) && command -v apt-get >/dev/null; then
	export LEADER_REQUIRE=${LEADER_REQUIRE-all}
fi

gotestsum=$(tool_path gotestsum)
export gotestsum
logs=$(mktemp -d)
export logs
trap 'rm -rf "$logs"' EXIT

export flags="-shuffle=on -timeout=15m ${GOTESTFLAGS:-}"
note=
if command -v "$(go env CC)" >/dev/null; then
	flags+=" -race"
	export CGO_ENABLED=1
else
	note="no C compiler: the tests ran without the race detector"
fi

# test_module tests one module. Its output goes to a file as well, and its line of the summary to another.
test_module() {
	local module=$1 log state=ok begin=$SECONDS closing tests skipped
	log=$logs/m-${module//\//-}
	# shellcheck disable=SC2086 # one word per flag
	(cd "$module" && "$gotestsum" --format=standard-quiet -- $flags ./...) 2>&1 |
		tee "$log.log" >&3 || state=FAIL
	[[ -n ${SHOW:-} || $state == ok ]] || cat "$log.log"
	# gotestsum closes with "DONE 12 tests, 3 skipped, 1 failure in 2.5s".
	closing=$(grep '^DONE ' "$log.log" | tail -n 1) || true
	tests=$(sed -nE 's/^DONE ([0-9]+) tests?.*/\1/p' <<<"$closing")
	skipped=$(sed -nE 's/.* ([0-9]+) skipped.*/\1/p' <<<"$closing")
	printf '%-4s  %-28s %4ds  %5d tests  %3d skipped\n' \
		"$state" "$module" $((SECONDS - begin)) "${tests:-0}" "${skipped:-0}" >"$log.line"
	[[ -n ${SHOW:-} ]] || cat "$log.line"
	[[ $state == ok ]]
}
export -f test_module

# Those that take longest come first, so that none is left over alone at the end.
slow='bench|consul|dynamo|etcd|examples|hazelcast|k8s|mongo|pg|raft|zk|leaderctl|sqltest'
first=()
others=()
list=$(modules "${1:-}")
for module in $list; do
	has_packages "$module" || continue
	if [[ $module =~ $slow ]]; then first+=("$module"); else others+=("$module"); fi
done
((${#first[@]} + ${#others[@]})) || { echo "no packages in ${list:-no module}" >&2 && exit 1; }

exec 3>/dev/null
[[ -z ${1:-} ]] || exec 3>&2
failed=0
printf '%s\n' ${first[@]+"${first[@]}"} ${others[@]+"${others[@]}"} |
	SHOW=${1:-} xargs -P "${JOBS:-3}" -I '{}' bash -c 'set -euo pipefail; test_module {}' || failed=1

printf '\n'
[[ -z $note ]] || echo "$note"
cat "$logs"/*.line
exit $failed
