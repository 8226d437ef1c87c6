#!/usr/bin/env python3
"""Every program of tools/ says what it is for, and what each of its options means: tools_help.py ROOT

Each is run with --help: it must end with 0, print the first sentence of its text, and have a word
for every option.
"""
import ast
import os
import subprocess
import sys

TOOLS = os.path.join(sys.argv[1], "tools")


def wrong_with(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if not text.startswith("#!"):
        return None  # a module
    done = subprocess.run([sys.executable, path, "--help"], capture_output=True, text=True, check=False)
    first = " ".join(ast.get_docstring(ast.parse(text)).split("\n\n", maxsplit=1)[0].split())
    said = " ".join(done.stdout.replace("-\n", "-").split())
    if done.returncode:
        return f"--help ends with {done.returncode}: {done.stderr.strip()[-200:]}"
    if first not in said:
        return f"--help does not say: {first}"
    bare = [call.args[0].value for call in ast.walk(ast.parse(text))
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument"
            and call.args[0].value.startswith("-") and "help" not in [k.arg for k in call.keywords]]
    return f"options without a word: {', '.join(bare)}" if bare else None


def main():
    names = sorted(n for n in os.listdir(TOOLS) if n.endswith(".py"))
    found = [(n, why) for n in names if (why := wrong_with(os.path.join(TOOLS, n)))]
    for name, why in found:
        print(f"tools/{name}: {why}")
    print(f"{len(names)} programs and modules, {len(found)} wrong")
    return 1 if found or len(names) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
