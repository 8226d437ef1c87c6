"""What clients of memcached are answered: upstream's replies, and the situations of section P.

The replies of memcached itself lie beside the repository in ../shared; where they are not, the
cases that need them say that they skip.  DEVIATIONS is doc/serve.md's table: what is answered
otherwise, on purpose.
"""
import contextlib
import io
import os
import re
import runpy
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

from harness import PATIENCE_S, Skip, case, main
from memcache import LATENCY, Server, shared_file, wait_until

ROOT = sys.argv[2]
LONG_KEY = b"k" * 250

# Name of the case in probe.py: our reply, as it prints it.
DEVIATIONS = {
    "incr wrap": r"b'STORED\r\n0\r\nVALUE n 0 1\r\n0\r\nEND\r\n'",
    "cache_memlimit": r"b'ERROR\r\n'",
}


def normal(reply):
    """Versions and cas ids are nobody's business; the stray blank line is upstream's slip."""
    reply = re.sub(r"VERSION [^\\']*", "VERSION x", reply)
    reply = reply.replace(r"format\r\n\r\nVERSION", r"format\r\nVERSION")
    return re.sub(r"(VALUE x 3 1) \d+", r"\1 id", reply)


def as_printed(reply, closed):
    return f"{reply!r}{' [closed]' if closed else ''}"


def replies(text):
    return dict((line[:44].strip(), line[48:].strip()) for line in text.splitlines())


def asked(probe, port):
    """What probe.py prints of this server, and its cases and talk() for questions of one's own."""
    printed = io.StringIO()
    argv, sys.argv = sys.argv, [probe, str(port)]
    try:
        with contextlib.redirect_stdout(printed):
            inside = runpy.run_path(probe)
    finally:
        sys.argv = argv
    return replies(printed.getvalue()), dict(inside["CASES"]), inside["talk"]


@case
def replies_are_upstreams(t):
    probe, golden = (shared_file(ROOT, "protocol/" + name)
                     for name in ("probe.py", "memcached-head.txt"))
    if not probe or not golden:
        raise Skip("../shared/protocol is not there")
    server = Server(t, "-m", "16")
    ours, requests, talk = asked(probe, server.port)
    with open(golden, encoding="utf-8") as f:
        theirs = replies(f.read())
    assert len(ours) == len(theirs) > 60, (len(ours), len(theirs))
    wrong = []
    for name, reply in ours.items():
        expected = normal(DEVIATIONS.get(name) or theirs[name])
        if normal(reply) != expected and expected.startswith(normal(reply)[:-1]):
            # The probe takes a quarter of a second without a byte for the end, and a busy host for
            # slow: what came was right, so ask again and have patience for the rest.
            reply = as_printed(*talk(server.port, requests[name], wait=PATIENCE_S / 6))
        if normal(reply) != expected:
            wrong.append(f"{name}: {reply}, not {expected}")
        if name in DEVIATIONS:
            assert expected != normal(theirs[name]), f"{name} is no deviation any more"
    assert not wrong, "\n".join(wrong)


@case
def deviations_are_documented(t):
    with open(os.path.join(ROOT, "doc/serve.md"), encoding="utf-8") as f:
        text = f.read()
    for name in DEVIATIONS:
        assert f"`{name}`" in text, f"doc/serve.md does not say why {name} is answered otherwise"


# ---- section P --------------------------------------------------------------------------------

@case
def p01_a_key_has_250_bytes(t):
    s = Server(t, "-m", "16")
    s.say(b"set " + LONG_KEY + b" 0 0 1\r\na\r\nget " + LONG_KEY + b"\r\n",
          b"STORED\r\nVALUE " + LONG_KEY + b" 0 1\r\na\r\nEND\r\n")
    bad = b"CLIENT_ERROR bad command line format\r\n"
    s.say(b"set " + LONG_KEY + b"k 0 0 1\r\na\r\n", bad)
    for command in (b"get %s", b"gat 1 %s", b"delete %s", b"incr %s 1", b"touch %s 1", b"mg %s v",
                    b"md %s", b"ma %s", b"me %s", b"get a %s b"):
        s.say(command % (LONG_KEY + b"k") + b"\r\n", bad)


@case
def p02_an_error_late_in_a_line_is_the_whole_reply(t):
    s = Server(t, "-m", "16", "-t", "1")
    bad, long_key = b"CLIENT_ERROR bad command line format\r\n", LONG_KEY + b"k"
    with s.connect() as c:
        c.say(b"set a 0 0 1000\r\n" + b"v" * 1000 + b"\r\n", b"STORED\r\n")
        # Values of 200 KB come before the key, and there are two thousand bytes of keys in between.
        for parts in ([b"get a a " + long_key + b" a\r\n"], [b"get a ", b"a ", long_key, b" a\r\n"],
                      [b"gats 0 a ", long_key + b"\r\n"], [b"get" + b" a" * 200, b" " + long_key + b"\r\n"],
                      [b"get" + b" a" * 1000, b" a" * 200 + b" " + long_key, b" a\r\n"]):
            for part in parts:
                c.send(part)
                # So that the parts before are read by themselves.
                with s.connect() as other:
                    other.say(b"", b"")
            c.send(b"mn\r\n")
            heard = c.until(b"MN\r\n")
            assert heard == bad + b"MN\r\n", heard[:200]


@case
def p03_a_line_of_keys_may_be_long_and_come_in_parts(t):
    s = Server(t, "-m", "16", "-t", "2")
    keys = [b"key%d" % i for i in range(10000)]
    line = b"get " + b" ".join(keys) + b"\r\n"
    with s.connect() as c:
        for key in keys[::100]:
            c.say(b"set " + key + b" 0 0 3\r\nabc\r\n", b"STORED\r\n")
        expected = b"".join(b"VALUE " + k + b" 0 3\r\nabc\r\n" for k in keys[::100]) + b"END\r\n"
        for part in (len(line), 1, 97, 1448, 16384, 65535, 65536, 65537):
            if part == 1:
                c.send_split(line[:3000], 1)
                c.send(line[3000:])
            else:
                c.send_split(line, part)
            assert c.hear(len(expected)) == expected, part
        # A line that ends just where the server's buffer of 64 KiB does.
        for over in (-2, -1, 0, 1, 2):
            fill = 65536 + over - len(b"get key0 \r\n")
            c.say(b"get key0 " + b" " * fill + b"\r\n", b"VALUE key0 0 3\r\nabc\r\nEND\r\n")


@case
def p05_the_first_request_may_be_large(t):
    s = Server(t, "-m", "16")
    value = b"v" * 10000
    s.say(b"set big 0 0 10000\r\n" + value + b"\r\nget big\r\n",
          b"STORED\r\nVALUE big 0 10000\r\n" + value + b"\r\nEND\r\n")
    s.say(b"get " + b" ".join([b"miss%d" % i for i in range(1000)]) + b"\r\n", b"END\r\n")


@case
def values_may_be_larger_than_a_chunk(t):
    s = Server(t, "-m", "64", "-t", "2")
    assert s.stats("settings")["item_size_max"] == str(1 << 20)
    value = bytes(range(256)) * 4096
    with s.connect() as c:
        c.say(b"set large 7 0 1048576\r\n" + value + b"\r\nget large\r\n",
              b"STORED\r\nVALUE large 7 1048576\r\n" + value + b"\r\nEND\r\n")
        c.say(b"mg large s f v\r\n", b"VA 1048576 s1048576 f7\r\n" + value + b"\r\n")
        with s.connect() as b:
            b.send(struct.pack(">BBHBBHIIQ", 0x80, 0x0c, 5, 0, 0, 0, 5, 42, 0) + b"large")
            head, reply = b.hear(24), b.hear(9 + len(value))
            assert head[:2] == b"\x81\x0c" and reply == b"\0\0\0\x07large" + value, head
        c.say(b"append large 0 0 1\r\nx\r\n", b"SERVER_ERROR object too large for cache\r\n")
        c.say(b"md large I\r\nmg large v s\r\nmg large t\r\n",
              b"HD\r\nVA 1048576 s1048576 X W\r\n" + value + b"\r\nHD t-1 Z X\r\n")
        c.say(b"set half 1 0 500000\r\n" + value[:500000] + b"\r\nappend half 0 0 500000\r\n" +
              value[:500000] + b"\r\nprepend half 0 0 3\r\nabc\r\ntouch half 100\r\nget half\r\n",
              b"STORED\r\nSTORED\r\nSTORED\r\nTOUCHED\r\nVALUE half 1 1000003\r\nabc" +
              value[:500000] * 2 + b"\r\nEND\r\n")
        c.say(b"set large 0 0 1048577\r\n" + value + b"x\r\nget large\r\n",
              b"SERVER_ERROR object too large for cache\r\nEND\r\n")
        # Pipelined, and more of them than the pool holds.
        for i in range(0, 200, 10):
            c.send(b"".join(b"set l%d 0 0 1000000 noreply\r\n%s\r\n" % (k, value[:1000000])
                            for k in range(i, i + 10)))
            c.say(b"", b"")
        c.send(b"get " + b" ".join(b"l%d" % k for k in range(200)) + b"\r\n")
        reply = c.until(b"\r\nEND\r\n")
        found = reply.count(b"VALUE l")
        assert found > 10 and reply.count(b" 0 1000000\r\n" + value[:1000000]) == found, found
    larger = Server(t, "-m", "128", "-t", "1", "-I", "8m")
    larger.say(b"set large 0 0 8388608\r\n" + value * 8 + b"\r\nget large\r\n",
               b"STORED\r\nVALUE large 0 8388608\r\n" + value * 8 + b"\r\nEND\r\n")
    assert larger.end() == (0, "")


@case
def p07_a_failed_set_leaves_no_old_value(t):
    s = Server(t, "-m", "16", "-I", "1000")
    large, body = b"SERVER_ERROR object too large for cache\r\n", b"x" * 2000 + b"\r\n"

    def after(request, found):
        s.say(b"set y 0 0 1\r\na\r\n", b"STORED\r\n")
        s.say(request + body, large)
        s.say(b"get y\r\n", b"VALUE y 0 1\r\na\r\nEND\r\n" if found else b"END\r\n")

    after(b"set y 0 0 2000\r\n", False)
    after(b"ms y 2000\r\n", False)
    for line in (b"replace y 0 0 2000", b"add y 0 0 2000", b"append y 0 0 2000",
                 b"cas y 0 0 2000 1", b"ms y 2000 MR", b"ms y 2000 ME", b"ms y 2000 MA"):
        after(line + b"\r\n", True)
    # Within the limit of a value, but not with what is there already.
    s = Server(t, "-m", "32")
    size = int(s.stats("settings")["item_size_max"]) - 20
    s.say(b"set y 0 0 %d\r\n%s\r\n" % (size, b"x" * size), b"STORED\r\n")
    s.say(b"append y 0 0 100\r\n%s\r\n" % (b"x" * 100), large)
    s.say(b"touch y 0\r\n", b"TOUCHED\r\n")


@case
def p09_noreply_is_silent_whatever_happens(t):
    s = Server(t, "-m", "16", "-I", "1000")
    large = b"x" * 2000
    s.say(b"set k 0 0 1 noreply\r\na\r\nadd k 0 0 1 noreply\r\na\r\n"
          b"replace nope 0 0 1 noreply\r\na\r\nappend nope 0 0 1 noreply\r\na\r\n"
          b"cas k 0 0 1 1 noreply\r\na\r\nincr k 1 noreply\r\nincr nope 1 noreply\r\n"
          b"delete nope noreply\r\ntouch nope 1 noreply\r\nset k x 0 1 noreply\r\na\r\n"
          b"set k 0 0 2000 noreply\r\n" + large + b"\r\nverbosity 1 noreply\r\n"
          b"flush_all noreply\r\nflush_all 0 noreply\r\n", b"")
    s.say(b"ms k 1 q\r\na\r\nmg nope q\r\nmd k q\r\n", b"")
    s.say(b"set k 0 0 1\r\n1\r\nma k q\r\n", b"STORED\r\n")
    # q hides success and the miss of a get, nothing else.
    s.say(b"ms k 1 ME q\r\na\r\nms k 1 C1 q\r\na\r\nmd nope q\r\nma nope q\r\nms nope 1 MR q\r\na\r\n",
          b"NS\r\nEX\r\nNF\r\nNF\r\nNS\r\n")
    with s.connect() as c:
        c.send(b"set k 0 0 1 noreply\r\na\r\nquit\r\n")
        assert c.closes() == b""
    s.say(b"get k\r\n", b"VALUE k 0 1\r\na\r\nEND\r\n")


@case
def p11_a_meta_get_without_flags(t):
    Server(t, "-m", "16").say(b"mg k\r\nset k 0 0 1\r\na\r\nmg k\r\n", b"EN\r\nSTORED\r\nHD\r\n")


@case
def p13_meta_cas(t):
    s = Server(t, "-m", "16")
    with s.connect() as c:
        c.send(b"ms k 1 c\r\na\r\n")
        cas = int(c.until(b"\r\n").split(b"c")[1])
        c.say(b"md k C%d\r\nmg k v\r\nmd k C%d\r\nmg k v\r\n" % (cas + 1, cas),
              b"EX\r\nVA 1\r\na\r\nHD\r\nEN\r\n")
        # E gives the id, to a store, to a touch, to a mark and to arithmetic.
        c.say(b"ms k 1 E555 c\r\n1\r\nmg k c\r\nmg k T90 E556 c t\r\nmg k c\r\n",
              b"HD c555\r\nHD c555\r\nHD c556 t90\r\nHD c556\r\n")
        c.say(b"ma k E557 c v\r\nmd k I E558\r\nmg k c\r\n", b"VA 1 c557\r\n2\r\nHD\r\nHD c558 X W\r\n")
        c.say(b"mg k c T0\r\n", b"HD c558 Z X\r\n")


@case
def p15_the_length_is_the_numbers(t):
    s = Server(t, "-m", "16")

    def step(before, command, after):
        s.say(b"set n 0 0 %d\r\n%s\r\n%s\r\nget n\r\n" % (len(before), before, command),
              b"STORED\r\n%s\r\nVALUE n 0 %d\r\n%s\r\nEND\r\n" % (after, len(after), after))

    step(b"10", b"decr n 1", b"9")
    step(b"99", b"incr n 1", b"100")
    step(b"114514", b"decr n 100000", b"14514")
    step(b"18446744073709551615", b"incr n 1", b"0")
    step(b"5", b"decr n 6", b"0")
    with s.connect() as c:
        c.send(struct.pack(">BBHBBHIIQ", 0x80, 5, 1, 20, 0, 0, 21, 0, 0) +
               struct.pack(">QQI", 1, 1, 0) + b"b")
        assert c.hear(32)[24:] == struct.pack(">Q", 1)
    s.say(b"get b\r\n", b"VALUE b 0 1\r\n1\r\nEND\r\n")


@case
def p17_text_that_is_no_number(t):
    s = Server(t, "-m", "16")
    no = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
    for text in (b"-1", b"-18446744073709551615", b"18446744073709551616", b"", b" 1", b"1 ", b"1x",
                 b"000000000000000000001"):
        s.say(b"set n 0 0 %d\r\n%s\r\nincr n 1\r\nma n\r\n" % (len(text), text),
              b"STORED\r\n" + no + no)


@case
def p19_incr_against_delete(t):
    """After DELETED the counter starts anew: what a delete counted is not counted again."""
    s = Server(t, "-m", "16", "-t", "2")
    rounds, done = 3000, threading.Event()
    wrong = []

    def increment():
        with s.connect() as c:
            for _ in range(rounds):
                c.send(b"ma n N0 J1 v\r\n")
                c.until(b"\r\n")
                c.until(b"\r\n")
        done.set()

    worker = threading.Thread(target=increment)
    worker.start()
    with s.connect() as c:
        while not done.is_set():
            c.send(b"delete n\r\nget n\r\n")
            reply = c.until(b"END\r\n")
            if reply.startswith(b"DELETED") and b"VALUE" in reply:
                value = int(reply.split(b"\r\n")[2])
                # Only increments that came after it.
                if value > rounds:
                    wrong.append(reply)
    worker.join()
    assert not wrong, wrong[:3]
    # The sum over the lives of a counter is the number of increments.
    s.say(b"delete sum\r\n", b"NOT_FOUND\r\n")
    counted = [0]
    over = threading.Event()

    def take():
        with s.connect() as c:
            while True:
                last = over.is_set()
                c.send(b"gets sum\r\n")
                reply = c.until(b"END\r\n")
                if b"VALUE" in reply:
                    head, value = reply.split(b"\r\n")[:2]
                    c.send(b"md sum C%s\r\n" % head.split()[4])
                    if c.until(b"\r\n") == b"HD\r\n":
                        counted[0] += int(value)
                elif last:
                    return

    taker = threading.Thread(target=take)
    taker.start()
    with s.connect() as c:
        for _ in range(rounds):
            c.send(b"ma sum N0 J1\r\n")
            assert c.until(b"\r\n") == b"HD\r\n"
    over.set()
    taker.join()
    assert counted[0] == rounds, f"{counted[0]} of {rounds} increments"


def race_cas(servers, clients, rounds):
    """How many of the clients' compare-and-stores were done; the counter's end."""
    stored = []

    def add(server):
        n = 0
        with server.connect() as c:
            while n < rounds:
                c.send(b"gets n\r\n")
                head, value = c.until(b"END\r\n").split(b"\r\n")[:2]
                cas = head.split()[4]
                assert int(cas) > 0
                new = b"%d" % (int(value) + 1)
                c.send(b"cas n 0 0 %d %s\r\n%s\r\n" % (len(new), cas, new))
                reply = c.until(b"\r\n")
                assert reply in (b"STORED\r\n", b"EXISTS\r\n"), reply
                n += reply == b"STORED\r\n"
        stored.append(n)

    servers[0].say(b"set n 0 0 1\r\n0\r\n", b"STORED\r\n")
    threads = [threading.Thread(target=add, args=(servers[i % len(servers)],))
               for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with servers[-1].connect() as c:
        c.send(b"get n\r\n")
        return sum(stored), int(c.until(b"END\r\n").split(b"\r\n")[1])


@case
def p21_compare_and_store_is_exact(t):
    s = Server(t, "-m", "16", "-t", "2")
    rounds = 300 if LATENCY else 2000
    stored, end = race_cas([s], 3, rounds)
    assert stored == end == 3 * rounds, (stored, end)


@case
def servers_on_one_pool_are_one_cache(t):
    t.node("--size", "32M")
    one, two = (Server(t, "--pool", t.pool, "-t", "1") for _ in range(2))
    one.say(b"set a 7 0 2\r\nhi\r\n", b"STORED\r\n")
    two.say(b"get a\r\n", b"VALUE a 7 2\r\nhi\r\nEND\r\n")
    two.say(b"delete a\r\n", b"DELETED\r\n")
    one.say(b"get a\r\n", b"END\r\n")
    rounds = 150 if LATENCY else 1000
    stored, end = race_cas([one, two], 4, rounds)
    assert stored == end == 4 * rounds, (stored, end)

    one.say(b"set i 0 0 1\r\n0\r\n", b"STORED\r\n")

    def increment(server):
        with server.connect() as c:
            for _ in range(2 if LATENCY else 20):
                c.send(b"incr i 1\r\n" * 100)
                for _ in range(100):
                    assert c.until(b"\r\n").strip().isdigit()

    threads = [threading.Thread(target=increment, args=(s,)) for s in (one, two, one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    two.say(b"get i\r\n", b"VALUE i 0 %s\r\nEND\r\n" % (b"3\r\n800" if LATENCY else b"4\r\n8000"))
    # Limits are each server's own: what another one let in is given out.
    small = Server(t, "--pool", t.pool, "-t", "1", "-I", "100")
    value = b"v" * 15000
    one.say(b"set big 0 0 15000\r\n" + value + b"\r\n", b"STORED\r\n")
    small.say(b"get big big big big big big\r\n",
              b"VALUE big 0 15000\r\n%s\r\n" % value * 6 + b"END\r\n")
    small.say(b"set small 0 0 101\r\n" + b"v" * 101 + b"\r\n",
              b"SERVER_ERROR object too large for cache\r\n")
    one.say(b"set f 0 0 1\r\nx\r\n", b"STORED\r\n")
    two.say(b"flush_all\r\n", b"OK\r\n")
    one.say(b"get f\r\nget i\r\n", b"END\r\nEND\r\n")
    # Vivified on one, won there alone.
    one.say(b"mg v N30\r\n", b"HD W\r\n")
    two.say(b"mg v N30\r\n", b"HD Z\r\n")


@case
def p23_exptimes(t):
    s = Server(t, "-m", "16")
    now = int(time.time())
    for exptime, alive in ((0, True), (2592000, True), (2592001, False), (now + 60, True),
                           (now - 1, False), (2 ** 31 - 1, True), (2 ** 31, False), (-1, False)):
        s.say(b"set x 0 %d 1\r\na\r\nget x\r\n" % exptime,
              b"STORED\r\n" + (b"VALUE x 0 1\r\na\r\n" if alive else b"") + b"END\r\n")
    s.say(b"set x 0 %d 1\r\na\r\n" % 2 ** 63, b"CLIENT_ERROR bad command line format\r\n")
    with s.connect() as c:
        c.send(b"ms x 1 T%d\r\na\r\nmg x t\r\n" % (int(time.time()) + 600))
        assert c.until(b"\r\n") == b"HD\r\n"
        left = int(c.until(b"\r\n").split(b"t")[1])
        assert 598 <= left <= 600, left
        c.say(b"set y 0 1 1\r\na\r\nget y\r\n", b"STORED\r\nVALUE y 0 1\r\na\r\nEND\r\n")
        time.sleep(1.1)
        c.say(b"get y\r\ntouch y 10\r\nincr y 1\r\n", b"END\r\nNOT_FOUND\r\nNOT_FOUND\r\n")
        c.say(b"add y 0 0 1\r\nb\r\n", b"STORED\r\n")


@case
def p27_get_and_touch(t):
    s = Server(t, "-m", "16")
    s.say(b"set hit 5 10 1\r\na\r\ngat 100 hit miss\r\nmg hit t\r\n",
          b"STORED\r\nVALUE hit 5 1\r\na\r\nEND\r\nHD t100\r\n")
    s.say(b"gat abc x\r\n", b"CLIENT_ERROR invalid exptime argument\r\n")
    s.say(b"gat 10\r\n", b"CLIENT_ERROR bad command line format\r\n")
    with s.connect() as c:
        c.send(b"gats 0 hit\r\nmg hit t c\r\n")
        cas = c.until(b"END\r\n").split(b"\r\n")[0].split()[4]
        assert c.until(b"\r\n") == b"HD t-1 c" + cas + b"\r\n"


@case
def p29_client_flags(t):
    s = Server(t, "-m", "16")
    s.say(b"set f 1 0 1\r\na\r\nset f 4294967295 0 1\r\nb\r\nget f\r\n",
          b"STORED\r\nSTORED\r\nVALUE f 4294967295 1\r\nb\r\nEND\r\n")
    s.say(b"append f 9 0 1\r\nc\r\nprepend f 8 0 1\r\na\r\nget f\r\n",
          b"STORED\r\nSTORED\r\nVALUE f 4294967295 3\r\nabc\r\nEND\r\n")
    for flags in (2 ** 32, 2 ** 64, -1):
        s.say(b"set f %d 0 1\r\na\r\n" % flags, b"CLIENT_ERROR bad command line format\r\n")


@case
def p31_binary_is_recognised(t):
    s = Server(t, "-m", "16")
    with s.connect() as c:
        c.send(struct.pack(">BBHBBHIIQ", 0x80, 0x0b, 0, 0, 0, 0, 0, 42, 0))
        head = c.hear(24)
        assert head[:2] == b"\x81\x0b" and head[12:16] == struct.pack(">I", 42), head
        c.hear(struct.unpack(">I", head[8:12])[0])
    ascii_only = Server(t, "-m", "16", "-B", "ascii")
    with ascii_only.connect() as c:
        c.send(struct.pack(">BBHBBHIIQ", 0x80, 0x0b, 0, 0, 0, 0, 0, 42, 0) + b"\r\n")
        assert c.until(b"\r\n") == b"ERROR\r\n"
    binary_only = Server(t, "-m", "16", "-B", "binary")
    with binary_only.connect() as c:
        c.send(b"version\r\n")
        assert c.closes() == b""


@case
def p33_who_does_not_read_is_not_read(t):
    t.env.pop("MALLOC_PERTURB_", None)  # which touches the room for replies that none needs
    s = Server(t, "-m", "32", "-t", "1")
    value = b"v" * 10000
    with s.connect() as c:
        for i in range(20):
            c.say(b"set k%d 0 0 10000\r\n%s\r\n" % (i, value), b"STORED\r\n")
    before = s.memory_kib()
    # 2 MB of keys, 2 GB of replies, which nobody reads.
    line = b"get " + b" ".join(b"k%d" % (i % 20) for i in range(2500)) + b"\r\n"
    slow = [s.connect() for _ in range(4)]
    for c in slow:
        c.socket.setblocking(False)
        sent, data = 0, line * (2000000 // len(line))
        deadline = time.monotonic() + 2
        while sent < len(data) and time.monotonic() < deadline:
            try:
                sent += c.socket.send(data[sent:sent + 65536])
            except BlockingIOError:
                time.sleep(0.01)
    grown = s.memory_kib() - before
    # Where requests overlap, what was under way is answered: 64 values a client.
    assert grown < (12 if LATENCY else 4) * 1024, f"{grown} KiB for 4 clients that do not read"
    # Others are served meanwhile, and who reads after all gets everything.
    s.say(b"get k0\r\n", b"VALUE k0 0 10000\r\n" + value + b"\r\nEND\r\n")
    slow[0].socket.setblocking(True)
    slow[0].socket.settimeout(PATIENCE_S)
    for _ in range(2):
        assert slow[0].until(b"END\r\n").count(b"VALUE") == 2500
    for c in slow:
        c.socket.close()


@case
def p33_idle_connections_hold_nothing(t):
    s = Server(t, "-m", "32", "-t", "1", "-c", "400")
    with s.connect() as c:
        c.say(b"set k 0 0 10000\r\n%s\r\n" % (b"v" * 10000), b"STORED\r\n")
    if LATENCY:  # what flows hold is the thread's: let it have all of them
        line = b"get " + b" ".join(b"x%d" % i for i in range(64)) + b"\r\n"
        busy = [s.connect() for _ in range(10)]
        for c in busy:
            c.send(line * 10)
        for c in busy:
            assert c.hear(50) == b"END\r\n" * 10
            c.socket.close()
    before = s.memory_kib()
    idle = [s.connect() for _ in range(300)]
    for c in idle:
        c.send(b"get" + b" k" * 20 + b"\r\nset part 0 0 8000\r\n" + b"x" * 4000)
        c.until(b"END\r\n")
    for c in idle:
        c.send(b"x" * 4000 + b"\r\n")
        assert c.until(b"\r\n") == b"STORED\r\n"
    wait_until(lambda: s.memory_kib() - before < 1024,
               f"300 idle connections hold {s.memory_kib() - before} KiB")
    for c in idle:
        c.socket.close()


# ---- stock clients ----------------------------------------------------------------------------

@case
def memccapable_passes(t):
    if not shutil.which("memccapable"):
        raise Skip("memccapable is not there: install libmemcached-tools")
    s = Server(t, "-m", "16")
    for which, tests in (("-a", 27), ("-b", 27)):
        # Its own patience is two seconds, in which a busy host may not answer.
        done = subprocess.run(["memccapable", "-h", "127.0.0.1", "-p", str(s.port), "-t", "60", which],
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0 and done.stdout.count("[pass]") >= tests, done.stdout


def stock_client(t, name):
    s = Server(t, "-m", "16")
    script = os.path.join(ROOT, "test/system/stock_clients.py")
    for python in (sys.executable, "/usr/bin/python3"):
        done = subprocess.run([python, script, name, str(s.port)], capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        if done.returncode != 77:
            assert done.returncode == 0, done.stderr
            return
    raise Skip(f"{name} is not there: install python3-{name}")


@case
def pymemcache_works(t):
    stock_client(t, "pymemcache")


@case
def pylibmc_works(t):
    stock_client(t, "pylibmc")


def node_path():
    """Where `npm install -g` puts modules, which Node.js itself does not look at."""
    npm = shutil.which("npm")
    places = [os.environ.get("NODE_PATH")]
    if npm:
        places.append(subprocess.run([npm, "root", "-g"], capture_output=True, text=True,
                                     timeout=PATIENCE_S, check=False).stdout.strip())
    return os.pathsep.join(place for place in places if place)


def node_client(t, name):
    node = shutil.which("node")
    if not node:
        raise Skip("there is no Node.js: install nodejs")
    s = Server(t, "-m", "64")
    script = os.path.join(ROOT, "test/system/stock_clients.js")
    done = subprocess.run([node, script, name, str(s.port)], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, env={**os.environ, "NODE_PATH": node_path()})
    if done.returncode == 77:
        raise Skip(f"Node.js finds no module {name}: npm install -g {name}, or install it anywhere "
                   "and name that node_modules in NODE_PATH")
    assert done.returncode == 0, done.stderr


@case
def memcached_for_node_works(t):
    node_client(t, "memcached")


@case
def memjs_works(t):
    node_client(t, "memjs")


@case
def unix_sockets_are_served(t):
    path = t.path("socket")
    s = Server(t, "-m", "16", "-s", path, "-a", "0600", port=False)
    assert os.stat(path).st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as c:
        c.settimeout(PATIENCE_S)
        c.connect(path)
        c.sendall(b"set a 0 0 1\r\nx\r\nget a\r\n")
        heard = b""
        while not heard.endswith(b"END\r\n"):
            heard += c.recv(1000)
        assert heard == b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    assert s.end()[0] == 0 and not os.path.exists(path)


if __name__ == "__main__":
    sys.exit(main())
