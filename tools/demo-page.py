#!/usr/bin/env python3
"""The page that `make demo` ends with.

	tools/demo-page.py RUN_JSON STAT_JSON [shm|tcp|unix]

RUN_JSON is a report of forge bench or forge replay, STAT_JSON what `forge stat --scan --json`
printed afterwards; the last argument how the pool was reached.
"""
import argparse
import json

# Share of verbs, YCSB, cache of 10 %, 16 threads; figure 3a of the FORGE paper (OSDI 2026).
PUBLISHED = [("LRU, 32 shards", 57.4, 29.2, 13.4), ("SIEVE, 32 shards", 37.7, 47.6, 14.7),
             ("Ditto", 45.9, 18.0, 36.1)]


REACHED = {"shm": "shared memory of this host", "tcp": "TCP on this host",
           "unix": "a Unix socket of this host"}


def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def size(number):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number} bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("run", metavar="RUN_JSON", help="of forge bench or forge replay")
    parser.add_argument("stat", metavar="STAT_JSON", help="of forge stat --scan --json, afterwards")
    parser.add_argument("reached", nargs="?", choices=sorted(REACHED), default="shm", help="how the pool was reached")
    arguments = parser.parse_args()
    with open(arguments.run, encoding="utf-8") as f:
        run = json.load(f)
    with open(arguments.stat, encoding="utf-8") as f:
        stat = json.load(f)
    r, pool, scan = run["result"], run["pool"], stat["scan"]

    nodes = "1 compute node" if r["workers"] == 1 else f"{r['workers']} compute nodes"
    print(f"FORGE: policy {pool['policy']}, {nodes}, one memory node, "
          f"{REACHED[arguments.reached]}")
    print(f"load          {run['load']}")
    print(f"              {r['operations']:,} operations on {r['distinct']:,} keys in "
          f"{r['seconds']:.2f} s; {r['verified']:,} values verified, none wrong")
    print(f"throughput    {r['throughput']:,.0f} operations a second")
    print(f"hit ratio     {r['hit_ratio']:.2%}; exact LRU of the same capacity "
          f"{run['lru']['hit_ratio']:.2%}", end="")
    if run["trace"]:
        print(f"; nothing can exceed {run['trace']['hit_ratio_max']:.2%}", end="")
    print("\n\nlatency             P50      P99    P99.9")
    for name, label in (("get_hit", "Get, hit"), ("get_miss", "Get, miss"), ("set", "Set"),
                        ("fill", "fill of a miss"), ("all", "operation")):
        l = r["latency_ns"][name]
        if l["count"]:
            print(f"  {label:14} {duration(l['p50']):>8} {duration(l['p99']):>8} "
                  f"{duration(l['p999']):>8}")

    share = {k: 100 * v["share"] for k, v in r["verbs"]["by_purpose"].items()}
    print("\nshare of verbs      hotness  eviction  compaction    space  Get and Set")
    print(f"  {'FORGE, this run':17} {share['hotness']:5.1f} % {share['eviction']:7.1f} % "
          f"{share['compaction']:9.1f} % {share['space']:6.1f} % "
          f"{share['index'] + share['data'] + share['control']:10.1f} %")
    print("  published, of another load on another network (YCSB, RDMA, cache 10 %, 16 threads):")
    for label, hotness, eviction, rest in PUBLISHED:
        print(f"  {label:17} {hotness:5.1f} % {eviction:7.1f} % {'-':>11} {'-':>8} {rest:10.1f} %")

    plan = stat["plan"]
    print(f"\nlive share    {scan['live_share']:.1%} of all chunk space holds live objects, "
          f"{scan['objects']:,} of them")
    print(f"capacity      {plan['capacity_objects']:,} objects of {plan['object_bytes']} bytes: "
          f"{size(plan['capacity_objects'] * plan['object_bytes'])} of a pool of "
          f"{size(plan['pool_bytes'])}; metadata {plan['metadata_bytes'] / plan['pool_bytes']:.1%}")
    for warning in run["warnings"]:
        print(f"warning: {warning}")


if __name__ == "__main__":
    main()
