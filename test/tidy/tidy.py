#!/usr/bin/env python3
"""Hold the tree to the rules a compiler does not know.

	tidy.py ROOT [--cc COMMAND]

Prints "path:line: rule: what is wrong" for each violation and exits 1 if there is one.  Each
rule is a generator below, with its reason; test/tidy/selftest.py plants a violation of every
rule in a small tree and demands that exactly it is reported.  Calls which a rule forbids and a
file needs all the same are listed in ROOT/test/tidy/allow.txt, with the reason.
"""
import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

LINES_MAX = 900
OPENING_CHARS_MIN = 60

# The folders whose code runs beneath a client's call, time and memory come from the worker.
DATA_PATH = ("base", "fiber", "layout", "fabric", "run", "pool", "policy", "cache")

CLOCK_CALLS = ("time gettimeofday clock_gettime clock nanosleep clock_nanosleep usleep sleep "
               "rand rand_r srand random srandom drand48 lrand48 getrandom getentropy "
               "getenv secure_getenv").split()
HEAP_CALLS = ("malloc calloc realloc reallocarray aligned_alloc posix_memalign memalign free "
              "strdup strndup asprintf vasprintf").split()
# Allocation is for setting up and tearing down; functions that do either are named so.
SET_UP = re.compile(r"(^|_)(open|close|create|destroy|init|fini|attach|detach|format|setup|"
                    r"teardown)(_|$)")


class Source:
    """A file, its lines, and the same lines without comments and strings."""

    def __init__(self, root, path):
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8", errors="replace")
        self.lines = self.text.split("\n")
        self.code = blank(self.text).split("\n")
        parts = self.name.split("/")
        self.folder = parts[1] if parts[0] == "src" and len(parts) > 2 else None


TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def blank(text):
    """Comments and the inside of strings become spaces; positions and line ends stay."""
    def spaces(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token[0] + " " * (len(token) - 2) + token[-1]
        return re.sub(r"[^\n]", " ", token)
    return TOKEN.sub(spaces, text)


def functions(source):
    """The name of the function each line is in, or None."""
    name, inside, out = None, False, []
    for line in source.code:
        if re.match(r"[A-Za-z_]", line) and not inside:
            # the last identifier before a parenthesis that is no attribute-like macro
            for match in re.finditer(r"\b(?!__)([a-z_][a-z0-9_]*)\s*\(", line):
                name = match.group(1)
                break
        if line.startswith("{"):
            inside = True
        out.append(name if inside else None)
        if line.startswith("}"):
            inside = False
    return out


def read_layers(root):
    """{folder: set of folders it may include}, in the order of the file, or an error."""
    layers, problems = {}, []
    path = root / "src/LAYERS"
    for number, line in enumerate(path.read_text().split("\n"), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, _, below = line.partition(":")
        for name in below.split():
            if name not in layers:
                problems.append((number, f"{folder} may not include {name}, which is not below it"))
        layers[folder.strip()] = set(below.split())
    return layers, problems


def rule_layers(tree):
    """Data and includes flow one way; src/LAYERS says which way."""
    layers, problems = read_layers(tree.root)
    for number, what in problems:
        yield "src/LAYERS", number, what
    for folder in sorted(p.name for p in (tree.root / "src").iterdir() if p.is_dir()):
        if folder not in layers:
            yield "src/LAYERS", 1, f"the folder src/{folder} is not listed"
    for source in tree.sources:
        if source.folder is None:
            continue
        allowed = layers.get(source.folder, set()) | {source.folder}
        for number, line in enumerate(source.lines, 1):
            match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
            if not match:
                continue
            target = match.group(2)
            top = target.split("/")[0]
            if target.endswith(".c"):
                yield source.name, number, f"includes the source file {target}"
            elif top == "forge" and "/" in target:
                if source.folder != "client" and "client" not in allowed:
                    yield source.name, number, f"src/{source.folder} may not use the public {target}"
            elif match.group(1) == "<":
                continue
            elif "/" not in target:
                yield source.name, number, f'"{target}" must be included by its path below src'
            elif top not in allowed:
                yield source.name, number, f"src/{source.folder} may not include {target}"


def rule_header(tree):
    """A header is usable alone and may be included twice."""
    for source in tree.sources:
        if not source.name.endswith(".h") or source.name.startswith("test/"):
            continue
        include = source.name.split("/", 1)[1]
        command = shlex.split(tree.cc) + [
            "-fsyntax-only", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
            "-Wno-unused-parameter", "-I" + str(tree.root / "include"),
            "-I" + str(tree.root / "src"), "-x", "c", "-"]
        done = subprocess.run(command, input=2 * f'#include "{include}"\n', text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            first = next((line for line in done.stderr.split("\n") if "error" in line),
                         done.stderr.strip() or f"exit status {done.returncode}")
            yield source.name, 1, f"does not compile alone: {first}"


def rule_opening(tree):
    """A reader learns first what the file is for."""
    for source in tree.sources:
        match = re.match(r"\s*/\*(.*?)\*/", source.text, re.S)
        words = re.sub(r"[\s*]+", " ", match.group(1)).strip() if match else ""
        if not match:
            yield source.name, 1, "does not open with a comment that says what it is for"
        elif source.name.endswith(".h") and len(words) < OPENING_CHARS_MIN:
            yield source.name, 1, "the opening comment is no paragraph"


def policies(tree):
    """{name: Source} of the files that define a struct policy."""
    found = {}
    for source in tree.sources:
        if source.folder == "policy" and re.search(r"^(static )?const struct policy \w+\s*=",
                                                   "\n".join(source.code), re.M):
            found[source.path.stem] = source
    return found


def rule_policy(tree):
    """A policy can be deleted without touching a neighbour."""
    known = policies(tree)
    for name, source in known.items():
        for other in set(known) - {name}:
            mention = re.compile(rf"\b(policy_{re.escape(other)}|{re.escape(other)}\.[ch]|"
                                 rf"{re.escape(other)}_policy)\b".replace("\\-", "[-_]"))
            for number, line in enumerate(source.lines, 1):
                if mention.search(line):
                    yield source.name, number, f"mentions the policy {other}"


DISPATCH = re.compile(r"\bswitch\s*\([^)]*policy|\bstrn?(case)?cmp\s*\([^;]*\bpolicy(->|\.)name|"
                      r"\bpolicy\s*[!=]=\s*(?!NULL\b)[&\w]|[!=]=\s*&\s*policy_")


def rule_dispatch(tree):
    """What differs between policies is behind struct policy, nowhere else."""
    for source in tree.sources:
        if source.folder is None:
            continue
        for number, line in enumerate(source.code, 1):
            if DISPATCH.search(line):
                yield source.name, number, "asks which policy this is"


def read_allowed(tree):
    """{(path, call): [line number, used]} of allow.txt."""
    allowed = {}
    path = tree.root / "test/tidy/allow.txt"
    if path.exists():
        for number, line in enumerate(path.read_text().split("\n"), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            for call in words[1].split(","):
                allowed[(words[0], call)] = [number, len(words) > 2, False]
    return allowed


def forbidden_calls(tree):
    """Every (source, line, call) of the data path which is not excused by what it is in."""
    names = "|".join(CLOCK_CALLS + HEAP_CALLS)
    call = re.compile(rf"(?<![\w.])(?<!->)({names})\s*\(")
    for source in tree.sources:
        if source.folder not in DATA_PATH:
            continue
        inside = functions(source)
        for number, line in enumerate(source.code, 1):
            for match in call.finditer(line):
                name = match.group(1)
                function = inside[number - 1]
                if function is None:
                    continue
                if name in HEAP_CALLS and SET_UP.search(function):
                    continue
                yield source, number, name


def rule_call(tree):
    """Time, randomness and memory of the data path come from the worker."""
    allowed = read_allowed(tree)
    for source, number, name in forbidden_calls(tree):
        entry = allowed.get((source.name, name))
        if entry:
            entry[2] = True
        elif name in HEAP_CALLS:
            yield source.name, number, f"{name}() outside a set-up function"
        else:
            yield source.name, number, f"{name}() below the client"
    for (path, name), (number, reasoned, used) in allowed.items():
        if not used:
            yield "test/tidy/allow.txt", number, f"{path} does not call {name}() any more"
        elif not reasoned:
            yield "test/tidy/allow.txt", number, f"no reason why {path} may call {name}()"


def rule_length(tree):
    """A file is one idea."""
    for source in tree.sources:
        if source.text.count("\n") > LINES_MAX:
            yield source.name, LINES_MAX, f"longer than {LINES_MAX} lines"


def rule_sim(tree):
    """The simulator runs the object files that production runs."""
    for source in tree.sources:
        for number, line in enumerate(source.code, 1):
            if re.match(r"\s*#\s*(el)?if.*\b(FORGE_)?SIM\b", line):
                yield source.name, number, "is compiled differently for the simulator"


def rule_typedef(tree):
    """A struct is called struct."""
    for source in tree.sources:
        for number, line in enumerate(source.code, 1):
            if re.match(r"\s*typedef\s+(struct|union|enum)\b", line):
                yield source.name, number, "hides a struct, union or enum behind a typedef"


def rule_prefetch(tree):
    """A function that only prefetches has no effect, says gcc, and drops the calls of it."""
    for source in tree.sources:
        if source.name == "src/base/compiler.h":
            continue
        for number, line in enumerate(source.code, 1):
            if re.search(r"\b__builtin_prefetch\b", line):
                yield source.name, number, "prefetches otherwise than by fetch_ahead()"


def rule_package(tree):
    """Nobody installs what nobody needs."""
    path = tree.root / "packages.txt"
    if not path.exists():
        return
    for number, line in enumerate(path.read_text().split("\n"), 1):
        words = line.split("#")[0].split()
        if len(words) == 1:
            yield "packages.txt", number, f"no reason is given for {words[0]}"


class Tree:
    def __init__(self, root, cc):
        self.root = root
        self.cc = cc
        self.sources = [Source(root, path) for top in ("include", "src", "test")
                        for path in sorted((root / top).rglob("*.[ch]"))]


RULES = {name[5:]: rule for name, rule in list(globals().items()) if name.startswith("rule_")}


def violations(root, cc):
    tree = Tree(root, cc)
    for name, rule in RULES.items():
        for path, line, what in rule(tree):
            yield path, line, name, what


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--cc", default="cc")
    options = parser.parse_args()
    root = options.root.resolve()
    if not (root / "src/LAYERS").is_file():
        sys.exit(f"{root}: there is no src/LAYERS, so this is not the tree")
    count = 0
    for path, line, name, what in violations(root, options.cc):
        print(f"{path}:{line}: {name}: {what}")
        count += 1
    print(f"{len(RULES)} rules, {count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
