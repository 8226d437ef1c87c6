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


@case
def what_is_no_pool_is_an_error(t):
    t.on_pool("check").expect(2, b"", ("no pool " + t.pool, "check the name"))
    t.pool = t.path("foreign")
    with open(t.pool, "wb") as f:
        f.write(b"precious" * 1000)
    t.on_pool("check").expect(2, b"", (t.pool, "not a FORGE pool"))


if __name__ == "__main__":
    sys.exit(main())
