#!/usr/bin/env python3
"""Measure forge serve beside memcached and Redis.

	tools/bench-serve.py FORGE SERVE_LOAD [options]

Interleaved: each round runs every server once on each load, so that whatever else this machine
does falls on all alike.  All servers are started anew for each round, one after the other first,
because what a request costs depends on where in memory a server happens to lie: by up to 40 %
between two starts of forge serve, and for as long as they run.  They stay up for the round, with
two threads each (Redis: one and two I/O threads would not help it on two cores), on the same
processors as the client, the same neutral one for all (test/bench/serve_load.c).  Printed per load: the median
over rounds of requests (keys) a second with its spread, of the server's processor time per request, and of the
rounds' P99 with its quartiles; and our ratio to the best of the others, where memcached is taken by its faster
protocol (classic `get` or `mg`).  A ratio below 1.15 either way is a tie on a shared machine.  P99 is compared with
memcached's by the same protocol: with more threads than processors it is the scheduler's doing, and differs between
rounds of one server by more than between servers, so quartiles say what a ratio is worth.
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


def start_forge(options, unix, where):
    argv = [options.forge, "serve", "-m", "256", "-t", str(options.threads)]
    argv += ["-s", where] if unix else ["-p", where]
    return Server("forge", argv, where, ("text", "meta"), "ready")


def start_memcached(options, unix, where):
    argv = ["memcached", "-m", "256", "-t", str(options.threads), "-u", "root"]
    argv += ["-s", where] if unix else ["-p", where, "-l", "127.0.0.1"]
    return Server("memcached", argv, where, ("text", "meta"))


def start_redis(options, unix, where):
    argv = ["redis-server", "--save", "", "--appendonly", "no", "--maxmemory", "256mb",
            "--daemonize", "no"]
    argv += ["--unixsocket", where, "--port", "0"] if unix else ["--port", where, "--bind",
                                                                "127.0.0.1"]
    return Server("redis", argv, where, ("redis",))


def installed():
    """[(name, how to start it)]; ours first."""
    servers = [("forge", start_forge)]
    for name, program, how in (("memcached", "memcached", start_memcached),
                               ("redis", "redis-server", start_redis)):
        if shutil.which(program):
            servers.append((name, how))
        else:
            print(f"{program} is not installed: apt-get install {program}")
    return servers


def measure_round(options, unix, servers, loads, found):
    """Adds to {name of the load: {(server, protocol): [result per round]}}."""
    running = []
    with tempfile.TemporaryDirectory(prefix="forge-bench-") as folder:
        try:
            for name, how in servers:
                running.append(how(options, unix,
                                   os.path.join(folder, name) if unix else free_port()))
            for server in running:
                run(options.client, server, server.protocols[0],
                    ["--op", "set", "--load", "--depth", "50", "--connections", "4"])
            for name, arguments in loads:
                for server in running:
                    for protocol in server.protocols:
                        found[name].setdefault((server.name, protocol), []).append(
                            run(options.client, server, protocol,
                                arguments + ["--seconds", options.seconds]))
        finally:
            for server in running:
                server.end()


def measure(options, unix):
    servers = installed()
    loads = [load for load in LOADS if options.only in load[0]]
    found = {name: {} for name, _ in loads}
    for i in range(options.rounds):
        first = i % len(servers)
        measure_round(options, unix, servers[first:] + servers[:first], loads, found)
    return found


def middle(results, field):
    return statistics.median(r[field] for r in results)


def quarter(results, field, share):
    values = sorted(r[field] for r in results)
    return values[round(share * (len(values) - 1))]


def p99_ratios(found):
    """By protocol: ours to memcached's; None where there is none."""
    ratios = []
    for protocol in ("text", "meta"):
        ours, theirs = found.get(("forge", protocol)), found.get(("memcached", protocol))
        ratios.append(middle(ours, "p99_us") / middle(theirs, "p99_us") if ours and theirs else None)
    return ratios


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
              f"{middle(results, 'client_ns') / 1000:5.2f} us  P99 {middle(results, 'p99_us'):5.0f} us "
              f"({quarter(results, 'p99_us', .25):.0f} .. {quarter(results, 'p99_us', .75):.0f})"
              f"  hits {100 * middle(results, 'hit_ratio'):.0f} %")
    if not others:
        return None
    best = max(middle(v, "per_second") for v in others)
    cpu = min(middle(v, "server_ns") for v in others)
    ratio = middle(ours, "per_second") / best
    cpu_ratio = middle(ours, "server_ns") / cpu
    word = "tie" if 1 / 1.15 < ratio < 1.15 else "better" if ratio > 1 else "worse"
    print(f"  ratio to the best other: throughput {ratio:.2f} ({word}), server CPU {cpu_ratio:.2f}")
    return ratio, cpu_ratio, *p99_ratios(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("forge", metavar="FORGE", help="the program, build/src/tool/forge")
    parser.add_argument("client", metavar="SERVE_LOAD", help="test/bench/serve_load of the build")
    parser.add_argument("--rounds", type=int, default=5,
                        help="of which the medians count (%(default)s)")
    parser.add_argument("--seconds", default="700ms",
                        help="of each load in a round, as in 700ms (%(default)s)")
    parser.add_argument("--threads", type=int, default=2,
                        help="worker threads of each server (%(default)s)")
    parser.add_argument("--transport", choices=("tcp", "unix", "both"), default="both",
                        help="between client and servers (%(default)s)")
    parser.add_argument("--only", default="", help="loads whose name contains this")
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, {options.threads} worker threads, {options.rounds} rounds of "
          f"{options.seconds}, 100,000 keys of 16 bytes, values of 100 bytes")
    summary = []
    for transport in ("tcp", "unix"):
        if options.transport not in (transport, "both"):
            continue
        for name, results in measure(options, transport == "unix").items():
            summary.append((f"{name}, {transport}", report(f"{name}, {transport}", results)))
    print("\nratio to                     the best other's            memcached's P99\n"
          "                              throughput  server CPU     text    meta")
    for name, ratios in summary:
        if ratios:
            throughput, cpu, *p99 = ratios
            print(f"  {name:28s} {throughput:9.2f} {cpu:11.2f}   ",
                  *(f"{r:7.2f}" if r else "      -" for r in p99))


if __name__ == "__main__":
    main()
