"""Requests under way at once, on a fabric that lets them wait.

	serve_overlap.py FORGE SOURCE_ROOT BUILD_ROOT

A pool's name with ?latency=TIME makes each wait as long as on a network.  Times are compared only
with other times of the same run, with wide margins; replies are compared with those of a model
that carries out one request after the other.
"""
import random
import re
import signal
import socket
import sys
import threading
import time
import urllib.request

from harness import PATIENCE_S, case, main
from memcache import Server, Stopped, wait_until


def slow_server(t, latency, *arguments):
    """A server whose verbs take that long."""
    t.node("--size", "32M")
    return Server(t, "--pool", f"{t.pool}?latency={latency}", *(arguments or ("-t", "1")))


def timed(function):
    start = time.monotonic()
    function()
    return time.monotonic() - start


def quickest(function, limit):
    """Of three times, or of more while it is above the limit: a busy host makes each of them longer."""
    best = min(timed(function) for _ in range(3))
    for _ in range(50):
        if best < limit:
            break
        best = min(best, timed(function))
    return best


def fill(s, keys):
    with s.connect() as c:
        for i in range(0, len(keys), 50):
            part = keys[i:i + 50]
            c.say(b"".join(b"set %s 0 0 5\r\nvalue\r\n" % k for k in part), b"STORED\r\n" * len(part))


def get(c, keys):
    """Each in a request of its own, all sent at once."""
    c.send(b"".join(b"get %s\r\n" % k for k in keys))
    for k in keys:
        expected = b"VALUE %s 0 5\r\nvalue\r\nEND\r\n" % k
        assert c.hear(len(expected)) == expected


@case
def a_pipeline_waits_once(t):
    s = slow_server(t, "2ms")
    keys = [b"k%d" % i for i in range(64)]
    fill(s, keys)
    with s.connect() as c:
        get(c, keys)
        one_by_one = timed(lambda: [get(c, [k]) for k in keys])
        pipelined = quickest(lambda: get(c, keys), one_by_one / 8)

        def line():
            c.send(b"get " + b" ".join(keys) + b"\r\n")
            assert c.until(b"END\r\n").count(b"VALUE") == 64

        one_line = quickest(line, one_by_one / 8)
    # At least 2 waits of 2 ms each for one by one.
    assert one_by_one > 64 * 0.004, one_by_one
    print(f"64 Gets: one by one {one_by_one * 1e3:.1f} ms, pipelined {pipelined * 1e3:.1f}, "
          f"in one line {one_line * 1e3:.1f}")
    assert pipelined < one_by_one / 8 and one_line < one_by_one / 8


@case
def connections_of_a_thread_wait_together(t):
    s = slow_server(t, "2ms")
    keys = [b"k%d" % i for i in range(32)]
    fill(s, keys)
    clients = [s.connect() for _ in keys]

    def all_at_once():
        for _ in range(3):
            for c, k in zip(clients, keys):
                c.send(b"get %s\r\n" % k)
            for c, k in zip(clients, keys):
                assert c.until(b"END\r\n") == b"VALUE %s 0 5\r\nvalue\r\nEND\r\n" % k

    all_at_once()
    alone = timed(lambda: [get(clients[0], [k]) for k in keys * 3])
    together = quickest(all_at_once, alone / 4)
    print(f"96 Gets: of one connection {alone * 1e3:.1f} ms, of 32 {together * 1e3:.1f}")
    assert together < alone / 4
    for c in clients:
        c.socket.close()


@case
def what_takes_long_holds_up_nobody_else(t):
    """A flush takes milliseconds: those of one connection and the Gets of another one overlap."""
    s = slow_server(t, "50us")
    fill(s, [b"warm"])
    done, flushes = threading.Event(), 300

    def flush():
        with s.connect() as c:
            c.send(b"flush_all\r\n" * flushes)
            assert c.hear(4 * flushes) == b"OK\r\n" * flushes
        done.set()

    thread = threading.Thread(target=flush)
    gets = 0
    with s.connect() as c:
        thread.start()
        while not done.is_set():
            c.send(b"get k\r\n")
            assert c.until(b"END\r\n") == b"END\r\n"
            gets += 1
    thread.join()
    print(f"{gets} Gets beside {flushes} flushes")
    assert gets > 1.5 * flushes


@case
def the_order_for_a_key_is_the_clients(t):
    """Random requests for few keys, each connection with its own, in random parts."""
    s = slow_server(t, "100us", "-t", "2")
    failures = []

    def load(number):
        rng = random.Random(number)
        model = {}
        try:
            with s.connect() as c:
                for _ in range(12):
                    requests, expected = [], []
                    for _ in range(rng.randrange(1, 300)):
                        request, reply = step(rng, b"%d-%d" % (number, rng.randrange(6)), model)
                        requests.append(request)
                        expected.append(reply)
                    data, reply = b"".join(requests), b"".join(expected)
                    at = 0
                    while at < len(data):
                        part = rng.choice((1, 50, 1000, 100000))
                        c.send(data[at:at + part])
                        at += part
                    heard = c.hear(len(reply))
                    assert heard == reply, (number, data[:3000], reply[:2000], heard[:2000])
                c.say(b"", b"")
        except (AssertionError, OSError) as e:
            failures.append(e)

    threads = [threading.Thread(target=load, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def step(rng, key, model):
    """A request, and the reply to it if the ones before have been carried out in order."""
    value, dice = model.get(key), rng.randrange(12)
    if dice < 3:
        new = b"%d" % rng.randrange(10 ** rng.choice((1, 5, 9)))
        model[key] = new
        return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(new), new), b"STORED\r\n"
    if dice < 4:
        new = b"x" * rng.choice((0, 100, 3000))
        if value is None:
            model[key] = new
        return (b"add %s 0 0 %d\r\n%s\r\n" % (key, len(new), new),
                b"STORED\r\n" if value is None else b"NOT_STORED\r\n")
    if dice < 6:
        if value is None:
            return b"incr %s 3\r\n" % key, b"NOT_FOUND\r\n"
        if not value.isdigit():
            return (b"incr %s 3\r\n" % key,
                    b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n")
        model[key] = b"%d" % (int(value) + 3)
        return b"incr %s 3\r\n" % key, model[key] + b"\r\n"
    if dice < 7:
        model.pop(key, None)
        return b"delete %s\r\n" % key, b"NOT_FOUND\r\n" if value is None else b"DELETED\r\n"
    if dice < 8:
        return b"mn\r\n", b"MN\r\n"
    if dice < 9:
        model[key] = b"quiet"
        return b"set %s 0 0 5 noreply\r\nquiet\r\n" % key, b""
    if dice < 10:
        return (b"mg %s v\r\n" % key,
                b"EN\r\n" if value is None else b"VA %d\r\n%s\r\n" % (len(value), value))
    found = b"" if value is None else b"VALUE %s 0 %d\r\n%s\r\n" % (key, len(value), value)
    if dice < 11:
        return b"get %s %s absent\r\n" % (key, key), found * 2 + b"END\r\n"
    return b"get %s\r\n" % key, found + b"END\r\n"


def metric(s, name):
    url = re.search(r"metrics (\S+)", s.ready).group(1)
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as page:
        text = page.read().decode()
    return int(re.search("^" + re.escape(name) + r" (\d+)$", text, re.M).group(1))


def index_reads(s):
    return metric(s, 'forge_verbs_total{purpose="index",verb="READ"}')


@case
def gets_of_one_key_share_lookups(t):
    s = slow_server(t, "10ms", "-t", "1", "--metrics", "127.0.0.1:0")
    fill(s, [b"hot"])
    value = b"VALUE hot 0 5\r\nvalue\r\nEND\r\n"
    with s.connect() as c:
        c.say(b"", b"")

        def at_once(data, expected, least, most):
            before = index_reads(s)
            with Stopped(s):
                c.send(data)
            assert (heard := c.hear(len(expected))) == expected, heard
            reads = index_reads(s) - before
            assert least <= reads <= most, (data[:60], reads)

        at_once(b"get hot\r\n" * 60, value * 60, 1, 4)
        at_once(b"get none\r\n" * 60, b"END\r\n" * 60, 1, 4)
        at_once(b"get " + b"hot " * 60 + b"\r\n", value[:-5] * 60 + b"END\r\n", 1, 4)
        at_once(b"".join(b"mg hot v O%d k\r\n" % i for i in range(60)),
                b"".join(b"VA 5 O%d khot\r\nvalue\r\n" % i for i in range(60)), 1, 4)
        # But those that come when one has begun, and so is counted, do not share with it.
        before, counted = index_reads(s), metric(s, "forge_serve_cmd_get_total")
        c.send(b"get hot\r\n")
        wait_until(lambda: metric(s, "forge_serve_cmd_get_total") > counted, "no Get begins")
        c.send(b"get hot\r\n" * 20)
        assert c.hear(len(value) * 21) == value * 21
        reads = index_reads(s) - before
        assert 2 <= reads <= 4, reads
        # A change among them is seen by those behind it, and by no others.
        change = b"get hot\r\n" * 20 + b"append hot 0 0 1\r\n!\r\n" + b"get hot\r\n" * 20
        at_once(change, value * 20 + b"STORED\r\n" + b"VALUE hot 0 6\r\nvalue!\r\nEND\r\n" * 20, 4, 10)
        # So is one that a Get makes: of those that find a stale value one is told to renew it.
        c.say(b"md hot I T30\r\n", b"HD\r\n")
        before = index_reads(s)
        with Stopped(s):
            c.send(b"mg hot v s\r\n" * 30)
        heard = [c.until(b"value!\r\n") for _ in range(30)]
        assert b" W" in heard[0] and sum(b" W" in reply for reply in heard) == 1, heard
        assert index_reads(s) - before <= 10


@case
def a_get_never_sees_less_than_was_acknowledged(t):
    """
    While Gets of a number are under way it rises by another server, which is fast; those sent after
    the acknowledgement see it, whatever lookups others of the pipeline share.  The pauses only
    choose the phase of the first Get in which that happens.
    """
    s = slow_server(t, "5ms", "-t", "1")
    fast = Server(t, "--pool", t.pool, "-t", "1")
    rng = random.Random(1)
    with s.connect() as c, fast.connect() as writer:
        last = 0
        for number in range(1, 60):
            c.send(b"get n\r\n" * rng.randrange(1, 3))
            time.sleep(rng.random() * 0.012)
            writer.send(b"set n 0 0 %d\r\n%d\r\n" % (len(str(number)), number))
            assert writer.until(b"\r\n") == b"STORED\r\n"
            c.send(b"get n\r\nget n\r\nmn\r\n")
            seen = [int(word) for word in c.until(b"MN\r\n").split(b"\r\n") if word.isdigit()]
            assert seen[-2:] == [number] * 2 and sorted([last] + seen) == [last] + seen, (number, seen)
            last = number


@case
def what_looks_at_everything_has_its_place(t):
    s = slow_server(t, "1ms")
    with s.connect() as c:
        sets = b"".join(b"set k%d 0 0 1\r\nx\r\n" % i for i in range(20))
        gets = b"".join(b"get k%d\r\n" % i for i in range(20))
        c.say(sets + b"flush_all\r\n" + gets + sets + gets,
              b"STORED\r\n" * 20 + b"OK\r\n" + b"END\r\n" * 20 + b"STORED\r\n" * 20 +
              b"".join(b"VALUE k%d 0 1\r\nx\r\nEND\r\n" % i for i in range(20)))
        # All that was sent before is counted, and nothing of what comes behind.
        c.send(gets + b"stats\r\n" + gets)
        reply = c.until(b"STAT pid")
        assert reply.count(b"VALUE") == 20
        rest = c.until(b"get_hits 40\r\n")
        assert b"cmd_get 60\r\n" in rest, rest
        c.until(b"END\r\n")
        for _ in range(20):
            c.until(b"END\r\n")
        # A key that cannot be replaces the whole reply, wherever it stands.
        c.say(b"get k1 k2 " + b"x" * 251 + b" k3\r\nget k1\r\n",
              b"CLIENT_ERROR bad command line format\r\nVALUE k1 0 1\r\nx\r\nEND\r\n")
        # And what is behind the end is not carried out.
        c.send(b"set k1 0 0 1\r\ny\r\nquit\r\nset k1 0 0 1\r\nz\r\n")
        assert c.closes() == b"STORED\r\n"
    s.say(b"get k1\r\n", b"VALUE k1 0 1\r\ny\r\nEND\r\n")


@case
def who_has_sent_all_is_answered_all(t):
    s = slow_server(t, "1ms")
    count = 300
    with s.connect() as c:
        c.send(b"".join(b"set h%d 0 0 1\r\nx\r\nget h%d\r\n" % (i, i) for i in range(count)))
        c.socket.shutdown(socket.SHUT_WR)
        assert c.closes() == b"".join(b"STORED\r\nVALUE h%d 0 1\r\nx\r\nEND\r\n" % i
                                      for i in range(count))
    # Who does not wait for replies has been heard all the same, as far as it was read.
    with s.connect() as c:
        c.send(b"set gone 0 0 1\r\nx\r\n" * 10 + b"mn\r\n")
        c.until(b"STORED\r\n")
        c.send(b"".join(b"get h%d\r\n" % i for i in range(count)))
    s.say(b"get gone\r\n", b"VALUE gone 0 1\r\nx\r\nEND\r\n")


@case
def the_end_comes_after_the_replies(t):
    s = slow_server(t, "5ms")
    keys = [b"k%d" % i for i in range(200)]
    fill(s, keys)
    with s.connect() as c:
        c.send(b"".join(b"get %s\r\n" % k for k in keys))
        c.hear(10)
        s.process.send_signal(signal.SIGTERM)
        for k in keys:
            c.until(b"END\r\n")
        assert c.closes() == b""
    assert s.process.wait(PATIENCE_S) == 0


@case
def who_goes_in_the_middle_leaves_nothing(t):
    """Connections that end with requests under way, among others that want theirs."""
    s = slow_server(t, "300us", "-t", "2")
    keys = [b"k%d" % i for i in range(100)]
    fill(s, keys)
    stop, rounds = threading.Event(), [0]

    def stay():
        with s.connect() as c:
            while not stop.is_set():
                get(c, keys)
                rounds[0] += 1

    stayer = threading.Thread(target=stay)
    stayer.start()
    rng = random.Random(1)
    for i in range(300):
        with s.connect() as c:
            c.send(b"".join(rng.choice((b"get %s\r\n", b"incr n%s 1\r\n", b"set b%s 0 0 3\r\nabc\r\n")) % k
                            for k in keys[:rng.randrange(100)]))
            if i % 3 == 0:
                c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    stop.set()
    stayer.join()
    assert rounds[0] > 0
    assert s.end() == (0, "")
    t.on_pool("check").expect(0)


@case
def many_connections_share_the_flows(t):
    """
    More requests than a thread has flows, all there before the first is begun: everyone is served,
    and in fair shares.  The first connection takes 64 flows, then 8 when it has its turn, and so do
    those behind it; so what is last in the queue and asks how far the first has come finds its 65th
    Set or a few more, and not those it has flows for only in later turns.
    """
    s = slow_server(t, "500us", "-t", "1", "-c", "100")
    clients, late = [s.connect() for _ in range(24)], s.connect()
    for c in clients + [late]:
        c.say(b"", b"")
    with Stopped(s):
        for n, c in enumerate(clients):
            c.send(b"".join(b"set %d-%d 0 0 1\r\nx\r\n" % (n, i) for i in range(512)))
        late.send(b"get " + b" ".join(b"0-%d" % i for i in range(119, 512, 56)) + b"\r\n")
    found = late.until(b"END\r\n")
    assert found == b"END\r\n", found
    for c in clients:
        assert c.hear(8 * 512) == b"STORED\r\n" * 512
    for c in clients + [late]:
        c.socket.close()
    assert s.end() == (0, "")


@case
def large_values_do_not_come_all_at_once(t):
    """A client that pipelines 64 of 8 MB has a few of them held for it, not half a gigabyte."""
    mib = 8
    t.env.pop("MALLOC_PERTURB_", None)  # it would touch, for each flow, room for the largest value
    t.node("--size", "160M", "--value-max", "16M")
    s = Server(t, "--pool", f"{t.pool}?latency=50us", "-t", "1")
    value = bytes(mib << 20)
    most = 0
    with s.connect() as c:
        for i in range(8):
            c.say(b"set k%d 0 0 %d\r\n%s\r\n" % (i, len(value), value), b"STORED\r\n")
        c.send(b"".join(b"get k%d\r\n" % (i % 8) for i in range(64)))
        for i in range(64):
            most = max(most, s.memory_kib() >> 10)
            head = b"VALUE k%d 0 %d\r\n" % (i % 8, len(value))
            assert c.hear(len(head)) == head and c.hear(len(value)) == value
            assert c.hear(7) == b"\r\nEND\r\n"
    assert most < 300, f"{most} MiB"


if __name__ == "__main__":
    sys.exit(main())
