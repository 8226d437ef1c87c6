#!/usr/bin/env python3
"""How often groups are evicted before every compute node has flushed its hits: window.py FORGE

Three simulated compute nodes, against workload, threads (the rate), poll interval and pauses.  Prints the
share of evicted groups, how many batches of groups an eviction had to wait for, and what polls cost.
"""
import json
import subprocess
import sys

FORGE = sys.argv[1]
KEYS = 200000
OPERATIONS = 200000


def run(workload, threads, interval_us, pause_us):
    argv = [FORGE, "sim", "bench", "--workload", workload, "--keys", str(KEYS), "--cache-percent", "10",
            "--cns", "3", "--threads", str(threads), "--ops", str(OPERATIONS), "--warmup", "100",
            "--poll-interval", f"{interval_us}us", "--pause", f"{pause_us}us", "--json", "-"]
    done = subprocess.run(argv, capture_output=True, check=True)
    return json.loads(done.stdout)


def find(tree, name):
    if isinstance(tree, dict):
        if name in tree:
            return tree[name]
        for value in tree.values():
            found = find(value, name)
            if found is not None:
                return found
    return None


def row(workload, threads, interval_us, pause_us):
    r = run(workload, threads, interval_us, pause_us)
    groups = find(r, "groups_regrouped") + find(r, "groups_requeued")
    unflushed, waits, polls = (find(r, name) for name in ("groups_unflushed", "flush_waits", "polls"))
    verbs = find(find(r, "verbs"), "all")["verbs"]
    print(f"{workload:8} {3 * threads:7} {interval_us:8} {pause_us:8} {groups:7} {unflushed:9}"
          f" {100 * unflushed / groups:7.2f} % {100 * waits / find(r, 'evictions'):6.1f} %"
          f" {100 * polls / verbs:6.2f} %", flush=True)


print(f"{'workload':8} {'threads':>7} {'poll us':>8} {'pause us':>8} {'groups':>7} {'unflushed':>9} {'share':>9}"
      f" {'waits':>8} {'polls':>8}")
for load in ("ycsb-a", "ycsb-c"):
    for count in (4, 32):
        for interval in (25, 100, 400, 1600):
            row(load, count, interval, 0)
for pause in (50, 200, 1000, 3000):
    row("ycsb-a", 32, 100, pause)
