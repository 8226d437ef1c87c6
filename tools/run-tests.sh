#!/bin/sh
# Run tests of a build directory and close with one line "N passed, M failed[, K skipped]".
#
#	tools/run-tests.sh BUILD_DIR [meson test arguments]
#
# Without arguments: every suite but long and bench.  Test cases of cmocka programs count one by
# one, other programs count as one.  Fails when anything failed or nothing ran.
set -u
cd "$(dirname "$0")/.."

build=$1
shift
[ $# -gt 0 ] || set -- --no-suite long --no-suite bench

log=$build/meson-logs/testlog.json
rm -f "$log"
meson test -C "$build" --no-rebuild --print-errorlogs "$@" </dev/null
status=$?
exec python3 tools/count-tests.py "$log" "$status"
