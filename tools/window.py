#!/usr/bin/env python3
"""How often groups are evicted before every compute node has flushed its hits.

	tools/window.py FORGE

Three simulated compute nodes, against workload, threads (the rate), poll interval and pauses.  Prints the
share of evicted groups, that of hits which were flushed too late to be seen, how many batches of groups an eviction had to wait for, and what polls cost.
"""
import argparse

from forge_json import report_of

SMALL, LARGE = (200000, 200000), (2000000, 800000)  # keys, operations


def run(forge, size, workload, threads, interval_us, pause_us):
    argv = [forge, "sim", "bench", "--workload", workload, "--keys", str(size[0]), "--cache-percent", "10",
            "--cns", "3", "--threads", str(threads), "--ops", str(size[1]), "--warmup", "100",
            "--poll-interval", f"{interval_us}us", "--pause", f"{pause_us}us", "--json", "-"]
    return report_of(argv)


def find(tree, name):
    if isinstance(tree, dict):
        if name in tree:
            return tree[name]
        for value in tree.values():
            found = find(value, name)
            if found is not None:
                return found
    return None


def row(forge, size, workload, threads, interval_us, pause_us):
    r = run(forge, size, workload, threads, interval_us, pause_us)
    groups = find(r, "groups_regrouped") + find(r, "groups_requeued")
    unflushed, waits, polls = (find(r, name) for name in ("groups_unflushed", "flush_waits", "polls"))
    late, flushed = find(r, "hits_late"), find(r, "hits_flushed")
    verbs = find(find(r, "verbs"), "all")["verbs"]
    print(f"{size[0]:8} {workload:8} {3 * threads:7} {interval_us:8} {pause_us:8} {groups:7} {unflushed:9}"
          f" {100 * unflushed / groups:7.2f} % {100 * late / (late + flushed):7.2f} % {100 * waits / find(r, 'evictions'):6.1f} %"
          f" {100 * polls / verbs:6.2f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    forge = parser.parse_args().forge
    print(f"{'keys':>8} {'workload':8} {'threads':>7} {'poll us':>8} {'pause us':>8} {'groups':>7} {'unflushed':>9} {'share':>9}"
          f" {'hits late':>9} {'waits':>8} {'polls':>8}")
    for load in ("ycsb-a", "ycsb-c"):
        for count in (4, 32):
            for interval in (25, 100, 400, 1600):
                row(forge, SMALL, load, count, interval, 0)
    for of in (SMALL, LARGE):
        for pause in (50, 200, 1000, 3000):
            row(forge, of, "ycsb-a", 32, 100, pause)


if __name__ == "__main__":
    main()
