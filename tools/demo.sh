#!/bin/sh
# Show what the build can do on this host.
set -eu
cd "$(dirname "$0")/.."

if [ ! -x build/src/tool/forge ]; then
	echo "forge: build/src/tool/forge has not been built; run 'make' and read its messages" >&2
	exit 1
fi
exec build/src/tool/forge --help
