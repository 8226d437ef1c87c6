#!/usr/bin/env python3
"""The manual page and the program agree, and both can be installed.

	manual.py FORGE SOURCE_ROOT BUILD_ROOT

The section that shows how a subcommand is called (".Nm" and ".Cm name" below its heading) must
explain exactly the options that the program has: with their long and short names.
"""
import os
import re
import subprocess
import sys

from harness import PATIENCE_S, Skip, case, main

SOURCE_ROOT, BUILD_ROOT = sys.argv[2:4]


def sections():
    """{heading: text} of the page, without the synopsis."""
    with open(os.path.join(SOURCE_ROOT, "doc/man/forge.1"), encoding="utf-8") as f:
        parts = re.split(r"^\.Sh (.*)\n", f.read(), flags=re.M)
    return {h: t for h, t in zip(parts[1::2], parts[2::2]) if h not in ("SYNOPSIS", "DESCRIPTION")}


def subcommands(t):
    """{name: {long: short or None}} as the program has them."""
    found = {}
    for name in re.findall(r"^  ([a-z]+) ", t.forge("--help").expect(0).out.decode(), re.M):
        text = t.forge(name, "--help").expect(0).out.decode()
        rows = re.findall(r"^  (?:-(\w), |    )--([a-z0-9-]+)", text, re.M)
        found[name] = {long: short or None for short, long in rows
                       if long not in ("help", "print-config", "config")}
    # A load in virtual time has the options of the load, and some beside.
    for load in ("bench", "replay"):
        text = t.forge("sim", load, "--help").expect(0).out.decode()
        rows = re.findall(r"^  (?:-(\w), |    )--([a-z0-9-]+)", text, re.M)
        found["sim " + load] = {long: short or None for short, long in rows
                                if long not in found[load] or long == "threads"}
        for long in ("help", "print-config", "config"):
            found["sim " + load].pop(long, None)
    text = t.forge("sim", "faults", "--help").expect(0).out.decode()
    rows = re.findall(r"^  (?:-(\w), |    )--([a-z0-9-]+)", text, re.M)
    found["sim faults"] = {long: short or None for short, long in rows
                           if long not in ("help", "print-config", "config")}
    return found


def values(t, name):
    """{long: what its value is called in the help, or None for a flag}."""
    text = t.forge(*name.split(), "--help").expect(0).out.decode()
    rows = re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)(?: (\S+))?(?: {2,}|$)", text, re.M)
    return {long: value or None for long, value in rows}


def documented_values(text):
    rows = re.findall(r"^\.It Fl (?:\w , )?-([a-z0-9-]+)(?: Ar (.*))?$", text, re.M)
    return {long: re.sub(r" : Ns Ar | , Ns Ar ", lambda m: m[0].strip()[0], value) or None for long, value in rows}


def documented(text):
    """{long: short or None} of the option rows of a section."""
    rows = re.findall(r"^\.It Fl (?:(\w) , )?-([a-z0-9-]+)", text, re.M)
    return {long: short or None for short, long in rows}


def shown_in(text):
    return set(re.findall(r"^\.Nm\n\.Cm ([a-z]+(?: [a-z]+)?)$", text, re.M))


@case
def every_option_is_in_the_manual(t):
    known = subcommands(t)
    assert {"node", "get", "set", "del", "stat"} <= set(known), known
    missing = set(known)
    for heading, text in sections().items():
        shown = shown_in(text) & set(known)
        if not shown:
            continue
        missing -= shown
        expected = {}
        for name in shown:
            expected.update(known[name])
        assert documented(text) == expected, \
            f"section {heading}: {set(documented(text).items()) ^ set(expected.items())}"
    assert not missing, f"no section shows how to call {missing}"


@case
def every_value_says_what_it_is(t):
    """A count of what, a size, a time, the name of something: never a bare number; the manual likewise."""
    known = subcommands(t)
    assert len(known) > 15, known
    said = {name: values(t, name) for name in known}
    for name, options in said.items():
        bare = [long for long, value in options.items() if value in ("N", "TEXT", "VALUE")]
        assert not bare, f"forge {name} --help does not say what these are: {bare}"
    for heading, text in sections().items():
        called = {}
        for name in shown_in(text) & set(known):
            called.update(said[name])
        for long, value in documented_values(text).items() if called else ():
            assert (value or "").lower() == (called[long] or "").lower(), \
                f"section {heading}: --{long} {called[long]} is {value} there"


@case
def every_policy_is_named_where_one_can_be_given(t):
    names = t.forge("node", "--size", "8M", "--policy", "none-such").err.decode().rpartition(" there are ")[2]
    for command in ("node",), ("serve",), ("bench",), ("replay",), ("sim", "bench"), ("sim", "faults"):
        text = t.forge(*command, "--help").expect(0).out.decode()
        row = " ".join(re.search(r"--policy NAME(.*?)^(?:  -|      --)", text, re.S | re.M).group(1).split())
        assert set(re.findall(r"[a-z-]+", names)) <= set(re.findall(r"[a-z-]+", row)), row


@case
def what_the_manual_lists_exists(t):
    with open(os.path.join(SOURCE_ROOT, "doc/man/forge.1"), encoding="utf-8") as f:
        listed = re.findall(r"^\.It Cm ([a-z]+)$", f.read(), re.M)
    known = subcommands(t)
    words = {name.split()[0] for name in known}
    assert words <= set(listed), f"not listed: {words - set(listed)}"


@case
def the_example_of_a_ready_line_is_one(t):
    example = re.search(r"^ready shm:.*$", "".join(sections().values()), re.M).group(0)
    real = t.node("--size", "16M").ready.strip()
    words = [re.sub(r"[0-9a-f]{16}", "ID", line).split() for line in (example, real)]
    words[1][1] = "shm:/forge"
    assert words[0] == words[1], f"manual: {example}\nreal:   {real}"


@case
def install(t):
    argv = ["meson", "install", "-C", BUILD_ROOT, "--no-rebuild", "--destdir", t.dir]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=False)
    except FileNotFoundError:
        raise Skip("meson is not in the path") from None
    assert done.returncode == 0, done.stderr.decode()
    files = {os.path.relpath(os.path.join(d, f), t.dir) for d, _, fs in os.walk(t.dir) for f in fs}
    program = [f for f in files if f.endswith("bin/forge")]
    assert len(program) == 1 and any(f.endswith("man1/forge.1") for f in files), files
    version = subprocess.run([os.path.join(t.dir, program[0]), "--version"], capture_output=True,
                             timeout=PATIENCE_S, check=True).stdout
    assert version == t.forge("--version").out


if __name__ == "__main__":
    sys.exit(main())
