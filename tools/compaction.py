#!/usr/bin/env python3
"""What updates cost: the hit ratio of YCSB-A and F beside S3-FIFO, and the verbs of compaction.

	tools/compaction.py FORGE [--ops N] [--processes N] [--sweep]

An update leaves a hole in a group, and a hole is lost capacity until its group is compacted.  YCSB-A
(half updates) and F (half read-modify-writes), 1 M keys, Zipf 0.99, as many objects as the model
of ../shared had (10 % of the distinct keys), from an empty cache; one process and N (3).  S3-FIFO
is the value of an independent implementation that re-uses every hole at once.  --sweep prints A in
one process for several shares of members that may be dead instead (--dead-percent of bench).

Exit status: 0; 1 when forge in one process is more than 1 point below S3-FIFO on A, or compaction
takes 10 % of its verbs or more; 77 when there is nothing to compare with.  FORGE_SHARED names the folder with oracle/ if it is not ../shared.
"""
import argparse
import csv
import os
import sys

from forge_json import report_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("FORGE_SHARED") or os.path.join(ROOT, "..", "shared")
ORACLE = os.path.join(SHARED, "oracle", "hit_ratio.csv")
KEYS = 1000000
POINTS = 1.0
VERBS = 0.10
SWEEP = (100, 30, 25, 22, 19, 17, 15)


def read_oracle():
    """(objects, hit ratio) of S3-FIFO on YCSB-A at 10 %.  F asks for the same keys."""
    with open(ORACLE, newline="", encoding="ascii") as f:
        for row in csv.DictReader(f):
            if (row["trace"], row["mode"], row["frac"]) == ("ycsb_a", "obj", "0.1") and row[
                    "algo"].startswith("S3FIFO"):
                return int(row["cache_size"]), 1 - float(row["miss_ratio"])
    sys.exit(f"{ORACLE}: no row of S3-FIFO for ycsb_a at 0.1")


def run(arguments, policy, workload, objects, processes, dead_percent=0):
    argv = [arguments.forge, "bench", "--policy", policy, "--workload", workload, "--keys",
            str(KEYS), "--ops", str(arguments.ops), "--warmup", "0", "--cache-percent",
            str(100 * objects / KEYS), "--value-bytes", "256", "--processes", str(processes),
            "--dead-percent", str(dead_percent), "--lru", "--json", "-"]
    report = report_of(argv)
    assert report["pool"]["capacity_objects"] <= objects
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    parser.add_argument("--ops", type=int, default=10000000,
                        help="operations of each run (%(default)s)")
    parser.add_argument("--processes", type=int, default=3, help="1: only one process")
    parser.add_argument("--sweep", action="store_true",
                        help="only YCSB-A, with several --dead-percent")
    arguments = parser.parse_args()
    if not os.path.exists(ORACLE):
        print(f"skipped: there is no {ORACLE}, so nothing to compare with")
        return 77
    objects, expected = read_oracle()
    failed = 0
    print(f"{KEYS:,} keys, {arguments.ops:,} operations, {objects:,} objects of 256 bytes, shm; "
          f"S3-FIFO {expected:.4f}")
    print(f"{'workload':8} {'policy':12} {'dead':>5} {'procs':>5} {'LRU':>6} {'hits':>6} {'points':>7} "
          f"{'verbs/op':>8} {'compaction':>10} {'hotness, eviction, space':>24}")
    if arguments.sweep:
        cells = [("ycsb-a", "forge", 1, dead) for dead in SWEEP]
    else:
        cells = [(workload, policy, processes, 0) for workload in ("ycsb-a", "ycsb-f")
                 for policy in ("forge", "forge-paper")
                 for processes in sorted({1, arguments.processes})]
    for workload, policy, processes, dead in cells:
        report = run(arguments, policy, workload, objects, processes, dead)
        result = report["result"]
        verbs, points = result["verbs"], 100 * (result["hit_ratio"] - expected)
        compaction = verbs["by_purpose"]["compaction"]["share"]
        bad = (workload, policy, processes, dead) == ("ycsb-a", "forge", 1, 0) and (
            points < -POINTS or compaction >= VERBS)
        failed += bad
        print(f"{workload:8} {policy:12} {f'{dead} %' if dead else '-':>5} {processes:5} "
              f"{report['lru']['hit_ratio']:6.4f} {result['hit_ratio']:6.4f} {points:+7.2f} "
              f"{verbs['all']['verbs'] / result['operations']:8.3f} {compaction:10.2%} "
              f"{verbs['housekeeping_share'] - compaction:24.2%}" + (" FAILED" if bad else ""),
              flush=True)
    if arguments.sweep:
        return 0
    print("forge in one process on YCSB-A: "
          + ("not " if failed else "") + f"within {POINTS:g} point, for less than {VERBS:.0%} of verbs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
