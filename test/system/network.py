#!/usr/bin/env python3
"""Compute nodes and the memory node as hosts of their own, and what a network does to them.

	network.py FORGE SOURCE_ROOT BUILD_ROOT links|ends|KILLS

With KILLS, the kill suite runs with every compute node on another host than the memory node, by keys
over TCP. Otherwise clients that verify every value work while packets are lost, a link is slow, swallows everything,
or is cut, the memory node is stopped, killed, or started anew. What must hold is not how fast
it is, but that each operation returns in its time, no value is wrong, whoever is reachable goes
on, and the pool is clean afterwards. Needs root, and says so where it has none.
"""
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

from certificates import certificates
from harness import FORGE, PATIENCE_S, case, main
from hosts import NODE, URL, Network

SOURCE_ROOT, BUILD_ROOT = sys.argv[2], sys.argv[3]
WHICH = sys.argv[4]
HERE = os.path.dirname(os.path.abspath(__file__))

# Of clients here; and how long an operation may take at most: one deadline until a silent node is
# noticed, another for an attempt to reach it again, and a busy host.  Without a deadline it would be
# TCP's, a quarter of an hour.
TIMEOUT_MS = 500


def operation_ms_max(timeout_ms):
    return 2 * timeout_ms + 20000


# Of a client that nothing is done to, and which therefore may have no error: a node on a busy host may
# well not run for longer than half a second.
PATIENT_MS = 10000


def preloads(library):
    """What a Python without sanitizers needs to load a library with them; its own leaks are its own."""
    needed = subprocess.run(["ldd", library], capture_output=True, text=True, check=True).stdout
    found = [line.split()[2] for line in needed.splitlines() if re.match(r"\s*lib(a|t|ub)san\.", line)]
    return {"LD_PRELOAD": ":".join(found), "ASAN_OPTIONS": "detect_leaks=0"} if found else {}


class Client:
    """A verifying client on a host, and what it last said of itself."""

    def __init__(self, net, t, host, name, timeout_ms=TIMEOUT_MS, url=URL, more=""):
        self.ms_max = operation_ms_max(timeout_ms)
        library = os.path.join(BUILD_ROOT, "src/libforge.so.0")
        self.process = net.start(t, host, sys.executable, os.path.join(HERE, "network_client.py"),
                                 f"{url}?timeout={timeout_ms}ms{more}", name,
                                 env={"FORGE_LIBRARY": library, "FORGE_SOURCE_ROOT": SOURCE_ROOT,
                                      **preloads(library)})
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.state = {"ops": 0, "hits": 0, "errors": 0, "max_ms": 0.0, "wrong": None}

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def until(self, what, condition):
        """Until it says that; meanwhile nothing may be wrong."""
        end = time.monotonic() + PATIENCE_S
        while not condition(self.state):
            try:
                state = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"never {what}: {self.state}") from None
            if state is None:
                raise AssertionError(f"it ended: {self.process.communicate()[1].decode()}")
            self.state = state
            assert state["wrong"] is None, state
            assert state["max_ms"] < self.ms_max, state

    def latest(self):
        while not self.lines.empty():
            self.state = self.lines.get() or self.state
        return dict(self.state)

    def goes_on(self, ops=300):
        before = self.latest()["ops"]
        self.until(f"{ops} operations more", lambda s: s["ops"] >= before + ops)

    def fails(self, errors=3):
        before = self.latest()["errors"]
        self.until("errors", lambda s: s["errors"] >= before + errors)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=PATIENCE_S)
        while True:
            state = self.lines.get(timeout=PATIENCE_S)
            if state is None:
                break
            self.state = state
        assert self.process.returncode == 0, self.process.stderr.read().decode()
        assert self.state["wrong"] is None and self.state["hits"] > 0, self.state
        assert self.state["max_ms"] < self.ms_max, self.state
        return self.state


def one_of_two(net, t, **more):
    """The first is the one that things are done to."""
    return [Client(net, t, 0, "c0", **more), Client(net, t, 1, "c1", PATIENT_MS, **more)]


def report(clients):
    for i, state in enumerate(client.end() for client in clients):
        print(f"client {i}: {state['ops']} operations, {state['hits']} verified hits, "
              f"{state['errors']} errors, the longest took {state['max_ms']:.0f} ms")


def clean(t):
    t.on_pool("check").expect(0)


def nobody_is_left(t):
    """Whoever was there has left, or was noticed to be dead, and what it held is taken back."""
    end = time.monotonic() + PATIENCE_S
    while t.on_pool("stat", "--json").expect(0).json()["compute_nodes"]:
        assert time.monotonic() < end, "a compute node that is gone is still in the registry"
        time.sleep(0.05)
    clean(t)


def with_key(t):
    """The same for the node and its clients: from the environment."""
    path = t.path("keys")
    with open(path, "w", encoding="ascii") as f:
        f.write("all full " + os.urandom(32).hex() + "\n")
    os.chmod(path, 0o600)
    t.env["FORGE_KEY_FILE"] = path


def serve(net, t, *more):
    with_key(t)
    return net.run_node(t, "--size", "8M", "--client-timeout", "2s", "--keep", *more)


def on_network(count, which):
    """A case with that many compute nodes' hosts, one of those that the command line asks for."""
    def add(function):
        if which != ("kills" if WHICH.isdigit() else WHICH):
            return function

        def one(t):
            with Network(t, count) as net:
                try:
                    function(t, net)
                finally:
                    # Before their hosts: whoever is stopped cannot end by himself.
                    for process in t.processes:
                        if process.poll() is None:
                            process.send_signal(signal.SIGCONT)
                            process.kill()
                            process.wait()
        one.__name__ = function.__name__
        return case(one)
    return add


@on_network(4, "kills")
def the_kill_suite_across_hosts(t, net):
    """test/system/kills.c: its nodes live on four hosts, and their pool on a fifth."""
    with_key(t)
    env = {**t.env, "FORGE_TEST_NODE_HOST": net.node, "FORGE_TEST_HOSTS": ",".join(net.hosts)}
    process = subprocess.Popen([os.path.join(BUILD_ROOT, "test/system/system_kills"), WHICH, FORGE,
                                URL, "all"], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    t.processes.append(process)
    out = process.communicate(timeout=100 * PATIENCE_S)[0].decode()
    assert process.returncode == 0, out
    print("".join(line + "\n" for line in out.splitlines() if "kills;" in line or "sleeps;" in line),
          end="")


@on_network(2, "links")
def lost_packets_cost_time_and_no_value(t, net):
    """TCP sends again after 200 ms, then 400: what is lost twice passes the deadline."""
    serve(net, t)
    clients = one_of_two(net, t)
    for share in (0.005, 0.02):
        net.lose(0, share)
        for client in clients:
            client.goes_on()
        net.mend(0)
    for client in clients:
        client.goes_on()
    assert clients[1].latest()["errors"] == 0, "who loses nothing notices nothing"
    report(clients)
    nobody_is_left(t)


def spoil(t, net, **more):
    """Reordered, twice, and damaged: first each alone, then all at once."""
    wire = net.spoil(0)
    try:
        clients = one_of_two(net, t, **more)
        for reordered, duplicated, damaged in ((0.2, 0, 0), (0, 0.2, 0), (0, 0, 0.01),
                                               (0.2, 0.1, 0.005)):
            wire.reordered, wire.duplicated, wire.damaged = reordered, duplicated, damaged
            for client in clients:
                client.goes_on()
        wire.reordered = wire.duplicated = wire.damaged = 0
        for client in clients:
            client.goes_on()
        assert clients[1].latest()["errors"] == 0, "whose link is good notices nothing"
        report(clients)
        # It was done to TCP, at both ends.
        assert min(wire.count.values()) > 10, wire.count
        for host in ("node", 0):
            counted = net.counters(host)
            assert counted["InCsumErrors"] > 0 and counted["TCPOFOQueue"] > 0, counted
            assert counted["TCPDSACKRecv"] > 0, counted
        print(f"packets: {wire.count}")
        nobody_is_left(t)
    finally:
        wire.close()


@on_network(2, "links")
def packets_that_are_reordered_doubled_and_damaged(t, net):
    serve(net, t)
    spoil(t, net)


@on_network(2, "links")
def packets_that_are_reordered_doubled_and_damaged_in_tls(t, net):
    certificates(t, NODE)
    serve(net, t, "--tls-cert", t.path("node.crt"), "--tls-key", t.path("node.key"))
    spoil(t, net, url=URL.replace("tcp://", "tls://"), more="&ca=" + t.path("ca.crt"))


@on_network(2, "links")
def a_slow_link_slows_its_own_client_alone(t, net):
    serve(net, t)
    clients = one_of_two(net, t)
    net.slow(0, "2mbit")
    clients[0].goes_on(200)
    clients[1].goes_on(2000)
    assert clients[1].latest()["errors"] == 0
    report(clients)
    nobody_is_left(t)


def black_hole(t, net, **more):
    """Packets vanish for longer than deadline and client-timeout; then they pass again."""
    clients = one_of_two(net, t, **more)
    for client in clients:
        client.goes_on()
    net.lose(0, 1)
    clients[0].fails()
    before = clients[1].latest()
    clients[1].goes_on(2000)
    # The node has noticed that its client is gone, and taken back what it held.
    end = time.monotonic() + PATIENCE_S
    while len(t.on_pool("stat", "--json").expect(0).json()["compute_nodes"]) != 1:
        assert time.monotonic() < end
        time.sleep(0.1)
    net.mend(0)
    clients[0].goes_on()
    assert clients[1].latest()["errors"] == before["errors"]
    report(clients)
    nobody_is_left(t)


@on_network(2, "links")
def a_black_hole_costs_one_deadline(t, net):
    serve(net, t)
    black_hole(t, net)


@on_network(2, "links")
def a_black_hole_costs_one_deadline_in_tls(t, net):
    certificates(t, NODE)
    serve(net, t, "--tls-cert", t.path("node.crt"), "--tls-key", t.path("node.key"))
    black_hole(t, net, url=URL.replace("tcp://", "tls://"), more="&ca=" + t.path("ca.crt"))


@on_network(2, "ends")
def who_vanishes_with_its_host_is_taken_for_dead(t, net):
    """Half open: the cable is pulled and the client killed, so its end is told to nobody."""
    serve(net, t)
    clients = one_of_two(net, t)
    for client in clients:
        client.goes_on()
    net.cut(0)
    clients[0].process.kill()
    clients[0].process.wait()
    end = time.monotonic() + PATIENCE_S
    while len(t.on_pool("stat", "--json").expect(0).json()["compute_nodes"]) != 1:
        assert time.monotonic() < end, "nobody noticed"
        time.sleep(0.1)
    clients[1].goes_on()
    assert clients[1].latest()["errors"] == 0
    net.join(0)
    again = Client(net, t, 0, "c2")
    again.goes_on()
    report([clients[1], again])
    nobody_is_left(t)


@on_network(2, "ends")
def a_node_that_is_frozen_costs_one_deadline(t, net):
    node = serve(net, t)
    clients = [Client(net, t, i, f"c{i}") for i in range(2)]
    for client in clients:
        client.goes_on()
    node.send_signal(signal.SIGSTOP)
    for client in clients:
        client.fails()
    node.send_signal(signal.SIGCONT)
    for client in clients:
        client.goes_on()
    report(clients)
    nobody_is_left(t)


@on_network(2, "ends")
def a_node_that_is_killed_is_found_again_warm(t, net):
    node = serve(net, t)
    clients = [Client(net, t, i, f"c{i}") for i in range(2)]
    for silent in (False, True):
        for client in clients:
            client.goes_on()
        # With and without its host's word that nobody listens there any more.
        if silent:
            net.lose(0, 1)
            net.lose(1, 1)
        node.kill()
        node.communicate()
        for client in clients:
            client.fails()
        node = net.run_node(t, "--client-timeout", "2s", "--keep")
        if silent:
            net.mend(0)
            net.mend(1)
        hits = [client.latest()["hits"] for client in clients]
        for client, before in zip(clients, hits):
            client.until("hits of the time before", lambda s, before=before: s["hits"] > before)
            client.goes_on()
    report(clients)
    nobody_is_left(t)


@on_network(1, "ends")
def one_port_is_one_way_in(t, net):
    """From another host: with the key; without it a refusal; and no such node where none listens."""
    serve(net, t)
    patient = f"{URL}?timeout={PATIENT_MS}ms"
    net.forge(t, 0, "set", "--pool", patient, "sky", "blue").expect(0)
    net.forge(t, 0, "get", "--pool", patient, "sky").expect(0, b"blue")
    del t.env["FORGE_KEY_FILE"]
    net.forge(t, 0, "get", "--pool", patient, "sky").expect(2, b"", "asks for a key")
    net.forge(t, 0, "get", "--pool", f"tcp://{NODE}:7001", "sky").expect(2, b"", "no node listens")
    net.forge(t, 0, "get", "--pool", "tcp://10.77.0.99:7000?timeout=300ms", "sky").expect(2, b"",
                                                                                      "10.77.0.99")
    nobody_is_left(t)


if __name__ == "__main__":
    sys.exit(main())
