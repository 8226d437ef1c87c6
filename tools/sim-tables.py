#!/usr/bin/env python3
"""What throughput depends on, in virtual time: one thing at a time, and what limits.

	tools/sim-tables.py FORGE [--time TIME]

YCSB B (and A where atomics matter) with 500,000 keys of 256 bytes, a cache of 10 %, profile cx5, 3
compute nodes with 32 threads each, one memory node, and of these one thing changed at a time.  200,000
operations of warm-up.  The result is the same on every host.  Prints a table for doc/simulator.md.
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


def run(arguments, change):
    argv = [arguments.forge, "sim", "bench", "--json", "-"]
    for name, value in {**BASE, "--seconds": arguments.time, **change}.items():
        argv += [name] if value is None else [name, value]
    return report_of(argv)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge")
    parser.add_argument("--time", default="8ms")
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
