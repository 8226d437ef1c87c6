#!/usr/bin/env python3
"""Clients that are opened with a list of memory nodes of before: what the record of one that still
belongs makes up for, and what it cannot (src/client/list.h).

	old_lists.py FORGE SOURCE_ROOT BUILD_ROOT
"""
import os
import signal
import sys

from harness import Node, case, main
from memcache import Server, wait_until

KEYS = [f"key{i}" for i in range(60)]
OTHERS = "other memory nodes than were named"


class Nodes:
    """Memory nodes of 16 MiB."""

    def __init__(self, t, count):
        self.t = t
        self.names = [f"{t.pool}-{letter}" for letter in "abcdef"[:count]]
        t.shm_files += [self.file(i) for i in range(count)]
        self.nodes = [self.start(i) for i in range(count)]

    def file(self, i):
        return "/dev/shm" + self.names[i].removeprefix("shm:")

    def start(self, i, size=("--size", "16M")):
        return Node(self.t, "--pool", self.names[i], *size)

    def of(self, letters):
        return ",".join(self.names["abcdef".index(letter)] for letter in letters)

    def end(self, letter, with_its_memory=True):
        i = "abcdef".index(letter)
        self.nodes[i].end(signal.SIGKILL)
        if with_its_memory:
            os.unlink(self.file(i))


def spread(t, nodes, letters, leave="", *more):
    t.forge("spread", "--pool", nodes.of(letters), "--set",
            *(("--leave", nodes.of(leave)) if leave else ()), *more).expect(0)


def store(t, pool, value, old=True):
    """Each key by a command of its own, so that each finds the nodes anew."""
    for key in KEYS:
        t.forge("set", "--pool", pool, key, value).expect(0, err=(OTHERS,) if old else ())


def expect(t, pool, value, old=False):
    for key in KEYS:
        t.forge("get", "--pool", pool, key).expect(0, value, err=(OTHERS,) if old else ())


@case
def any_that_still_belongs_is_enough(t):
    nodes = Nodes(t, 4)
    store(t, nodes.of("a"), "1", old=False)
    spread(t, nodes, "abc")
    store(t, nodes.of("a"), "2")
    expect(t, nodes.of("cba"), b"2")
    store(t, nodes.of("bc"), "3")
    expect(t, nodes.of("abc"), b"3")
    # Who has left is left out, whether it is there yet or not.
    spread(t, nodes, "bcd", leave="a")
    store(t, nodes.of("ab"), "4")
    expect(t, nodes.of("bcd"), b"4")
    store(t, nodes.of("abc"), "5")
    expect(t, nodes.of("bcd"), b"5")
    nodes.end("a")
    store(t, nodes.of("ab"), "6")
    expect(t, nodes.of("bcd"), b"6")
    # As many names as members, and one that nobody is behind: it may be another name of the fourth.
    for key in KEYS:
        said = t.forge("set", "--pool", nodes.of("abc"), key, "7")
        assert said.code == 0 and OTHERS.encode() not in said.err, said
    expect(t, nodes.of("bcd"), b"7")


@case
def a_server_starts_with_the_list_of_before(t):
    nodes = Nodes(t, 3)
    store(t, nodes.of("ab"), "1", old=False)
    spread(t, nodes, "bc", leave="a")
    s = Server(t, "--pool", nodes.of("ab"))
    wait_until(lambda: s.stats()["memory_nodes_up"] == "2", "it does not find both")
    with s.connect() as c:
        for key in KEYS:
            c.send(b"set %s 0 0 1\r\n2\r\n" % key.encode())
            assert c.until(b"\r\n") == b"STORED\r\n"
    expect(t, nodes.of("bc"), b"2")
    assert s.end()[0] == 0


@case
def who_none_of_the_list_belongs_to_is_refused(t):
    nodes = Nodes(t, 3)
    store(t, nodes.of("a"), "1", old=False)
    spread(t, nodes, "ab")
    spread(t, nodes, "bc", leave="a")
    t.forge("get", "--pool", nodes.of("a"), "key1").expect(2, err="taken out")
    nodes.end("a")
    t.forge("get", "--pool", nodes.of("a"), "key1").expect(2, err="no pool")


@case
def a_record_that_is_over_is_not_believed(t):
    """One was left out while it was away, and comes back with its memory: it knows of no change."""
    nodes = Nodes(t, 3)
    store(t, nodes.of("abc"), "1", old=False)
    nodes.end("c", with_its_memory=False)
    os.rename(nodes.file(2), nodes.file(2) + "-away")
    spread(t, nodes, "ab", "c", "--lost")
    store(t, nodes.of("ab"), "2", old=False)
    os.rename(nodes.file(2) + "-away", nodes.file(2))
    nodes.nodes[2] = nodes.start(2, size=())
    for pool in "c", "bc", "abc":
        expect(t, nodes.of(pool), b"2", old=True)
    store(t, nodes.of("c"), "3")
    expect(t, nodes.of("ab"), b"3")
    # Alone it is fewer than half of the members that it knows.
    nodes.end("a")
    nodes.end("b")
    t.forge("get", "--pool", nodes.of("c"), "key1").expect(2, err=("1 of the 3", "at least half"))


@case
def strangers_in_the_list_are_refused(t):
    """Another cache's, one that was used alone, and a new one that no record has."""
    nodes = Nodes(t, 6)
    store(t, nodes.of("abc"), "1", old=False)
    t.forge("set", "--pool", nodes.of("de"), "key1", "other").expect(0)
    t.forge("get", "--pool", nodes.of("ad"), "key1").expect(2, err="different caches")
    t.forge("get", "--pool", nodes.of("af"), "key1").expect(2, err="lies on 3 memory nodes, 2 are named")
    t.forge("set", "--pool", nodes.of("f"), "key1", "alone").expect(0)
    t.forge("get", "--pool", nodes.of("af"), "key1").expect(2, err="used as one of its own")
    expect(t, nodes.of("abc"), b"1")
    t.forge("get", "--pool", nodes.of("de"), "key1").expect(0, b"other")
    t.forge("get", "--pool", nodes.of("f"), "key1").expect(0, b"alone")


@case
def a_member_of_the_record_that_is_another_pool_now(t):
    """New, it takes the lost one's place, as by a whole list; used alone, nobody goes there."""
    nodes = Nodes(t, 3)
    store(t, nodes.of("abc"), "1", old=False)
    nodes.end("c")
    nodes.nodes[2] = nodes.start(2)
    store(t, nodes.of("a"), "2")
    expect(t, nodes.of("abc"), b"2")
    nodes.end("c")
    nodes.nodes[2] = nodes.start(2)
    t.forge("set", "--pool", nodes.of("c"), "key1", "alone").expect(0)
    t.forge("get", "--pool", nodes.of("a"), "key1").expect(2, err="used as one of its own")


@case
def a_name_that_is_not_believed(t):
    """The record has names of memory, and who has only a socket's does not go there."""
    places, pools = [], []
    for letter in "ab":
        pool = f"{t.pool}-{letter}"
        t.shm_files.append("/dev/shm" + pool.removeprefix("shm:"))
        node = Node(t, "--pool", pool, "--size", "16M", "--listen", "tcp://127.0.0.1:0")
        pools.append(pool)
        places.append(node.listens[0])
    t.forge("set", "--pool", ",".join(pools), "k", "v").expect(0)
    t.forge("get", "--pool", places[0], "k").expect(
        2, err=("lies on 2 memory nodes, 1 is named", "no name by which this client may reach"))
    t.forge("get", "--pool", ",".join(places), "k").expect(0, b"v")


if __name__ == "__main__":
    sys.exit(main())
