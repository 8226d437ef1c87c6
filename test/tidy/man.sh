#!/bin/sh
# The manual pages are clean mdoc: man.sh ROOT.  Also shows that the linter finds a planted slip.
set -u
if ! command -v mandoc >/dev/null 2>&1; then
	echo "skipped: mandoc is not installed"
	exit 77
fi
set -- "$1"/doc/man/*.[1-9]
[ -f "$1" ] || { echo "there is no manual page"; exit 1; }
mandoc -Tlint -W warning "$@" || exit 1
if sed 's/^\.Sh NAME/.Sh NAMES/' "$1" | mandoc -Tlint -W warning >/dev/null 2>&1; then
	echo "mandoc did not notice a broken NAME section"
	exit 1
fi
echo "$# page(s), clean"
