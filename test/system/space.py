#!/usr/bin/env python3
"""Space: how full chunks are, what is dead in them, and what happens when sizes shift.

	space.py FORGE

The numbers of `forge stat` are those `forge check` makes of the same pool on its own; sizes that
shift under several compute nodes never end in refusals (doc/scenarios.md, M01 and M05).
"""
import json
import sys

from harness import case, main


def bench(t, *arguments):
    """The result of a run on the case's pool; warnings are for people."""
    done = t.on_pool("bench", "--json", "-", *(str(a) for a in arguments))
    assert done.code == 0, done
    return done.json()["result"]


def stat(t):
    return t.on_pool("stat", "--scan", "--json").expect(0).json()


def check(t):
    found = t.on_pool("check", "--json").expect(0).json()
    assert found["clean"], found["findings"]
    return found["counters"]


def agree(t):
    """stat and check count the same, and nothing of it is below zero or above what there is."""
    s, c = stat(t), check(t)
    sealed, scan = s["sealed"], s["scan"]
    assert sealed["bytes"] == c["sealed_bytes"], (sealed, c)
    assert sealed["used_bytes"] == c["used_bytes"], (sealed, c)
    assert sealed["dead_bytes"] == c["dead_bytes"], (sealed, c)
    assert sealed["members"] - sealed["live_members"] == c["objects_dead"], (sealed, c)
    assert scan["objects"] == c["slots_live"] and scan["object_bytes"] == c["live_bytes"], (scan, c)
    assert sealed["live_members"] == scan["objects"], "at rest every group is sealed"
    assert 0 <= sealed["dead_bytes"] <= sealed["used_bytes"] <= sealed["bytes"], sealed
    assert 0 <= sealed["dead_bytes_known"] <= sealed["used_bytes"], sealed
    assert sealed["bytes"] <= s["plan"]["chunk_count"] * s["plan"]["chunk_bytes"], s
    assert sealed["chunks_held"] == 0, sealed
    return s, c


@case
def regions_add_up(t):
    t.node("--size", "16M")
    s = stat(t)
    node, plan = s["memory"]["node"], s["plan"]
    assert sum(node.values()) == plan["pool_bytes"], node
    assert sum(node.values()) - node["objects"] == plan["metadata_bytes"], node
    cn = s["memory"]["compute_node"]
    assert sum(cn.values()) == s["memory"]["compute_node_bytes"] > 0, cn
    assert s["sealed"]["groups"] == 0 and s["sealed"]["sealed_fill"] == 0, s["sealed"]


@case
def one_object_dies(t):
    t.node("--size", "16M")
    t.on_pool("set", "a", "x" * 100).expect(0)
    t.on_pool("set", "b", "y" * 100).expect(0)
    t.on_pool("set", "a", "z" * 50).expect(0)
    s, c = agree(t)
    # Each client sealed what it had: three groups.  48 + 1 + 100 bytes are stored in 160.
    assert s["sealed"]["groups"] == 3 and s["sealed"]["members"] == 3, s["sealed"]
    assert s["sealed"]["used_bytes"] == 160 + 160 + 112 + 3 * 8, s["sealed"]
    assert s["sealed"]["dead_bytes"] == 160, s["sealed"]
    t.on_pool("del", "b").expect(0)
    assert agree(t)[0]["sealed"]["dead_bytes"] == 320


@case
def mixed_sizes_fill_chunks(t):
    """A pool whose sizes nobody described: large ones are rare, most are small."""
    t.node("--size", "32M", "--object-bytes", "400", "--cn-max", "4")
    r = bench(t, "-w", "zipf:0.8,sizes=16-784", "-k", "200k", "-n", "400k", "-P", "2",
              "--value-bytes", "0", "--verify")
    assert r["sealed_fill"] >= 0.95, r["sealed_fill"]
    s, _ = agree(t)
    assert s["sealed"]["sealed_fill"] >= 0.95, s["sealed"]


@case
def rare_large_objects_leave_chunks_full(t):
    """Whoever needs many chunks for one object does not seal for it what it has only begun."""
    sizes = t.path("rare.sizes.json")
    with open(sizes, "w", encoding="ascii") as file:
        json.dump({"valSizeRange": [50, 300, 300000, 300001], "valSizeRangeProbability": [9990, 0, 10]},
                  file)
    t.node("--size", "10M", "--object-bytes", "200", "--cn-max", "4", "--value-max", "1M")
    r = bench(t, "-w", f"zipf:0.8,sizes=cachelib:{sizes}", "-k", "100k", "-n", "400k",
              "--value-bytes", "0", "--verify")
    assert r["cache"]["parts_linked"] > 500, r["cache"]
    # A head that owns many parts does close its group, lest they outlive it: one in a thousand here.
    assert r["sealed_fill"] >= 0.8, r["sealed_fill"]


@case
def m01_sizes_shift(t):
    """100 B, then 2.3 KB, then what just fits a chunk, then 800 KB, and back: nothing is refused."""
    t.node("--size", "48M", "--cn-max", "4")
    plan = stat(t)["plan"]
    in_a_chunk = min(plan["value_bytes_max"], plan["chunk_bytes"] - 100) - 16
    sizes = [100, 2300, in_a_chunk, 800000, 100]
    if plan["value_bytes_max"] < 800000:
        sizes.remove(800000)
        print(f"without 800 KB: a value has at most {plan['value_bytes_max']} bytes here")
    report, before = [], 0
    for size in sizes:
        # Enough Sets to go through the pool three times.
        sets = max(2000, 3 * plan["pool_bytes"] // (size + 70))
        keys = max(100, plan["pool_bytes"] // (size + 70))
        r = bench(t, "-w", "uniform:set=0.7", "-k", keys, "--value-bytes", size, "-P", "2", "-t", "2",
                  "--warmup", "0", "-n", sets, "--verify")
        for refused in "sets_no_space", "sets_too_large", "sets_again":
            assert r[refused] == 0, (size, refused, r[refused])
        assert r["hit_ratio"] > 0.2, (size, r["hit_ratio"])
        report.append(f"{size} B: sealed {r['sealed_fill']:.1%} full, {r['hit_ratio']:.1%} hits")
        if size > in_a_chunk:
            check(t)
            before = size
            continue
        s, _ = agree(t)
        mean = s["scan"]["object_bytes"] / s["scan"]["objects"]
        # Space has moved to the new size: little of it, by bytes, is still held by the one before.
        if before:
            old_objects = (mean - size - 70) / (before - size)
            assert old_objects * (before + 70) / mean < 0.25, (size, mean)
        before = size
    print("; ".join(report))


@case
def m05_accounting_under_races(t):
    """Updates, Deletes and evictions of four workers: used and dead bytes stay what they are."""
    for policy in "forge", "forge-paper":
        node = t.node("--size", "16M", "--policy", policy, "--cn-max", "4")
        r = bench(t, "-w", "ycsb-a:set=0.4,update=0,delete=0.1,sizes=1-3000", "-k", "20k",
                  "-n", "600k", "-P", "2", "-t", "2", "--value-bytes", "0", "--verify")
        assert r["deletes"] > 0 and r["cache"]["evictions"] > 0, r
        s, c = agree(t)
        assert c["words_unaccounted"] == 0, c
        print(f"{policy}: {s['sealed']['dead_bytes']} of {s['sealed']['used_bytes']} bytes dead, "
              f"{s['sealed']['dead_bytes_known']} known")
        assert node.end() == 0


if __name__ == "__main__":
    sys.exit(main())
