#!/usr/bin/env python3
"""What FORGE's own data cost, an object: on the memory node and in a compute node.

	tools/memory.py FORGE [--size SIZE]

For values of 64, 256 and 1024 bytes with keys of 20 to 24: a memory node makes a pool for objects of that
size with the default index, a load fills it, and `forge stat --scan` says what each region and each
table of a compute node takes and how many objects lie there.  Exit status 1 when metadata is more
than 12 % of the pool at values of 256 bytes.
"""
import argparse
import json
import os
import subprocess
import sys

SIZES = (64, 256, 1024)
KEY_BYTES = 20
HEADER_BYTES = 48
TARGET_BYTES, TARGET = 256, 0.12
EXPLAINED = {
    "superblock": "ids and the plan",
    "cursors": "heads and tails of the rings",
    "ofm": "a byte an object, for groups that are next to be evicted",
    "registry": "64 bytes a compute node",
    "stats": "counters of the compute nodes",
    "chunk_table": "8 bytes a chunk",
    "dead_map": "a bit an object a group may have",
    "rings": "3 rings of at least twice as many nodes as chunks, 8 bytes each",
    "index": "3 slots of 8 bytes: one in use, 1.3 for ghosts, the rest lest buckets fill",
    "twims": "8 bytes an object",
    "pad": "one READ",
    "map": "10 bytes a chunk: its word, and how many members",
    "lives": "64 bytes a chunk: when its last 32 lives were queued, to tell ghosts",
    "dead": "2 bits an object: dead, and published",
    "mirrors": "4 bytes a ring node: which chunk is queued there",
}


def fail(text):
    sys.exit(f"memory.py: {text}")


def call(argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(argv)}: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)


def measure(forge, size, value_bytes):
    """The stat of a pool full of such values, and the bench that filled it."""
    pool = f"shm:/forge-memory-{os.getpid()}-{value_bytes}"
    node = subprocess.Popen([forge, "node", "--pool", pool, "--size", size, "--object-bytes",
                             str(KEY_BYTES + value_bytes)], stdout=subprocess.PIPE)
    try:
        if not node.stdout.readline().startswith(b"ready "):
            fail("the memory node is not ready")
        empty = call([forge, "stat", "--pool", pool, "--json"])
        objects = empty["plan"]["capacity_objects"]
        call([forge, "bench", "--pool", pool, "--workload", "scan", "--keys", str(2 * objects),
              "--value-bytes", str(value_bytes), "--ops", str(2 * objects), "--warmup", "0",
              "--json", "-"])
        return call([forge, "stat", "--pool", pool, "--scan", "--json"])
    finally:
        node.terminate()
        node.wait()


def print_rows(title, names, stats, part):
    print(f"\n{title:26}" + "".join(f"{f'{s} B':>9}" for s in SIZES))
    for name in names:
        print(f"  {name:24}"
              + "".join(f"{part(s)[name] / s['scan']['objects']:9.2f}" for s in stats)
              + f"   {EXPLAINED[name]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    parser.add_argument("--size", default="256M",
                        help="of each pool (%(default)s)")
    arguments = parser.parse_args()
    stats = [measure(arguments.forge, arguments.size, s) for s in SIZES]

    print(f"pools of {arguments.size}, filled with values of one size; bytes for each object that "
          "lies there")
    print(f"{'values of':26}" + "".join(f"{f'{s} B':>9}" for s in SIZES))
    print(f"  {'objects there':24}" + "".join(f"{s['scan']['objects']:9}" for s in stats))
    print(f"  {'sealed fill':24}" + "".join(f"{s['sealed']['sealed_fill']:9.1%}" for s in stats))
    print(f"  {'object, stored':24}" + "".join(
        f"{s['scan']['object_bytes'] / s['scan']['objects']:9.1f}" for s in stats)
        + f"   a header of {HEADER_BYTES}, key, value, to a multiple of 16")
    regions = [n for n in stats[0]["memory"]["node"] if n != "objects"]
    print_rows("memory node, metadata", regions, stats, lambda s: s["memory"]["node"])
    shares = []
    for name, divide in (("sum", lambda s: s["scan"]["objects"]),
                         ("of the pool", lambda s: s["plan"]["pool_bytes"])):
        values = [s["plan"]["metadata_bytes"] / divide(s) for s in stats]
        shares = values
        print(f"  {name:24}" + "".join(f"{v:9.2f}" if name == "sum" else f"{v:9.1%}"
                                       for v in values))
    tables = list(stats[0]["memory"]["compute_node"])
    EXPLAINED["ofm"] = "a byte an object a group may have: hits of this compute node"
    print_rows("each compute node", tables, stats, lambda s: s["memory"]["compute_node"])
    values = [s["memory"]["compute_node_bytes"] / s["scan"]["objects"] for s in stats]
    print(f"  {'sum':24}" + "".join(f"{v:9.2f}" for v in values))
    print(f"  {'beside the pool':24}" + "".join(
        f"{s['memory']['compute_node_bytes'] / s['plan']['pool_bytes']:9.1%}" for s in stats))
    values = [s["memory"]["session_bytes"] for s in stats]
    print(f"  {'and each session, KiB':24}" + "".join(f"{v / 1024:9.0f}" for v in values)
          + "   three objects and the groups of an eviction")
    above = shares[SIZES.index(TARGET_BYTES)] > TARGET
    print(f"\nmetadata at {TARGET_BYTES}-byte values is "
          f"{shares[SIZES.index(TARGET_BYTES)]:.1%} of the pool; at most {TARGET:.0%} is wanted"
          + (": ABOVE" if above else ""))
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
