#!/bin/sh
# One object of which only the forge_ functions are visible, as an archive: what a program links
# statically cannot collide with the inside of the library.
#
#	archive.sh CC OBJCOPY AR OUT "LINK_ARGUMENTS" LIBRARY...
#
# The first library is taken whole, the others as far as it needs them.
set -eu
cc=$1 objcopy=$2 ar=$3 out=$4 arguments=$5 whole=$6
shift 6
object=$out.o
# shellcheck disable=SC2086 # the compiler and the arguments are several words
$cc -nostdlib -r -o "$object" $arguments \
	-Wl,--whole-archive "$whole" -Wl,--no-whole-archive -Wl,--start-group "$@" -Wl,--end-group
"$objcopy" --localize-hidden "$object"
rm -f "$out"
"$ar" rcs "$out" "$object"
rm -f "$object"
