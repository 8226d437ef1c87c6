#!/bin/sh
# tools/install-packages.sh installs exactly what is missing, and nothing when nothing is: it is
# run on a PATH of stand-ins for dpkg-query, apt-get, sudo and id, which record how they were
# called.  packages.sh ROOT
set -u
root=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
wrong=0 cases=0

mkdir "$dir/bin"
for tool in sh dirname sed awk env touch cat grep; do
	ln -s "$(command -v $tool)" "$dir/bin/$tool"
done

stand_in() {
	printf '#!/bin/sh\n%s\n' "$2" >"$dir/bin/$1"
	chmod +x "$dir/bin/$1"
}

stand_in true 'exit 0'
# $dir/absent lists the packages that dpkg does not know; apt-get install takes them off the list
# unless $dir/no-network exists, or unless $dir/no-lists does and no update was made.
stand_in dpkg-query "for p; do :; done
grep -qx \"\$p\" '$dir/absent' && exit 1
printf installed"
stand_in apt-get "echo \"apt-get \$*\" >>'$dir/calls'
case \"\$*\" in
*update*) : >'$dir/updated'; exit 0 ;;
esac
[ -e '$dir/no-network' ] && exit 100
[ -e '$dir/no-lists' ] && [ ! -e '$dir/updated' ] && exit 100
: >'$dir/absent'"

# run UID: the exit status in $status, output in $dir/out
run() {
	stand_in id "echo $1"
	: >"$dir/calls"
	PATH=$dir/bin FORGE_SKIP_PACKAGES=${2:-0} sh "$root/tools/install-packages.sh" \
		>"$dir/out" 2>&1 </dev/null
	status=$?
}

expect() {
	cases=$((cases + 1))
	case $(cat "$dir/out") in
	*"$4"*) said=yes ;;
	*) said=no ;;
	esac
	if [ "$status" != "$2" ] || [ "$(cat "$dir/calls")" != "$3" ] || [ $said = no ]; then
		wrong=$((wrong + 1))
		echo "$1: exit status $status, calls and output:"
		cat "$dir/calls" "$dir/out"
	fi
}

missing() {
	rm -f "$dir/updated" "$dir/no-lists" "$dir/no-network" "$dir/bin/sudo"
	printf '%s\n' "$@" >"$dir/absent"
}

install='apt-get -q install -y --no-install-recommends spin mandoc'

missing
run 1000
expect "nothing is missing" 0 "" ""
missing mandoc spin
run 0
expect "two are missing, as root" 0 "$install" "installing spin mandoc"
missing mandoc spin
: >"$dir/no-lists"
run 0
expect "no package lists yet" 0 "$install
apt-get -q update
$install" "refreshing"
missing mandoc spin
: >"$dir/no-network"
run 0
expect "no network" 1 "$install
apt-get -q update
$install" "did not install: spin mandoc"
missing mandoc spin
run 1000
expect "no root, no sudo" 1 "" "apt-get install --no-install-recommends spin mandoc"
missing mandoc spin
stand_in sudo 'exit 1'
run 1000
expect "sudo wants a password" 1 "" "sudo apt-get install --no-install-recommends spin mandoc"
missing mandoc spin
stand_in sudo '[ "$1" = -n ] || exit 1; shift; exec "$@"'
run 1000
expect "sudo without a password" 0 "$install" "installing spin mandoc"
missing mandoc spin
run 1000 1
expect "told to skip" 0 "" ""
rm "$dir/bin/dpkg-query"
run 0
expect "not Debian" 1 "" "FORGE_SKIP_PACKAGES=1"

echo "$cases cases, $wrong wrong"
[ "$wrong" = 0 ]
