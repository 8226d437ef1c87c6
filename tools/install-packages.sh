#!/bin/sh
# Install the packages of packages.txt that are missing, and nothing else.  When nothing is
# missing neither apt nor sudo is called, so that it works offline and as any user.
#
# FORGE_SKIP_PACKAGES=1 skips the whole step (another distribution, a prepared image).
set -eu
cd "$(dirname "$0")/.."

[ "${FORGE_SKIP_PACKAGES:-0}" = 1 ] && exit 0

wanted=$(sed -e 's/#.*//' packages.txt | awk 'NF { print $1 }')

if ! command -v dpkg-query >/dev/null 2>&1; then
	echo "forge: this system has no dpkg, so missing packages cannot be found out." >&2
	echo "forge: install the equivalents of these, then run make with FORGE_SKIP_PACKAGES=1:" >&2
	echo $wanted >&2
	exit 1
fi

find_missing() {
	missing=
	for package in $wanted; do
		status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
		[ "$status" = installed ] || missing="$missing $package"
	done
}

find_missing
[ -n "$missing" ] || exit 0

echo "forge: installing$missing"
as_root=
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null 2>&1; then
		echo "forge: not root, and there is no sudo.  Run as root, then make again:" >&2
		echo "    apt-get install --no-install-recommends$missing" >&2
		exit 1
	elif sudo -n true 2>/dev/null; then
		as_root="sudo -n"
	elif [ -t 0 ]; then
		as_root=sudo
	else
		echo "forge: sudo wants a password and there is no terminal.  Run this, then make again:" >&2
		echo "    sudo apt-get install --no-install-recommends$missing" >&2
		exit 1
	fi
fi

apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" </dev/null
}

# Package lists may be absent or stale; they are fetched only if the first attempt fails.
if ! apt install -y --no-install-recommends $missing; then
	echo "forge: refreshing the package lists, then trying once more"
	apt update || true
	apt install -y --no-install-recommends $missing || true
fi

find_missing
if [ -n "$missing" ]; then
	echo "forge: apt-get did not install:$missing" >&2
	echo "forge: see its messages above; check the network and /etc/apt/sources.list" >&2
	echo "forge: (Debian 12, component main), then make again" >&2
	exit 1
fi
