#!/usr/bin/env python3
"""What throughput depends on, in virtual time: one thing at a time, and what limits.

	tools/sim-tables.py FORGE [--time TIME]

YCSB B (and A where atomics matter) with 500,000 keys of 256 bytes, a cache of 10 %, profile cx5, 3
compute nodes with 32 threads each, one memory node, and of these one thing changed at a time.  200,000
operations of warm-up.  The result is the same on every host.  Prints a table for doc/simulator.md, and
one of how many groups an eviction takes at once (by the share of the pool that a thread has) and what
becomes of them.
"""
import argparse
import sys

from forge_json import report_of

BASE = {"--workload": "ycsb-b", "--keys": "500000", "--ops": "200000", "--warmup": "100", "--cns": "3",
        "--threads": "32"}
# Enough chunks for so many threads, on each node.
MANY = {"--keys": "2000000", "--ops": "300000", "--seconds": "4ms"}
CELLS = [
    ("as described", {}),
    ("hot words in host memory", {"--host-memory": None}),
    ("YCSB A", {"--workload": "ycsb-a"}),
    ("YCSB A, hot words in host memory", {"--workload": "ycsb-a", "--host-memory": None}),
    ("groups of 16", {"--group-objects": "16"}),
    ("groups of 128", {"--group-objects": "128"}),
    ("groups of 256", {"--group-objects": "256"}),
    ("1 compute node", {"--cns": "1"}),
    ("6 compute nodes", {"--cns": "6"}),
    ("8 threads each", {"--threads": "8"}),
    ("96 threads each", {"--threads": "96"}),
    ("cx6", {"--profile": "cx6"}),
    ("cxl", {"--profile": "cxl"}),
    ("tcp", {"--profile": "tcp"}),
    ("96 threads each, 2 million keys", {"--threads": "96", **MANY}),
    ("the same, 2 memory nodes", {"--threads": "96", "--nodes": "2", **MANY}),
    ("the same, 3 memory nodes", {"--threads": "96", "--nodes": "3", **MANY}),
]

# The larger the share of the pool that a thread has, the more groups it claims at once.
MERGES = [(f"{policy}, 3 x {threads} threads, {keys} keys", {"--policy": policy, "--threads": threads, "--keys": keys,
                                                            "--ops": ops, "--seconds": time})
          for policy in ("forge", "forge-paper")
          for threads, keys, ops, time in (("1", "500k", "200k", "80ms"), ("8", "500k", "200k", "10ms"),
                                           ("32", "500k", "200k", "8ms"), ("8", "2M", "1M", "40ms"))]


def run(arguments, change):
    argv = [arguments.forge, "sim", "bench", "--json", "-"]
    for name, value in {**BASE, "--seconds": arguments.time, **change}.items():
        argv += [name] if value is None else [name, value]
    return report_of(argv)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    parser.add_argument("--time", default="8ms",
                        help="measured, of virtual time (%(default)s)")
    arguments = parser.parse_args()
    print("| | Mops/s | hits | P50 us | P99 us | card | held up | link out | bound by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, change in CELLS:
        report = run(arguments, change)
        r, s = report["result"], report["simulation"]
        node, all_ns = s["memory_node"], r["latency_ns"]["all"]
        print(f"| {name} | {r['throughput'] / 1e6:.2f} | {r['hit_ratio']:.1%} | "
              f"{all_ns['p50'] / 1e3:.1f} | {all_ns['p99'] / 1e3:.1f} | {node['card']:.0%} | "
              f"{node['held_up']:.0%} | {node['link_out']:.0%} | {s['bound']} |", flush=True)
    print("\n| | Mops/s | hits | evictions | groups each | of them merged | requeued | rescued of 100 objects | "
          "eviction, verbs of 100 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, change in MERGES:
        r = run(arguments, change)["result"]
        c, n = r["cache"], max(1, r["cache"]["evictions"])
        objects = max(1, c["objects_rescued"] + c["objects_dropped"])
        print(f"| {name} | {r['throughput'] / 1e6:.2f} | {r['hit_ratio']:.1%} | {n} | "
              f"{(c['groups_regrouped'] + c['groups_requeued']) / n:.2f} | {c['groups_regrouped'] / n:.2f} | "
              f"{c['groups_requeued'] / n:.2f} | {100 * c['objects_rescued'] / objects:.0f} | "
              f"{100 * r['verbs']['by_purpose']['eviction']['verbs'] / r['verbs']['all']['verbs']:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
