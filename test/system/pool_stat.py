#!/usr/bin/env python3
"""`forge stat`: its numbers are those of the pool, with and without a node, and it only reads.

	pool_stat.py FORGE
"""
import re
import signal
import subprocess
import sys

from harness import FORGE, PATIENCE_S, case, main


def stat(t, *more):
    return t.on_pool("stat", "--json", *more).expect(0).json()


@case
def fresh_pool(t):
    node = t.node("--size", "16M")
    s = stat(t, "--scan")
    plan, chunks = s["plan"], s["chunks"]
    assert s["schema"] == "forge-stat-1" and s["pool"] == t.pool and s["is_served"] is True
    assert s["id"] == node.ready.split()[3] and s["epoch"] == 1
    assert plan["pool_bytes"] <= 16 << 20 and plan["policy"] == "forge"
    assert f"{plan['capacity_objects']:,} objects" in node.ready
    assert chunks["free"] == plan["chunk_count"] == sum(chunks.values())
    assert s["rings"]["free"] == {"head": 0, "tail": plan["chunk_count"],
                                  "chunks": plan["chunk_count"]}
    assert s["compute_nodes"] == [] and s["scan"]["objects"] == 0
    # Three slots an object, and the overflow bucket.
    assert s["scan"]["slots"] == 8 * (plan["bucket_count"] + 1)


@case
def objects_are_counted(t):
    t.node("--size", "16M")
    for n in range(20):
        t.on_pool("set", f"key{n}", "x" * 100).expect(0)
    t.on_pool("set", "key3", "y").expect(0)
    t.on_pool("del", "key4").expect(0)
    t.on_pool("set", "large", stdin=b"z" * 20000).expect(0)
    s = stat(t, "--scan")
    assert s["scan"]["objects"] == 20, s["scan"]
    # 48 bytes of header, key and value, in units of 16.
    assert s["scan"]["object_bytes"] == 18 * 160 + 64 + 20064, s["scan"]
    assert s["rings"]["small"]["members"] + s["rings"]["main"]["members"] >= 20
    assert sum(s["chunks"].values()) == s["plan"]["chunk_count"]
    assert s["compute_nodes"] == [], "get and set leave nothing behind"
    assert "scan" not in stat(t)


@case
def both_slot_formats(t):
    for policy, words in ("forge", 1), ("forge-paper", 2):
        node = t.node("--size", "16M", "--policy", policy)
        t.on_pool("set", "k", "v").expect(0)
        s = stat(t, "--scan")
        assert s["plan"]["slot_words"] == words and s["scan"]["objects"] == 1, s["scan"]
        assert node.end() == 0


@case
def works_without_a_node_and_only_reads(t):
    t.pool = t.path("pool")
    node = t.node("--size", "4M", "--keep")
    t.on_pool("set", "k", "v").expect(0)
    assert node.end() == 0
    with open(t.pool, "rb") as f:
        before = f.read()
    s = stat(t, "--scan")
    assert s["is_served"] is False and s["scan"]["objects"] == 1
    text = t.on_pool("stat", "--scan").expect(0).out.decode()
    with open(t.pool, "rb") as f:
        assert f.read() == before, "stat wrote into the pool"
    for words in ("memory node         none", "effective capacity", "fill factor", "queued",
                  "objects             1,", f"compute nodes       0 of at most"):
        assert words in text, text


@case
def each_line_of_stat_says_what_it_is(t):
    """Of every state, ring and region a sentence."""
    t.node("--size", "16M")
    page = t.on_pool("stat").expect(0).out.decode()
    for names in (("free", "reserved", "open", "queued", "evicting", "part"), ("small", "main"),
                  ("superblock", "cursors", "ofm", "registry", "stats", "chunk_table", "dead_map", "rings", "index",
                   "twims", "pad", "objects"), ("map", "lives", "dead", "mirrors", "each session")):
        for name in names:
            rows = re.findall(rf"^{name}  +[\d,].*$", page, re.M)
            assert rows and all(len(re.findall(r"[a-z]{2,}", row)) > 2 for row in rows), (name, rows)
    free = re.findall(r"^free  +[\d,].*$", page, re.M)
    assert len(free) == 2 and "chunks to be taken" in free[1], free
    for word in ("head, tail:", "between:", "members:"):
        assert word in page, word


def top_rows(page):
    """{name: (a second, in all)} of a page of `forge top`."""
    return {m[3]: (int(m[1].replace(",", "")), int(m[2].replace(",", "")))
            for m in re.finditer(r"^ *([\d,]+) +([\d,]+) +([a-z_ ]+): ", page, re.M)}


@case
def top_shows_totals_and_rates(t):
    t.node("--size", "16M")
    for n in range(20):
        t.on_pool("set", f"key{n}", "x").expect(0)
    t.on_pool("get", "key1").expect(0)
    t.on_pool("get", "none").expect(1)
    page = t.on_pool("top", "--once", "-i", "100ms").expect(0).out.decode()
    rows, told = top_rows(page), stat(t)["counters"]
    for name, (rate, total) in rows.items():
        assert rate == 0, (name, page)
        assert total == told.get(name, 0), (name, page)
    assert rows["stored"] == (0, 20) and rows["gets"] == (0, 2), page
    assert set(told) - {"in_index"} <= set(rows), page
    assert "50.0" in re.search(r".*hit ratio.*", page)[0] and "memory node serves it" in page, page
    assert "\033" not in page, "this is no terminal"


@case
def top_counts_what_happens_until_it_is_told_to_end(t):
    node = t.node("--size", "16M")
    process = subprocess.Popen([FORGE, "top", "-p", t.pool, "-i", "200ms"], env=t.env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    t.processes.append(process)

    def page():
        lines = [process.stdout.readline().decode()]
        while "out of main" not in lines[-1]:
            assert lines[-1], process.stderr.read()
            lines.append(process.stdout.readline().decode())
        return "".join(lines)

    assert top_rows(page())["stored"] == (0, 0)
    for n in range(5):
        t.on_pool("set", f"key{n}", "x").expect(0)
    rates = 0
    while (row := top_rows(page())["stored"])[1] < 5 or row[0]:
        rates += row[0]
    assert rates > 0, "values were stored, and no page had a rate"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and err == b"", (process.returncode, err)

    process = subprocess.Popen([FORGE, "top", "-p", t.pool, "-i", "100ms"], env=t.env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    t.processes.append(process)
    page()
    assert node.end() == 0
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2 and b"there is no pool" in err, (process.returncode, err)


@case
def top_names_what_is_wrong(t):
    t.on_pool("top", "--once").expect(2, err="there is no pool")
    t.forge("top", "-i", "1ms").expect(2, err="-i=1ms: must be between 100ms and 1h;")


if __name__ == "__main__":
    sys.exit(main())
