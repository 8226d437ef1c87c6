#!/usr/bin/env python3
"""The built `forge` on shared memory: what it does, across processes, when nothing is wrong.

	programs.py FORGE

Starts real nodes and runs real clients; waits for the node's `ready` line and for the end of
processes, and for a value to expire, never for a while.
"""
import os
import signal
import subprocess
import sys
import time

from harness import FORGE, PATIENCE_S, case, main


@case
def node_says_ready_and_cleans_up(t):
    node = t.node("--size", "16M")
    words = node.ready.split()
    assert words[1] == t.pool and words[2] == "id" and int(words[3], 16), node.ready
    assert " new: " in node.ready and "objects of 272 bytes" in node.ready, node.ready
    assert os.path.exists(t.shm_file)
    assert os.stat(t.shm_file).st_blocks * 512 >= os.stat(t.shm_file).st_size, "not reserved"
    assert node.end(signal.SIGTERM) == 0
    assert node.err == b"", node.err
    assert not os.path.exists(t.shm_file), "the pool is left behind"


@case
def interrupt_ends_a_node_as_well(t):
    node = t.node("--size", "16M")
    assert node.end(signal.SIGINT) == 0
    assert not os.path.exists(t.shm_file), "the pool is left behind"


@case
def set_get_del_in_processes_of_their_own(t):
    t.node("--size", "16M")
    t.on_pool("get", "colour").expect(1, b"")
    t.on_pool("set", "colour", "red").expect(0, b"")
    t.on_pool("get", "colour").expect(0, b"red")
    t.on_pool("set", "colour", "green").expect(0, b"")
    t.on_pool("get", "colour").expect(0, b"green")
    t.on_pool("del", "colour").expect(0, b"")
    t.on_pool("del", "colour").expect(1, b"")
    t.on_pool("get", "colour").expect(1, b"")


@case
def values_expire_and_a_flush_forgets(t):
    node = t.node("--size", "16M", "--keep")
    start = time.monotonic()
    t.on_pool("set", "--ttl", "1500ms", "brief", "1").expect(0)
    t.on_pool("set", "--ttl", "1h", "long", "2").expect(0)
    t.on_pool("set", "for ever", "3").expect(0)
    seen = t.on_pool("get", "brief")
    if time.monotonic() - start < 1.4:
        seen.expect(0, b"1")
    # The next node goes on with the time of the pool.
    node.end(signal.SIGKILL)
    t.node()
    while t.on_pool("get", "brief").code == 0:
        assert time.monotonic() - start < PATIENCE_S, "it does not expire"
    assert time.monotonic() - start > 1.4, "gone before its time"
    t.on_pool("get", "long").expect(0, b"2")
    t.on_pool("flush").expect(0, b"")
    t.on_pool("get", "long").expect(1, b"")
    t.on_pool("get", "for ever").expect(1, b"")
    t.on_pool("set", "for ever", "4").expect(0)
    t.on_pool("get", "for ever").expect(0, b"4")
    t.on_pool("set", "--ttl", "5", "k", "v").expect(2, err="ttl")


@case
def every_key_is_printed(t):
    t.node("--size", "16M")
    t.on_pool("keys").expect(1, b"")
    t.on_pool("set", "plain", "12345").expect(0)
    t.on_pool("set", "--ttl", "1h", "a b\\\n\u00e4", "1").expect(0)
    t.on_pool("set", "--ttl", "1us", "brief", "1").expect(0)
    lines = t.on_pool("keys").expect(0).out.splitlines()
    assert sorted(lines) == [rb"a\x20b\x5c\x0a\xc3\xa4", b"plain"], lines
    rows = {line.split()[2]: line.split()[:2] for line in t.on_pool("keys", "-l").expect(0).out.splitlines()}
    assert rows[b"plain"] == [b"5", b"-"], rows
    assert rows[lines[0] if lines[1] == b"plain" else lines[1]][0] == b"1"
    assert 3000 < int([row for row in rows.values() if row[1] != b"-"][0][1]) <= 3600, rows
    t.on_pool("flush").expect(0)
    t.on_pool("keys").expect(1, b"")
    # Several attachments: more than a mebibyte of text.
    t.on_pool("bench", "--workload", "uniform", "--keys", "40000", "--ops", "200000",
              "--value-bytes", "64").expect(0)
    found = t.on_pool("keys", "--long").expect(0).out.splitlines()
    assert len(found) == len({line.split()[2] for line in found}) > 35000, len(found)


@case
def values_from_every_source(t):
    t.node("--size", "16M")
    value = bytes(range(256)) * 40
    with open(t.path("value"), "wb") as f:
        f.write(value)
    t.on_pool("set", "stdin", stdin=value).expect(0)
    t.on_pool("set", "dash", "-", stdin=value).expect(0)
    t.on_pool("set", "file", "--file", t.path("value")).expect(0)
    t.on_pool("set", "empty", "").expect(0)
    for key in "stdin", "dash", "file":
        t.on_pool("get", key).expect(0, value)
    t.on_pool("get", "empty").expect(0, b"")
    t.on_pool("set", "--", "--key", "--value").expect(0)
    t.on_pool("get", "--", "--key").expect(0, b"--value")


@case
def longest_key_and_largest_value(t):
    t.node("--size", "16M")
    key = "k" * 250
    t.on_pool("set", key, "v").expect(0)
    t.on_pool("get", key).expect(0, b"v")
    most = int(t.on_pool("set", "big", stdin=b"x" * 3000000).expect(2, err="at most").err.split(
        b"at most ")[1].split()[0])
    t.on_pool("set", "big", stdin=b"y" * (most + 1)).expect(2, err="cut it into several keys")
    t.on_pool("set", "big", stdin=b"z" * most).expect(0)
    t.on_pool("get", "big").expect(0, b"z" * most)


@case
def every_policy_serves(t):
    for policy in "forge", "forge-paper":
        node = t.node("--size", "16M", "--policy", policy)
        t.on_pool("set", "k", policy).expect(0)
        t.on_pool("get", "k").expect(0, policy.encode())
        assert node.end() == 0


@case
def pool_in_a_file(t):
    for number, prefix in enumerate(("", "file:")):
        t.pool = prefix + t.path(f"pool{number}")
        node = t.node("--size", "4M")
        t.on_pool("set", "k", "v").expect(0)
        t.on_pool("get", "k").expect(0, b"v")
        assert node.end() == 0
        assert os.listdir(t.dir) == [], "the file is left behind"


@case
def kept_pool_is_served_warm(t):
    first = t.node("--size", "16M", "--keep")
    t.on_pool("set", "k", "v").expect(0)
    assert first.end() == 0
    assert os.path.exists(t.shm_file)
    # Without options of the plan, and with the ones it was made with.
    second = t.node("--keep")
    assert " epoch 2 warm: " in second.ready, second.ready
    assert second.ready.split()[3] == first.ready.split()[3], "another pool id"
    t.on_pool("get", "k").expect(0, b"v")
    assert second.end() == 0
    third = t.node("--size", "16M")
    assert " epoch 3 warm: " in third.ready, third.ready
    t.on_pool("get", "k").expect(0, b"v")
    assert third.end() == 0
    assert not os.path.exists(t.shm_file)


@case
def killed_node_is_followed_by_a_warm_one(t):
    node = t.node("--size", "16M")
    t.on_pool("set", "k", "v").expect(0)
    assert node.end(signal.SIGKILL) == -signal.SIGKILL
    t.on_pool("get", "k").expect(2, b"", ("no memory node", "forge node --pool " + t.pool))
    again = t.node()
    assert " warm: " in again.ready, again.ready
    t.on_pool("get", "k").expect(0, b"v")
    assert again.end() == 0
    assert not os.path.exists(t.shm_file)


@case
def of_nodes_that_start_together_one_serves(t):
    for _ in range(10):
        argv = [FORGE, "node", "--pool", t.pool, "--size", "2M"]
        nodes = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
                 for _ in range(4)]
        t.processes += nodes
        # A refused node ends, so each gives a line or the end of its output.
        served = [node for node in nodes if node.stdout.readline().startswith(b"ready ")]
        assert len(served) == 1, f"{len(served)} nodes serve one pool"
        t.on_pool("set", "k", "v").expect(0)
        t.on_pool("get", "k").expect(0, b"v")
        for node in nodes:
            if node in served:
                node.terminate()
            err = node.communicate(timeout=PATIENCE_S)[1].decode()
            assert node.returncode == (0 if node in served else 2), err
            assert node in served or "another node" in err or "is empty" in err, err
        assert not os.path.exists(t.shm_file)


@case
def force_makes_it_anew(t):
    node = t.node("--size", "16M", "--keep")
    t.on_pool("set", "k", "v").expect(0)
    assert node.end() == 0
    node = t.node("--size", "8M", "--force")
    assert " epoch 1 new: " in node.ready, node.ready
    assert os.stat(t.shm_file).st_size <= 8 << 20
    t.on_pool("get", "k").expect(1)
    assert node.end() == 0


@case
def pool_from_the_environment(t):
    t.node("--size", "16M")
    t.forge("set", "k", "v", env={"FORGE_POOL": t.pool}).expect(0)
    t.forge("get", "k", env={"FORGE_POOL": t.pool}).expect(0, b"v")


@case
def plan_is_printed_and_nothing_is_made(t):
    done = t.on_pool("node", "--plan", "--size", "1G", "--object-bytes", "1000").expect(0)
    text = done.out.decode()
    for word in ("effective capacity", "fill factor", "metadata", "64 objects of 1000 bytes"):
        assert word in text, text
    assert int(text.split()[1]) <= 1 << 30, text
    assert not os.path.exists(t.shm_file)


@case
def help_and_version(t):
    text = t.forge("--help").expect(0).out.decode()
    for name in ("node", "get", "set", "del"):
        assert f"\n  {name} " in text, text
        assert t.forge("help", name).expect(0).out == t.forge(name, "--help").expect(0).out
        assert t.forge(name, "--help").out.startswith(b"Usage: forge " + name.encode())
    assert t.forge("help").expect(0).out == text.encode()
    version = t.forge("--version").expect(0).out.decode().split()
    assert version[0] == "forge" and version[1].count(".") == 2, version


@case
def a_run_that_is_ended_while_it_makes_its_pool_leaves_nothing(t):
    """The size makes the making long; were it over before the signal comes, nothing may be left either."""
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        run = subprocess.Popen([FORGE, "bench", "--size", "600M", "--seconds", "1h"], env=t.env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        t.processes.append(run)
        path = f"/dev/shm/forge-bench-{run.pid}-0"
        while not os.path.exists(path):
            assert run.poll() is None, run.communicate()
        run.send_signal(number)
        _, err = run.communicate(timeout=PATIENCE_S)
        assert not os.path.exists(path), (number, err)
        assert run.returncode in (-number, 1), (run.returncode, err)  # 1: the run had begun


if __name__ == "__main__":
    sys.exit(main())
