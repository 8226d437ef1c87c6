#!/usr/bin/env python3
"""No wrong value ever: processes on a tiny pool that evicts all the time, every Get verified.

	stress.py FORGE [MILLIONS]

Values carry key and version over their whole length; a Get must return the latest version that
was acknowledged before it began, or one written meanwhile (src/bench/fresh.h).  Afterwards the
pool is checked.  MILLIONS of operations (30, which verify about 10 million values) are divided
among the cases.  The last case shows that an old value would have been seen.
"""
import json
import subprocess
import sys

from harness import FORGE, PATIENCE_S, case, main

OPERATIONS = int(sys.argv[2] if len(sys.argv) > 2 else 30) * 1_000_000 // 5
MIXED = "zipf:0.6,get=0.5,set=0.45,delete=0.05,sizes=each:16-400"


def stress(t, policy, operations, *load):
    """4 processes on a pool of about 40 groups; then forge check."""
    t.node("--size", "1M", "--policy", policy, "--cn-max", "4")
    argv = [FORGE, "bench", "--pool", t.pool, "--stress", "--processes", "4", "--ops",
            str(operations), "--warmup", "0", "--json", t.path("json"), *load]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env,
                          timeout=100 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    t.on_pool("check").expect(0)
    with open(t.path("json"), encoding="utf-8") as f:
        r = json.load(f)["result"]
    assert r["operations"] == operations
    assert r["verified"] == r["hits"] > operations // 20, r["hits"]
    assert r["fresh"] > r["verified"] // 2, "most keys have one writer"
    assert r["cache"]["groups_regrouped"] > operations // 2000, "it was to evict all the time"
    assert r["cache"]["objects_rescued"] > 0
    print(f"{r['verified']:,} values verified in {operations:,} operations")


@case
def forge_mixed(t):
    stress(t, "forge", 2 * OPERATIONS, "--workload", MIXED, "--keys", "8000")


@case
def forge_paper_mixed(t):
    stress(t, "forge-paper", OPERATIONS, "--workload", MIXED, "--keys", "8000")


@case
def few_keys_that_are_overwritten(t):
    stress(t, "forge", OPERATIONS, "--workload", "uniform:get=0.5,update=0.5,sizes=each:16-400",
           "--keys", "1500")


@case
def mostly_read(t):
    stress(t, "forge", OPERATIONS, "--workload", "zipf:0.9,get=0.95,update=0.05,sizes=each:16-400",
           "--keys", "20000")


@case
def an_old_value_is_seen(t):
    """An earlier value of a key is stored again behind the run's back, until the run has seen it."""
    t.node("--size", "4M")
    run = subprocess.Popen([FORGE, "bench", "--pool", t.pool, "--stress", "-P", "2", "--workload",
                            "uniform:get=0.999,update=0.001", "--keys", "64", "--seconds", "1h"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
    t.processes.append(run)
    old = None
    while run.poll() is None:
        key = "user" + "1".zfill(16)
        if old is None:
            got = t.on_pool("get", key)
            old = got.out if got.code == 0 else None
        elif t.on_pool("get", key).out not in (old, b""):
            t.on_pool("set", key, "-", stdin=old)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1 and b"OLD VALUE for key 1:" in err, err


if __name__ == "__main__":
    sys.exit(main())
