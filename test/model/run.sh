#!/bin/sh
# Exhausts one world of a Spin model, or shows that a mutation of it is caught.
#
#	run.sh BUILD_DIR [long]	every world of the short (long) share
#
# A line of the table is: share, model, name, what is expected, preprocessor flags.
#   holds   no error, and the search was complete: neither depth nor memory cut it short
#   breaks  at least one error: the flags switch one rule off
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
share=${2:-short}
work=$(mktemp -d "$build/model.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
ran=0

one() {
	model=$1 name=$2 expect=$3
	shift 3
	dir=$work/$model.$name
	mkdir "$dir" && cd "$dir" || exit 1
	if ! spin -a "$@" "$here/$model.pml" >gen.txt 2>&1 || grep -q Error gen.txt; then
		cat gen.txt
		echo "FAIL $model $name: spin does not take the model"
		failed=1
		return
	fi
	# -E: fibers of a dead node stop for good, and that is no deadlock
	cc $optimise -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c || { failed=1; return; }
	# of a processor: a busy host may take several times as long
	(ulimit -t "$limit_s" && exec ./pan -E -n -m"$depth" -w"$hash") >out.txt 2>&1
	status=$?
	errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' out.txt)
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out.txt)
	verdict=FAIL
	if [ "$status" -ne 0 ] || [ -z "$errors" ]; then
		verdict="FAIL (status $status)"
	elif [ "$expect" = breaks ]; then
		grep -q 'assertion violated' out.txt && [ "$errors" -ge 1 ] && verdict=ok
	elif [ "$errors" -eq 0 ] &&
	    ! grep -qE 'max search depth too small|out of memory|Search not completed' out.txt; then
		verdict=ok
	fi
	[ "$verdict" = ok ] || { failed=1; head -5 out.txt; }
	ran=$((ran + 1))
	printf '%-6s %-28s %-6s %10s states  %s\n' "$model" "$name" "$expect" "$states" "$verdict"
	cd "$work" && rm -rf "$dir"
}

if [ "$share" = long ]; then
	limit_s=1500 depth=2000000 hash=24 optimise=-O2
else
	# compiling is most of the time here
	limit_s=120 depth=20000 hash=20 optimise=-O0
fi

command -v spin >/dev/null || { echo "spin is not installed: skipped"; exit 77; }

while read -r when model name expect flags; do
	case $when in
	"$share") eval "one $model $name $expect $flags" ;;
	esac
done <"$here/worlds"

echo "$ran worlds"
exit $failed
