#!/usr/bin/env python3
"""The tidy rules can fail: each is shown a small tree with one violation of it.

	selftest.py [--cc COMMAND]

A clean tree must pass.  Then one file at a time is added or changed, and exactly the violation
planted must be reported, by rule, file and line; or nothing, where the change is legitimate.
"""
import argparse
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import tidy

OPENING = "/* %s: a fixture, with an opening paragraph that is long enough to say something. */\n"

CLEAN = {
    "src/LAYERS": "# lowest first\nbase:\npool: base\npolicy: base pool\nclient: base pool policy\n",
    "packages.txt": "# packages\ngcc  the compiler\n",
    "src/base/a.h": OPENING % "a.h" + "#ifndef A_H\n#define A_H\n#include <stdint.h>\n"
                    "static inline uint64_t a_twice(uint64_t x)\n{\n\treturn x + x;\n}\n#endif\n",
    "src/base/a.c": "/* a.c: time(NULL) and malloc(1) in a comment do no harm. */\n"
                    '#include "base/a.h"\n#include <stdlib.h>\n\n'
                    'void *a_open(void)\n{\n\tconst char *s = "rand() \\" getenv()";\n\n'
                    "\treturn malloc(s[0]);\n}\n",
    "src/pool/p.h": OPENING % "p.h" + '#ifndef P_H\n#define P_H\n#include "base/a.h"\n'
                    "int p_get(const void *policy);\n#endif\n",
    "src/pool/p.c": "/* p.c: a fixture. */\n#include \"pool/p.h\"\n\n"
                    "int p_get(const void *policy)\n{\n\treturn policy == NULL;\n}\n",
    "src/policy/lru.c": "/* lru.c: unlike sieve, this moves on a hit. */\n\n"
                        "const struct policy policy_lru = {1};\n",
    "src/policy/sieve.c": "/* sieve.c: a fixture. */\n\nconst struct policy policy_sieve = {2};\n",
    "src/policy/table.c": "/* table.c: all of them, by name. */\n\n"
                          "const void *all[] = {&policy_lru, &policy_sieve};\n",
    "src/client/c.c": "/* c.c: above the data path. */\n#include \"policy/x.h\"\n"
                      "#include <forge/forge.h>\n\nlong c_now(void)\n{\n\treturn time(0);\n}\n",
    "include/forge/forge.h": OPENING % "forge.h" + "#ifndef F_H\n#define F_H\n"
                             "int forge_get(void);\n#endif\n",
}

HEADER = OPENING % "x.h"


def body(line):
    return f"/* x.c: a fixture. */\n\nint x_get(void)\n{{\n\t{line}\n}}\n"


# (what is shown, file, content, [(rule, file, line)...])
CASES = [
    ("the clean tree", "packages.txt", CLEAN["packages.txt"], []),
    ("an include that points up", "src/base/x.c", '/* x.c: */\n#include "pool/p.h"\n',
     [("layers", "src/base/x.c", 2)]),
    ("an include that points sideways", "src/pool/x.c", '/* x.c: */\n#include "policy/x.h"\n',
     [("layers", "src/pool/x.c", 2)]),
    ("an include with spaces in it", "src/base/x.c", '/* x.c: */\n #  include "pool/p.h"\n',
     [("layers", "src/base/x.c", 2)]),
    ("an include without its folder", "src/base/x.c", '/* x.c: */\n#include "a.h"\n',
     [("layers", "src/base/x.c", 2)]),
    ("an included source file", "src/base/x.c", '/* x.c: */\n#include "base/a.c"\n',
     [("layers", "src/base/x.c", 2)]),
    ("the public header below the client", "src/pool/x.c",
     "/* x.c: */\n#include <forge/forge.h>\n", [("layers", "src/pool/x.c", 2)]),
    ("a folder that is not listed", "src/extra/x.c", "/* x.c: */\n",
     [("layers", "src/LAYERS", 1)]),
    ("a list that points up", "src/LAYERS", CLEAN["src/LAYERS"].replace("base:", "base: pool"),
     [("layers", "src/LAYERS", 2)]),
    ("a header which needs another", "src/base/x.h",
     HEADER + "#ifndef X_H\n#define X_H\nuint8_t x_get(void);\n#endif\n",
     [("header", "src/base/x.h", 1)]),
    ("a header that warns", "src/base/x.h",
     HEADER + "#ifndef X_H\n#define X_H\nstatic inline int x(int a, unsigned b)\n{\n"
     "\treturn a < b;\n}\n#endif\n", [("header", "src/base/x.h", 1)]),
    ("a header without a guard", "src/base/x.h", HEADER + "struct x {\n\tint a;\n};\n",
     [("header", "src/base/x.h", 1)]),
    ("a public header that needs another", "include/forge/x.h",
     HEADER + "#ifndef X_H\n#define X_H\nsize_t x(void);\n#endif\n",
     [("header", "include/forge/x.h", 1)]),
    ("a header that does not open with a comment", "src/base/x.h",
     "#ifndef X_H\n#define X_H\n#endif\n", [("opening", "src/base/x.h", 1)]),
    ("a header whose comment says nothing", "src/base/x.h",
     "/*\n * x.h\n */\n#ifndef X_H\n#define X_H\n#endif\n", [("opening", "src/base/x.h", 1)]),
    ("a source without a comment", "src/base/x.c", "int x;\n", [("opening", "src/base/x.c", 1)]),
    ("a policy which uses another", "src/policy/lru.c",
     CLEAN["src/policy/lru.c"] + "const void *next = &policy_sieve;\n",
     [("policy", "src/policy/lru.c", 4)]),
    ("a policy which includes another", "src/policy/lru.c",
     CLEAN["src/policy/lru.c"] + '#include "policy/sieve.h"\n',
     [("policy", "src/policy/lru.c", 4)]),
    ("a switch over policies", "src/pool/x.c", body("switch (s->policy_kind) {}"),
     [("dispatch", "src/pool/x.c", 5)]),
    ("a policy asked for its name", "src/client/x.c",
     body('return strcmp("lru", s->policy->name);'), [("dispatch", "src/client/x.c", 5)]),
    ("a policy compared", "src/pool/x.c", body("return policy == &policy_lru;"),
     [("dispatch", "src/pool/x.c", 5)]),
    ("the wall clock", "src/pool/x.c", body("return time(NULL);"), [("call", "src/pool/x.c", 5)]),
    ("a member called time", "src/pool/x.c", body("return w->time(w) + w.time(w);"), []),
    ("a sleep in a set-up function", "src/pool/x.c", body("usleep(1);").replace("x_get", "x_open"),
     [("call", "src/pool/x.c", 5)]),
    ("randomness", "src/policy/x.c", body("return rand ();"), [("call", "src/policy/x.c", 5)]),
    ("the environment", "src/base/x.c", body('return !getenv("X");'),
     [("call", "src/base/x.c", 5)]),
    ("allocation on the data path", "src/pool/x.c", body("return !malloc(8);"),
     [("call", "src/pool/x.c", 5)]),
    ("allocation in set-up", "src/pool/x.c", body("return !malloc(8);").replace("x_get", "x_open"),
     []),
    ("allocation above the data path", "src/client/x.c", body("return !malloc(8);"), []),
    ("an allowed call", "test/tidy/allow.txt", "src/pool/x.c time,rand for the fixture\n",
     [("call", "test/tidy/allow.txt", 1), ("call", "test/tidy/allow.txt", 1)]),
    ("a long file", "src/base/x.c", "/* x.c: */\n" + "int x;\n" * tidy.LINES_MAX,
     [("length", "src/base/x.c", tidy.LINES_MAX)]),
    ("a file just short enough", "src/base/x.c", "/* x.c: */\n" + "\n" * (tidy.LINES_MAX - 1), []),
    ("code for the simulator only", "src/pool/x.c", "/* x.c: */\n#ifdef SIM\n#endif\n",
     [("sim", "src/pool/x.c", 2)]),
    ("a struct in disguise", "src/pool/x.c", "/* x.c: */\ntypedef struct x x_t;\n",
     [("typedef", "src/pool/x.c", 2)]),
    ("a prefetch that may be dropped", "src/pool/x.c", body("__builtin_prefetch(p);"),
     [("prefetch", "src/pool/x.c", 5)]),
    ("a package without a reason", "packages.txt", "# packages\ngcc\n",
     [("package", "packages.txt", 2)]),
]

# Two files at once: the list of allowed calls does its work, and demands reasons.
PAIRS = [
    ("a call allowed with a reason", "src/pool/x.c time why not\n", []),
    ("a call allowed without a reason", "src/pool/x.c time\n",
     [("call", "test/tidy/allow.txt", 1)]),
    ("another file's permission", "src/pool/y.c time why not\n",
     [("call", "src/pool/x.c", 5), ("call", "test/tidy/allow.txt", 1)]),
]


def report(files, cc):
    """The violations of a tree as sorted (rule, file, line)."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "a tree"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return sorted((rule, path, line) for path, line, rule, _ in tidy.violations(root, cc))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    cc = parser.parse_args().cc
    cases = [(what, {**CLEAN, name: content}, expected)
             for what, name, content, expected in CASES]
    cases += [(what, {**CLEAN, "src/pool/x.c": body("return time(NULL);"),
                      "test/tidy/allow.txt": allow}, expected) for what, allow, expected in PAIRS]
    failed, flagged = 0, set()
    for what, files, expected in cases:
        got = report(files, cc)
        flagged |= {rule for rule, _, _ in got}
        if got != sorted(expected):
            failed += 1
            print(f"{what}: expected {sorted(expected)}, got {got}")
    for rule in set(tidy.RULES) - flagged:
        failed += 1
        print(f"no case shows that the rule {rule} can fail")
    print(f"{len(cases)} trees, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
