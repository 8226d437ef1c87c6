#!/usr/bin/env python3
"""`make demo`'s script, from a path with spaces: the page is whole, and nothing is left behind.

	demo.py FORGE SOURCE_ROOT
"""
import glob
import os
import random
import shutil
import signal
import struct
import subprocess
import sys

from harness import FORGE, PATIENCE_S, case, main

SOURCE_ROOT = sys.argv[2]


def home(t):
    """A tree as the script expects it."""
    root = t.path("a tree with spaces")
    os.makedirs(os.path.join(root, "build/src/tool"))
    os.makedirs(os.path.join(root, "tools"))
    os.symlink(FORGE, os.path.join(root, "build/src/tool/forge"))
    for name in ("demo.sh", "demo-page.py"):
        shutil.copy(os.path.join(SOURCE_ROOT, "tools", name), os.path.join(root, "tools"))
    return root


def trace(t):
    draw = random.Random(5)
    ids = [int(draw.paretovariate(0.5)) % 60000 for _ in range(60000)]
    with open(t.path("my trace.u32"), "wb") as f:
        f.write(struct.pack(f"<{len(ids)}I", *ids))
    return t.path("my trace.u32"), ids


def start(t, root, **environment):
    process = subprocess.Popen([os.path.join(root, "tools/demo.sh")], cwd="/",
                               env={**t.env, "TMPDIR": t.dir, **environment},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    t.processes.append(process)
    return process


def nothing_is_left(t, node):
    assert not os.path.exists(f"/proc/{node}"), "the node still runs"
    assert not glob.glob(os.path.join(t.dir, "forge-demo.*")), "its directory is left"


def node_of(line):
    words = line.decode().split()
    assert words[:3] == ["memory", "node", "process"], line
    return int(words[3].rstrip(":")), words[5].replace("shm:", "/dev/shm")


def the_page(t, pool, reached):
    path, ids = trace(t)
    process = start(t, home(t), TRACE=path, FORGE_THREADS="3", FORGE_POLICY="forge-paper", POOL=pool)
    first = process.stdout.readline()
    node, pool_file = node_of(first)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, (out, err)
    text = out.decode()
    for words in (reached, "policy forge, 3 compute nodes", f"{len(ids):,} operations",
                  f"on {len(set(ids)):,} keys", "none wrong", "throughput", "exact LRU",
                  "P99.9", "SIEVE", "57.4 %", "18.0 %", "compaction", "live share", "capacity", "pool check: clean"):
        assert words in text, f"no {words!r} in\n{text}"
    # Whose figures they are is said above them.
    assert text.index("FORGE, this run") < text.index("published, of another load") < text.index("LRU, 32 shards")
    nothing_is_left(t, node)
    assert not os.path.exists(pool_file), "the pool is left behind"


@case
def targets_without_their_traces_are_skipped(t):
    for target in ("hit-ratio", "compaction", "fill"):
        done = subprocess.run(["make", "-C", SOURCE_ROOT, "--no-print-directory", "-o", "all", target],
                              env={**t.env, "FORGE_SHARED": t.path("nothing")}, capture_output=True,
                              timeout=PATIENCE_S, check=False)
        assert done.returncode == 0 and done.stderr == b"", done
        lines = done.stdout.decode().splitlines()
        assert len(lines) == 1 and lines[0].startswith("skipped: "), done


@case
def the_page_is_whole(t):
    the_page(t, "shm", "shared memory of this host")


@case
def the_page_is_whole_over_tcp(t):
    the_page(t, "tcp", "TCP on this host")


@case
def one_compute_node_is_no_nodes(t):
    t.node("--size", "16M")
    for workers, words in ("1", ", 1 compute node, "), ("2", ", 2 compute nodes, "):
        t.on_pool("bench", "-k", "500", "-n", "2000", "-P", workers, "--verify", "--lru", "--json",
                  t.path("run.json")).expect(0)
        with open(t.path("stat.json"), "wb") as f:
            f.write(t.on_pool("stat", "--scan", "--json").expect(0).out)
        done = subprocess.run([sys.executable, os.path.join(SOURCE_ROOT, "tools/demo-page.py"), t.path("run.json"),
                               t.path("stat.json")], capture_output=True, timeout=PATIENCE_S, check=True)
        assert words in done.stdout.decode().splitlines()[0], done


@case
def an_unknown_way_to_the_pool(t):
    process = start(t, home(t), POOL="rdma")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and b"POOL=rdma" in err and out == b"", (out, err)


@case
def an_end_in_between_leaves_nothing(t):
    path, _ = trace(t)
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start(t, home(t) if number == signal.SIGTERM else t.path("a tree with spaces"),
                        TRACE=path)
        node, pool_file = node_of(process.stdout.readline())
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 128 + number, process.returncode
        nothing_is_left(t, node)
        assert not os.path.exists(pool_file), "the pool is left behind"


@case
def a_trace_that_is_not_there(t):
    process = start(t, home(t), TRACE=t.path("absent.u32"))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and b"absent.u32" in err and out == b"", (out, err)


if __name__ == "__main__":
    raise SystemExit(main())
