#!/usr/bin/env python3
"""A pool reached over TCP and over a Unix socket: everything is as if it were mapped.

	reach.py FORGE SOURCE_ROOT BUILD_ROOT

Each case that does not say otherwise runs once for either kind of socket.
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from harness import CASES, FORGE, PATIENCE_S, Skip, case, main
from memcache import Server

BUILD_ROOT = sys.argv[3]
SOURCE_ROOT = sys.argv[2]


def free_port(host="127.0.0.1"):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        s.bind((host, 0))
        return s.getsockname()[1]


def url(t, scheme):
    if scheme == "unix":
        return "unix:" + t.path("node.sock")
    host = {"tcp": "127.0.0.1", "tcp6": "[::1]"}[scheme]
    return f"tcp://{host}:{free_port(host.strip('[]'))}"


def over(*schemes):
    """The case, once for each."""
    def add(function):
        for scheme in schemes:
            def one(t, scheme=scheme):
                t.url = url(t, scheme)
                function(t)
            one.__name__ = f"{function.__name__}_{scheme}"
            CASES.append(one)
        return function
    return add


BOTH = over("tcp", "unix")


# So that a busy host alone makes no node look lost.
PATIENT = "?timeout=20s"


def on_url(t, command, *arguments, **more):
    return t.forge(command, "--pool", t.url + PATIENT, *arguments, **more)


def serve(t, *arguments):
    return t.node("--listen", t.url, *arguments)


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def clean(t):
    """At rest, nothing is found, whoever asks."""
    t.on_pool("check").expect(0)


@BOTH
def by_hand(t):
    serve(t, "--size", "16M")
    on_url(t, "get", "sky").expect(1)
    on_url(t, "set", "sky", "blue").expect(0, b"")
    on_url(t, "get", "sky").expect(0, b"blue")
    t.on_pool("get", "sky").expect(0, b"blue")
    t.on_pool("set", "sea", "green").expect(0)
    on_url(t, "get", "sea").expect(0, b"green")
    assert sorted(on_url(t, "keys").expect(0).out.split()) == [b"sea", b"sky"]
    on_url(t, "del", "sky").expect(0)
    t.on_pool("get", "sky").expect(1)
    on_url(t, "flush").expect(0)
    t.on_pool("get", "sea").expect(1)
    clean(t)


@over("tcp6")
def by_hand_over_ipv6(t):
    if not os.path.exists("/proc/net/if_inet6") or not open("/proc/net/if_inet6").read():
        raise Skip("there is no IPv6 here")
    serve(t, "--size", "16M")
    on_url(t, "set", "sky", "blue").expect(0, b"")
    on_url(t, "get", "sky").expect(0, b"blue")


def without_time(stat):
    """What must not depend on how it was READ; a node's own counters come over sockets alone."""
    stat = dict(stat)
    for moving in ("pool", "compute_nodes", "node"):
        stat.pop(moving, None)
    return stat


@BOTH
def what_is_read_is_the_same(t):
    serve(t, "--size", "32M", "--value-max", "1M")
    on_url(t, "bench", "--warmup", "0", "--keys", "6000", "--ops", "3000", "--preload").expect(0)
    t.on_pool("set", "large", "x" * 100000).expect(0)
    mapped, far = (t.forge("stat", "--scan", "--json", "--pool", name).expect(0).json()
                   for name in (t.pool, t.url + PATIENT))
    assert without_time(mapped) == without_time(far), (mapped, far)
    mapped, far = (t.forge("check", "--json", "--pool", name).expect(0).json()
                   for name in (t.pool, t.url + PATIENT))
    mapped.pop("pool"), far.pop("pool")
    assert mapped == far and far["clean"] and not far["live"], (mapped, far)
    page = on_url(t, "top", "--once", "--interval", "100ms").expect(0).out.decode()
    assert "memory node serves it" in page, page
    assert on_url(t, "keys").expect(0).out.count(b"\n") == t.on_pool("keys").out.count(b"\n")


@BOTH
def a_trace_has_the_same_hit_ratio(t):
    ids = [(i * i * 7 + i // 3) % 4000 if i % 3 else i % 300 for i in range(15000)]
    with open(t.path("ids.u32"), "wb") as f:
        f.write(struct.pack(f"<{len(ids)}I", *ids))
    found = {}
    for way in ("mapped", "far"):
        node = serve(t, "--size", "648K", "--object-bytes", "264")
        run = t.forge("replay", "--pool", t.pool if way == "mapped" else t.url + PATIENT,
                      "--value-bytes",
                      "256", "--verify", "--seed", "7", "--json", "-", t.path("ids.u32"))
        found[way] = run.expect(0).json()["result"]
        clean(t)
        assert node.end() == 0
    assert found["mapped"]["operations"] == found["far"]["operations"] == len(ids)
    assert found["far"]["verified"] > 5000, found
    # Polls are made by time, so two runs over one medium are not equal to the last hit either.
    assert abs(found["mapped"]["hit_ratio"] - found["far"]["hit_ratio"]) < 0.01, found


@BOTH
def mapped_and_far_processes_share_a_pool(t):
    serve(t, "--size", "2M")
    runs = []
    for name, seed in ((t.url + PATIENT, "1"), (t.pool, "2"), (t.url + PATIENT, "3")):
        argv = [FORGE, "bench", "--pool", name, "--workload", "ycsb-a", "--keys", "20000", "--ops",
                "6000", "--warmup", "0", "--processes", "1", "--threads", "2", "--verify", "--seed", seed, "--json", "-"]
        runs.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     env=t.env))
    t.processes += runs
    for run in runs:
        out, err = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 0, (out, err)
        result = json.loads(out)["result"]
        assert result["verified"] > 1000, result
    stat = t.on_pool("stat", "--json").json()
    assert stat["counters"]["evicted"] > 0 and not stat["compute_nodes"], stat
    clean(t)
    on_url(t, "check").expect(0)


def start_bench(t, name, *arguments, others=0):
    """A load that has attached, beside others."""
    bench = subprocess.Popen([FORGE, "bench", "--pool", name, "--seconds", "1h", "--keys", "20000",
                              "--workload", "ycsb-a", *arguments],
                             stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=t.env)
    t.processes.append(bench)
    wait_until(lambda: len(attached(t)) == 1 + others, "the load does not attach")
    return bench


def attached(t):
    return [n for n in t.on_pool("stat", "--json").expect(0).json()["compute_nodes"]
            if n["state"] == "live"]


@BOTH
def a_killed_client_is_recovered(t):
    # By the end of its connections, not by its silence.
    serve(t, "--size", "8M", "--cn-max", "4", "--client-timeout", "1h")
    t.on_pool("set", "other", "1").expect(0)
    for _ in range(3):
        bench = start_bench(t, t.url + PATIENT)
        assert [n["process_is_alive"] for n in attached(t)] == [True]
        # The workers are children of the bench.
        children = subprocess.run(["pgrep", "-P", str(bench.pid)], stdout=subprocess.PIPE,
                                  check=False).stdout.split()
        for pid in (*map(int, children), bench.pid):
            os.kill(pid, signal.SIGKILL)
        bench.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not t.on_pool("stat", "--json").json()["compute_nodes"],
                   "the dead client was not recovered")
        clean(t)


@BOTH
def a_client_that_sleeps_is_not_dead(t):
    serve(t, "--size", "8M")
    bench = start_bench(t, t.url + "?timeout=5s", "--processes", "1")
    other = start_bench(t, t.pool, "--processes", "1", others=1)
    before = {n["cn"]: n["pid"] for n in attached(t)}
    assert len(before) == 2, before
    pids = [int(p) for p in subprocess.run(["pgrep", "-P", str(bench.pid)], stdout=subprocess.PIPE,
                                           check=False).stdout.split()] + [bench.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(6)  # longer than its deadline
    assert {n["cn"]: n["pid"] for n in attached(t)} == before, "a sleeper was taken for dead"
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    time.sleep(0.5)
    for run in (bench, other):
        assert run.poll() is None, run.communicate()
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=PATIENCE_S)
    clean(t)


@BOTH
def a_node_that_is_killed_fails_what_waits(t):
    node = serve(t, "--size", "8M", "--keep")
    t.on_pool("set", "stays", "here").expect(0)
    # By the end of its connections: for the deadline nobody here has the patience.
    bench = start_bench(t, t.url + "?timeout=1h", "--threads", "2")
    node.end(signal.SIGKILL)
    _, err = bench.communicate(timeout=PATIENCE_S)
    assert bench.returncode == 1 and b"memory node is gone" in err, (bench.returncode, err)
    on_url(t, "get", "stays").expect(2, b"", t.url.removeprefix("tcp://").removeprefix("unix:"))
    node = serve(t)
    assert attached(t) == []
    on_url(t, "get", "stays").expect(0, b"here")
    clean(t)


@BOTH
def a_node_that_stops_answering_is_lost_in_time(t):
    node = serve(t, "--size", "8M")
    on_url(t, "set", "k", "v").expect(0)
    # By the deadline: a node that is stopped ends no connection, ever.
    bench = start_bench(t, t.url + "?timeout=3s")
    node.process.send_signal(signal.SIGSTOP)
    _, err = bench.communicate(timeout=PATIENCE_S)
    assert bench.returncode == 1 and b"memory node is gone" in err, (bench.returncode, err)
    t.forge("get", "--pool", t.url + "?timeout=1s", "k").expect(2, b"", "forge")
    node.process.send_signal(signal.SIGCONT)
    wait_until(lambda: attached(t) == [], "the client that gave up is still registered")
    on_url(t, "get", "k")
    clean(t)


@BOTH
def time_in_which_nobody_runs_is_no_deadline(t):
    """A host that stood still: who said hello goes on where he was, and so does the node."""
    node = serve(t, "--size", "8M")
    on_url(t, "set", "k", "v").expect(0)
    node.process.send_signal(signal.SIGSTOP)
    get = subprocess.Popen([FORGE, "get", "--pool", t.url + "?timeout=5s", "k"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)  # by now it waits for its welcome
    get.send_signal(signal.SIGSTOP)
    time.sleep(6)
    get.send_signal(signal.SIGCONT)
    time.sleep(0.5)  # and has noticed by now what time it is
    node.process.send_signal(signal.SIGCONT)
    out, err = get.communicate(timeout=PATIENCE_S)
    assert (get.returncode, out) == (0, b"v"), (get.returncode, out, err)
    clean(t)


@BOTH
def a_node_that_stood_still_waits_for_who_is_at_its_door(t):
    node = serve(t, "--size", "8M")
    family, where = socket.AF_UNIX, t.url.removeprefix("unix:")
    if t.url.startswith("tcp"):
        family, where = socket.AF_INET, ("127.0.0.1", int(t.url.rpartition(":")[2]))
    hello = struct.pack("<8sHBB52x", b"Forgenet", 1, 1, 3)  # a data connection, for metrics
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(PATIENCE_S)
        s.connect(where)
        s.sendall(hello[:5])
        time.sleep(0.3)  # by now the node knows it
        node.process.send_signal(signal.SIGSTOP)
        time.sleep(6)  # longer than a node waits for a hello
        node.process.send_signal(signal.SIGCONT)
        time.sleep(1.2)  # and by now it has looked who is too slow
        s.sendall(hello[5:])
        step = s.recv(4096)
        assert step[:1] == b"\x01", f"no welcome: {step}"
    clean(t)


@case
def clocks_that_differ(t):
    """The client's host has run for years longer than the node's, or not so long."""
    t.url = url(t, "tcp")
    serve(t, "--size", "8M")
    t.on_pool("set", "--ttl", "1h", "long", "1").expect(0)
    for seconds in ("100000000", "-30"):
        apart = ["unshare", "--time", "--boottime", seconds, "--"]
        probe = subprocess.run([*apart, "true"], stderr=subprocess.PIPE, check=False)
        if probe.returncode:
            raise Skip(f"no time namespace here: {probe.stderr.decode()}")
        far, name = [*apart, FORGE], t.url + PATIENT
        get = [FORGE, "get", "--pool", t.pool, "short"]
        ttl_s, in_time = 0.5, False
        while not in_time:  # longer where a host is so busy that it may be over before one looks
            ttl_s *= 2
            assert ttl_s < PATIENCE_S, "it expires at once"
            start = time.monotonic()
            subprocess.run([*far, "set", "--pool", name, "--ttl", f"{ttl_s * 1000:.0f}ms", "short", "2"],
                           check=True)
            set_at = time.monotonic()
            found = subprocess.run(get, stdout=subprocess.PIPE, check=False).stdout
            in_time = time.monotonic() - start < ttl_s - 0.1
        assert found == b"2", "it expires too early"
        assert subprocess.run([*far, "get", "--pool", name, "long"], stdout=subprocess.PIPE,
                              check=True).stdout == b"1"
        looked_at = set_at
        while subprocess.run(get, stdout=subprocess.PIPE, check=False).returncode != 1:
            # By the client's clock it would be 30 s off at least; nothing bounds how long a look takes.
            assert looked_at < set_at + ttl_s + 20, "it expires too late"
            looked_at = time.monotonic()
        assert time.monotonic() - start > ttl_s - 0.1, "it expires too early"
    clean(t)


@case
def errors_name_the_remedy(t):
    t.url = url(t, "unix")
    serve(t, "--size", "8M")
    nobody = free_port()
    for name, words in ((f"tcp://127.0.0.1:{nobody}", (str(nobody), "forge node")),
                        ("unix:" + t.path("absent"), ("absent",)),
                        ("tcp://127.0.0.1", ("no port",)),
                        (url(t, "unix") + "?latency=2us", ("leave latency= out",))):
        for command in (("get", "k"), ("stat",), ("keys",), ("check",), ("bench", "--ops", "1")):
            t.forge(command[0], "--pool", name, *command[1:]).expect(2, b"", words)
    # Something that is no node, and something that never says a word.
    for greeting in (b"HTTP/1.1 400 Bad Request\r\n\r\n", None):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            held = []

            def answer():
                try:
                    while True:
                        held.append(listener.accept()[0])
                        if greeting:
                            held[-1].sendall(greeting)
                except OSError:
                    pass

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            port = listener.getsockname()[1]
            # Neither ends the connection.
            t.forge("get", "--pool", f"tcp://127.0.0.1:{port}?timeout=200ms", "k") \
                .expect(2, b"", str(port))
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in held:
                connection.close()
    for command in (("node", "--size", "8M"), ("gc",)):
        t.forge(command[0], "--pool", f"tcp://127.0.0.1:{nobody}", *command[1:]) \
            .expect(2, b"", "shm:/name or the path of a file")


@BOTH
def a_server_over_it(t):
    node = serve(t, "--size", "16M")
    s = Server(t, "--pool", t.url + PATIENT, "-t", "2")
    s.say(b"set a 0 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
    t.on_pool("get", "a").expect(0, b"x")
    s.say(b"get a a b\r\n", b"VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
    assert s.end()[0] == 0
    assert attached(t) == []
    assert node.end() == 0


@BOTH
def repair(t):
    serve(t, "--size", "8M")
    t.on_pool("set", "k", "v").expect(0)
    page = on_url(t, "check", "--repair").expect(0).out.decode()
    assert "pool check: clean" in page, page
    on_url(t, "get", "k").expect(0, b"v")


if __name__ == "__main__":
    raise SystemExit(main())
