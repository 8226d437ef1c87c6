#!/usr/bin/env python3
"""`forge check`: clean where nothing is wrong, and a finding for every byte that is made wrong.

	pool_check.py FORGE

The pools are those that real nodes, clients and loads leave, whole, killed or in full swing.
"""
import os
import signal
import struct
import sys

from harness import PATIENCE_S, case, main
from loaded import check, compute_nodes, load, start_load

@case
def clean_when_fresh_and_after_every_load(t):
    for policy in "forge", "forge-paper":
        node = t.node("--size", "4M", "--policy", policy)
        assert check(t)["counters"]["slots_live"] == 0
        t.on_pool("set", "k", "v").expect(0)
        t.on_pool("del", "k").expect(0)
        load(t, "--ops", "200000", "--threads", "2", "--processes", "2")
        report = check(t)
        assert not report["live"] and not report["crashed"], report
        assert report["counters"]["slots_live"] > 2000, report["counters"]
        assert node.end() == 0


@case
def agrees_with_stat(t):
    t.node("--size", "4M")
    load(t, "--ops", "50000")
    s = t.on_pool("stat", "--json", "--scan").expect(0).json()
    c = check(t)["counters"]
    assert (s["scan"]["objects"], s["scan"]["slots"]) == (c["slots_live"], c["slots"])
    assert s["chunks"]["queued"] == c["chunks_queued"] and s["chunks"]["free"] == c["chunks_free"]


@case
def live_beside_a_load(t):
    t.node("--size", "4M")
    process = start_load(t, "--threads", "2", "--processes", "2")
    for _ in range(3):
        assert check(t)["live"]
    assert process.poll() is None, "the load ended before the check did"


@case
def killed_compute_nodes_are_no_finding(t):
    t.pool = t.path("pool")
    node = t.node("--size", "4M", "--keep")
    process = start_load(t)
    assert node.end(signal.SIGKILL) == -signal.SIGKILL
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)
    # The kernel takes the group's other process down in its own time.
    while any(line["process_is_alive"] for line in compute_nodes(t)):
        pass
    assert len(compute_nodes(t)) == 1
    report = check(t)
    assert report["crashed"] and not report["live"], report


def word_at(data, offset):
    return struct.unpack("<Q", data[offset:offset + 8])[0]


def a_live_slot(data, plan):
    """Where the first index word lies whose tag is its chunk's generation (8-byte slots)."""
    for at in range(plan["index_offset"], plan["chunks_offset"], 8):
        word = word_at(data, at)
        chunk = ((word & (1 << 34) - 1) * 16 - plan["chunks_offset"]) // plan["chunk_bytes"]
        if word and word_at(data, plan["chunk_table_offset"] + 8 * chunk) >> 36 & 0x3fff == \
                word >> 34 & 0x3fff:
            return at
    raise AssertionError("the load left no object")


@case
def every_damage_is_found(t):
    t.pool = t.path("pool")
    node = t.node("--size", "4M", "--keep")
    load(t, "--ops", "50000")
    assert node.end() == 0
    check(t)
    with open(t.pool, "rb") as f:
        whole = f.read()
    plan = t.on_pool("stat", "--json").expect(0).json()["plan"]
    cursors, slot = plan["cursors_offset"], a_live_slot(whole, plan)
    pointer = (word_at(whole, slot) & (1 << 34) - 1) * 16
    for offset, new, rules in (
            (cursors, struct.pack("<Q", 1 << 40), ("CURSORS_ORDER",)),
            (slot + 7, bytes([whole[slot + 7] ^ 1]), ("SLOT_KEY",)),
            (pointer + 60, bytes([whole[pointer + 60] ^ 1]), ("SLOT_OBJECT",))):
        with open(t.pool, "wb") as f:
            f.write(whole[:offset] + new + whole[offset + len(new):])
        report = check(t, 1)
        for rule in rules:
            assert report["violations"][rule] > 0, (rule, report["findings"][:5])
    with open(t.pool, "wb") as f:
        f.write(whole)
    check(t)


WAYS = ("replaced", "deleted", "expired", "flushed", "evicted", "superseded", "invalid", "lost")


def sums(t, workers=0):
    """The counters of stat and what the check makes of them; the pool is at rest."""
    report = check(t)["counters"]
    s = t.on_pool("stat", "--json", "--scan").expect(0).json()
    c = s["counters"]
    left = sum(c[way] for way in WAYS)
    assert c["stored"] - left == c["in_index"], c
    assert (report["words_stored"], report["words_left"]) == (c["stored"], left), (report, c)
    assert report["words_tolerated"] == 2048 * workers, report
    assert report["words_unaccounted"] <= report["words_tolerated"], report
    if not workers:
        assert report["slots_live"] + report["slots_stale"] == report["words"] == c["in_index"]
        assert s["scan"]["objects"] == report["slots_live"]
    return c


@case
def what_was_stored_less_what_left_is_there(t):
    for policy in "forge", "forge-paper":
        node = t.node("--size", "4M", "--policy", policy)
        assert sums(t)["stored"] == 0
        for n in range(10):
            t.on_pool("set", f"k{n}", "v").expect(0)
        t.on_pool("set", "k3", "w").expect(0)
        t.on_pool("del", "k4").expect(0)
        t.on_pool("get", "k5").expect(0)
        t.on_pool("get", "k4").expect(1)
        c = sums(t)
        assert [c[k] for k in ("stored", "replaced", "deleted", "evicted", "in_index", "gets",
                               "hits")] == [11, 1, 1, 0, 9, 2, 1], c
        # Several nodes that come and go under one another's ids, and evict.
        for turn in range(3):
            load(t, "--ops", "100000", "--threads", "2", "--processes", "1" if turn else "3")
            now = sums(t)
            assert all(now[k] >= c[k] for k in c if k != "in_index"), (c, now)
            c = now
        assert c["evicted"] > 10000 and c["replaced"] > 10000, c
        assert node.end() == 0


@case
def the_killed_take_a_bounded_number_along(t):
    node = t.node("--size", "4M")
    for kills in range(1, 4):
        process = start_load(t, "--threads", "2")
        # Both threads have counted something: they hold two groups each.
        while sum(line["chunks_held"] for line in compute_nodes(t)) < 4:
            assert process.poll() is None, "the load has ended"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        while compute_nodes(t):
            pass
        c = sums(t, 2 * kills)
        assert c["groups_lost"] >= kills, c
        load(t, "--ops", "20000")
        sums(t, 2 * kills)
    assert node.end() == 0


@case
def counters_are_64_bits_wide(t):
    t.pool = t.path("pool")
    node = t.node("--size", "4M", "--keep")
    load(t, "--ops", "1000")
    assert node.end() == 0
    offset = t.on_pool("stat", "--json").expect(0).json()["plan"]["registry_offset"]
    lines = t.on_pool("stat", "--json").expect(0).json()["plan"]["cn_max"]
    at = (offset + 64 * lines + 63) // 64 * 64
    with open(t.pool, "r+b") as f:
        f.seek(at)
        line = list(struct.unpack("<32Q", f.read(256)))
        assert line[0] == 0 and line[1] > 0, line
        for i in (1, 2, 10, 11):  # stored, replaced, gets, hits
            line[i] += (1 << 60) - 500
        f.seek(at)
        f.write(struct.pack("<32Q", *line))
    before = sums(t)
    assert before["stored"] > 1 << 59 and before["gets"] > 1 << 59
    node = t.node()
    load(t, "--ops", "20000")
    after = sums(t)
    assert after["stored"] > 1 << 60 and after["gets"] > 1 << 60, after
    assert all(after[k] >= before[k] for k in before if k != "in_index"), (before, after)
    assert node.end() == 0


@case
def what_is_no_pool_is_an_error(t):
    t.on_pool("check").expect(2, b"", ("no pool " + t.pool, "check the name"))
    t.pool = t.path("foreign")
    with open(t.pool, "wb") as f:
        f.write(b"precious" * 1000)
    t.on_pool("check").expect(2, b"", (t.pool, "not a FORGE pool"))


if __name__ == "__main__":
    sys.exit(main())
