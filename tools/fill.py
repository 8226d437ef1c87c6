#!/usr/bin/env python3
"""How full chunks are when sizes are mixed, and what that is worth in hits.

	tools/fill.py FORGE [--mix NAME,...] [--percent N]

Runs the mixes of keys and sizes that CacheLib publishes (../shared/traces/cachelib_cfg) on a cache
of 10 % of the keys, with values of the published sizes: once with groups of at most 64 objects, of
which one is filled at a time, and once as the pool is made by default.  Beside them what exact LRU
hits that counts the same bytes an object and wastes none.  Exit status: 0; 1 when the default seals
chunks less than 95 % full (column full: the sealed fill), or hits less than the other two; 77 without the files.

FORGE_SHARED names the folder with traces/ if it is not ../shared.
"""
import argparse
import os
import sys

from forge_json import report_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("FORGE_SHARED") or os.path.join(ROOT, "..", "shared")
FOLDER = os.path.join(SHARED, "traces", "cachelib_cfg")
# Keys and operations: at least 100 groups, and memory for a small machine.
MIXES = {
    "graph_cache_leader_fbobj": (200000, 2000000),
    "graph_cache_leader_assocs": (200000, 2000000),
    "kvcache_reg": (200000, 2000000),
    "cdn": (80000, 400000),
}
SHAPES = [("64, 1 at a time", ["--group-objects-max", "64", "--open-groups", "1"]),
          ("default", ["--lru"])]
FILL_TARGET = 0.95


def run(forge, mix, percent, more):
    keys, operations = MIXES[mix]
    argv = [forge, "bench", "-w", f"cachelib:{os.path.join(FOLDER, mix)}", "--keys", str(keys),
            "--ops", str(operations), "--warmup", "50", "--cache-percent", str(percent), "--json",
            "-", *more]
    return report_of(argv)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    parser.add_argument("--mix", default=",".join(MIXES),
                        help="names, comma-separated (%(default)s)")
    parser.add_argument("--percent", type=float, default=10,
                        help="the cache, of the keys (%(default)s)")
    arguments = parser.parse_args()
    if not os.path.isdir(FOLDER):
        print(f"skipped: there is no {FOLDER}")
        return 77
    print(f"{'mix':26} {'groups':16} {'chunks':>6} {'limit':>5} {'in one':>6} {'full':>6} "
          f"{'hits':>7} {'of bytes':>8} {'LRU':>7} {'housekeeping':>12}")
    failed, sums = 0, [0.0] * len(SHAPES)
    mixes = arguments.mix.split(",")
    for mix in mixes:
        hits = []
        for i, (label, more) in enumerate(SHAPES):
            report = run(arguments.forge, mix, arguments.percent, more)
            r, pool, cache = report["result"], report["pool"], report["result"]["cache"]
            lru = report["lru"]["hit_ratio"] if report["lru"] else None
            hits.append(r["hit_ratio"])
            sums[i] += r["hit_ratio"]
            bad = lru is not None and (r["sealed_fill"] < FILL_TARGET or hits[-1] < hits[0]
                                       or hits[-1] < lru)
            failed += bad
            print(f"{mix:26} {label:16} {pool['chunks']:6} {pool['group_objects_max']:5} "
                  f"{cache['objects_sealed'] / cache['groups_sealed']:6.1f} "
                  f"{r['sealed_fill']:6.1%} {r['hit_ratio']:7.4f} {r['byte_hit_ratio']:8.4f} "
                  + (f"{lru:7.4f}" if lru is not None else "      -")
                  + f" {r['verbs']['housekeeping_share']:12.2%}" + (" BELOW" if bad else ""),
                  flush=True)
    print("mean hit ratio: " + ", ".join(f"{label} {s / len(mixes):.4f}"
                                         for (label, _), s in zip(SHAPES, sums)))
    print(f"{failed} below")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
