#!/usr/bin/env python3
"""Pools that were damaged while nobody used them, nodes that are cut off, signals, and what is left.

	damage.py FORGE

A damaged pool is refused, emptied or repaired, as --on-damage says, with the reason and every time
in the same way: never is there a start that fails because the one before it did.
"""
import os
import signal
import struct
import subprocess
import sys

from harness import FORGE, PATIENCE_S, Skip, case, main
from loaded import check, compute_nodes, load, start_load

# Offsets of the superblock (src/layout/plan.h).
VERSION, FINGERPRINT, PLAN, BOOT, STARTS = 8, 16, 48, 232, 248


def make_pool(t):
    """A pool in a file that a load has worked on, at rest: its plan and its bytes."""
    t.pool = t.path("pool")
    node = t.node("--size", "4M", "--keep")
    load(t, "--ops", "30000")
    t.on_pool("set", "colour", "red").expect(0)
    assert node.end() == 0
    plan = t.on_pool("stat", "--json").expect(0).json()["plan"]
    with open(t.pool, "rb") as f:
        return plan, f.read()


def put(t, data):
    with open(t.pool, "wb") as f:
        f.write(data)


def patched(data, offset, *words):
    new = struct.pack(f"<{len(words)}Q", *words)
    return data[:offset] + new + data[offset + len(new):]


def word_at(data, offset):
    return struct.unpack_from("<Q", data, offset)[0]


def a_queued_chunk(data, plan):
    """The offset of the first chunk word that is queued."""
    for chunk in range(plan["chunk_count"]):
        at = plan["chunk_table_offset"] + 8 * chunk
        if word_at(data, at) >> 60 == 3:
            return at
    raise AssertionError("no chunk is queued")


def damages(data, plan):
    """Name, the pool with it, and the rule that says so first."""
    cursors, chunk = plan["cursors_offset"], a_queued_chunk(data, plan)
    tail = word_at(data, cursors + 24)
    yield "head beyond tail", patched(data, cursors + 16, tail + 100000), "CURSORS_ORDER"
    yield "tail torn", patched(data, cursors + 24, tail ^ 0xffff0000), "CURSORS_SPAN"
    yield "all cursors of nonsense", patched(data, cursors, *range(7 << 40, 0, -1 << 40)), "CURSORS"
    yield "chunk word", patched(data, chunk, 0xfedcba9876543210), "CHUNK_WORD"
    yield "chunk table of zeroes", patched(data, plan["chunk_table_offset"],
                                           *[0] * plan["chunk_count"]), "CHUNK_WORD"


@case
def damage_is_refused_and_left_alone(t):
    plan, data = make_pool(t)
    for name, bad, rule in damages(data, plan):
        put(t, bad)
        for _ in range(4):
            # As a service that is started again and again: the same answer every time.
            t.on_pool("node", "--keep").expect(2, b"", (t.pool + " is damaged (" + rule,
                                                        "--on-damage repair", "--repair"))
        with open(t.pool, "rb") as f:
            now = f.read()
        # The epoch counts, and the clock goes on.
        assert now[4096:] == bad[4096:], name
        assert word_at(now, STARTS) == 0, "an orderly refusal is no start that was cut off"
        report = t.on_pool("check", "--json").json()
        assert any(v for r, v in report["violations"].items() if r.startswith(rule)), (name, report)


@case
def damage_is_repaired(t):
    plan, data = make_pool(t)
    put(t, data)
    before = check(t)["counters"]["slots_live"]
    for name, bad, rule in damages(data, plan):
        put(t, bad)
        node = t.node("--keep", "--on-damage", "repair")
        assert " warm: " in node.ready, node.ready
        live = check(t)["counters"]["slots_live"]
        if rule.startswith("CURSORS"):
            assert live == before, (name, live, before)
            t.on_pool("get", "colour").expect(0, b"red")
        load(t, "--ops", "20000", "--verify")
        assert node.end() == 0
        assert (t.pool + " is damaged (" + rule).encode() in node.err, node.err
        assert b"; repaired: " in node.err, node.err
        check(t)
        again = t.node("--keep", "--on-damage", "repair")
        assert again.end() == 0 and again.err == b"", again.err


@case
def damage_makes_an_empty_start(t):
    plan, data = make_pool(t)
    for name, bad, rule in damages(data, plan):
        put(t, bad)
        node = t.node("--keep", "--on-damage", "empty")
        assert " new: " in node.ready, (name, node.ready)
        assert check(t)["counters"]["slots_live"] == 0
        assert t.on_pool("stat", "--json").expect(0).json()["plan"] == plan
        t.on_pool("set", "k", "v").expect(0)
        assert node.end() == 0
        assert rule.encode() in node.err and b"; started empty" in node.err, node.err


@case
def a_pool_that_cannot_be_opened_makes_an_empty_start(t):
    plan, data = make_pool(t)
    for bad, words, plan_is_known in (
            (data[:len(data) // 2], "the file was cut", True),
            (data[:16384], "the file was cut", True),
            (patched(data, PLAN, 5), "fails its checksum", False),
            (patched(data, FINGERPRINT, 0x1234), "layout fingerprint 0000000000001234", False),
            (data[:1000], "which no pool has", True)):
        for how in "empty", "repair":
            put(t, bad)
            t.on_pool("node").expect(2, b"", (words, "--force", "--on-damage empty"))
            if not plan_is_known:
                t.on_pool("node", "--on-damage", how).expect(2, b"", (words, "add --size"))
            node = t.node("--keep", "--on-damage", how,
                          *(() if plan_is_known else ("--size", "4M")))
            assert " new: " in node.ready, node.ready
            t.on_pool("set", "k", "v").expect(0)
            assert node.end() == 0
            assert words.encode() in node.err and b"; started empty" in node.err, node.err
            # And from then on it is a pool like any other.
            warm = t.node("--keep", "--on-damage", how)
            assert " warm: " in warm.ready
            t.on_pool("get", "k").expect(0, b"v")
            assert warm.end() == 0 and warm.err == b"", warm.err


@case
def what_never_was_a_pool_is_never_replaced(t):
    t.pool = t.path("precious")
    put(t, b"precious" * 1000)
    for how in "refuse", "empty", "repair":
        t.on_pool("node", "--size", "4M", "--on-damage", how).expect(2, b"", "not a FORGE pool")
    with open(t.pool, "rb") as f:
        assert f.read() == b"precious" * 1000


@case
def another_version_or_size_is_refused_with_both_values(t):
    plan, data = make_pool(t)
    version = struct.unpack_from("<I", data, VERSION)[0]
    put(t, data[:VERSION] + struct.pack("<I", version + 70) + data[VERSION + 4:])
    words = (f"layout version {version + 70}", f"understands {version}:")
    t.on_pool("node").expect(2, b"", words)
    t.on_pool("stat").expect(2, b"", words)
    put(t, data[:-4096])
    words = (f"has {len(data) - 4096} bytes", f"says {len(data)};")
    t.on_pool("node").expect(2, b"", words)
    t.on_pool("stat").expect(2, b"", words)
    put(t, data)
    t.on_pool("node", "--size", "5M").expect(2, b"", f"another plan ({len(data)} bytes")


@case
def starts_that_were_cut_off_are_not_repeated_for_ever(t):
    plan, data = make_pool(t)
    # Two nodes were killed before they were ready; refusing does not help, so it serves.
    put(t, patched(data, STARTS, 2))
    node = t.node("--keep")
    assert " warm: " in node.ready
    t.on_pool("get", "colour").expect(0, b"red")
    assert node.end() == 0
    with open(t.pool, "rb") as f:
        assert word_at(f.read(), STARTS) == 0
    for how in "empty", "repair":
        put(t, patched(data, STARTS, 1))
        node = t.node("--keep", "--on-damage", how)
        assert " warm: " in node.ready
        assert node.end() == 0 and node.err == b"", node.err
        put(t, patched(data, STARTS, 2))
        node = t.node("--keep", "--on-damage", how)
        assert " new: " in node.ready
        assert node.end() == 0
        assert b"2 starts in a row ended before they were ready; started empty" in node.err


@case
def check_repairs_damage(t):
    plan, data = make_pool(t)
    index = plan["index_offset"]
    bad = data
    # Every 40th word of the index, a TWIM, a few objects, and bits behind the counters.
    for at in range(index, index + 8 * 8 * plan["bucket_count"], 320):
        bad = patched(bad, at, word_at(bad, at) ^ 1 << (at % 61))
    for chunk in range(0, plan["chunk_count"], 10):
        at = plan["chunks_offset"] + chunk * plan["chunk_bytes"]
        bad = patched(bad, at + 64, 0)
        bad = patched(bad, at + plan["chunk_bytes"] - 16, 0xffffffffffffffff)
    put(t, bad)
    broken = t.on_pool("check", "--json").expect(1).json()
    assert broken["counters"]["findings"] > 50, broken["counters"]
    report = t.on_pool("check", "--repair", "--json").expect(0).json()
    mended = report["repair"]["mended"]
    assert report["clean"] and mended["slots_cleared"] > 20 and mended["chunks_emptied"] > 5, report
    assert report["counters"]["slots_live"] > 1000, report["counters"]
    page = t.on_pool("check", "--repair").expect(0).out.decode()
    assert "mended    nothing\n" in page, page
    node = t.node("--keep")
    load(t, "--ops", "30000", "--verify")
    # Damage is not touched while somebody is attached.
    process = start_load(t)
    while not compute_nodes(t):
        pass
    page = t.on_pool("check", "--repair").expect(0).out.decode()
    assert "mended    nothing: damage is mended only while nobody is attached" in page, page
    os.killpg(process.pid, signal.SIGKILL)
    assert node.end() == 0


@case
def a_node_waits_for_its_compute_nodes(t):
    node = t.node("--size", "4M", "--drain", "1h")
    process = start_load(t)
    node.process.send_signal(signal.SIGTERM)
    # It stays, goes on looking after the dead, and ends when the last one has left.
    other = start_load(t, "--processes", "2")
    while sum(line["chunks_held"] > 0 for line in compute_nodes(t)) < 3:
        assert other.poll() is None, "the load has ended"
    os.killpg(other.pid, signal.SIGKILL)
    # Taken back by the node or, in an eviction, by the one that lives.
    while len(compute_nodes(t)) > 1:
        pass
    assert node.process.poll() is None and os.path.exists(t.shm_file)
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE_S)
    assert node.process.wait(PATIENCE_S) == 0
    assert not os.path.exists(t.shm_file)


@case
def a_second_signal_ends_at_once(t):
    for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM),
                          (signal.SIGTERM, signal.SIGHUP)):
        node = t.node("--size", "4M", "--drain", "1h")
        process = start_load(t)
        node.process.send_signal(first)
        # The first has been taken when it is no longer pending; the node does not end by it.
        while not is_draining(node.process.pid):
            assert node.process.poll() is None
        node.process.send_signal(second)
        assert node.process.wait(PATIENCE_S) == 128 + second
        assert os.path.exists(t.shm_file), "an end at once leaves the pool, as a kill does"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        again = t.node()
        assert again.end() == 0
        assert not os.path.exists(t.shm_file)


def is_draining(pid):
    """Neither signal is pending, for the process or its one thread."""
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        pending = [int(line.split()[1], 16) for line in f if line.startswith(("SigPnd", "ShdPnd"))]
    return sum(pending) == 0


@case
def a_thousand_crashes_leave_what_gc_removes(t):
    """Twenty names, nodes killed at some moment of their start or service: nothing else is left."""
    before = {name for name in os.listdir("/dev/shm") if t.name[1:] in name}
    assert not before
    names = [f"{t.name}-{i}" for i in range(20)]
    for turn in range(1000 // 10):
        argv = [FORGE, "node", "--pool", "shm:" + names[turn % 20], "--size", "1M",
                "--on-damage", "repair"]
        nodes = []
        for k in range(10):
            # One of them serves, the others are refused or killed before they are.
            node = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                    env=t.env)
            nodes.append(node)
            if (turn + k) % 3 == 0:
                node.stdout.readline()
            node.kill()
        for node in nodes:
            node.wait(PATIENCE_S)
            node.stdout.close()
    left = {name for name in os.listdir("/dev/shm") if t.name[1:] in name}
    assert left <= {name[1:] for name in names}, left
    try:
        # One is in use, and stays.
        t.pool = "shm:" + names[0]
        node = t.node("--size", "1M", "--on-damage", "repair")
        for name in names[1:]:
            if name[1:] in left:
                done = t.forge("gc", "--warm-too", "--pool", "shm:" + name)
                assert done.code == 0 and done.out.startswith(b"removed "), done
        done = t.forge("gc", "--warm-too", "--pool", t.pool).expect(0)
        assert done.out.startswith(b"left "), done
        assert {n for n in os.listdir("/dev/shm") if t.name[1:] in n} == {names[0][1:]}
        assert node.end() == 0
    finally:
        for name in names:
            if os.path.exists("/dev/shm" + name):
                os.unlink("/dev/shm" + name)


@case
def memory_of_another_host_is_refused(t):
    """As a client sees it on a second host that shares the memory: the boot id is another."""
    t.pool = t.path("pool")
    node = t.node("--size", "4M", "--keep")
    t.on_pool("set", "k", "v").expect(0)
    with open(t.pool, "r+b") as f:
        f.seek(BOOT)
        boot, = struct.unpack("<Q", f.read(8))
        if boot == 0:
            raise Skip("this kernel has no boot id")
        f.seek(BOOT)
        f.write(struct.pack("<Q", boot ^ 1))
        f.flush()
        for command in ("get", "k"), ("set", "k", "w"), ("del", "k"):
            t.on_pool(*command).expect(2, b"", ("another host", "coherent", f"{boot ^ 1:016x}",
                                                f"{boot:016x}", "forge node"))
    assert node.end() == 0
    again = t.node()
    t.on_pool("get", "k").expect(0, b"v")
    assert again.end() == 0


@case
def namespaces_do_not_matter(t):
    """A client in other mount, pid and ipc namespaces attaches by path, without /proc."""
    t.pool = t.path("pool")
    node = t.node("--size", "4M")
    inside = ["unshare", "--mount", "--pid", "--ipc", "--fork", "sh", "-c",
              'mount -t tmpfs none /proc && exec "$@"', "sh"]
    done = subprocess.run([*inside, "true"], capture_output=True, check=False)
    if done.returncode != 0:
        raise Skip("unshare is not permitted here: " + done.stderr.decode().strip())
    if b"libasan" in subprocess.run(["ldd", FORGE], capture_output=True, check=True).stdout:
        raise Skip("the sanitizer looks into /proc for its options and for leaks")

    def forge(*arguments):
        return subprocess.run([*inside, FORGE, *arguments], capture_output=True, env=t.env,
                              timeout=PATIENCE_S, check=False)
    done = forge("set", "--pool", t.pool, "k", "v")
    assert done.returncode == 0, done
    done = forge("get", "--pool", t.pool, "k")
    assert (done.returncode, done.stdout) == (0, b"v"), done
    # One that is killed there is recovered here, and one that lives there is alive here.
    argv = [*inside, FORGE, "bench", "--pool", t.pool, "--workload", "ycsb-a", "--keys", "20000",
            "--ops", "1000000000"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=t.env, start_new_session=True)
    t.processes.append(process)
    while sum(line["chunks_held"] for line in compute_nodes(t)) < 2:
        assert process.poll() is None, "the load has ended"
    assert compute_nodes(t)[0]["process_is_alive"]
    os.killpg(process.pid, signal.SIGKILL)
    line = node.process.stderr.readline()
    assert b"1 compute node ended without leaving" in line, line
    check(t)
    assert node.end() == 0


if __name__ == "__main__":
    sys.exit(main())
