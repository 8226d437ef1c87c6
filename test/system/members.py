#!/usr/bin/env python3
"""The memory nodes of a cache changed by `forge spread` while servers, loads and programs use it.

	members.py FORGE SOURCE_ROOT BUILD_ROOT

Each connection of a server is kept, and hears of it nothing but misses: no older value, and no error
unless it has waited for a second, as on a machine that has no time for it.
"""
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time

from certificates import certificates
from harness import FORGE, PATIENCE_S, Node, case, main
from memcache import Server, wait_until

KEYS = 60
# Where a pool has its fence (layout.h): behind the superblock and six cursors.
FENCE_AT = 12288 + 48


def node(t, letter, *arguments):
    """Of 16 MiB, named after the case."""
    name = f"{t.pool}-{letter}"
    t.shm_files.append("/dev/shm" + name.removeprefix("shm:"))
    return name, Node(t, "--pool", name, "--size", "16M", *arguments)


def key_file(t):
    """A file with one key, which may do everything."""
    keys = t.path("keys")
    with open(keys, "w", encoding="ascii") as f:
        os.fchmod(f.fileno(), 0o600)
        f.write(f"it full {os.urandom(32).hex()}\n")
    return keys


def epoch(name):
    with open("/dev/shm" + name.removeprefix("shm:"), "rb") as f:
        f.seek(FENCE_AT)
        return struct.unpack("<Q", f.read(8))[0] >> 44


class Known:
    """Of each key what was begun and what was acknowledged: versions of one writer."""

    def __init__(self):
        self.begun = [0] * KEYS
        self.least = [0] * KEYS
        self.ended = threading.Event()
        self.failures = []
        self.misses = self.hits = self.errors = 0
        self.errors_are_permitted = False

    def may_be_late(self, done_at):
        """Who waits for a change for more than a second is told so: then he has done nothing for as long."""
        self.errors += 1
        return self.errors_are_permitted or time.monotonic() - done_at >= 1

    def fail(self, what):
        self.failures.append(what)
        self.ended.set()

    def write(self, server):
        rng = random.Random(1)
        done_at = time.monotonic()
        with server.connect() as c:
            while not self.ended.is_set():
                begun_at = time.monotonic()
                key = rng.randrange(KEYS)
                version = self.begun[key] = self.begun[key] + 1
                text = str(version).encode()
                c.send(b"set k%d 0 0 %d\r\n%s\r\n" % (key, len(text), text))
                said = c.until(b"\r\n")
                if said == b"STORED\r\n":
                    self.least[key] = version
                    done_at = begun_at
                elif not said.startswith(b"SERVER_ERROR") or not self.may_be_late(done_at):
                    self.fail(("set", key, said))

    def read(self, server, seed):
        rng = random.Random(seed)
        done_at = time.monotonic()
        with server.connect() as c:
            while not self.ended.is_set():
                begun_at = time.monotonic()
                key = rng.randrange(KEYS)
                least = self.least[key]
                c.send(b"get k%d\r\n" % key)
                head = c.until(b"\r\n")
                if head.startswith(b"SERVER_ERROR"):
                    if not self.may_be_late(done_at):
                        self.fail(("get", key, head))
                    continue
                done_at = begun_at
                if head == b"END\r\n":
                    self.misses += 1
                elif head.startswith(b"VALUE"):
                    version = int(c.until(b"END\r\n").split(b"\r\n")[0])
                    self.hits += 1
                    if not least <= version <= self.begun[key]:
                        self.fail(("get", key, version, least, self.begun[key]))
                else:
                    self.fail(("get", key, head))


class Traffic:
    """Threads on connections that are held all the time: a writer, and readers of each server."""

    def __init__(self, *servers):
        self.known = Known()
        self.threads = [threading.Thread(target=self.guard, args=(self.known.write, servers[0]))]
        for i in range(4):
            self.threads.append(threading.Thread(
                target=self.guard, args=(self.known.read, servers[i % len(servers)], i)))

    def guard(self, what, *arguments):
        try:
            what(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            self.known.fail(repr(error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.goes_on()
        return self.known

    def goes_on(self):
        before = self.known.hits
        wait_until(lambda: self.known.failures or self.known.hits > before + 200, "no hits")
        assert not self.known.failures, self.known.failures

    def __exit__(self, *_):
        self.known.ended.set()
        for thread in self.threads:
            thread.join()
        assert not self.known.failures, self.known.failures


def change(t, names, *more):
    t.forge("spread", "--pool", ",".join(names), "--set", *more).expect(0)


def stored(t, name):
    return t.forge("stat", "--json", "--pool", name).json()["counters"]["stored"]


def change_under_load(t, names, load, begun, some, report):
    """Once so many values are stored a third node comes, and when it has got some the first leaves.  The load's
    result, in which nothing is wrong."""
    wait_until(lambda: sum(stored(t, name) for name in names[:2]) > begun, "the load does not begin")
    change(t, names)
    wait_until(lambda: stored(t, names[2]) > some, "nothing comes to the new node")
    change(t, names[1:], "--leave", names[0])
    out, err = load.communicate(timeout=4 * PATIENCE_S)
    assert load.returncode == 0, (out, err)
    with open(report, encoding="utf-8") as f:
        r = json.load(f)["result"]
    # What was not moved is a hit.
    assert r["hits"] > r["gets"] / 2, (r, err)
    t.forge("check", "--pool", ",".join(names[1:])).expect(0)
    return r


def nodes_of(server):
    stats = server.stats()
    return int(stats["memory_nodes"]), int(stats["memory_nodes_up"])


@case
def members_come_and_go_under_servers(t):
    """In shared memory: two servers, one with threads; each change is followed by both."""
    names = [node(t, letter)[0] for letter in "abc"]
    servers = [Server(t, "--pool", ",".join(names[:2]), "-t", n) for n in ("1", "2")]
    traffic = Traffic(*servers)
    with traffic:
        for _ in range(3):
            change(t, names)
            traffic.goes_on()
            for s in servers:
                wait_until(lambda s=s: nodes_of(s) == (3, 3), "the new node is not reached")
            change(t, names[:2], "--leave", names[2])
            traffic.goes_on()
            for s in servers:
                wait_until(lambda s=s: nodes_of(s) == (2, 2), "the node that left is kept")
            change(t, names[1:], "--leave", names[0])
            traffic.goes_on()
            change(t, names[:2], "--leave", names[2])
            traffic.goes_on()
    for s in servers:
        assert s.end()[0] == 0
    t.forge("check", "--pool", ",".join(names[:2])).expect(0)
    t.forge("check", "--pool", names[2]).expect(0)


@case
def one_node_becomes_several_under_a_server(t):
    names = [node(t, letter)[0] for letter in "ab"]
    s = Server(t, "--pool", names[0])
    traffic = Traffic(s)
    with traffic:
        change(t, names)
        traffic.goes_on()
        wait_until(lambda: nodes_of(s) == (2, 2), "the new node is not reached")
        change(t, names[:1], "--leave", names[1])
        traffic.goes_on()
        assert nodes_of(s) == (1, 1)
    assert s.end()[0] == 0


@case
def members_with_keys_come_and_go(t):
    """Over sockets, where requests overlap: a new one is shown the key that the server was given."""
    keys = key_file(t)
    places, pools, running = [], [], []
    for letter in "abc":
        name, n = node(t, letter, "--listen", "tcp://127.0.0.1:0", "--key-file", keys)
        pools.append(name)
        places.append(n.listens[0])
        running.append(n)
    own = [f"{place}?key-file={keys}&timeout=5s" for place in places]
    s = Server(t, "--pool", ",".join(own[:2]), "-t", "2")
    traffic = Traffic(s)
    with traffic:
        for _ in range(3):
            change(t, places, "--key-file", keys)
            traffic.goes_on()
            wait_until(lambda: nodes_of(s) == (3, 3), "the new node is not reached")
            change(t, places[1:], "--leave", places[0], "--key-file", keys)
            traffic.goes_on()
            wait_until(lambda: nodes_of(s) == (2, 2), "the node that left is kept")
            # Nobody is connected to it any more, however few requests there are.
            wait_until(lambda: re.search(rb"compute nodes +0 of", t.forge("stat", "--pool", pools[0]).out),
                       "the node that left is held on to")
            change(t, places[:2], "--leave", places[2], "--key-file", keys)
            traffic.goes_on()
    for pool in pools:
        with open("/dev/shm" + pool.removeprefix("shm:"), "rb") as f:
            page = f.read(12288)
            assert b"tcp://127.0.0.1" in page and b"key-file" not in page and b"timeout" not in page
    assert s.end()[0] == 0


@case
def a_member_joins_over_tls(t):
    """Named as tls:// and, by the authority and the key of the server's own list, let in; so is a server that is
    started again with that list."""
    certificates(t)
    keys = key_file(t)
    places = []
    for letter in "abc":
        _, n = node(t, letter, "--listen", "tcp://127.0.0.1:0", "--key-file", keys, "--tls-cert",
                    t.path("node.crt"), "--tls-key", t.path("node.key"))
        places.append("tls" + n.listens[0][3:])
    ways = f"?ca={t.path('ca.crt')}&key-file={keys}&timeout=20s"
    own = ",".join(place + ways for place in places[:2])
    s = Server(t, "--pool", own, "-t", "2")
    traffic = Traffic(s)
    with traffic:
        for _ in range(2):
            change(t, [place + ways for place in places])
            traffic.goes_on()
            wait_until(lambda: nodes_of(s) == (3, 3), "the new node is not reached")
            change(t, [place + ways for place in places[:2]], "--leave", places[2] + ways)
            traffic.goes_on()
            wait_until(lambda: nodes_of(s) == (2, 2), "the node that left is kept")
        change(t, [place + ways for place in places[1:]], "--leave", places[0] + ways)
        traffic.goes_on()
    assert s.end()[0] == 0
    s = Server(t, "--pool", own)
    wait_until(lambda: nodes_of(s) == (2, 2), "the server does not find the nodes of now")
    with s.connect() as c:
        for i in range(KEYS):
            c.send(b"set k%d 0 0 3\r\nnew\r\n" % i)
            assert c.until(b"\r\n") == b"STORED\r\n"
    t.forge("get", "--pool", ",".join(place + ways for place in places[1:]), "k7").expect(0, b"new")
    assert s.end()[0] == 0
    t.forge("get", "--pool", places[1].replace("tls", "tcp") + f"?key-file={keys}", "k").expect(2, err="tls://")


@case
def a_change_that_is_killed_is_finished_by_the_next(t):
    """At several points: verbs take long, so that it is known how far it came."""
    names = [node(t, letter)[0] for letter in "abc"]
    t.forge("set", "--pool", ",".join(names[:2]), "k", "v").expect(0)
    s = Server(t, "--pool", ",".join(names[:2]))
    traffic = Traffic(s)
    with traffic as known:
        for raised in (1, 2):
            slow = ",".join(f"{name}?latency=200ms" for name in names)
            before = epoch(names[0])
            spread = subprocess.Popen(
                [FORGE, "spread", "--pool", slow, "--set", *(("--force",) if raised > 1 else ())],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
            t.processes.append(spread)
            known.errors_are_permitted = True
            wait_until(lambda n=raised, b=before: sum(epoch(name) > b for name in names) == n,
                       "no epoch is raised")
            spread.send_signal(signal.SIGKILL)
            spread.communicate(timeout=PATIENCE_S)
            assert epoch(names[2]) <= before
            errors = known.errors
            wait_until(lambda e=errors: known.errors > e or known.failures, "nobody is stopped")
            t.forge("get", "--pool", ",".join(names[:2]), "k").expect(2, err="--force")
            t.forge("spread", "--pool", ",".join(names), "--set").expect(2, err="--force")
            change(t, names, "--force")
            wait_until(lambda: nodes_of(s) == (3, 3), "the server does not go on")
            known.errors_are_permitted = False
            traffic.goes_on()
            change(t, names[:2], "--leave", names[2])
            traffic.goes_on()
    assert s.end()[0] == 0
    t.forge("check", "--pool", ",".join(names[:2])).expect(0)


@case
def a_load_goes_on_while_members_change(t):
    """
    `forge bench` with several processes, each value verified.  A number of operations, each of which takes
    some time everywhere: so many seconds may be over before a busy machine has changed the members.
    """
    names = [node(t, letter)[0] for letter in "abc"]
    slow = ",".join(name + "?latency=100us" for name in names[:2])
    argv = [FORGE, "bench", "--pool", slow, "--json", t.path("bench.json"), "--workload", "ycsb-b",
            "--keys", "4000", "--preload", "--threads", "2", "--processes", "2", "--verify",
            "--warmup", "0", "--ops", "40000"]
    load = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
    t.processes.append(load)

    assert change_under_load(t, names, load, 4100, 100, t.path("bench.json"))["refused"] == 0


@case
def a_replay_goes_on_while_members_change(t):
    """Each verb takes its time, so that there is some for the changes; each value is verified."""
    names = [node(t, letter)[0] for letter in "abc"]
    rng = random.Random(3)
    with open(t.path("t.csv"), "w", encoding="ascii") as f:
        for i in range(12000):
            f.write(f"{i},{rng.randrange(500)},200\n")
    slow = ",".join(name + "?latency=200us" for name in names[:2])
    load = subprocess.Popen(
        [FORGE, "replay", "--pool", slow, "--columns", "time,key,size", "--json", t.path("replay.json"),
         "--threads", "2", "--verify", t.path("t.csv")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
    t.processes.append(load)

    assert change_under_load(t, names, load, 200, 20, t.path("replay.json"))["gets"] == 12000


if __name__ == "__main__":
    sys.exit(main())
