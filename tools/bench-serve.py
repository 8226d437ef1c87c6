#!/usr/bin/env python3
"""Measure forge serve beside memcached and Redis: bench-serve.py FORGE SERVE_LOAD [options]

Interleaved: each round runs every server once on each load, so that whatever else this machine
does falls on all alike.  All servers stay up meanwhile, with two threads each (Redis: one and two
I/O threads would not help it on two cores), on the same processors as the client, the same
neutral one for all (test/bench/serve_load.c).  Printed per load: the median of requests (keys) a
second with its spread over rounds, the server's processor time per request, P99, and our ratio to
the best of the others, where memcached is taken by its faster protocol (classic `get` or `mg`).  A ratio
below 1.15 either way is a tie on a shared machine.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

# name, options of the load, (forge's protocols, memcached's)
LOADS = [
    ("get, 1 connection", ["--op", "get", "--connections", "1"]),
    ("set, 1 connection", ["--op", "set", "--connections", "1"]),
    ("get, 50 connections", ["--op", "get", "--connections", "50"]),
    ("set, 50 connections", ["--op", "set", "--connections", "50"]),
    ("get, 50 x depth 16", ["--op", "get", "--connections", "50", "--depth", "16"]),
    ("set, 50 x depth 16", ["--op", "set", "--connections", "50", "--depth", "16"]),
    ("multi-get 32, 50", ["--op", "get", "--connections", "50", "--multi", "32"]),
    ("get, 500 connections", ["--op", "get", "--connections", "500"]),
]


class Server:
    def __init__(self, name, argv, place, protocols, marker=None):
        self.name, self.place, self.protocols = name, place, protocols
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE if marker else
                                        subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if marker:
            line = self.process.stdout.readline().decode()
            if not line.startswith(marker):
                sys.exit(f"{name} does not start: {line}")
        deadline = time.monotonic() + 10
        while not self._reachable():
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit(f"{name} cannot be reached at {place}")
            time.sleep(0.05)

    def _reachable(self):
        import socket
        try:
            if "/" in self.place:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(self.place)
            else:
                socket.create_connection(("127.0.0.1", int(self.place)), 1).close()
            return True
        except OSError:
            return False

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def run(client, server, protocol, arguments):
    argv = [client, "--connect", server.place, "--protocol", protocol, "--pid",
            str(server.process.pid), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        sys.exit(f"{server.name}: {done.stderr}")
    return json.loads(done.stdout)


def start(options, unix, folder):
    """Those servers that are installed; ours first."""
    def place(name):
        return os.path.join(folder, name) if unix else free_port()

    where = place("forge")
    argv = [options.forge, "serve", "-m", "256", "-t", str(options.threads)]
    argv += ["-s", where] if unix else ["-p", where]
    servers = [Server("forge", argv, where, ("text", "meta"), "ready")]
    memcached, redis = shutil.which("memcached"), shutil.which("redis-server")
    if memcached:
        where = place("memcached")
        argv = [memcached, "-m", "256", "-t", str(options.threads), "-u", "root"]
        argv += ["-s", where] if unix else ["-p", where, "-l", "127.0.0.1"]
        servers.append(Server("memcached", argv, where, ("text", "meta")))
    else:
        print("memcached is not installed: apt-get install memcached")
    if redis:
        where = place("redis")
        argv = [redis, "--save", "", "--appendonly", "no", "--maxmemory", "256mb",
                "--daemonize", "no", "--dir", folder]
        argv += ["--unixsocket", where, "--port", "0"] if unix else ["--port", where, "--bind",
                                                                    "127.0.0.1"]
        servers.append(Server("redis", argv, where, ("redis",)))
    else:
        print("redis-server is not installed: apt-get install redis-server")
    return servers


def measure(options, servers, arguments):
    """{(server, protocol): [result per round]}"""
    found = {}
    for _ in range(options.rounds):
        for server in servers:
            for protocol in server.protocols:
                found.setdefault((server.name, protocol), []).append(
                    run(options.client, server, protocol, arguments + ["--seconds",
                                                                       options.seconds]))
    return found


def middle(results, field):
    return statistics.median(r[field] for r in results)


def report(name, found):
    ours = max((v for k, v in found.items() if k[0] == "forge"),
               key=lambda v: middle(v, "per_second"))
    others = [v for k, v in found.items() if k[0] != "forge"]
    print(f"\n{name}")
    for (server, protocol), results in found.items():
        rates = sorted(r["per_second"] for r in results)
        label = server if protocol == "redis" else f"{server} {protocol}"
        print(f"  {label:16s} {middle(results, 'per_second'):11,.0f}/s  ({rates[0]:,.0f} .. "
              f"{rates[-1]:,.0f})  server {middle(results, 'server_ns') / 1000:5.2f} us  client "
              f"{middle(results, 'client_ns') / 1000:5.2f} us  P99 {middle(results, 'p99_us'):7.0f} us"
              f"  hits {100 * middle(results, 'hit_ratio'):.0f} %")
    if not others:
        return None
    best = max(middle(v, "per_second") for v in others)
    cpu = min(middle(v, "server_ns") for v in others)
    ratio = middle(ours, "per_second") / best
    cpu_ratio = middle(ours, "server_ns") / cpu
    word = "tie" if 1 / 1.15 < ratio < 1.15 else "better" if ratio > 1 else "worse"
    print(f"  ratio to the best other: throughput {ratio:.2f} ({word}), server CPU {cpu_ratio:.2f}")
    return ratio, cpu_ratio


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    parser.add_argument("client")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="700ms")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--transport", choices=("tcp", "unix", "both"), default="both")
    parser.add_argument("--only", default="", help="loads whose name contains this")
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, {options.threads} worker threads, {options.rounds} rounds of "
          f"{options.seconds}, 100,000 keys of 16 bytes, values of 100 bytes")
    summary = []
    for transport in ("tcp", "unix"):
        if options.transport not in (transport, "both"):
            continue
        with tempfile.TemporaryDirectory(prefix="forge-bench-") as folder:
            servers = start(options, transport == "unix", folder)
            try:
                for server in servers:
                    run(options.client, server, server.protocols[0],
                        ["--op", "set", "--load", "--depth", "50", "--connections", "4"])
                for name, arguments in LOADS:
                    if options.only in name:
                        ratios = report(f"{name}, {transport}",
                                        measure(options, servers, arguments))
                        summary.append((f"{name}, {transport}", ratios))
            finally:
                for server in servers:
                    server.end()
    print("\nratio to the best other        throughput  server CPU per request")
    for name, ratios in summary:
        if ratios:
            print(f"  {name:32s} {ratios[0]:6.2f}  {ratios[1]:6.2f}")


if __name__ == "__main__":
    main()
