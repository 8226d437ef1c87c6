#!/usr/bin/env python3
"""The hit ratio of every trace in ../shared beside the model of its policy.

	tools/hit-ratio.py FORGE [--trace NAME[:FRACTION],...] [--policy NAME,...] [--processes N]

Replays each trace with a cache of 5, 10 and 20 % of its objects (as many as the oracle used), with
one process and, where each of them has at least 64 groups, with N (3).  A cell fails when one
process is more than 1 point below the model, or N processes more than 1 point below one process.
In the end the means over the recorded traces (YCSB is none) and their caches: of the model, of
other policies by an independent implementation (libCacheSim), and of what was replayed.
Exit status: 0, 1 when a cell fails, 77 when there is nothing to compare with.

FORGE_SHARED names the folder with oracle/ and traces/ if it is not ../shared.
"""
import argparse
import csv
import os
import sys

from forge_json import report_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("FORGE_SHARED") or os.path.join(ROOT, "..", "shared")
MODELS = {"forge-paper": "Fpaper", "forge": "Fplus"}
GROUP_OBJECTS = 64
GROUPS_MIN = 64
POINTS = 1.0
OTHERS = {"LRU": "LRU", "SIEVE": "Sieve", "S3-FIFO": "S3FIFO-0.1000-2", "LIRS": "LIRS"}


def read_oracle():
    """{(trace, fraction): objects}, {(model or algorithm, trace, fraction): hit ratio}"""
    sizes, model = {}, {}
    with open(os.path.join(SHARED, "oracle", "hit_ratio.csv"), newline="", encoding="ascii") as f:
        for row in csv.DictReader(f):
            if row["mode"] == "obj":
                key = row["trace"], float(row["frac"])
                sizes[key] = int(row["cache_size"])
                model[(row["algo"], *key)] = 1 - float(row["miss_ratio"])
    name = os.path.join(SHARED, "oracle", "forge_policy_model.csv")
    with open(name, newline="", encoding="ascii") as f:
        for row in csv.DictReader(f):
            key = row["variant"], row["trace"], float(row["frac"])
            model[key] = float(row["hit_ratio"])
    return sizes, model


def replay(forge, policy, path, objects, processes):
    argv = [forge, "replay", "--policy", policy, "--cache-objects", str(objects), "--value-bytes",
            "16", "--processes", str(processes), "--verify", "--no-lru", "--no-count-verbs", "--json",
            "-", path]
    report = report_of(argv)
    residents, capacity = objects // GROUP_OBJECTS * GROUP_OBJECTS, report["pool"]["capacity_objects"]
    assert capacity == residents, f"{path}: a capacity of {capacity}, not {residents} objects"
    return report["result"]["hit_ratio"]


def print_means(model, ran):
    """ran: {(policy, trace, fraction): (one process, model)}"""
    def line(cells, name, values):
        if cells:
            print(f"  {name:45} {sum(values[k] for k in cells) / len(cells):.4f}  of {len(cells)} cells")

    print("means over the recorded traces")
    for name, variant in (*OTHERS.items(), *((f"{p}, model", m) for p, m in MODELS.items())):
        line([k for k in model if k[0] == variant and not k[1].startswith("ycsb")], name, model)
    for policy in MODELS:
        cells = [k for k in ran if k[0] == policy and not k[1].startswith("ycsb")]
        line(cells, f"{policy}, replayed by one process", {k: ran[k][0] for k in cells})
        line(cells, f"{policy}, model, these cells alone", {k: ran[k][1] for k in cells})


def wanted_cells(only, sizes):
    """(trace, fraction) of the sizes, restricted to NAME or NAME:FRACTION of --trace."""
    for trace, fraction in sorted(sizes):
        if only and trace not in only and f"{trace}:{fraction:g}" not in only:
            continue
        if sizes[trace, fraction] // GROUP_OBJECTS < GROUPS_MIN:
            continue
        path = os.path.join(SHARED, "traces", "ids", trace + ".u32.zst")
        if os.path.exists(path):
            yield trace, fraction, path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    parser.add_argument("--trace", default="", help="NAME or NAME:FRACTION, comma-separated")
    parser.add_argument("--policy", default=",".join(MODELS),
                        help="comma-separated (%(default)s)")
    parser.add_argument("--processes", type=int, default=3, help="1: only one process")
    arguments = parser.parse_args()
    if not os.path.exists(os.path.join(SHARED, "oracle", "forge_policy_model.csv")):
        print(f"skipped: there is no {os.path.join(SHARED, 'oracle')}, so nothing to compare with")
        return 77
    sizes, model = read_oracle()
    only = {t for t in arguments.trace.split(",") if t}
    n = arguments.processes
    print(f"{'trace':14} {'cache':>6} {'groups':>6} {'policy':12} {'model':>6} {'1 proc':>7} "
          f"{'points':>7} {f'{n} proc':>7} {'points':>7}")
    cells = failed = 0
    ran = {}
    for trace, fraction, path in wanted_cells(only, sizes):
        objects = sizes[trace, fraction]
        groups = objects // GROUP_OBJECTS
        for policy in arguments.policy.split(","):
            expected = model.get((MODELS[policy], trace, fraction))
            if expected is None:
                continue
            one = replay(arguments.forge, policy, path, objects, 1)
            ran[policy, trace, fraction] = one, expected
            bad = [100 * (one - expected) < -POINTS]
            line = (f"{trace:14} {fraction:6.0%} {groups:6} {policy:12} {expected:6.4f} {one:7.4f} "
                    f"{100 * (one - expected):+7.2f}")
            if n > 1 and groups >= n * GROUPS_MIN:
                many = replay(arguments.forge, policy, path, objects, n)
                bad.append(100 * (many - one) < -POINTS)
                line += f" {many:7.4f} {100 * (many - one):+7.2f}"
            cells += len(bad)
            failed += sum(bad)
            print(line + (" BELOW" if any(bad) else ""), flush=True)
    if cells == 0:
        print(f"skipped: no trace of {os.path.join(SHARED, 'traces', 'ids')} is in the oracle")
        return 77
    print_means(model, ran)
    print(f"{cells} cells, {failed} more than {POINTS:g} point below")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
