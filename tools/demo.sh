#!/bin/sh
# A memory node and three compute-node processes on this host, and one page of results.
#
#	make demo [POOL=shm|tcp|unix] [TRACE=FILE] [TRACE_OPTIONS='--columns time,key,size']
#
# With POOL=tcp or unix all but the memory node reach the pool over a socket of this host.
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
case ${POOL:-shm} in
shm) reach=$pool listen= ;;
unix) listen=unix:$directory/node ;;
tcp)
	# A port that nobody has just now.
	port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])')
	listen=tcp://127.0.0.1:$port
	;;
*)
	echo "demo: POOL=$POOL: write shm, tcp or unix" >&2
	exit 1
	;;
esac
# Each takes longer over a socket.
[ -z "$listen" ] || operations=$((operations / 5))
# A busy host may keep a node from answering for longer than a network would.
[ -z "$listen" ] || reach="$listen?timeout=10s"
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
	--cn-max "$processes" ${listen:+--listen "$listen"} >"$directory/said" &
node=$!
# Where it listens, then one line; or the end of the file if it could not start, and has said why.
exec 3<"$directory/said"
ready=listens
while [ "${ready%% *}" = listens ]; do read -r ready <&3 || exit 1; done
exec 3<&-
echo "memory node   process $node: $ready"

if [ -n "$trace" ]; then
	echo "compute nodes $processes processes replay $trace"
	# shellcheck disable=SC2086
	"$forge" replay --pool "$reach" --processes "$processes" --value-bytes "$value_bytes" \
		--verify --json "$directory/run.json" ${TRACE_OPTIONS:-} "$trace" >/dev/null
else
	echo "compute nodes $processes processes run YCSB B"
	"$forge" bench --pool "$reach" --processes "$processes" --workload ycsb-b --keys "$keys" \
		--ops "$operations" --value-bytes "$value_bytes" --verify --lru \
		--json "$directory/run.json" >/dev/null
fi
"$forge" stat --pool "$reach" --scan --json >"$directory/stat.json"
check=0
"$forge" check --pool "$reach" >"$directory/check" 2>&1 || check=$?

echo
python3 tools/demo-page.py "$directory/run.json" "$directory/stat.json" "${POOL:-shm}"
if [ "$check" != 0 ]; then
	cat "$directory/check"
	echo "pool check: NOT clean (forge check: status $check)"
	exit 1
fi
echo "pool check: clean"
