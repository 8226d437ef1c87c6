#!/usr/bin/env python3
"""Death and what follows: compute nodes and memory nodes are killed under load, and the node, the
next client or `forge check --repair` takes back what they held.

	repair.py FORGE

Everything is waited for by its effect: the log line of a recovery, the end of a process, a lock
that is gone.  After each death the check at rest must be clean and every chunk be somewhere.
"""
import os
import re
import signal
import struct
import subprocess
import sys

from harness import FORGE, PATIENCE_S, case, main
from loaded import check, compute_nodes, load, start_load

TAKEN_BACK = b" ended without leaving; taken back in "


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)


def await_recovery(node):
    """The node's line about it."""
    line = node.process.stderr.readline()
    assert TAKEN_BACK in line, line
    return line.decode()


def chunk_count(t):
    """The chunks of the pool, every one in a known state."""
    stat = t.on_pool("stat", "--json").expect(0).json()
    assert stat["chunks"]["unknown"] == 0, stat["chunks"]
    count = sum(stat["chunks"].values())
    assert count == stat["plan"]["chunk_count"], stat["chunks"]
    return count


def is_of_group(pid, group):
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def assert_at_rest(t):
    report = check(t)
    assert not report["crashed"] and not report["live"], report
    counters = report["counters"]
    chunk_count(t)
    assert counters["chunks_open"] + counters["chunks_reserved"] + \
        counters["chunks_evicting"] == 0, counters


@case
def the_node_recovers_what_was_killed_and_logs_it(t):
    node = t.node("--size", "4M")
    process = start_load(t, "--threads", "2", "--processes", "2")
    kill(process)
    dead = 0
    while dead < 2:
        dead += int(re.search(r": (\d+) compute nodes? ended", await_recovery(node)).group(1))
    assert dead == 2 and compute_nodes(t) == []
    assert_at_rest(t)
    load(t, "--ops", "50000", "--verify")
    assert_at_rest(t)
    assert node.end() == 0
    assert node.err == b"", node.err


@case
def two_ids_are_used_a_hundred_times(t):
    t.node("--size", "4M", "--cn-max", "2")
    for turn in range(100):
        # Each needs both ids, so each needs those of the one killed before.
        process = subprocess.Popen(
            [FORGE, "bench", "--pool", t.pool, "--workload", "ycsb-a", "--keys", "20000",
             "--ops", "1000000000", "--processes", "2"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=t.env, start_new_session=True)
        t.processes.append(process)
        while sum(is_of_group(line["pid"], process.pid) and line["chunks_held"] > 0
                  for line in compute_nodes(t)) < 2:
            assert process.poll() is None, (turn, process.stderr.read())
        kill(process)
        process.stderr.close()
        # The kernel takes a killed process down in its own time, and the next do not wait for that.
        while any(line["process_is_alive"] for line in compute_nodes(t)):
            pass
    while compute_nodes(t):
        pass
    assert_at_rest(t)
    t.on_pool("set", "k", "v").expect(0)
    t.on_pool("get", "k").expect(0, b"v")


@case
def single_operations_are_killed_beside_a_load(t):
    node = t.node("--size", "4M", "--cn-max", "4")
    process = start_load(t)
    for turn in range(60):
        single = subprocess.Popen([FORGE, "set", "--pool", t.pool, f"k{turn}", "v" * 300],
                                  env=t.env, stderr=subprocess.DEVNULL)
        t.processes.append(single)
        # Some while it starts, some in the act, some too late.
        while turn % 3 and single.poll() is None and len(compute_nodes(t)) < 2:
            pass
        single.kill()
        single.wait(PATIENCE_S)
    assert process.poll() is None, "the load ended"
    assert check(t)["counters"]["findings"] == 0
    kill(process)
    while compute_nodes(t):
        pass
    assert_at_rest(t)
    assert node.end() == 0


@case
def a_sleeper_is_not_dead(t):
    node = t.node("--size", "4M")
    process = start_load(t)
    os.killpg(process.pid, signal.SIGSTOP)
    held = compute_nodes(t)
    assert len(held) == 1 and held[0]["process_is_alive"]
    # Others work on, and several looks of the node pass; it stays what it was.
    load(t, "--ops", "300000", "--verify")
    report = t.on_pool("check", "--repair", "--json").expect(0).json()
    assert report["repair"]["dead_compute_nodes"] == 0 and report["live"], report
    again = compute_nodes(t)
    assert len(again) == 1 and again[0]["pid"] == held[0]["pid"], again
    os.killpg(process.pid, signal.SIGCONT)
    head = t.on_pool("stat", "--json").expect(0).json()["rings"]["small"]["head"]
    while t.on_pool("stat", "--json").expect(0).json()["rings"]["small"]["head"] < head + 50:
        assert process.poll() is None, "the sleeper did not wake"
    kill(process)
    await_recovery(node)
    assert_at_rest(t)


@case
def a_node_that_starts_warm_recovers_first(t):
    t.pool = t.path("pool")
    first = t.node("--size", "4M", "--keep")
    process = start_load(t)
    first.end(signal.SIGKILL)
    kill(process)
    while any(line["process_is_alive"] for line in compute_nodes(t)):
        pass
    second = t.node("--keep")
    # It was ready only afterwards: nothing has to be waited for.
    assert_at_rest(t)
    assert second.end() == 0
    assert TAKEN_BACK in second.err, second.err
    assert_at_rest(t)


@case
def check_repairs_without_a_node(t):
    t.pool = t.path("pool")
    node = t.node("--size", "4M", "--keep")
    process = start_load(t, "--processes", "2")
    node.end(signal.SIGKILL)
    kill(process)
    while any(line["process_is_alive"] for line in compute_nodes(t)):
        pass
    assert check(t)["crashed"]
    report = t.on_pool("check", "--repair", "--json").expect(0).json()
    assert report["repair"]["dead_compute_nodes"] == 2, report["repair"]
    assert report["repair"]["open_freed"] > 0, report["repair"]
    assert report["clean"] and not report["crashed"], report
    page = t.on_pool("check", "--repair").expect(0).out.decode()
    assert "repair    dead compute nodes: 0; nothing; in " in page, page
    assert_at_rest(t)


@case
def check_repairs_what_nobody_owns(t):
    t.pool = t.path("pool")
    node = t.node("--size", "4M", "--keep")
    t.on_pool("set", "k", "v").expect(0)
    assert node.end() == 0
    plan = t.on_pool("stat", "--json").expect(0).json()["plan"]
    with open(t.pool, "r+b") as f:
        # The first free chunk gets the word of one that is reserved by node 1, who never was.
        for chunk in range(plan["chunk_count"]):
            at = plan["chunk_table_offset"] + 8 * chunk
            f.seek(at)
            word, = struct.unpack("<Q", f.read(8))
            if word >> 60 == 0:
                break
        else:
            raise AssertionError("no chunk is free")
        generation = word & (0x3fff << 36)
        f.seek(at)
        f.write(struct.pack("<Q", 1 << 60 | 1 << 50 | generation))
    broken = t.on_pool("check", "--json").json()
    assert broken["violations"]["CHUNK_OWNER"] == 1, broken["violations"]
    report = t.on_pool("check", "--repair", "--json").expect(0).json()
    assert report["repair"]["reserved_freed"] == 1, report["repair"]
    assert_at_rest(t)


@case
def repair_refuses_what_it_cannot_do(t):
    t.on_pool("check", "--repair").expect(2, b"", ("no pool " + t.pool, "check the name"))
    t.pool = t.path("foreign")
    with open(t.pool, "wb") as f:
        f.write(b"precious" * 1000)
    t.on_pool("check", "--repair").expect(2, b"", (t.pool, "not a FORGE pool"))
    with open(t.pool, "rb") as f:
        assert f.read() == b"precious" * 1000


@case
def gc_leaves_what_is_in_use(t):
    node = t.node("--size", "4M")
    done = t.forge("gc", "--pool", t.pool, "--warm-too").expect(0)
    assert b"left " + t.pool.encode() + b": a memory node serves it, 0 comp" in done.out, done.out
    process = start_load(t)
    node.end(signal.SIGKILL)
    done = t.forge("gc", "--pool", t.pool, "--warm-too").expect(0)
    assert b"no memory node serves it, 1 compute node is attached" in done.out, done.out
    os.killpg(process.pid, signal.SIGSTOP)
    t.forge("gc", "--pool", t.pool, "--warm-too").expect(0)
    assert os.path.exists(t.shm_file)
    kill(process)


@case
def gc_takes_a_warm_pool_only_if_told(t):
    node = t.node("--size", "4M")
    t.on_pool("set", "k", "v").expect(0)
    node.end(signal.SIGKILL)
    done = t.forge("gc", "--pool", t.pool).expect(0)
    assert done.out.startswith(b"left ") and b"--warm-too" in done.out, done.out
    all_of_them = t.forge("gc", "--dry-run", "--warm-too").expect(0)
    assert b"would remove " + t.pool.encode() in all_of_them.out, all_of_them.out
    assert os.path.exists(t.shm_file)
    done = t.forge("gc", "--pool", t.pool, "--warm-too").expect(0)
    assert done.out.startswith(b"removed " + t.pool.encode()), done.out
    assert not os.path.exists(t.shm_file)
    t.forge("gc", "--pool", t.pool).expect(2, b"", "check the name")


@case
def gc_takes_what_a_run_made_for_itself(t):
    """A bench that is killed before all have attached leaves a pool that nobody asked to outlive it."""
    for name, ours in (("-0", True), ("", False), ("-0-1", False)):
        t.pool = f"shm:/forge-bench-{1 << 22 | os.getpid()}{name}"  # of no process
        node = t.node("--size", "4M")
        node.end(signal.SIGKILL)
        done = t.on_pool("gc").expect(0)
        assert done.out.startswith(b"removed " if ours else b"left "), done.out
        assert os.path.exists("/dev/shm/" + t.pool[5:]) != ours
        if not ours:
            t.on_pool("gc", "--warm-too").expect(0)


@case
def gc_removes_what_no_node_can_serve(t):
    node = t.node("--size", "4M", "--keep")
    assert node.end() == 0
    os.truncate(t.shm_file, 1 << 20)
    done = t.forge("gc", "--pool", t.pool, "-n").expect(0)
    assert done.out.startswith(b"would remove ") and b"was cut" in done.out, done.out
    assert os.path.exists(t.shm_file)
    t.forge("gc", "--pool", t.pool).expect(0)
    assert not os.path.exists(t.shm_file)


@case
def an_empty_pool_says_what_to_do(t):
    open(t.shm_file, "wb").close()
    t.on_pool("stat").expect(2, b"", ("is empty", "wait until its memory node says 'ready'", "'forge gc --pool'"))
    t.on_pool("gc").expect(0)
    assert not os.path.exists(t.shm_file)


@case
def gc_leaves_what_never_was_a_pool(t):
    with open(t.shm_file, "wb") as f:
        f.write(b"precious" * 1000)
    t.forge("gc", "--pool", t.pool, "--warm-too").expect(2, b"", "not a FORGE pool")
    assert t.pool.encode() not in t.forge("gc", "-n", "--warm-too").expect(0).out
    with open(t.shm_file, "rb") as f:
        assert f.read() == b"precious" * 1000


if __name__ == "__main__":
    sys.exit(main())
