#!/usr/bin/env python3
"""Count what really ran, from the log that `meson test` leaves.

	count-tests.py TESTLOG_JSON MESON_EXIT_STATUS

A cmocka program announces each case with "[ RUN      ] name" and settles it with a line of the
same name; a case that was announced and not settled (a crash, a time-out) has failed.  A program
that fails for a reason of its own (a leak, say, or no case at all) counts as one more failure.
Programs that are not cmocka's count as one.  Why something failed or was skipped is printed
before the closing line, which is "N passed, M failed" with ", K skipped" if K > 0.
"""
import argparse
import json
import re
import sys

CASE = re.compile(r"\[ RUN      \] (.+)")
SETTLED = re.compile(r"\[(       OK |  FAILED  |  SKIPPED |  ERROR   )\] (.+)")
GROUP = re.compile(r"\[==========\] Running (\d+) test\(s\)")


def cmocka_cases(text):
    """[name, outcome, lines between] per case, or None if this is no cmocka program."""
    cases, is_cmocka, current = [], False, None
    for line in text.splitlines():
        if GROUP.search(line):
            is_cmocka, current = True, None
        elif (m := CASE.search(line)) and is_cmocka:
            current = [m.group(1), "lost", []]
            cases.append(current)
        elif current:
            m = SETTLED.search(line)
            if m and m.group(2) == current[0]:
                current[1] = m.group(1).strip().lower()
                current = None
            else:
                current[2].append(line)
    return cases if is_cmocka else None


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.notes = []

    def note(self, kind, name, lines, limit):
        self.notes.append(f"{kind}: {name}")
        self.notes += ["    " + line for line in lines if line.strip()][-limit:]

    def add(self, test):
        name, result = test["name"], test["result"]
        out, err = (test.get(key) or "" for key in ("stdout", "stderr"))
        good = result in ("OK", "EXPECTEDFAIL")
        cases = cmocka_cases(out)
        # meson keeps the streams apart: what cmocka says of a failure is not beside its case.
        aside = [line for line in err.splitlines() if re.match(r"\[ +(ERROR|LINE) +\]", line)]
        failed_before = self.failed
        for case, outcome, lines in cases or []:
            if outcome == "ok":
                self.passed += 1
            elif outcome == "skipped":
                self.skipped += 1
                self.note("skipped", f"{name}: {case}", lines or err.splitlines(), 3)
            else:
                self.failed += 1
                self.note("failed", f"{name}: {case}", lines, 10)
        if self.failed > failed_before and aside:
            self.note("failures reported by", name, aside, 20)
        text = (out + err).splitlines()
        if result == "SKIP" and not cases:
            self.skipped += 1
            self.note("skipped", name, text, 3)
        elif cases is None and good:
            self.passed += 1
        elif (not good and result != "SKIP" and self.failed == failed_before) or cases == []:
            self.failed += 1
            why = "no test case ran" if cases == [] and good else \
                f"{result}, exit status {test['returncode']}"
            self.note("failed", f"{name}: {why}", text, 10)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("log", metavar="TESTLOG_JSON")
    parser.add_argument("status", type=int, metavar="MESON_EXIT_STATUS")
    arguments = parser.parse_args()
    tally, status = Tally(), arguments.status
    try:
        with open(arguments.log, encoding="utf-8", errors="replace") as log:
            for line in log:
                tally.add(json.loads(line))
    except FileNotFoundError:
        tally.notes.append(f"failed: meson test left no log (exit status {status})")
    # meson saw a failure which is in no test's record: do not hide it.
    if status != 0 and tally.failed == 0:
        tally.failed = 1
        tally.notes.append(f"failed: meson test ended with status {status}")
    ran = tally.passed + tally.failed
    if ran == 0:
        tally.notes.append("failed: no test ran")
    for note in tally.notes:
        print(note)
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {tally.failed} failed{skipped}", flush=True)
    return 0 if tally.failed == 0 and ran > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
