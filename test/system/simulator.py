#!/usr/bin/env python3
"""`forge sim`: a run repeats, its numbers add up, and doc/simulator.md shows what the programs print.

	simulator.py FORGE SOURCE_ROOT
"""
import os
import random
import re
import sys

from harness import case, main

SOURCE_ROOT = sys.argv[2]
SMALL = ("--keys", "20000", "--ops", "30000", "--cns", "2", "--threads", "4")


def manual():
    with open(os.path.join(SOURCE_ROOT, "doc/simulator.md"), encoding="utf-8") as f:
        return f.read()


def simulate(t, *arguments):
    return t.forge("sim", "bench", "--json", "-", *SMALL, *arguments).expect(0).json()


def indented(text):
    return "".join(("    " + line).rstrip() + "\n" for line in text.rstrip("\n").split("\n"))


@case
def the_calibration_is_in_the_manual(t):
    out = t.forge("sim", "calibrate").expect(0).out.decode()
    assert indented(out) in manual(), "doc/simulator.md: put in\n" + indented(out)


@case
def the_constants_are_in_the_manual(t):
    out = t.forge("sim", "profiles").expect(0).out.decode()
    assert indented(out) in manual(), "doc/simulator.md: put in\n" + indented(out)


@case
def a_run_repeats(t):
    one, two, other = (simulate(t, "--seed", seed) for seed in ("5", "5", "6"))
    for report in (one, two):
        del report["simulation"]["host_seconds"]
        del report["settings"]["json"]
    assert one == two
    assert one["simulation"]["run_hash"] != other["simulation"]["run_hash"]
    assert one["simulation"]["profile_hash"] == other["simulation"]["profile_hash"]


@case
def a_crowd_is_warned_of(t):
    for threads, message in (("8", ()), ("200", ("200 threads share 78 chunks", "up to 376 times"))):
        t.forge("sim", "bench", "--keys", "50000", "--ops", "1000", "--workload", "ycsb-c", "--warmup", "0", "--cns", "1",
                "--threads", threads).expect(0, err=message)


@case
def sums(t):
    for profile in ("cx5", "cx6", "cxl", "tcp"):
        report = simulate(t, "--profile", profile, "--check", "--verify", "--workload", "ycsb-a")
        r, s = report["result"], report["simulation"]
        assert r["workers"] == 8 and r["operations"] == 30000
        assert r["verified"] == r["hits"] > 0
        assert s["profile"] == profile
        assert r["verbs"]["all"]["verbs"] < s["verbs"] < s["events"]
        for part in (s["memory_node"], s["compute_node"]):
            assert all(0 <= v <= 1.01 for k, v in part.items() if k != "word_wait_ns"), part
        # The threads cannot have done more than wait for their verbs all the time.
        assert r["latency_ns"]["all"]["mean"] * r["operations"] <= r["seconds"] * 1e9 * 8 * 1.001
        assert not any("client-bound" in w for w in report["warnings"])


@case
def every_verb_is_traced(t):
    path = os.path.join(t.dir, "verbs")
    report = simulate(t, "--trace", path)
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    assert len(lines) == report["simulation"]["verbs"], len(lines)
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)
    assert all(re.match(r" *[0-9.]+ t[0-7]@0 \w+ +(READ|WRITE|CAS|FAA) ", line) for line in lines)


@case
def several_nodes_and_a_tax(t):
    report = simulate(t, "--nodes", "3", "--keys", "60000", "--tax", "--preload")
    tax = report["simulation"]["housekeeping_tax"]
    assert set(tax) == {"all", "hotness", "eviction", "compaction", "space"}
    assert 0.5 < tax["all"] <= 1.05 and all(0.5 < v < 1.1 for v in tax.values()), tax
    free = simulate(t, "--free-housekeeping")
    assert free["result"]["throughput"] > simulate(t)["result"]["throughput"]
    assert free["simulation"]["housekeeping_tax"] is None


@case
def a_trace(t):
    path, draw = os.path.join(t.dir, "ids.csv"), random.Random(1)
    with open(path, "w", encoding="utf-8") as f:
        f.write("".join(f"{i},{draw.randrange(9000)},100,get\n" for i in range(20000)))
    argv = ("sim", "replay", "--columns", "time,key,size,op", "--cns", "2", "--threads", "8",
            "--cache-percent", "50", "--json", "-", path)
    one = t.forge(*argv).expect(0).json()
    assert one["program"] == "replay" and one["result"]["operations"] == 20000
    assert one["simulation"]["run_hash"] == t.forge(*argv).expect(0).json()["simulation"]["run_hash"]


@case
def the_fields_are_in_the_manual(t):
    text, s = manual(), simulate(t)["simulation"]
    for name, value in s.items():
        assert f"`{name}" in text, name
        for inner in value if isinstance(value, dict) else ():
            assert f"`{inner}`" in text, inner


@case
def what_is_wrong_is_said(t):
    for argv, words in (
            (("bench", "--profile", "cx7"), ("no such profile, did you mean cx5?",)),
            (("bench", "--profile=foo"), ("no such profile; 'forge sim profiles' lists",)),
            (("bench", "--policy", "nothing"), ("no such policy; there are forge,",)),
            (("bench", "--policy", "forg"), ("no such policy", "forge")),
            (("bench", "--trace", "/no/such/directory/x"), ("--trace", "No such file")),
            (("bench", "--cns", "86"), ("--cns",)),
            (("bench", "--pool", "shm:/x"), ("--pool",)),
            (("bench", "--tax", "--free-housekeeping"), ("give one",)),
            (("replay",), ("TRACE",)),
            (("bnch",), ("did you mean 'bench'",)),
            (("calibrate", "--profile", "cxl"), ("forge sim calibrate:", "argument '--profile'",
                                             "'forge sim calibrate --help'")),
            (("profiles", "x"), ("forge sim profiles:", "argument 'x'", "'forge sim profiles --help'")),
            (("faults", "-f", "at=1ms pause cn=0 for=99999999ms"), ("for=99999999ms", "up to 1s")),
            (("faults", "-f", "at=1ms pause cn=0"), ("how long", "for=3ms")),
            (("faults", "-P", "1", "-f", "at=1ms kill cn=3 for=1ms"), ("cn=3", "has 1 compute", "--cns")),
            (("faults", "-t", "1", "-f", "at=0 pause cn=0 thread=1 for=1ms"), ("thread=1", "--threads")),
            (("replay", "--format", "u64", "--columns", "time,key", __file__), ("go with csv", "--format csv")),
            ((), ("subcommand is missing",))):
        done = t.forge("sim", *argv)
        assert done.code == 2, str(done)
        assert all(w in done.err.decode() for w in words), str(done)


if __name__ == "__main__":
    sys.exit(main())
