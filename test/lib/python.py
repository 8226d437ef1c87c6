#!/usr/bin/env python3
"""The Python module, which knows nothing but libforge.so.0: what it does, its errors, threads, fork, and
what it says where the library is missing or is another one (X13).

	python.py FORGE SOURCE_ROOT BUILD_ROOT CC
"""
import os
import shlex
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(sys.argv[2], "test/system"))
from harness import PATIENCE_S, Skip, case, main  # noqa: E402

SOURCE_ROOT, BUILD_ROOT = sys.argv[2:4]
CC = shlex.split(sys.argv[4])
MODULE = os.path.join(SOURCE_ROOT, "python")
SHARED = os.path.join(BUILD_ROOT, "src/libforge.so.0")
SANITIZED = "san.so" in subprocess.run(["ldd", SHARED], capture_output=True, text=True,
                                       check=True).stdout

if SANITIZED:
    forge = None
else:
    os.environ["FORGE_LIBRARY"] = SHARED
    sys.path.insert(0, MODULE)
    sys.dont_write_bytecode = True
    import forge


def cache(t, *node_options, **options):
    if SANITIZED:
        raise Skip("a Python without sanitizer cannot load this build")
    if not os.path.exists(t.shm_file):
        t.node("--size", "16M", *node_options)
    return forge.Cache(t.pool, **options)


def refused(function, name):
    try:
        function()
    except forge.Error as error:
        assert error.name == name, error
        assert error.status < 0 and name in str(error), error
        return str(error)
    raise AssertionError(f"no {name}")


@case
def finding_and_storing(t):
    with cache(t) as c:
        assert c.get("k") is None and c.get("k", b"none") == b"none"
        cas = c.set("k", b"a\0b", flags=5)
        assert c.get("k") == c.get(b"k") == b"a\0b"
        item = c.item("k")
        assert item == (b"a\0b", 5, cas, None), item
        assert not c.add("k", b"no") and c.add("n", "text")
        assert c.replace("k", b"c") and not c.replace("missing", b"no")
        assert not c.cas("k", b"no", cas) and c.cas("k", b"d", c.item("k").cas)
        assert c.append("k", b"e") and c.prepend("k", b"b") and c.get("k") == b"bde"
        assert not c.append("missing", b"x")
        assert not c.delete("k", cas=cas) and c.delete("k", cas=c.item("k").cas)
        assert not c.delete("k") and c.delete("n")
        c.set("empty", b"")
        assert c.get("empty") == b""
        c.set("\u00e4", b"utf-8")
        assert c.get("\u00e4".encode()) == b"utf-8"
        c.flush()
        c.rest()
        assert c.get("empty") is None


@case
def counting(t):
    with cache(t) as c:
        assert c.incr("n") is None
        assert c.incr("n", 2, initial=40) == 40 and c.incr("n", 2) == 42
        assert c.decr("n", 100) == 0 and c.get("n") == b"0"
        c.set("n", str(2 ** 64 - 1))
        assert c.incr("n") == 0
        c.set("n", b"word")
        refused(lambda: c.incr("n"), "FORGE_E_NOT_NUMBER")


@case
def times(t):
    with cache(t) as c:
        c.set("k", b"v", expire_after=3600)
        assert 3500 < c.item("k").ttl <= 3600
        c.set("k", b"v", expire_at=time.time() + 3600)
        assert 3500 < c.item("k").ttl <= 3600
        assert c.touch("k", expire_after=60) and c.item("k").ttl <= 60
        assert c.get_and_touch("k") == b"v" and c.item("k").ttl is None
        assert not c.touch("missing") and c.get_and_touch("missing") is None
        c.set("k", b"v", expire_at=1)
        assert c.get("k") is None
        c.set("k", b"v", expire_after=0.02)
        end = time.monotonic() + PATIENCE_S
        while c.get("k") is not None:
            assert time.monotonic() < end
        for wrong in ({"expire_after": 1, "expire_at": 1}, {"expire_after": -1}):
            try:
                c.set("k", b"v", **wrong)
            except ValueError:
                continue
            raise AssertionError(wrong)


@case
def many(t):
    with cache(t) as c:
        for n in range(500):
            c.set(f"k{n}", f"v{n}")
        found = c.get_many([f"k{n}" for n in range(1000)])
        assert found == {f"k{n}": f"v{n}".encode() for n in range(500)}, len(found)
        assert c.get_many([]) == {}
        assert sorted(c.keys()) == sorted(f"k{n}".encode() for n in range(500))
        entry = next(c.entries())
        assert entry.value_bytes == len(c.get(entry.key)) and entry.ttl is None, entry
        c.rest()
        assert c.stats()["sets"] == 500
        key_bytes, value_bytes = c.limits()
        assert key_bytes == 250 and value_bytes > 1000


@case
def what_was_wrong(t):
    with cache(t) as c:
        refused(lambda: c.set("k" * 251, b""), "FORGE_E_KEY_LONG")
        refused(lambda: c.get(""), "FORGE_E_KEY_EMPTY")
        refused(lambda: c.set("k", b"x" * (c.limits()[1] + 1000)), "FORGE_E_VALUE_LARGE")
    message = refused(lambda: forge.Cache("shm:/forge-test-nowhere"), "FORGE_E_POOL_ABSENT")
    assert "forge-test-nowhere" in message, message
    try:
        c.get("k")
    except ValueError as error:
        assert "closed" in str(error)
    else:
        raise AssertionError("a closed cache was used")
    c.close()


def wrong(function, kind, words=""):
    try:
        function()
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}")


@case
def nothing_is_stored_as_something_else(t):
    with cache(t) as c:
        for value in (5, None, [1, 2, 3], 1.5):
            wrong(lambda: c.set("k", value), TypeError, type(value).__name__)
            wrong(lambda: c.set(value, b"v"), TypeError, type(value).__name__)
        assert c.get("k") is None
        c.set("k", bytearray(b"ab"))
        c.append(memoryview(b"k"), memoryview(b"cd"))
        assert c.get("k") == b"abcd"
        c.set("n", b"5")
        for number in (-1, 2 ** 64):
            wrong(lambda: c.incr("n", number), ValueError, "delta")
            wrong(lambda: c.decr("n", number), ValueError, "delta")
            wrong(lambda: c.incr("new", initial=number), ValueError, "initial")
            wrong(lambda: c.cas("n", b"6", number), ValueError, "cas")
            wrong(lambda: c.delete("n", cas=number), ValueError, "cas")
        for number in (-1, 2 ** 32):
            wrong(lambda: c.set("n", b"6", flags=number), ValueError, "flags")
            wrong(lambda: cache(t, threads=number), ValueError, "threads")
        wrong(lambda: cache(t, timeout=-1), ValueError, "timeout")
        assert c.get("n") == b"5" and c.get("new") is None
        wrong(lambda: c.get_many("kn"), TypeError, "get()")
    wrong(lambda: forge.Cache(t.pool + "\0"), ValueError, "zero byte")
    # A timeout below 1 us is one, not none.
    with forge.Cache(t.pool + "?latency=100us", timeout=1e-9) as c:
        refused(lambda: c.set("k", b"v"), "FORGE_E_DEADLINE")


@case
def over_a_socket(t):
    if SANITIZED:
        raise Skip("a Python without sanitizer cannot load this build")
    url = "unix:" + t.path("node.sock")
    node = t.node("--size", "16M", "--listen", url)
    with forge.Cache(url + "?timeout=20s") as far, forge.Cache(t.pool) as near:
        far.set("k", b"v", expire_after=0.4)
        assert near.get("k") == b"v"
        for i in range(500):
            near.set(str(i), str(i).encode())
        values = far.get_many([str(i) for i in range(500)])
        assert values == {str(i): str(i).encode() for i in range(500)}, values
        assert far.incr("n", initial=5) == 5 and far.incr("n") == 6 and near.get("n") == b"6"
        # All but the one that may be over by now.
        assert set(far.keys()) - {b"k", "k"} == set(near.keys()) - {b"k", "k"}
        end = time.monotonic() + PATIENCE_S
        for each in (far, near):  # who is far may judge it to be over a moment earlier
            while each.get("k") is not None:
                assert time.monotonic() < end, "it does not expire"
                time.sleep(0.01)
        pid = os.fork()
        if pid == 0:
            try:
                far.get("n")
            except forge.Error as error:
                os._exit(0 if "FORGE_E_FORKED" in str(error) else 2)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert far.get("n") == b"6"
    assert node.end() == 0
    assert "no node listens on" in refused(lambda: forge.Cache(url), "FORGE_E_NODE")
    assert "no port" in refused(lambda: forge.Cache("tcp://127.0.0.1"), "FORGE_E_INVAL")


@case
def a_walk_that_outlives_its_cache(t):
    c = cache(t)
    for i in range(100):
        c.set(str(i), b"v")
    walk, dropped, closed = c.keys(), c.keys(), c.keys()
    next(walk), next(dropped), next(closed)
    closed.close()
    elsewhere = []

    def other():
        try:
            next(walk)
        except RuntimeError as error:
            elsewhere.append(str(error))

    other_walk, walk = walk, c.keys()
    next(walk)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert "thread" in elsewhere[0], elsewhere
    c.close()
    del dropped
    wrong(lambda: next(other_walk), ValueError, "closed")


@case
def threads(t):
    with cache(t, threads=8) as c:
        wrong = []

        def work(me):
            for n in range(300):
                c.set(f"t{me}-{n}", f"{me}:{n}")
                if c.get(f"t{me}-{n}") not in (None, f"{me}:{n}".encode()):
                    wrong.append((me, n))

        # More than may work at once, one lot after the other: sessions come back with their threads.
        for lot in range(4):
            workers = [threading.Thread(target=work, args=(8 * lot + k,)) for k in range(7)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        assert not wrong, wrong
    with cache(t, threads=1) as c:
        c.set("k", b"v")
        errors = []

        def one_too_many():
            try:
                c.get("k")
            except forge.Error as error:
                errors.append(str(error))

        worker = threading.Thread(target=one_too_many)
        worker.start()
        worker.join()
        assert len(errors) == 1 and "sessions_max" in errors[0], errors


@case
def dead_percent(t):
    with cache(t, dead_percent=30) as c:
        assert c.set("k", b"v") and c.get("k") == b"v"
    assert "dead_percent is 101" in refused(lambda: cache(t, dead_percent=101), "FORGE_E_INVAL")


@case
def fork(t):
    with cache(t) as c:
        c.set("k", b"parent's")
        child = os.fork()
        if child == 0:
            try:
                message = refused(lambda: c.get("k"), "FORGE_E_FORKED")
                with forge.Cache(t.pool) as own:
                    ok = own.get("k") == b"parent's" and "forge_open" in message
                c.close()
            except BaseException:  # nothing may escape into the harness of the parent
                ok = False
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert c.get("k") == b"parent's"


def import_with(environment, *arguments):
    env = {k: v for k, v in os.environ.items() if k not in ("FORGE_LIBRARY", "LD_LIBRARY_PATH")}
    return subprocess.run([sys.executable, "-B", "-c", "import forge; print(forge.library_version())"],
                          env={**env, "PYTHONPATH": MODULE, **environment}, capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False)


@case
def a_missing_library_is_named(t):
    other = next(path for path in ("/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6",
                                   "/lib/aarch64-linux-gnu/libm.so.6") if os.path.exists(path))
    for environment, name in (({"FORGE_LIBRARY": "/nowhere/libforge.so.0"}, "/nowhere/libforge.so.0"),
                              ({"FORGE_LIBRARY": __file__}, __file__),
                              ({"FORGE_LIBRARY": other}, other),
                              ({"FORGE_LIBRARY": ""}, "libforge.so.0")):
        done = import_with(environment)
        if done.returncode == 0 and name == "libforge.so.0":
            continue  # it is installed on this system
        last = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1 and "LibraryMissing" in last, done.stderr
        for word in (name, "make install", "FORGE_LIBRARY"):
            assert word in last, last


@case
def it_is_found_where_the_loader_looks(t):
    if SANITIZED:
        raise Skip("a Python without sanitizer cannot load this build")
    done = import_with({"LD_LIBRARY_PATH": os.path.dirname(SHARED)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == t.forge("--version").out.decode().split()[-1]


@case
def structures_are_those_of_the_header(t):
    if SANITIZED:
        raise Skip("the module cannot be imported")
    import ctypes
    names = {"forge_op": forge._Op, "forge_value": forge._Value, "forge_item": forge._Item,
             "forge_bytes": forge._Bytes, "forge_expiry": forge._Expiry, "forge_entry": forge._Entry,
             "forge_limits": forge._Limits, "forge_options": forge._Options}
    lines, expected = [], []
    for name, structure in names.items():
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        expected.append(ctypes.sizeof(structure))
        for field, _ in structure._fields_:
            lines.append(f'printf("%zu\\n", offsetof(struct {name}, {field}));')
            expected.append(getattr(structure, field).offset)
    for number, verb in enumerate(("GET", "TOUCH", "GET_AND_TOUCH", "SET", "ADD", "REPLACE", "CAS",
                                   "APPEND", "PREPEND", "INCR", "DECR", "DELETE", "DELETE_IF",
                                   "FLUSH")):
        lines.append(f'printf("%d\\n", FORGE_{verb});')
        assert getattr(forge, "_" + verb) == number
        expected.append(number)
    source = t.path("sizes.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write("#include <forge/forge.h>\n#include <stdio.h>\nint main(void)\n{\n" +
                "\n".join(lines) + "\nreturn 0;\n}\n")
    program = t.path("sizes")
    subprocess.run([*CC, "-I" + os.path.join(SOURCE_ROOT, "include"), source, "-o", program],
                   check=True, timeout=PATIENCE_S)
    out = subprocess.run([program], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert [int(line) for line in out.stdout.split()] == expected


if __name__ == "__main__":
    sys.exit(main())
