#!/usr/bin/env python3
"""A cache on several memory nodes, as processes: lists that are wrong, changes of the members, nodes
killed under load, coming back warm and empty; all of it by the programs, the server and the module.

	nodes.py FORGE SOURCE_ROOT BUILD_ROOT
"""
import bisect
import ctypes
import itertools
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time

from harness import FORGE, PATIENCE_S, Node, Skip, case, main
from memcache import Server, wait_until
from proxy import Proxy

SOURCE_ROOT, BUILD_ROOT = sys.argv[2:4]


class Nodes:
    """Memory nodes a, b, c of a box, 16 MiB each unless told otherwise."""

    def __init__(self, t, count=3, size="16M"):
        self.t = t
        self.names = [f"{t.pool}-{letter}" for letter in "abcdef"[:count]]
        self.size = size
        t.shm_files += [self.file(i) for i in range(count)]
        self.nodes = [self.start(i) for i in range(count)]
        t.pool = self.all()

    def file(self, i):
        return "/dev/shm" + self.names[i].removeprefix("shm:")

    def start(self, i, *arguments):
        return Node(self.t, "--pool", self.names[i], *(arguments or ("--size", self.size)))

    def all(self, *which):
        return ",".join(self.names[i] for i in which or range(len(self.names)))

    def kill(self, i, with_its_memory):
        self.nodes[i].end(signal.SIGKILL)
        if with_its_memory:
            os.unlink(self.file(i))

    def again(self, i, *arguments):
        self.nodes[i] = self.start(i, *arguments)


def keys(t, pool=None):
    return set(t.forge("keys", "--pool", pool or t.pool).out.decode().split())


@case
def what_nobody_serves_is_told_as_of_one_node(t):
    """Its sentence is in that of the list, and the exit status is the same."""
    nodes = Nodes(t, count=2)
    nodes.kill(0, with_its_memory=False)
    nodes.kill(1, with_its_memory=True)
    for command in ("get", "key"), ("bench",):
        alone = t.forge(*command, "--pool", nodes.names[0]).expect(2, err="it has ended").err
        sentence = alone.decode().split(": ", 1)[1].rstrip()
        t.forge(*command, "--pool", nodes.all()).expect(2, err=("none of the 2", sentence))
        t.forge(*command, "--pool", nodes.names[1]).expect(2, err="there is no pool")


@case
def the_order_of_the_list_says_nothing(t):
    nodes = Nodes(t)
    for i in range(40):
        t.on_pool("set", f"key{i}", f"value{i}").expect(0)
    assert keys(t) == {f"key{i}" for i in range(40)}
    for order in itertools.permutations(range(3)):
        t.forge("get", "--pool", nodes.all(*order), "key7").expect(0, b"value7")
    stat = t.on_pool("stat", "--scan", "--json").expect(0).json()
    each = [n["scan"]["objects"] for n in stat["nodes"]]
    assert stat["all"]["objects"] == sum(each) == 40 and min(each) > 0, each
    assert stat["all"]["counters"]["stored"] == 40, stat["all"]
    check = t.on_pool("check", "--json").expect(0).json()
    assert check["clean"] and len(check["nodes"]) == 3, check
    assert t.on_pool("check").expect(0).out.count(b"pool check: clean") == 3
    assert b"all 3 memory nodes" in t.on_pool("stat").expect(0).out
    assert b"hit ratio" in t.on_pool("top", "--once", "--interval", "100ms").expect(0).out
    t.on_pool("del", "key7").expect(0)
    t.on_pool("get", "key7").expect(1)
    t.on_pool("flush").expect(0)
    t.on_pool("keys").expect(1, b"")


@case
def wrong_lists_are_refused(t):
    nodes = Nodes(t)
    t.on_pool("set", "k", "v").expect(0)

    def refused(pool, *words):
        for command in ("get", "set", "keys"):
            arguments = {"get": ("k",), "set": ("k", "x"), "keys": ()}[command]
            t.forge(command, "--pool", pool, *arguments).expect(2, err=words)

    refused(nodes.all(0, 1, 1), "twice")
    # One that is new was never a member: it cannot be a list of before.
    new = nodes.names[0] + "-new"
    t.shm_files.append("/dev/shm" + new.removeprefix("shm:"))
    Node(t, "--pool", new, "--size", "16M")
    refused(nodes.all() + "," + new, "lies on 3 memory nodes, 4 are named")
    refused(nodes.all(0, 1) + "," + new, "had this name")


@case
def a_change_that_was_cut_off(t):
    """Its claim, a word at 256 of each pool, keeps everybody out until it is repeated."""
    nodes = Nodes(t, 2)
    t.on_pool("set", "k", "v").expect(0)
    with open(nodes.file(1), "r+b") as f:
        f.seek(256)
        f.write(b"somebody")
    t.on_pool("get", "k").expect(2, err=("being changed", "--force"))
    assert b"claimed" in t.on_pool("spread").expect(0).out
    t.on_pool("spread", "--set").expect(2, err="--force")
    t.on_pool("spread", "--set", "--force").expect(0)
    t.on_pool("get", "k").expect(0, b"v")
    # A record that is not whole is no record.
    with open(nodes.file(0), "r+b") as f:
        f.seek(1024 + 64)
        f.write(b"something")
    t.on_pool("get", "k").expect(2, err=("record", "damaged", "forge spread"))


@case
def the_check_looks_at_the_record_of_the_nodes(t):
    """Whole, with its own share in it, and the same at all: at 1024 and 6656, and 512 for what is owned."""
    nodes = Nodes(t, 3)
    for i in range(40):
        t.on_pool("set", f"key{i}", "v").expect(0)
    t.on_pool("check").expect(0)

    def damaged(i, at, new, words, code=1):
        with open(nodes.file(i), "r+b") as f:
            f.seek(at)
            before = f.read(len(new))
            f.seek(at)
            f.write(new)
            f.flush()
            seen = t.on_pool("check")
            assert seen.code == code, seen
            for word in (words,) if isinstance(words, str) else words:
                assert word in seen.out.decode() + seen.err.decode(), (word, seen)
            f.seek(at)
            f.write(before)

    # Epoch 1 is odd.
    damaged(1, 6656 + 64, b"\0" * 8, "SPREAD_RECORD")
    damaged(1, 512, b"\0" * 512, "SPREAD_OWNED")
    t.on_pool("check").expect(0)
    # One that was left behind says what it said before.
    nodes.kill(2, with_its_memory=False)
    os.rename(nodes.file(2), nodes.file(2) + "-away")
    t.forge("spread", "--pool", nodes.all(0, 1), "--leave", nodes.names[2], "--set", "--lost").expect(0)
    os.rename(nodes.file(2) + "-away", nodes.file(2))
    nodes.again(2, "--pool", nodes.names[2])
    t.forge("check", "--pool", nodes.all(0, 1)).expect(0)
    behind_it = t.forge("check", "--pool", nodes.all(0, 1, 2))
    assert behind_it.code == 1, behind_it
    for word in ("of epoch 2", "of epoch 1", nodes.names[2], "forge spread --set"):
        assert word in behind_it.err.decode(), behind_it
    a, b = (nodes.names[0] + letter for letter in "xy")
    for name in (a, b):
        t.shm_files.append("/dev/shm" + name.removeprefix("shm:"))
        Node(t, "--pool", name, "--size", "16M")
    t.forge("set", "--pool", f"{a},{b}", "k", "v").expect(0)
    mixed = t.forge("check", "--pool", f"{nodes.names[0]},{a}")
    assert mixed.code == 1 and b"different caches" in mixed.err, mixed


@case
def strangers_are_refused(t):
    nodes = Nodes(t, 4)
    first, second = nodes.all(0, 1), nodes.all(2, 3)
    t.forge("set", "--pool", first, "k", "1").expect(0)
    t.forge("set", "--pool", second, "k", "2").expect(0)
    t.forge("get", "--pool", nodes.all(0, 2), "k").expect(2, err="different caches")
    t.forge("get", "--pool", nodes.all(0, 1, 2, 3), "k").expect(2, err="different caches")
    t.forge("spread", "--pool", nodes.all(0, 2), "--set").expect(2, err=("another cache", "--force"))
    t.forge("get", "--pool", first, "k").expect(0, b"1")
    t.forge("get", "--pool", second, "k").expect(0, b"2")
    # By force they become one, and nothing of the second is read in it.
    t.forge("spread", "--pool", nodes.all(), "--set", "--force").expect(0)
    seen = t.forge("get", "--pool", nodes.all(), "k")
    assert (seen.code, seen.out) in ((0, b"1"), (1, b"")), seen
    seen = t.forge("get", "--pool", first, "k")
    assert seen.code in (0, 1) and b"other memory nodes than were named" in seen.err, seen


@case
def used_alone_before(t):
    nodes = Nodes(t, 2)
    for i in range(60):
        t.forge("set", "--pool", nodes.all(0), f"key{i}", "v").expect(0)
    t.on_pool("get", "key1").expect(2, err=("used as a cache of its own", "forge spread"))
    said = t.on_pool("spread", "--set").expect(0).out.decode()
    assert "forgotten" not in said, said
    # What stays on the first node is kept: about half.
    left = keys(t)
    assert 10 < len(left) < 50, left
    assert keys(t, nodes.all(0)) == left


@case
def what_a_change_would_do_is_shown(t):
    """Of each node; and of two that were used the first is kept, which is said before and after."""
    nodes = Nodes(t, 3)
    a, b, c = nodes.names
    assert f"{a}: new" in t.forge("spread", "--pool", a).expect(0).out.decode()
    for i in (0, 1):
        for k in range(60):
            t.forge("set", "--pool", nodes.names[i], f"{i}-key{k}", "v").expect(0)
    assert t.forge("spread", "--pool", a).expect(0).out.decode() == f"{a}: a cache of its own\n"
    shown = t.forge("spread", "--pool", f"{b},{c},{a}").expect(0).out.decode().splitlines()
    assert [line.split()[0] for line in shown] == [b + ":", c + ":", a + ":"], shown
    assert "keeps what it holds, but for the" in shown[0] and "new: --set" in shown[1], shown
    assert "with --force what it holds is forgotten" in shown[2], shown
    t.forge("spread", "--pool", f"{b},{c},{a}", "--set").expect(
        2, err=(f"what {b} holds, the first, is kept", f"what {a} holds is forgotten"))
    said = t.forge("spread", "--pool", f"{b},{c},{a}", "--set", "--force").expect(0).out.decode()
    lines = {line.split()[0]: line for line in said.splitlines()}
    assert "what it held is forgotten" in lines[a] and "forgotten" not in lines[c], said
    lost = float(lines[b].split("but for the ")[1].split(" %")[0])
    assert 50 < lost < 80 and f"{lost} %" in shown[0], (said, shown)
    left = keys(t)
    assert 5 < len(left) < 40 and all(key.startswith("1-") for key in left), left


@case
def members_come_and_go(t):
    nodes = Nodes(t, 4)
    three, four = nodes.all(0, 1, 2), nodes.all()
    for i in range(100):
        t.forge("set", "--pool", three, f"key{i}", "v").expect(0)
    t.forge("get", "--pool", four, "key1").expect(2, err="lies on 3 memory nodes, 4 are named: leave out")
    said = t.forge("spread", "--pool", four, "--set", "--dry-run").expect(0).out.decode()
    shares = [float(s.split(" %")[0]) for s in said.split("but for the ")[1:]]
    assert len(shares) == 3 and all(15 < s < 35 for s in shares), said  # a quarter of each
    t.forge("spread", "--pool", four, "--set").expect(0)
    grown = keys(t, four)
    assert 50 < len(grown) < 95, grown  # a quarter has moved
    assert keys(t, three) == grown
    assert b"already" in t.forge("spread", "--pool", four, "--set").expect(0).out
    t.forge("spread", "--pool", three, "--set").expect(2, err=("not named", "--leave", "--lost"))
    t.forge("spread", "--pool", three, "--leave", nodes.all(3)).expect(2, err="--set")
    leave = ("spread", "--pool", three, "--leave", nodes.all(3), "--set")
    said = t.forge(*leave, "--dry-run").expect(0).out.decode()
    assert said.startswith("nothing was changed") and said.count("what it held is forgotten") == 3, said
    assert keys(t, four) == grown
    assert said.split("\n", 1)[1] == t.forge(*leave).expect(0).out.decode(), said
    t.forge("get", "--pool", nodes.all(3), "key1").expect(2, err="taken out")
    assert b"--set makes it one again, and forgets" in t.forge("spread", "--pool", four).expect(0).out
    # The three got back what they had when there were three: whoever did is emptied.
    t.forge("set", "--pool", three, "new", "1").expect(0)
    t.forge("get", "--pool", three, "new").expect(0, b"1")
    page = t.forge("spread", "--pool", three).expect(0).out.decode()
    assert "epoch 3, 3 memory nodes" in page, page
    assert sum(int(line.split()[3]) for line in page.splitlines() if "shm:" in line) == 4096, page


@case
def a_lost_member_is_given_up(t):
    nodes = Nodes(t, 3)
    t.on_pool("set", "k", "v").expect(0)
    nodes.kill(2, with_its_memory=True)
    two = nodes.all(0, 1)
    seen = t.forge("get", "--pool", two, "k")
    assert seen.code in (0, 1) and b"going on without it" in seen.err, seen
    t.forge("spread", "--pool", two, "--set").expect(2, err="--lost")
    t.forge("spread", "--pool", nodes.all(0), "--set", "--lost").expect(2, err="more than half")
    t.forge("spread", "--pool", two, "--set", "--lost").expect(0)
    t.forge("set", "--pool", two, "k", "w").expect(0)
    t.forge("get", "--pool", two, "k").expect(0, b"w")


class Bytes(ctypes.Structure):
    """struct forge_bytes."""
    _fields_ = [("data", ctypes.c_char_p), ("bytes", ctypes.c_size_t)]


@case
def who_has_a_key_that_is_refused_is_named(t):
    """By the programs, which never reached it, and by the library, which lost it."""
    forge = module(t)
    nodes = Nodes(t, 3)
    t.on_pool("set", "k", "v").expect(0)
    with forge.Cache(t.pool) as c:
        nodes.kill(1, with_its_memory=True)
        wait_until(lambda: c.get_many([f"key{i}" for i in range(50)]) == {} and c.stats()["gets_lost"],
                   "the loss is not noticed")
        refused = []
        library = ctypes.CDLL(os.environ["FORGE_LIBRARY"])
        library.forge_detail.restype = ctypes.c_char_p
        library.forge_delete.argtypes = [ctypes.c_void_p, Bytes]
        for i in range(40):
            key = b"key%d" % i
            if library.forge_delete(c._session(), Bytes(key, len(key))) < 0:
                assert f"key on {nodes.names[1]}:" in library.forge_detail().decode()
                refused.append(f"key{i}")
        assert 3 < len(refused) < 30, refused
    for verb, value in (("set", ("v",)), ("del", ())):
        said = t.on_pool(verb, refused[0], *value)
        assert said.code == 2, said
        assert f"{nodes.names[1]}: the memory node is gone" in said.err.decode(), said
        assert t.pool + ":" not in said.err.decode(), said


@case
def the_keys_of_the_nodes_that_live_are_given(t):
    """Then the error that names the dead one: by `forge keys` and by the library, begun before or after."""
    forge = module(t)
    nodes = Nodes(t)
    everything = {f"key{i}" for i in range(300)}
    with forge.Cache(t.pool) as c:
        for key in everything:
            c.set(key, b"v")

        scan = c.entries()
        seen = [next(scan).key]
        nodes.kill(0, with_its_memory=True)
        wait_until(lambda: len(c.get_many(everything)) < 300, "the loss is not noticed")
        live = {key.encode() for key in c.get_many(everything)}
        try:
            for entry in scan:
                seen.append(entry.key)
        except forge.Error as error:
            assert error.name == "FORGE_E_NODE" and nodes.names[0] in str(error), error
        else:
            raise AssertionError("the scan ends as if nothing was lost")
        assert live <= set(seen), live - set(seen)
    said = t.on_pool("keys")
    last = said.err.decode().splitlines()[-1]
    assert said.code == 2 and last.startswith(f"forge keys: {nodes.names[0]}: the memory node is gone"), said
    assert "timeout" not in last, last  # in shared memory nobody waits
    assert {key.encode() for key in said.out.decode().split()} == live, said
    assert nodes.names[1] not in last, said
    nodes.again(0)
    t.on_pool("set", "one", "more").expect(0)
    assert len(keys(t)) == len(live) + 1


@case
def a_lost_member_is_named(t):
    """By the name it had; and it is shown as one that cannot be reached."""
    nodes = Nodes(t, 3)
    t.on_pool("set", "k", "v").expect(0)
    nodes.kill(2, with_its_memory=True)
    shown = t.on_pool("spread").expect(0).out.decode()
    assert "epoch 1, 3 memory nodes" in shown and shown.count("cannot be reached") == 2, shown
    top = t.on_pool("top", "--once", "--interval", "100ms").expect(0).out.decode()
    assert top.startswith("3 memory nodes, 1 of them cannot be reached: what follows is without it"), top
    assert f"  {nodes.names[2]}  cannot be reached\n" in top and "hit ratio" in top, top
    for name in nodes.names[:2]:
        pool_id = t.forge("stat", "--json", "--pool", name).expect(0).json()["id"]
        assert f"  {name}  id {pool_id}  memory node serves it\n" in top, top
    stat = t.forge("stat", "--pool", nodes.all(2, 0, 1))
    assert stat.code == 2 and stat.out.startswith(b"name ") and nodes.names[2] in stat.err.decode(), stat
    nodes.kill(1, with_its_memory=False)
    unserved = t.on_pool("spread").expect(0).out.decode()
    assert f"{nodes.names[1]}: its memory is there, but no node serves it" in unserved, unserved
    assert unserved.count("no node serves it") == 1, unserved
    nodes.again(1, "--pool", nodes.names[1])
    row = next(line for line in shown.splitlines() if f"{nodes.names[2]}: cannot" in line)
    assert int(row.split()[3]) > 1000, shown
    two, third = nodes.all(0, 1), nodes.names[2]
    t.on_pool("spread", "--set", "--lost").expect(2, err=(third, "--leave"))
    t.forge("spread", "--pool", two, "--leave", third, "--set").expect(2, err=(third, "--lost"))
    t.forge("spread", "--pool", two, "--leave", third + "-not", "--set", "--lost").expect(
        2, err=(third + "-not cannot be reached", "had this name"))
    assert "epoch 1," in t.on_pool("spread").expect(0).out.decode()
    said = t.forge("spread", "--pool", two, "--leave", third, "--set", "--lost").expect(0).out.decode()
    assert f"{third} is given up" in said, said
    t.forge("set", "--pool", two, "k", "w").expect(0)
    t.forge("get", "--pool", two, "k").expect(0, b"w")
    t.forge("spread", "--pool", third).expect(2, err=third)


@case
def one_of_two_is_given_up_by_way_of_a_new_one(t):
    """Half is not enough to change the members; the remedy that is named works."""
    nodes = Nodes(t, 2)
    a, b = nodes.names
    for i in range(40):
        t.on_pool("set", f"key{i}", "v").expect(0)
    nodes.kill(0, with_its_memory=True)
    t.forge("spread", "--pool", b, "--leave", a, "--set", "--lost").expect(
        2, err=("only 1 of 2", "new, empty node", "forge get"))
    nodes.again(0)
    t.on_pool("get", "any").expect(1)
    t.forge("spread", "--pool", b, "--leave", a, "--set").expect(0)
    assert len(keys(t, b)) > 5
    t.forge("get", "--pool", a, "any").expect(2, err="taken out")
    t.forge("get", "--pool", t.pool, "any").expect(1, err="other memory nodes than were named")


@case
def only_members_leave(t):
    """Neither what was used nor what is new is touched, nor the cache it was to leave; no force helps."""
    nodes = Nodes(t, 4)
    for i in (0, 1):
        t.forge("set", "--pool", nodes.names[i], "k", f"of {i}").expect(0)
    pair = nodes.all(0, 3)
    for leaver in (1, 2):
        for force in ((), ("--force",)):
            t.forge("spread", "--pool", nodes.names[0], "--leave", nodes.names[leaver], "--set",
                    *force).expect(2, err=(f"{nodes.names[leaver]} is no member of this cache", "nothing"))
    for i in (0, 1):
        t.forge("get", "--pool", nodes.names[i], "k").expect(0, b"of %d" % i)
    t.forge("get", "--pool", nodes.names[2], "k").expect(1)
    # Nor does a member of another cache leave this one.
    t.forge("spread", "--pool", pair, "--set").expect(0)
    t.forge("spread", "--pool", nodes.all(1, 2), "--set", "--force").expect(0)
    t.forge("spread", "--pool", pair, "--leave", nodes.names[2], "--set", "--force").expect(
        2, err=(nodes.names[2], "no member of this cache"))
    assert b"epoch 1" in t.forge("spread", "--pool", pair).expect(0).out
    # A change that was cut off is repeated: who has left leaves again.
    for _ in range(2):
        t.forge("spread", "--pool", nodes.names[0], "--leave", nodes.names[3], "--set",
                "--force").expect(0)


def module(t):
    """The module of this build, or a skip."""
    shared = os.path.join(BUILD_ROOT, "src/libforge.so.0")
    if "san.so" in subprocess.run(["ldd", shared], capture_output=True, text=True, check=True).stdout:
        raise Skip("a Python without sanitizer cannot load this build")
    os.environ["FORGE_LIBRARY"] = shared
    sys.path.insert(0, os.path.join(SOURCE_ROOT, "python"))
    sys.dont_write_bytecode = True
    import forge  # pylint: disable=import-outside-toplevel,import-error
    return forge


def bench(t, *arguments, pool=None):
    argv = [FORGE, "bench", "--pool", pool or t.pool, "--json", t.path("bench.json"), *arguments]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
    t.processes.append(process)
    return process


def result(t, process):
    out, err = process.communicate(timeout=4 * PATIENCE_S)
    assert process.returncode == 0, (process.returncode, out, err)
    with open(t.path("bench.json"), encoding="utf-8") as f:
        return json.load(f), err.decode()


LOAD = ("--workload", "ycsb-b", "--keys", "20000", "--preload", "--threads", "2", "--processes", "2",
        "--verify")


def stored(t, name):
    return t.forge("stat", "--json", "--pool", name).json()["counters"]["stored"]


@case
def a_node_killed_under_load_is_followed_by_a_warm_one(t):
    """Its memory is mapped by those who work: nobody notices, before and after."""
    nodes = Nodes(t)
    load = bench(t, *LOAD, "--seconds", "3s")
    wait_until(lambda: stored(t, nodes.names[1]) > 100, "nothing comes to the second node")
    nodes.kill(1, with_its_memory=False)
    nodes.again(1, "--pool", nodes.names[1])
    assert " warm: " in nodes.nodes[1].ready, nodes.nodes[1].ready
    found, err = result(t, load)
    assert found["result"]["refused"] == 0 and "lost" not in err, err
    # Everything fits, and what is moved stays in sight (regroup.c).
    assert found["result"]["hits"] == found["result"]["gets"], found["result"]
    t.on_pool("check").expect(0)


@case
def a_node_lost_with_its_memory_is_replaced_by_an_empty_one(t):
    """Its keys miss, the others' do not; then a new pool of another size takes its place."""
    nodes = Nodes(t)
    # A number of operations, each of which takes some time everywhere: a load of so many seconds may be over
    # before a busy machine has lost and started the node.  Where 40 others want a processor each takes 15 ms.
    load = bench(t, *LOAD, "--keys", "4000", "--warmup", "0", "--ops", "40000",
                 pool=",".join(name + "?latency=100us" for name in nodes.names))
    # What is lost before all keys were stored once is not counted by the load.
    wait_until(lambda: sum(stored(t, name) for name in nodes.names) > 4100, "the load does not begin")
    before = stored(t, nodes.names[0])
    nodes.kill(1, with_its_memory=True)
    wait_until(lambda: stored(t, nodes.names[0]) > before, "the first node stands still")
    nodes.again(1, "--size", "24M")
    assert " new: " in nodes.nodes[1].ready, nodes.nodes[1].ready
    wait_until(lambda: stored(t, nodes.names[1]) > 100, "nothing comes to the second node")
    found, err = result(t, load)
    r = found["result"]
    assert r["refused"] > 0 and r["sets_no_space"] == 0, r
    assert "the memory node is lost" in err and "with another memory" in err, err
    # Not one Get of another node's keys missed: it was of the lost one's, or found the new one empty, which it
    # does once for each key of a node that has less than half of them, and each of four threads.
    lost = r["cache"]["gets_lost"]
    assert 0 < lost and r["gets"] - r["hits"] - lost < 4 * 2000, r
    t.on_pool("check").expect(0)
    t.on_pool("set", "k", "v").expect(0)
    t.on_pool("get", "k").expect(0, b"v")


@case
def a_new_node_is_not_taken_for_another(t):
    """A pool that was used alone does not slip into the place of a lost one."""
    nodes = Nodes(t)
    t.on_pool("set", "k", "v").expect(0)
    nodes.kill(2, with_its_memory=True)
    nodes.again(2)
    t.forge("set", "--pool", nodes.all(2), "k", "of its own").expect(0)
    t.on_pool("get", "k").expect(2, err=("used as one of its own", "leave it out", "replace it alone"))
    nodes.nodes[2].end()
    nodes.again(2)
    assert b"in a lost one's place" not in t.on_pool("spread").expect(0).out
    t.on_pool("set", "k", "w").expect(0)
    t.on_pool("get", "k").expect(0, b"w")
    shown = t.on_pool("spread").expect(0).out.decode()
    assert shown.count("another pool, in a lost one's place") == 1 and "share: of all keys" in shown, shown


@case
def another_name_is_another_node(t):
    """Else two clients with different lists could each have a member of their own."""
    nodes = Nodes(t, 4)
    three, other = nodes.all(0, 1, 2), nodes.all(0, 1, 3)
    t.forge("set", "--pool", three, "k", "v").expect(0)
    t.forge("get", "--pool", other, "k").expect(2, err=("had this name", "--lost"))
    t.forge("get", "--pool", three, "k").expect(0, b"v")
    nodes.kill(2, with_its_memory=True)
    t.forge("get", "--pool", other, "k").expect(2, err=("had this name", "--lost"))
    forge = module(t)
    with forge.Cache(three) as c:
        t.forge("spread", "--pool", other, "--set", "--lost").expect(0)
        # Who runs is told by the two that stay, and reaches the new one.
        for i in range(60):
            c.get(f"key{i}")
        for i in range(60):
            c.set(f"key{i}", b"new")
        assert c.get_many([f"key{i}" for i in range(60)]) == {f"key{i}": b"new" for i in range(60)}
        for i in range(0, 60, 10):
            t.forge("get", "--pool", other, f"key{i}").expect(0, b"new")
    t.forge("set", "--pool", other, "k", "w").expect(0)
    t.forge("get", "--pool", other, "k").expect(0, b"w")


@case
def a_server_on_several_nodes(t):
    nodes = Nodes(t)
    s = Server(t, "--pool", t.pool, "-t", "2")
    with s.connect() as c:
        for i in range(50):
            c.send(b"set k%d 0 0 2\r\n%02d\r\n" % (i, i))
            c.until(b"STORED\r\n")
        keyed = b"get " + b" ".join(b"k%d" % i for i in range(50)) + b"\r\n"
        c.send(keyed)
        assert c.until(b"END\r\n").count(b"VALUE") == 50
    stats = s.stats()
    assert int(stats["curr_items"]) == 50, stats
    assert (stats["memory_nodes"], stats["memory_nodes_up"]) == ("3", "3"), stats
    assert 46 << 20 < int(stats["limit_maxbytes"]) <= 48 << 20, stats
    nodes.kill(1, with_its_memory=True)

    def some_are_missed():
        with s.connect() as c:
            c.send(keyed)
            return 10 < c.until(b"END\r\n").count(b"VALUE") < 45

    wait_until(some_are_missed, "the loss is not noticed")
    # Of what changes a key of the lost node is refused, and the others' not.
    said = set()
    with s.connect() as c:
        for i in range(50):
            c.send(b"set k%d 0 0 2\r\n%02d\r\n" % (i, i))
            said.add(c.until(b"\r\n"))
    assert said == {b"STORED\r\n", b"SERVER_ERROR the memory node is gone\r\n"}, said
    assert s.stats()["memory_nodes_up"] == "2", s.stats()
    nodes.again(1)

    def all_are_stored():
        with s.connect() as c:
            answers = []
            for i in range(50):
                c.send(b"set k%d 0 0 2\r\n%02d\r\n" % (i, i))
                answers.append(c.until(b"\r\n"))
            return set(answers) == {b"STORED\r\n"}

    wait_until(all_are_stored, "the node does not come back")
    assert s.end()[0] == 0
    t.on_pool("check").expect(0)


@case
def the_module_on_several_nodes(t):
    forge = module(t)
    nodes = Nodes(t)
    names = [f"key{i}" for i in range(200)]
    with forge.Cache(nodes.all(2, 0, 1)) as c:
        for name in names:
            c.set(name, name.encode(), expire_after=100)
        assert c.get_many(names) == {name: name.encode() for name in names}
        assert sorted(c.keys()) == sorted(name.encode() for name in names)
        nodes.kill(0, with_its_memory=True)
        wait_until(lambda: len(c.get_many(names)) < 200, "the loss is not noticed")
        refused = 0
        for name in names:
            try:
                c.delete(name)
            except forge.Error as error:
                assert error.name == "FORGE_E_NODE", error
                refused += 1
        assert 0 < refused < 150, refused
    with forge.Cache(nodes.all(1, 2, 0)) as c:
        c.get("key0")  # two of three are enough to begin with


def behind(t, i, *addresses):
    """A node with a name of its own, reached by sockets."""
    name = f"{t.pool}-{i}"
    t.shm_files.append("/dev/shm" + name.removeprefix("shm:"))
    return name, lambda *more: Node(t, "--pool", name, *more, *(
        word for address in addresses for word in ("--listen", address)))


@case
def a_lost_member_is_named_on_a_network(t):
    sockets = [behind(t, letter, "tcp://127.0.0.1:0")[1]("--size", "16M") for letter in "xyz"]
    tcp = [node.listens[0] for node in sockets]
    t.forge("set", "--pool", ",".join(tcp), "k", "v").expect(0)
    sockets[1].end(signal.SIGKILL)
    shown = t.forge("spread", "--pool", ",".join(tcp)).expect(0).out.decode()
    assert f"{tcp[1]}: cannot be reached" in shown, shown
    rest = ",".join((tcp[0], tcp[2]))
    t.forge("spread", "--pool", rest, "--leave", tcp[1], "--set", "--lost").expect(0)
    t.forge("set", "--pool", rest, "k", "w").expect(0)


@case
def every_node_on_a_fabric_of_its_own(t):
    """Killed behind a socket, with its memory surviving: back warm, but for what was refused."""
    forge = module(t)
    name, start = behind(t, "a", "unix:" + t.path("a"))
    first = start("--size", "16M")
    _, start_second = behind(t, "b", "tcp://127.0.0.1:0")
    second = start_second("--size", "16M")
    third = behind(t, "c")[1]("--size", "16M")
    pool = ",".join((first.listens[0], second.listens[0], third.ready.split()[1]))
    names = [f"key{i}" for i in range(300)]
    with forge.Cache(pool) as c:
        for key in names:
            c.set(key, b"old")
        assert len(c.get_many(names)) == 300
        first.end(signal.SIGKILL)
        wait_until(lambda: len(c.get_many(names)) < 300, "the loss is not noticed")
        refused = set()
        for key in names[::3]:
            try:
                c.set(key, b"new")
            except forge.Error as error:
                assert error.name == "FORGE_E_NODE", error
                refused.add(key)
        assert 10 < len(refused) < 90, refused
        first = start()
        assert " warm: " in first.ready, first.ready
        wait_until(lambda: len(c.get_many(names)) == 300 - len(refused), "it does not come back")
        now = c.get_many(names)
        assert not refused & set(now)
        assert all(now[key] == (b"new" if i % 3 == 0 else b"old")
                   for i, key in enumerate(names) if key not in refused), now
    t.forge("check", "--pool", name).expect(0)


def is_stopped(pid):
    """Each of its threads: a signal takes its time on a busy machine."""
    def state(task):
        with open(f"/proc/{pid}/task/{task}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    return all(state(task) == "T" for task in os.listdir(f"/proc/{pid}/task"))


@case
def a_frozen_node_is_lost_and_thaws(t):
    """Stopped, it neither answers nor ends its connections: the deadline of the name decides."""
    forge = module(t)
    _, start = behind(t, "a", "unix:" + t.path("a"))
    frozen = start("--size", "16M")
    other = behind(t, "b")[1]("--size", "16M")
    pool = frozen.listens[0] + "?timeout=2s," + other.ready.split()[1]
    names = [f"key{i}" for i in range(200)]
    with forge.Cache(pool) as c:
        for key in names:
            c.set(key, b"v")
        frozen.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(frozen.process.pid), "it does not stop")
        found = c.get_many(names)
        lost = c.stats()["gets_lost"]
        assert 0 < lost and len(found) == 200 - lost, (lost, len(found))
        # From now on nobody waits for it: each of these is a miss at once, or would be.
        assert len(c.get_many(names * 50)) == len(found)
        frozen.process.send_signal(signal.SIGCONT)
        wait_until(lambda: len(c.get_many(names)) == 200, "it does not come back")


@case
def nobody_waits_for_a_silent_node_at_the_end(t):
    """The client's thread is in the middle of reaching it, and would be for an hour."""
    forge = module(t)
    _, start = behind(t, "a", "tcp://127.0.0.1:0")
    lost = start("--size", "16M")
    other = behind(t, "b")[1]("--size", "16M")
    pool = lost.listens[0] + "?timeout=1h," + other.ready.split()[1]
    names = [f"key{i}" for i in range(200)]
    with forge.Cache(pool) as c:
        for key in names:
            c.set(key, b"v")
        lost.end(signal.SIGKILL)
        wait_until(lambda: len(c.get_many(names)) < 200, "the loss is not noticed")
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            silent.bind(("127.0.0.1", int(lost.listens[0].rsplit(":", 1)[1])))
            silent.listen()
            silent.settimeout(PATIENCE_S)
            with silent.accept()[0] as peer:
                peer.settimeout(PATIENCE_S)
                assert peer.recv(1)  # it is waited for now
                assert len(c.get_many(names)) < 200
                c.close()
                while peer.recv(4096):
                    pass


@case
def what_is_wrong_with_one_of_a_list_is_mended_at_that_one(t):
    """The remedy names it and no other, and the others keep what they hold."""
    nodes = Nodes(t, 2)
    for i in range(40):
        t.on_pool("set", f"key{i}", "v").expect(0)
    alone = keys(t)
    plan = 48  # of the superblock, behind its checksum
    with open(nodes.file(1), "r+b") as f:
        f.seek(plan + 8)
        f.write(b"\7\0\0\0")
    for command in ("get", "key1"), ("stat",), ("keys",), ("spread",):
        seen = t.on_pool(*command)
        last = seen.err.decode().splitlines()[-1]
        assert seen.code == 2 and f"{nodes.names[1]}: " in last and "fails its checksum" in last, seen
        assert "'forge node --size SIZE --force', and no other" in last and "the pool anew" not in last, seen
    nodes.kill(1, with_its_memory=False)
    nodes.again(1, "--size", "16M", "--force")
    left = keys(t)
    assert 0 < len(left) < len(alone) == 40, left
    t.on_pool("set", "key1", "v").expect(0)


@case
def ids_of_one_of_a_list_that_are_taken(t):
    """Which one's, and that it alone is to have more."""
    nodes = Nodes(t, 2)
    nodes.nodes[1].end()
    nodes.again(1, "--size", "16M", "--cn-max", "1")
    s = Server(t, "--pool", t.pool)
    err = t.on_pool("get", "k").expect(2, b"", ("all 1 compute-node ids", "--cn-max", "and no other")).err.decode()
    assert err.startswith(f"forge get: {nodes.names[1]}: all 1"), err
    assert s.end()[0] == 0
    t.on_pool("get", "k").expect(1)


class Mute:
    """Somebody who takes connections under several names, and says nothing."""

    def __init__(self, count):
        self.listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.names = [f"tcp://127.0.0.1:{s.getsockname()[1]}?timeout=1h" for s in self.listeners]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for listener in self.listeners:
            listener.close()

    def hang_up_once_all_are_waited_for(self):
        """Whoever asks one after another waits an hour for the first: he never comes to the second."""
        peers = []
        for listener in self.listeners:
            listener.settimeout(PATIENCE_S)
            peers.append(listener.accept()[0])
        for peer in peers:
            peer.settimeout(PATIENCE_S)
            assert peer.recv(1)
            peer.close()


    def answer_last_until_others_are_waited_for(self):
        """Who waits for the end of that answer first comes to the others when its page is full, much later."""
        *others, last = self.listeners
        last.settimeout(PATIENCE_S)
        peer = last.accept()[0]
        peer.settimeout(PATIENCE_S)
        asked = b""
        while not asked.endswith(b"\r\n\r\n"):
            asked += peer.recv(4096)
        waiting = set(others)
        until = time.monotonic() + PATIENCE_S
        while waiting:
            assert time.monotonic() < until, "the others are not asked meanwhile"
            for listener in select.select(waiting, (), (), 0.1)[0]:
                listener.accept()[0].close()
                waiting.remove(listener)
            peer.send(b"#")
        peer.close()


@case
def those_who_look_wait_for_all_lost_members_at_once(t):
    """One time limit, however many do not answer."""
    name, start = behind(t, "a")
    start("--size", "16M")

    def one_limit(mute, rounds, pool, command, *more, code):
        process = subprocess.Popen([FORGE, command, "--pool", pool, *more], env=t.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        t.processes.append(process)
        for _ in range(rounds):
            mute.hang_up_once_all_are_waited_for()
        out, err = (text.decode() for text in process.communicate(timeout=PATIENCE_S))
        assert process.returncode == code, (command, out, err)
        return out, err

    with Mute(3) as mute:
        pool = ",".join((mute.names[0], name, *mute.names[1:]))
        for rounds, command, code, words in (
                (1, ("stat",), 2, "1 of the 4 memory nodes"),
                (2, ("top", "--once", "--interval", "100ms"), 0, "3 of them cannot be reached"),
                (1, ("spread",), 0, f"{name}: new"), (1, ("check",), 2, "pool check: clean")):
            out, err = one_limit(mute, rounds, pool, *command, code=code)
            said = out + err if code else out
            assert words in out and all(n.partition("?")[0] in said for n in mute.names), (out, err)
        # Servers likewise, which have three seconds.
        where = ",".join(n.removeprefix("tcp://").partition("?")[0] for n in mute.names)
        _, err = one_limit(mute, 1, name, "top", "--once", "--metrics", where, code=2)
        assert "no server answers there" in err, err
        # And those two at the same time: a server that never comes to an end keeps nobody waiting.
        where = mute.names[2].removeprefix("tcp://").partition("?")[0]
        top = subprocess.Popen([FORGE, "top", "--pool", ",".join((mute.names[0], name, mute.names[1])), "--once",
                                "--metrics", where], env=t.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        t.processes.append(top)
        mute.answer_last_until_others_are_waited_for()
        err = top.communicate(timeout=PATIENCE_S)[1].decode()
        assert top.returncode == 2 and "what answers there is no forge serve" in err, err
        # Nobody attaches where nobody serves.
        none = ",".join((*mute.names, t.path("nobody")))
        _, err = one_limit(mute, 1, none, "bench", "--ops", "10", code=2)
        assert "none of the 4 memory nodes can be reached" in err, err


@case
def a_node_is_reached_again_beside_the_others(t):
    """A way that swallows the last connections it would take: their sessions' other keys go on."""
    _, start = behind(t, "a", "tcp://127.0.0.1:0")
    node = start("--size", "16M")
    other = behind(t, "b")[1]("--size", "16M")
    keyed = b"get " + b" ".join(b"k%d" % i for i in range(50)) + b"\r\n"

    def found(c):
        c.send(keyed)
        return c.until(b"END\r\n").count(b"VALUE")

    with Proxy("127.0.0.1", int(node.listens[0].rsplit(":", 1)[1])) as way:
        s = Server(t, "--pool", f"{way.name}?timeout=1h,{other.ready.split()[1]}", "-t", "2")
        with s.connect() as c, s.connect() as d:
            for i in range(50):
                c.send(b"set k%d 0 0 2\r\n%02d\r\n" % (i, i))
                c.until(b"STORED\r\n")
            # Control, a look, one to delete by, one session; not the other's.
            way.passes = 4
            way.cut()
            wait_until(lambda: way.silent > 0, "nobody connects again")
            rest = found(c)
            assert 10 < rest < 40, rest
            for _ in range(200):
                assert found(c) == found(d) == rest
            assert way.silent == 1, way.silent
            way.passes = None
            way.cut()
            wait_until(lambda: found(c) == found(d) == 50, "it does not come back")
        assert s.end()[0] == 0


@case
def three_nodes_hit_as_often_as_one(t):
    """Of a third of the memory each; printed, because it is what users ask."""
    rng = random.Random(5)
    weights = list(itertools.accumulate(1 / (k + 1) ** 0.9 for k in range(120000)))
    with open(t.path("t.csv"), "w", encoding="ascii") as f:
        for i in range(400000):
            key = bisect.bisect_left(weights, rng.random() * weights[-1])
            f.write(f"{i},{key},200\n")

    def ratio(pool):
        t.forge("replay", "--pool", pool, "--columns", "time,key,size", "--json", t.path("r.json"),
                "--warmup", "20", t.path("t.csv"))
        with open(t.path("r.json"), encoding="utf-8") as f:
            found = json.load(f)
        return found["result"]["hit_ratio"], found["pool"]

    three = Nodes(t, 3, "3M")
    parts, pool = ratio(three.all())
    assert pool["memory_nodes"] == 3 and 8 << 20 < pool["bytes"] <= 9 << 20, pool
    one = Node(t, "--pool", "shm:" + t.name + "-one", "--size", "9M")
    t.shm_files.append("/dev/shm" + t.name + "-one")
    whole, pool = ratio("shm:" + t.name + "-one")
    assert pool["memory_nodes"] == 1, pool
    one.end()
    print(f"hit ratio: one node {whole:.4f}, three of a third each {parts:.4f}")
    assert abs(whole - parts) < 0.02, (whole, parts)


if __name__ == "__main__":
    sys.exit(main())
