#!/usr/bin/env python3
"""What overlapping requests gain on slow fabrics.

	tools/bench-overlap.py FORGE SERVE_LOAD [options]

One forge serve per latency: on a pool whose verbs take that long (?latency=TIME), on one where they take
nothing, and on one behind a Unix socket (socket), whose node needs a processor too; each with the same neutral client (test/bench/serve_load.c) in turn, several rounds, by the median.
Printed per latency: Gets a second of one connection one by one, of the same connection with 64 in a
pipeline, and of 50 connections, the ratio to one by one, how many round trips a Get waited (2 are needed),
and the server's processor time for each, spinning for the fabric included.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

LOADS = [
    ("one by one", ["--connections", "1", "--depth", "1"]),
    ("pipeline of 64", ["--connections", "1", "--depth", "64"]),
    ("line of 64 keys", ["--connections", "1", "--multi", "64"]),
    ("50 connections", ["--connections", "50", "--depth", "1"]),
    ("50 x pipeline of 16", ["--connections", "50", "--depth", "16"]),
]


def start(argv):
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    line = process.stdout.readline().decode()
    while line.startswith("listens"):
        line = process.stdout.readline().decode()
    if not line.startswith("ready"):
        sys.exit(f"{' '.join(argv)}: {line}")
    return process


def load(options, place, pid, arguments):
    argv = [options.client, "--connect", place, "--pid", str(pid), "--keys", str(options.keys), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def micros(latency):
    number = float(latency.rstrip("mus"))
    return number * (1000 if latency.endswith("ms") else 1)


def measure(options, latency, folder):
    pool = f"shm:/forge-bench-overlap-{os.getpid()}"
    place = os.path.join(folder, "socket")
    node_place = "unix:" + os.path.join(folder, "node")
    argv = [options.forge, "node", "--pool", pool, "--size", "256M"]
    node = start(argv + ["--listen", node_place] if latency == "socket" else argv)
    name = {"0": pool, "socket": node_place}.get(latency, f"{pool}?latency={latency}")
    server = start([options.forge, "serve", "--pool", name, "-t", str(options.threads), "-s", place])
    try:
        load(options, place, server.pid, ["--op", "set", "--load", "--depth", "64", "--connections", "8"])
        found = {}
        for _ in range(options.rounds):
            for label, arguments in LOADS:
                found.setdefault(label, []).append(
                    load(options, place, server.pid, ["--seconds", options.seconds, *arguments]))
        return found
    finally:
        for process in (server, node):
            process.terminate()
            process.wait(30)


def report(latency, found):
    print("\na pool behind a socket" if latency == "socket" else f"\n{latency} a verb")
    alone = statistics.median(r["per_second"] for r in found["one by one"])
    for label, results in found.items():
        rate = statistics.median(r["per_second"] for r in results)
        cpu = statistics.median(r["server_ns"] for r in results)
        line = f"  {label:20s} {rate:10,.0f}/s  {rate / alone:6.1f} x  {cpu / 1e3:8.2f} us of processor time"
        if label == "one by one" and latency not in ("0", "socket"):
            line += f"  {1e6 / rate / micros(latency):.1f} round trips a Get"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    parser.add_argument("client", metavar="SERVE_LOAD", help="test/bench/serve_load of the build")
    parser.add_argument("--latencies", default="0,20us,200us,socket",
                        help="of a verb, or socket: a pool behind a Unix socket; comma-separated (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3,
                        help="of which the medians count (%(default)s)")
    parser.add_argument("--seconds", default="500ms",
                        help="of each load in a round, as in 500ms (%(default)s)")
    parser.add_argument("--threads", type=int, default=1,
                        help="worker threads of the server (%(default)s)")
    parser.add_argument("--keys", type=int, default=20000,
                        help="stored (%(default)s)")
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, {options.threads} worker thread(s), {options.rounds} rounds of "
          f"{options.seconds}, {options.keys:,} keys of 16 bytes, values of 100 bytes, Unix socket")
    with tempfile.TemporaryDirectory(prefix="forge-bench-") as folder:
        for latency in options.latencies.split(","):
            report(latency, measure(options, latency, folder))


if __name__ == "__main__":
    main()
