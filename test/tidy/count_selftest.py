#!/usr/bin/env python3
"""The closing line of `make test` counts what really ran.

	count_selftest.py COUNT_TESTS_PY COUNT_FIXTURE

Runs the fixture, a cmocka program, in every way it can end, puts its output into a log such as
meson leaves, and compares the closing line and the exit status of tools/count-tests.py.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def run(fixture, how):
    done = subprocess.run([fixture, how], capture_output=True, text=True, check=False)
    return {"name": how, "returncode": done.returncode, "stdout": done.stdout,
            "stderr": done.stderr, "result": "OK" if done.returncode == 0 else "FAIL"}


def plain(result, returncode, stdout=""):
    return {"name": "plain", "result": result, "returncode": returncode, "stdout": stdout}


def count(counter, tests, status):
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "testlog.json"
        if tests is not None:
            log.write_text("".join(json.dumps(test) + "\n" for test in tests))
        done = subprocess.run([sys.executable, counter, log, str(status)], text=True,
                              stdout=subprocess.PIPE, check=False)
    return done.stdout.rstrip("\n"), done.returncode


def main():
    counter, fixture = sys.argv[1:3]
    good, bad, two, lost, set_up, exits = (
        run(fixture, how) for how in ("good", "bad", "two-groups", "lost", "set-up", "exit"))
    ok, skip = plain("OK", 0), plain("SKIP", 77, "no traces here\n")
    # what is shown, tests in the log, meson's exit status, closing line, exit status, a note
    cases = [
        ("cases count one by one", [good], 0, "2 passed, 0 failed", 0, ""),
        ("a failed and a skipped case", [bad], 1, "1 passed, 1 failed, 1 skipped", 1,
         "skipped: bad: skipped\n    there is no such device here"),
        ("why a case failed", [bad], 1, "1 passed, 1 failed, 1 skipped", 1, "0x1 != 0x2"),
        ("two groups in a program", [two], 1, "3 passed, 1 failed, 1 skipped", 1, ""),
        ("a case that never ends, in a program that exits 0", [lost], 0, "1 passed, 1 failed", 1,
         "failed: lost: vanishes"),
        ("a set-up that fails", [set_up], 1, "0 passed, 1 failed", 1, "failed: set-up: good"),
        ("where a case failed", [bad], 1, "1 passed, 1 failed, 1 skipped", 1,
         "count_fixture.c:"),
        ("a program that fails after its cases", [exits], 1, "2 passed, 1 failed", 1,
         "failed: exit: FAIL, exit status 3"),
        ("a cmocka program without cases",
         [plain("OK", 0, "[==========] Running 0 test(s).\n"), ok], 0, "1 passed, 1 failed", 1,
         "no test case ran"),
        ("other programs", [ok, plain("FAIL", 1), skip], 1, "1 passed, 1 failed, 1 skipped", 1,
         "skipped: plain\n    no traces here"),
        ("a time-out", [ok, plain("TIMEOUT", -15)], 1, "1 passed, 1 failed", 1, "TIMEOUT"),
        ("only skips", [skip], 0, "0 passed, 0 failed, 1 skipped", 1, "no test ran"),
        ("nothing", [], 0, "0 passed, 0 failed", 1, "no test ran"),
        ("no log", None, 1, "0 passed, 1 failed", 1, "left no log"),
        ("a failure that is in no record", [good], 1, "2 passed, 1 failed", 1, "status 1"),
    ]
    failed = 0
    for what, tests, status, closing, exit_status, note in cases:
        text, returncode = count(counter, tests, status)
        if text.split("\n")[-1] != closing or returncode != exit_status or note not in text:
            failed += 1
            print(f"{what}: expected '{closing}', exit {exit_status}, got exit {returncode}:\n{text}")
    print(f"{len(cases)} logs, {failed} counted wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
