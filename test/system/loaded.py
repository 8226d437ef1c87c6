"""Pools with a load on them, and what `forge check` and `forge stat` say of them, for tests."""
import subprocess

from harness import FORGE

LOAD = ("--workload", "ycsb-a", "--keys", "20000", "--preload", "--value-bytes", "200")


def check(t, code=0):
    """The report as JSON, after the page has said the same."""
    page = t.on_pool("check").expect(code).out.decode().splitlines()
    report = t.on_pool("check", "--json").expect(code).json()
    count = report["counters"]["findings"]
    assert report["schema"] == "forge-check-1" and report["clean"] == (count == 0)
    assert sum(report["violations"].values()) == count, report
    said = page[-1]
    if count:
        assert said.startswith("pool check: ") and said.endswith(("finding", "findings")), said
    else:
        assert said == "pool check: clean", said
    return report


def load(t, *more):
    done = t.forge("bench", "--pool", t.pool, *LOAD, *more)
    assert done.code == 0, done


def compute_nodes(t):
    return t.on_pool("stat", "--json").expect(0).json()["compute_nodes"]


def start_load(t, *more):
    """A load that goes on until it is killed; it is at work when its node has new groups."""
    argv = [FORGE, "bench", "--pool", t.pool, *LOAD, "--ops", "1000000000", *more]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=t.env, start_new_session=True)
    t.processes.append(process)
    while t.on_pool("stat", "--json").expect(0).json()["rings"]["small"]["head"] < 100:
        assert process.poll() is None, "the load has ended"
    return process
