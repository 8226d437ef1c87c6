# A thin front to meson: see `make help`.  Everything lives in build*/ beside this file.
#
# Variables: BUILDTYPE (debugoptimized: -O2 -g, asserts on), PREFIX (/usr/local), DESTDIR,
# JOBS (all cores), FORGE_SKIP_PACKAGES=1 (never call apt-get).

BUILDTYPE ?= debugoptimized
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

MAKEFLAGS += --no-print-directory
SHELL := /bin/sh
sources = $$(find src include test -name '*.[ch]')

# setup DIR with ARGUMENTS, once, and build it
build = { [ -f $(1)/build.ninja ] || meson setup $(1) --buildtype=$(BUILDTYPE) \
	--prefix='$(PREFIX)' $(2); } && ninja -C $(1) -j $(JOBS)
# a program that has nothing to compare with has said "skipped: ..." and ends with 77: no failure
skip = || [ $$? -eq 77 ]
# a time-out measured on a plain build is too short for a sanitized one
slow = --timeout-multiplier 6

.DEFAULT_GOAL := all
.PHONY: all packages demo test test-long fuzz-sim bench bench-serve bench-overlap bench-sim sim-tax sim-tables hit-ratio housekeeping compaction fill window memory check check-format \
	check-warnings check-asan check-tsan install clean help

all: packages ## build everything into build/
	@$(call build,build)

packages: ## install the Debian packages of packages.txt that are missing
	@tools/install-packages.sh

demo: all ## a memory node and three compute nodes on this host, and one page of results
	@tools/demo.sh

test: all ## build, then every suite but the long ones; ends with "N passed, M failed"
	@tools/run-tests.sh build

test-long: all ## the long suites: random schedules, stress, exhaustive worlds
	@tools/run-tests.sh build --suite long --timeout-multiplier 0

fuzz-sim: all ## faults in virtual time for MINUTES (10), from a new seed
	@build/src/tool/forge sim faults --minutes $(or $(MINUTES),10) --seed $$(date +%s)000

bench: all ## measure the speed of this build on this host
	@meson test -C build --no-rebuild --suite bench --num-processes 1 --verbose </dev/null

.PHONY: bench-fabric
bench-fabric: all ## verbs and Gets over TCP and Unix sockets beside a bare echo
	@build/test/bench/fabric_bench

bench-serve: all ## forge serve beside Debian's memcached and Redis, if they are installed
	@tools/bench-serve.py build/src/tool/forge build/test/bench/serve_load

bench-overlap: all ## forge serve on slow fabrics: what requests under way at once gain
	@tools/bench-overlap.py build/src/tool/forge build/test/bench/serve_load

bench-sim: all ## how many verbs a second the simulator gets through on this host (half a minute)
	@tools/sim-speed.py build/src/tool/forge

sim-tax: all ## what housekeeping costs in throughput, in virtual time, YCSB A to D (2 min)
	@tools/sim-tax.py build/src/tool/forge

sim-tables: all ## what throughput depends on, in virtual time, one thing at a time (1 min)
	@tools/sim-tables.py build/src/tool/forge

hit-ratio: all ## every trace of ../shared: hit ratios beside the model of the policy (about 10 min)
	@tools/hit-ratio.py build/src/tool/forge $(skip)

housekeeping: all ## the share of verbs that is not Get and Set, YCSB A to D (4 min)
	@tools/housekeeping.py build/src/tool/forge

compaction: all ## what updates cost: hit ratio and verbs of YCSB A and F, beside S3-FIFO (3 min)
	@tools/compaction.py build/src/tool/forge $(skip)

fill: all ## how full chunks are with Meta's mixes of sizes, and what that is worth in hits (half a minute)
	@tools/fill.py build/src/tool/forge $(skip)

window: all ## how often groups are evicted before all compute nodes flushed, in virtual time (half a minute)
	@tools/window.py build/src/tool/forge

memory: all ## what metadata cost an object, on the memory node and in a compute node (10 s)
	@tools/memory.py build/src/tool/forge

check: check-format check-warnings check-asan check-tsan ## format, warnings and sanitizers

check-format: packages
	@clang-format --dry-run -Werror $(sources) && echo "format: clean"

check-warnings: packages
	@$(call build,build-werror,-Dwerror=true) && echo "warnings: none"

check-asan: packages
	@$(call build,build-asan,-Dwerror=true -Db_sanitize=address$(comma)undefined -Db_lundef=false)
	@tools/run-tests.sh build-asan --no-suite long --no-suite bench $(slow)

check-tsan: packages
	@$(call build,build-tsan,-Dwerror=true -Db_sanitize=thread -Db_lundef=false)
	@tools/run-tests.sh build-tsan --suite mt --no-suite long $(slow)

install: all ## install below PREFIX, staged in DESTDIR if set
	@meson configure build -Dprefix='$(PREFIX)' && ninja -C build -j $(JOBS)
	@DESTDIR='$(DESTDIR)' meson install -C build --no-rebuild
	@[ -n '$(DESTDIR)' ] || [ "$$(id -u)" != 0 ] || ldconfig

clean: ## remove every build directory
	@rm -rf build build-werror build-asan build-tsan

help: ## print this list; times are those of two busy processors
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

comma := ,
