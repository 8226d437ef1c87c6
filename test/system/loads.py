#!/usr/bin/env python3
"""`forge bench` and `forge replay`: the numbers of a report add up, loads do what they say, and
what goes wrong is said.

	loads.py FORGE

Rates and times are never compared with expectations; counts, shares and orders are.
"""
import glob
import gzip
import json
import lzma
import os
import random
import re
import signal
import struct
import subprocess

from harness import FORGE, PATIENCE_S, case, main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = ("--keys", "20000", "--ops", "60000")


def bench(t, *arguments):
    return t.forge("bench", "--json", "-", *arguments)


def report_of(result):
    assert result.code == 0, str(result)
    return result.json()


def check_sums(report, operations=None):
    """What must hold in every report."""
    r, latency, verbs = report["result"], report["result"]["latency_ns"], report["result"]["verbs"]
    if operations is not None:
        assert r["operations"] == operations, r["operations"]
    assert latency["all"]["count"] == r["operations"]
    assert latency["get_hit"]["count"] == r["hits"]
    assert latency["get_miss"]["count"] == r["gets"] - r["hits"]
    assert latency["set"]["count"] == r["sets"]
    assert latency["fill"]["count"] == r["fills"]
    assert latency["delete"]["count"] == r["deletes"]
    for name, l in latency.items():
        order = [l[k] for k in ("min", "p50", "p90", "p99", "p999", "p9999", "max")]
        assert order == sorted(order), (name, order)
        assert l["count"] == 0 or l["min"] <= l["mean"] <= l["max"], (name, l)
    assert abs(r["hit_ratio"] - (r["hits"] / r["gets"] if r["gets"] else 0)) < 1e-9
    assert r["cache"]["gets"] == r["gets"] and r["cache"]["hits"] == r["hits"]
    for part in ("by_purpose", "by_code"):
        for field in ("verbs", "bytes", "cas_failed"):
            assert sum(c[field] for c in verbs[part].values()) == verbs["all"][field], (part, field)
    if verbs["all"]["verbs"]:
        assert abs(sum(c["share"] for c in verbs["by_purpose"].values()) - 1) < 1e-6
    assert r["distinct"] <= r["operations"]
    return r


def leftovers(pid):
    """Pools of a run that has ended.  Those of others, and of runs long ago, are not ours."""
    return glob.glob(f"/dev/shm/forge-bench-{pid}-*")


@case
def bench_counts_add_up(t):
    r = check_sums(report_of(bench(t, "-w", "ycsb-a", "--verify", *SMALL)), 60000)
    assert r["gets"] + r["sets"] == 60000 and abs(r["gets"] - 30000) < 1500, r
    assert r["fills"] == r["gets"] - r["hits"]
    assert r["verified"] == r["hits"] > 0
    assert r["value_bytes_min"] == r["value_bytes_max"] == 256


@case
def two_processes_of_two_threads(t):
    run = bench(t, "-w", "ycsb-f", "-P", "2", "-t", "2", "--verify", "-c", "20", *SMALL)
    report = report_of(run)
    r = check_sums(report, 60000)
    assert r["workers"] == 4
    assert r["gets"] == 60000 and r["sets"] > 0, "a read-modify-write is a Get and a Set"
    assert not leftovers(run.pid), leftovers(run.pid)


@case
def a_workload_that_fits_hits_always(t):
    report = report_of(bench(t, "-w", "uniform", "--keys", "2000", "-c", "300", "--preload",
                             "--ops", "20000"))
    r = check_sums(report, 20000)
    assert r["hit_ratio"] == 1 and r["fills"] == 0
    assert any("almost every Get hit" in w for w in report["warnings"]), report["warnings"]


@case
def updates_of_what_fits_lose_next_to_nothing(t):
    """Holes are compacted before anything that lives is evicted, however long its ring gets."""
    load = ("-w", "ycsb-a", "--keys", "20000", "-c", "200", "--preload", "--ops", "150000")
    r = report_of(bench(t, *load))["result"]
    assert r["hit_ratio"] > 0.999, r["hit_ratio"]
    assert r["cache"]["groups_compacted"] > 100 and r["cache"]["evictions"] == 0, r["cache"]
    never = report_of(bench(t, *load, "--dead-percent", "100"))["result"]
    assert never["cache"]["groups_compacted"] < r["cache"]["groups_compacted"], never["cache"]


@case
def misses_are_filled_only_if_asked_for(t):
    report = report_of(bench(t, "-w", "uniform", "--on-miss", "ignore", *SMALL))
    r = check_sums(report, 60000)
    assert r["fills"] == 0 and r["hits"] == 0 and r["cache"]["sets"] == 0
    assert any("almost no Get hit" in w for w in report["warnings"]), report["warnings"]


@case
def one_key_is_warned_about(t):
    report = report_of(bench(t, "-w", "uniform", "--keys", "1", "--ops", "5000"))
    assert report["result"]["distinct"] == 1
    assert any("one key" in w for w in report["warnings"]), report["warnings"]


@case
def distinct_keys_are_counted_exactly(t):
    r = report_of(bench(t, "-w", "scan", "--keys", "3000", "--ops", "1700", "--warmup", "0"))["result"]
    assert r["distinct"] == 1700, r["distinct"]
    r = report_of(bench(t, "-w", "scan", "--keys", "3000", "--ops", "9000", "--warmup", "0"))["result"]
    assert r["distinct"] == 3000, r["distinct"]


@case
def a_miss_penalty_is_paid(t):
    r = check_sums(report_of(bench(t, "-w", "scan", "--keys", "300", "--ops", "300", "--warmup", "0",
                                   "--miss-penalty", "200us")), 300)
    assert r["hits"] == 0 and r["latency_ns"]["all"]["min"] >= 200_000, r["latency_ns"]["all"]
    assert r["seconds"] >= 300 * 200e-6


@case
def time_limits_a_run(t):
    report = report_of(bench(t, "--keys", "5000", "--seconds", "300ms", "--warmup-seconds", "50ms"))
    r = check_sums(report)
    assert r["seconds"] >= 0.3 and r["operations"] > 0 and r["warm_up_seconds"] >= 0.05


@case
def lru_beside_the_hit_ratio(t):
    report = report_of(bench(t, "-w", "zipf:0.9", "--lru", "--keys", "20000", "--ops", "100000"))
    lru = report["lru"]
    assert lru["gets"] == report["result"]["gets"]
    assert lru["capacity_objects"] == report["pool"]["capacity_objects"] == 20000 // 10 // 64 * 64
    assert 0.2 < lru["hit_ratio"] < report["result"]["hit_ratio"] + 0.1, lru


@case
def a_served_pool_is_used(t):
    t.node("--size", "16M", "--policy", "forge-paper")
    report = report_of(bench(t, "--pool", t.pool, "-P", "2", *SMALL))
    check_sums(report, 60000)
    assert report["pool"]["policy"] == "forge-paper"
    t.on_pool("set", "colour", "red").expect(0, b"")
    t.forge("bench", "--pool", t.pool, "--policy", "forge").expect(1, None, ["forge-paper"])


@case
def a_named_pool_is_not_made_for_the_run(t):
    """What says how a pool is made contradicts one that is there, but not in the environment."""
    t.node("--size", "16M")
    write_ids(t.path("t.u32"), [5, 6, 5, 5])
    for command in (("bench", *SMALL), ("replay", t.path("t.u32"))):
        for option in ("--cache-percent=5", "--size=4M", "--group-objects=32"):
            name = option.split("=")[0]
            t.forge(*command, "--pool", t.pool, option).expect(
                2, b"", f"{name} is for a pool made for the run, but --pool names {t.pool}")
    t.env["FORGE_POOL"] = t.pool
    t.forge("bench", *SMALL, "-c", "5").expect(2, b"", f"but FORGE_POOL names {t.pool}")
    t.env["FORGE_SIZE"] = "4M"
    t.forge("bench", *SMALL).expect(0)


@case
def a_pool_that_was_full_before_is_warned_of(t):
    t.node("--size", "16M")
    write_ids(t.path("t.u32"), list(range(2000)) * 2)
    first, second = (report_of(replay(t, "--pool", t.pool, t.path("t.u32"))) for _ in range(2))
    assert first["result"]["hits"] == 2000 and not first["warnings"], first
    assert second["result"]["hits"] == 4000, second["result"]
    assert any("before the run; 'forge flush'" in w for w in second["warnings"]), second["warnings"]


@case
def the_page_names_what_matters(t):
    out = t.forge("bench", "--lru", *SMALL).expect(0).out.decode()
    for word in ("throughput", "hit ratio", "exact LRU", "P99.9", "eviction", "fill factor",
                 "distinct keys", "values of 256 B"):
        assert word in out, f"no {word!r} in\n{out}"


@case
def every_json_field_is_documented(t):
    """doc/benchmarks.md lists the schema: no field is missing there, none is invented."""
    with open(os.path.join(ROOT, "doc", "benchmarks.md"), encoding="utf-8") as f:
        listed = set(re.findall(r"^\| `([a-z0-9_.*]+)` \|", f.read(), re.M))
    trace = t.path("t.u32")
    write_ids(trace, [1, 2, 3] * 2000)
    seen = set()

    def walk(name, value):
        pattern = next((p for p in listed if p.endswith(".*") and name.startswith(p[:-1])), None)
        if pattern:
            seen.add(pattern)
        elif isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{name}.{key}" if name else key, inner)
        else:
            seen.add(name)
    walk("", report_of(bench(t, "--lru", *SMALL)))
    walk("", report_of(t.forge("replay", "--json", "-", "--cache-objects", "200", trace)))
    seen -= {"trace", "lru"}  # null where there is none
    assert seen - listed == set(), f"not in doc/benchmarks.md: {sorted(seen - listed)}"
    assert listed - seen == set(), f"not in the report: {sorted(listed - seen)}"


@case
def a_wrong_value_is_seen(t):
    """One byte of one value is changed: --verify names the key, and without it nobody looks."""
    t.node("--size", "16M")
    arguments = ("--pool", t.pool, "-w", "scan", "--keys", "3", "--ops", "9", "--warmup", "0")
    check_sums(report_of(bench(t, "--verify", *arguments)), 9)
    key = "user" + "1".zfill(16)
    value = t.on_pool("get", key).expect(0).out
    assert len(value) == 256, value
    t.on_pool("set", key, "-", stdin=value[:200] + bytes([value[200] ^ 1]) + value[201:]).expect(0)
    check_sums(report_of(bench(t, *arguments)), 9)
    t.forge("bench", "--verify", *arguments).expect(1, b"", ("WRONG VALUE", "key 1 "))


@case
def a_dead_worker_fails_the_run(t):
    process = subprocess.Popen([FORGE, "bench", "-P", "2", "--seconds", "1h", "--keys", "5000"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
    t.processes.append(process)
    children = []
    while len(children) < 2:
        assert process.poll() is None, process.communicate()
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as f:
            children = f.read().split()
    os.kill(int(children[0]), signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and b"killed by signal 9" in err, (process.returncode, out, err)
    assert not leftovers(process.pid), leftovers(process.pid)


@case
def an_interrupt_ends_a_run(t):
    process = subprocess.Popen([FORGE, "bench", "--seconds", "1h", "--keys", "5000", "--progress"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
    t.processes.append(process)
    process.stderr.read(1)  # the line of progress: it runs
    # Its name is removed as soon as all have attached; that is the name leftovers() looks for.
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as f:
        workers = f.read().split()
    maps = ""
    for pid in [process.pid, *workers]:
        with open(f"/proc/{pid}/maps", encoding="ascii") as f:
            maps += f.read()
    assert f"/dev/shm/forge-bench-{process.pid}-" in maps, (workers, maps)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and b"stopped by signal 2" in err, err
    assert not leftovers(process.pid), leftovers(process.pid)


@case
def mistakes_are_explained(t):
    for arguments, words in (
            (("--workload", "ycsb-z"), ("ycsb-z", "ycsb-a")),
            (("--workload", "zipf:0.9,heat=0.1"), ("heat",)),
            (("--workload", "ycsb-a:keys=none"), ("keys",)),
            (("--policy", "frge"), ("frge", "forge")),
            (("--ops", "0"), ("ops",)),
            (("--seconds", "18446744073709552us"), ("--seconds", "between 0 and")),
            (("--warmup-seconds", "18446744073709552us"), ("between 0 and",)),
            (("--miss-penalty", "18446744073709552us"), ("between 0 and",)),
            (("--treads", "2"), ("--treads", "--threads")),
            (("--lru", "--on-miss", "ignore"), ("--on-miss",)),
            (("--json", "/nowhere/at/all"), ("/nowhere/at/all",))):
        t.forge("bench", "--keys", "500", *arguments).expect(2, None, words)
    t.forge("bench", "--keys", "500", "--seconds", "10").expect(2, None, ("--seconds=10", "2s"))
    t.forge("bench", "--pool", "shm:/forge-is-not-there").expect(2, None, "forge-is-not-there")


@case
def a_pool_without_a_node_is_not_used(t):
    node = t.node("--size", "1M", "--keep")
    t.on_pool("bench", "--keys", "500", "--ops", "1k").expect(0)
    node.end()
    t.on_pool("bench", "--keys", "500", "--ops", "1k").expect(2, None, "no memory node")


@case
def a_pool_larger_than_wished_for_is_warned_about(t):
    report = report_of(bench(t, "--keys", "500", "--ops", "1k"))
    assert report["pool"]["capacity_objects"] == 128
    assert any("where 50 were" in w for w in report["warnings"]), report["warnings"]
    report = report_of(bench(t, "--keys", "1280", "--ops", "1k"))
    assert not any("wished" in w for w in report["warnings"]), report["warnings"]


@case
def the_fill_factor_is_the_plans_everywhere(t):
    t.node("--size", "8M", "--object-bytes", "200")
    line = next(l for l in t.on_pool("stat").expect(0).out.decode().splitlines() if l.startswith("fill factor"))
    report = report_of(t.on_pool("bench", "--keys", "10", "--ops", "100", "--json", "-"))
    factor = report["pool"]["fill_factor"]
    assert 0.9 < factor < 1 and f" {100 * factor:.1f} % of a chunk" in line, (factor, line)


@case
def compaction_that_compacts_nothing_is_explained(t):
    words = "verbs of compaction: which objects are dead was published and READ"
    for said, *load in ((True, "ycsb-a"), (False, "ycsb-c"), (False, "ycsb-a", "-c", "160", "--preload")):
        out = t.forge("sim", "bench", "--keys", "20k", "--ops", "20k", "-P", "3", "--threads", "2", "--workload",
                      *load).expect(0).out.decode()
        verbs = next(l for l in out.splitlines() if l.startswith("compaction")).split()[1]
        assert (words in out) == said == (" 0 compacted" in out and verbs != "0"), out


@case
def too_few_groups_for_the_workers_are_warned_about(t):
    few = ("-t", "3", "-P", "2", "--keys", "5k", "--ops", "20k")
    report = report_of(bench(t, *few))
    words = "6 workers need 18 groups, 3 each, and the pool has 7; raise --cache-percent or --size"
    assert report["result"]["sets_no_space"] > 0
    assert any("Sets found no space" in w and words in w for w in report["warnings"]), report["warnings"]
    report = report_of(bench(t, *few, "-c", "40"))
    assert report["result"]["sets_no_space"] == 0, report["result"]


# ---- replay ------------------------------------------------------------------------------------

def write_ids(path, ids):
    with open(path, "wb") as f:
        f.write(struct.pack(f"<{len(ids)}I", *ids))


def skewed_ids(count, seed=7):
    draw = random.Random(seed)
    return [int(draw.paretovariate(0.6)) % 5000 for _ in range(count)]


def replay(t, *arguments):
    return t.forge("replay", "--json", "-", *arguments)


@case
def replay_counts_the_trace(t):
    ids = skewed_ids(40000)
    trace = t.path("a trace.u32")
    write_ids(trace, ids)
    for more in ((), ("-P", "3"), ("-P", "2", "-t", "2", "--lag", "1")):
        report = report_of(replay(t, "--verify", "--cache-objects", "1000", *more, trace))
        r = check_sums(report, len(ids))
        assert report["trace"]["format"] == "u32" and report["trace"]["requests"] == len(ids)
        assert r["distinct"] == report["trace"]["distinct"] == len(set(ids))
        assert report["pool"]["capacity_objects"] == 1000 // 64 * 64
        ceiling = 1 - len(set(ids)) / len(ids)
        assert abs(report["trace"]["hit_ratio_max"] - ceiling) < 1e-9
        assert 0.3 < r["hit_ratio"] <= ceiling, r["hit_ratio"]
        assert r["verified"] == r["hits"]


@case
def the_ceiling_is_of_gets(t):
    """A trace of a Set and a Get of each key: all Gets may hit, though half the requests are new."""
    path = t.path("t.csv")
    with open(path, "w", encoding="ascii") as f:
        f.write("key,op\n")
        for key in range(500):
            f.write(f"{key},set\n{key},get\n")
        f.write("0,delete\n0,get\n0,get\n")
    for on_miss, most in (("fill", 501), ("ignore", 500)):
        given = ("--columns", "key,op", "--on-miss", on_miss, path)
        report = report_of(replay(t, "--cache-objects", "6400", *given))
        r = report["result"]
        assert (r["gets"], r["hits"]) == (502, most), r
        assert abs(report["trace"]["hit_ratio_max"] - most / 502) < 1e-9, report["trace"]
        page = t.forge("replay", "--cache-objects", "6400", *given).expect(0).out.decode()
        line = next(l for l in page.splitlines() if l.startswith("hit ratio"))
        words = "asked for or stored" if on_miss == "fill" else "stored"
        assert f"ceiling {100 * most / 502:.2f} % (ids that were {words} before)" in line, line
        out = t.forge("replay", "--footprint", *given).expect(0).out.decode()
        assert f"hit_ratio_max  {most / 502:.6f}\n" in out, out


@case
def the_footprint_alone(t):
    write_ids(t.path("t.u32"), [5, 6, 5, 5])
    out = t.forge("replay", "--footprint", t.path("t.u32")).expect(0).out.decode()
    numbers = dict(line.split() for line in out.splitlines())
    assert (numbers["format"], numbers["requests"], numbers["ids"]) == ("u32", "4", "2"), out
    assert numbers["hit_ratio_max"] == "0.500000", out


@case
def replay_share_of_the_footprint(t):
    write_ids(t.path("t.u32"), list(range(6400)))
    report = report_of(replay(t, "-c", "50", t.path("t.u32")))
    assert report["pool"]["capacity_objects"] == 3200
    assert any("miss ratio is exactly 1" in w for w in report["warnings"]), report["warnings"]
    assert report["result"]["hits"] == report["lru"]["hits"] == 0
    assert not any("wished" in w for w in report["warnings"]), report["warnings"]
    report = report_of(replay(t, "--cache-objects", "100", t.path("t.u32")))
    assert any("128 objects where 100" in w for w in report["warnings"]), report["warnings"]


@case
def lru_of_a_trace_is_exact(t):
    """Beside an LRU in Python; a loop one object longer than the cache never hits."""
    ids = skewed_ids(20000, 3)
    write_ids(t.path("t.u32"), ids)
    held, hits = {}, 0
    for i in ids:
        hits += i in held
        held.pop(i, None)
        held[i] = True
        if len(held) > 640:
            del held[next(iter(held))]
    lru = report_of(replay(t, "--cache-objects", "640", t.path("t.u32")))["lru"]
    assert (lru["hits"], lru["gets"]) == (hits, len(ids)), lru


@case
def replay_warm_up_is_exact(t):
    write_ids(t.path("t.u32"), skewed_ids(30001))
    for more in ((), ("-P", "3")):
        r = check_sums(report_of(replay(t, "--warmup", "50", "-c", "50", *more, t.path("t.u32"))))
        assert r["operations"] == 30001 - 15000, r["operations"]


@case
def packed_traces_are_the_same_trace(t):
    ids = skewed_ids(5000)
    write_ids(t.path("t.u32"), ids)
    with open(t.path("t.u32"), "rb") as f:
        plain = f.read()
    with gzip.open(t.path("t.u32.gz"), "wb") as f:
        f.write(plain)
    with lzma.open(t.path("t.u32.xz"), "wb") as f:
        f.write(plain)
    reports = [report_of(replay(t, "--cache-objects", "200", t.path(name)))
               for name in ("t.u32", "t.u32.gz", "t.u32.xz")]
    assert len({json.dumps(r["trace"], sort_keys=True) for r in reports}) == 1
    assert len({r["lru"]["hits"] for r in reports}) == 1


@case
def sets_and_deletes_as_recorded(t):
    with open(t.path("t.csv"), "w", encoding="ascii") as f:
        for i in range(1000):
            f.write(f"{4 * i},{i},100,get\n{4 * i + 1},{i},100,set\n"
                    f"{4 * i + 2},{i},100,get\n{4 * i + 3},{i},100,delete\n")
    arguments = ("--columns", "time,key,size,op", "--own-sizes", "-c", "100", t.path("t.csv"))
    recorded = check_sums(report_of(replay(t, "--on-miss", "as-recorded", *arguments)), 4000)
    assert (recorded["gets"], recorded["sets"], recorded["deletes"]) == (2000, 1000, 1000)
    assert recorded["hits"] == 1000 and recorded["fills"] == 0
    filled = check_sums(report_of(replay(t, "--on-miss", "fill", *arguments)), 4000)
    assert filled["hits"] == 1000 and filled["fills"] == 1000 and filled["sets"] == 1000
    gets = check_sums(report_of(replay(t, "--gets-only", *arguments)), 4000)
    assert gets["gets"] == 4000 and gets["hits"] == 3000


@case
def own_sizes_and_bytes(t):
    ids = skewed_ids(20000)
    with open(t.path("t.csv"), "w", encoding="ascii") as f:
        f.writelines(f"{n},{i},{50 + i * 37 % 400}\n" for n, i in enumerate(ids))
    report = report_of(replay(t, "--own-sizes", "--by", "bytes", "-c", "20", "--verify", "--columns",
                              "time,key,size", t.path("t.csv")))
    r = check_sums(report, len(ids))
    assert 50 <= r["value_bytes_min"] and 430 < r["value_bytes_max"] < 450
    assert r["verified"] == r["hits"] > 0
    footprint = sum(50 + i * 37 % 400 for i in set(ids))
    assert report["trace"]["bytes"] == footprint
    assert report["lru"]["capacity_bytes"] <= 0.2 * footprint
    assert 0 < r["byte_hit_ratio"] < 1


@case
def bad_traces_are_named(t):
    with open(t.path("cut.u32"), "wb") as f:
        f.write(b"\1\0\0\0" * 10 + b"\2\0")
    t.forge("replay", t.path("cut.u32")).expect(2, None, ("cut.u32", "11"))
    with open(t.path("bad.csv"), "w", encoding="ascii") as f:
        f.write("1,5,100\n2,6,100\n3,7,a lot\n")
    t.forge("replay", "--columns", "time,key,size", t.path("bad.csv")).expect(
        2, None, ("bad.csv", "3"))
    t.forge("replay", t.path("absent.u32")).expect(2, None, "absent.u32")
    t.forge("replay", t.path("absent")).expect(2, None, ("absent", "No such file"))
    with open(t.path("short.csv"), "w", encoding="ascii") as f:
        f.write("1\n")
    result = t.forge("replay", "--columns", "time,key", t.path("short.csv"))
    result.expect(2, None, ("short.csv", " --columns"))
    with open(t.path("empty.u32"), "wb"):
        pass
    t.forge("replay", t.path("empty.u32")).expect(2, None, "empty.u32")
    write_ids(t.path("t.u32"), [1, 2, 3])
    t.forge("replay", "--own-sizes", t.path("t.u32")).expect(2, None, "--own-sizes")
    t.forge("replay").expect(2, None, "TRACE")


if __name__ == "__main__":
    raise SystemExit(main())
