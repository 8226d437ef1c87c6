#!/bin/sh
# A memory node and three compute-node processes on this host, and one page of results.
#
#	make demo [TRACE=FILE] [TRACE_OPTIONS='--columns time,key,size']
#
# Replays TRACE with a cache of 10 % of its objects; without it ../shared/traces/ids/arc_oltp, and
# where that is not there runs YCSB B.  FORGE_SHARED names the folder if it is not ../shared.
# Needs no privileges; the node is stopped and its memory given back however this ends.
set -eu
cd "$(dirname "$0")/.."

forge=./build/src/tool/forge
processes=3
percent=10
value_bytes=256
keys=200000
operations=1000000

if [ ! -x "$forge" ]; then
	echo "demo: $forge has not been built; run 'make' and read its messages" >&2
	exit 1
fi
shared=${FORGE_SHARED:-../shared}
# Options set in the environment are for other runs of forge than these.
for name in $(env | sed -n 's/^\(FORGE_[A-Z_]*\)=.*/\1/p'); do
	[ "$name" = FORGE_LOG ] || unset "$name"
done

trace=${TRACE:-}
if [ -n "$trace" ] && [ ! -r "$trace" ]; then
	echo "demo: TRACE=$trace cannot be read" >&2
	exit 1
fi
[ -n "$trace" ] || trace=$shared/traces/ids/arc_oltp.u32.zst
[ -r "$trace" ] || trace=

pool_file=forge-demo-$$
pool=shm:/$pool_file
directory=$(mktemp -d "${TMPDIR:-/tmp}/forge-demo.XXXXXX")
node=

clean_up() {
	trap - EXIT INT TERM HUP
	if [ -n "$node" ] && kill -TERM "$node" 2>/dev/null; then
		wait "$node" || true
	fi
	# Only if the node was killed and could not do it.
	rm -f "/dev/shm/$pool_file"
	rm -rf "$directory"
}
trap clean_up EXIT
trap 'clean_up; exit 130' INT
trap 'clean_up; exit 143' TERM HUP

# The load, how many objects the cache is to hold, and the bytes of one.
if [ -n "$trace" ]; then
	# shellcheck disable=SC2086 # TRACE_OPTIONS are several words
	"$forge" replay --footprint ${TRACE_OPTIONS:-} "$trace" >"$directory/footprint"
	ids=$(awk '$1 == "ids" { print $2 }' "$directory/footprint")
	object_bytes=$((value_bytes + 8))
else
	echo "demo: there is no TRACE and no $shared/traces, so this is YCSB B"
	ids=$keys
	object_bytes=$((value_bytes + 20))
fi
objects=$((ids * percent / 100))

# The smallest pool of that capacity, to the KiB: what a pool of a size holds is the plan's answer.
capacity() {
	"$forge" node --plan --size "${1}K" --object-bytes "$object_bytes" \
		--cn-max "$processes" 2>/dev/null |
		awk '$1 == "effective" { print $3; found = 1 } END { if (!found) print 0 }'
}
low=0
high=64
while [ "$(capacity "$high")" -lt "$objects" ]; do
	low=$high
	high=$((high * 2))
done
while [ $((high - low)) -gt 1 ]; do
	middle=$(((low + high) / 2))
	if [ "$(capacity "$middle")" -lt "$objects" ]; then low=$middle; else high=$middle; fi
done

mkfifo "$directory/said"
"$forge" node --pool "$pool" --size "${high}K" --object-bytes "$object_bytes" \
	--cn-max "$processes" >"$directory/said" &
node=$!
# One line, or the end of the file if it could not start; then it has said why.
read -r ready <"$directory/said" || exit 1
echo "memory node   process $node: $ready"

if [ -n "$trace" ]; then
	echo "compute nodes $processes processes replay $trace"
	# shellcheck disable=SC2086
	"$forge" replay --pool "$pool" --processes "$processes" --value-bytes "$value_bytes" \
		--verify --json "$directory/run.json" ${TRACE_OPTIONS:-} "$trace" >/dev/null
else
	echo "compute nodes $processes processes run YCSB B"
	"$forge" bench --pool "$pool" --processes "$processes" --workload ycsb-b --keys "$keys" \
		--ops "$operations" --value-bytes "$value_bytes" --verify --lru \
		--json "$directory/run.json" >/dev/null
fi
"$forge" stat --pool "$pool" --scan --json >"$directory/stat.json"
check=0
"$forge" check --pool "$pool" >"$directory/check" 2>&1 || check=$?

echo
python3 tools/demo-page.py "$directory/run.json" "$directory/stat.json"
if [ "$check" != 0 ]; then
	cat "$directory/check"
	echo "pool check: NOT clean (forge check: status $check)"
	exit 1
fi
echo "pool check: clean"
