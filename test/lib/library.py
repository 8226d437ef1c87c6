#!/usr/bin/env python3
"""The public library as a package: what it exports, how it is installed, built against and used from C,
C++ and Python.

	library.py FORGE SOURCE_ROOT BUILD_ROOT CC

Nothing here is linked to the tree: programs are compiled against what `meson install` put into a
scratch directory, as a user would.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(sys.argv[2], "test/system"))
from harness import PATIENCE_S, Skip, case, main  # noqa: E402

SOURCE_ROOT, BUILD_ROOT = sys.argv[2:4]
CC = shlex.split(sys.argv[4])
HEADER = os.path.join(SOURCE_ROOT, "include/forge/forge.h")
SHARED = os.path.join(BUILD_ROOT, "src/libforge.so")
STATIC = os.path.join(BUILD_ROOT, "src/libforge.a")
SANITIZED = "libasan" in subprocess.run(["ldd", SHARED], capture_output=True, text=True,
                                        check=True).stdout


def run(argv, **more):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                          **more)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def declared():
    """The functions of the header, without those it defines."""
    with open(HEADER, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    text = re.sub(r"static inline.*?\n}", "", text, flags=re.S)
    return set(re.findall(r"\b(forge_\w+)\((?!\*)[^;{]*\);", text))


def symbols(path, *options):
    """Names that can be linked to."""
    out = run(["nm", "--defined-only", *options, path])
    return {line.split()[-1].split("@")[0] for line in out.splitlines()
            if re.match(r"[0-9a-f]+ [TDBRVWi] ", line)}


@case
def only_the_header_is_exported(t):
    names = declared()
    assert len(names) > 30, names
    exported = symbols(SHARED, "-D")
    assert exported == names, f"header and libforge.so differ: {exported ^ names}"
    dynamic = run(["readelf", "-d", SHARED])
    assert "soname: [libforge.so.0]" in dynamic, dynamic
    versions = run(["nm", "-D", "--with-symbol-versions", SHARED])
    assert re.search(r" T forge_get@@FORGE_0$", versions, re.M), versions


@case
def the_static_library_hides_its_inside(t):
    assert symbols(STATIC) == declared(), symbols(STATIC) ^ declared()


def expect_python_looks_there(destination, directory):
    """Debian's Python must find what was installed into a prefix where it looks at all."""
    python = "/usr/bin/python3"
    local = os.path.join(destination, "usr/local", "")
    if not os.path.exists(python) or not directory.startswith(local):
        return
    if shutil.which("python3") != python:
        return  # another one was configured
    path = subprocess.run([python, "-c", "import sys; print(*sys.path, sep='\\n')"], check=True,
                          capture_output=True, text=True).stdout.split()
    assert "/" + os.path.relpath(directory, destination) in path, (directory, path)


def install(t):
    """The environment in which a user of the installed library works."""
    try:
        run(["meson", "install", "-C", BUILD_ROOT, "--no-rebuild", "--destdir", t.dir])
    except FileNotFoundError:
        raise Skip("meson is not in the path") from None
    found = {}
    for directory, _, files in os.walk(t.dir):
        for name in files:
            found[name] = os.path.join(directory, name)
    for name in ("forge.h", "libforge.a", "libforge.so", "forge.pc", "forge.3", "forge_get.3",
                 "forge_set.3", "forge_submit.3", "forge_scan.3", "__init__.py"):
        assert name in found, f"{name} was not installed: {sorted(found)}"
    expect_python_looks_there(t.dir, os.path.dirname(os.path.dirname(found["__init__.py"])))
    libraries = os.path.dirname(found["libforge.so"])
    return found, {**t.env, "LD_LIBRARY_PATH": libraries, "PKG_CONFIG_SYSROOT_DIR": t.dir,
                   "PKG_CONFIG_LIBDIR": os.path.dirname(found["forge.pc"])}


def build_example(t, env, name, *options, static=False):
    flags = shlex.split(run(["pkg-config", "--cflags", "--libs", "forge"] +
                            (["--static"] if static else []), env=env))
    if static:
        flags = ["-l:libforge.a" if f == "-lforge" else f for f in flags]
    out = t.path(name + ("-static" if static else ""))
    run([*CC, "-Wall", "-Wextra", "-Werror", *options,
         os.path.join(SOURCE_ROOT, "example", name + ".c"), "-o", out, *flags], env=env)
    return out


EXPECTED = "sky: blue\nvisits: {}\nthen: the key is not in the cache\n"


@case
def the_examples_run_against_what_is_installed(t):
    if SANITIZED:
        raise Skip("programs without sanitizer cannot load this build")
    _, env = install(t)
    t.node("--size", "16M")
    for visits, static in enumerate((False, True), 1):
        hello = build_example(t, env, "hello", static=static)
        linked = run(["ldd", hello], env=env)
        assert ("libforge.so.0" in linked) != static, linked
        assert run([hello, t.pool], env=env).startswith(EXPECTED.format(visits))
        many = build_example(t, env, "many", static=static)
        for pool in (t.pool, t.pool + "?latency=2us"):
            out = run([many, pool, "1000"], env=env)
            assert "1000 stored, 1000 found" in out, out


@case
def the_header_is_c_and_c_plus_plus(t):
    source = t.path("header.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write("#include <forge/forge.h>\nint main(void) { return forge_version() == 0; }\n")
    include = "-I" + os.path.join(SOURCE_ROOT, "include")
    for language in (["-std=c99", "-pedantic"], ["-std=c11", "-pedantic"], ["-xc++", "-pedantic"]):
        try:
            run([*CC, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", include, *language, source])
        except AssertionError as why:
            if "cc1plus" in str(why):
                print("no C++ compiler")
                continue
            raise


@case
def versions_agree(t):
    code = ("import ctypes,sys; l=ctypes.CDLL(sys.argv[1]); l.forge_version.restype="
            "ctypes.c_char_p; print(l.forge_version().decode())")
    if SANITIZED:
        raise Skip("a Python without sanitizer cannot load this build")
    version = run([sys.executable, "-c", code, SHARED]).strip()
    assert t.forge("--version").expect(0).out.decode().split()[-1] == version, version


if __name__ == "__main__":
    sys.exit(main())
