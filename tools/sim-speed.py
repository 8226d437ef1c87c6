#!/usr/bin/env python3
"""How fast this host simulates: verbs a second of one processor, with 256 virtual client threads.

	tools/sim-speed.py FORGE [--runs N]

YCSB A and B, 1 million keys, a cache of 10 %, profile cx5: 4 compute nodes of 64 threads.  Each run is
a process of its own; verbs of the whole run (warm-up included) are divided by the processor time it
took, set-up included.  The best of the runs counts, since all that others do on the machine makes a
run slower.  Exit status 1 below 1 million verbs a second, or at 1 GB of memory and more.
"""
import argparse
import resource
import sys

from forge_json import report_of

TARGET = 1e6
MEMORY_BYTES_MAX = 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    parser.add_argument("--runs", type=int, default=3,
                        help="of which the best counts (%(default)s)")
    parser.add_argument("--ops", type=int, default=1000000,
                        help="operations of each run (%(default)s)")
    arguments = parser.parse_args()
    failed = False
    for workload in ("ycsb-a", "ycsb-b"):
        rates = []
        for _ in range(arguments.runs):
            argv = [arguments.forge, "sim", "bench", "--workload", workload, "--cns", "4", "--threads",
                    "64", "--keys", "1000000", "--ops", str(arguments.ops), "--json", "-"]
            report = report_of(argv)
            rates.append(report["simulation"]["verbs"] / report["simulation"]["host_seconds"])
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        bad = max(rates) < TARGET or memory >= MEMORY_BYTES_MAX
        failed |= bad
        print(f"{workload}: 256 threads, {report['simulation']['verbs']:,} verbs, "
              f"{report['simulation']['events']:,} events; "
              + ", ".join(f"{r / 1e6:.2f}" for r in sorted(rates))
              + f" M verbs/s of one processor, {memory / 1e6:.0f} MB at most"
              + (" TOO SLOW OR TOO LARGE" if bad else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
