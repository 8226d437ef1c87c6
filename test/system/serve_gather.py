"""Connections that are ready at once, which one worker reads before it answers any (gather.h).

	serve_gather.py FORGE SOURCE_ROOT BUILD_ROOT

The server is stopped while clients send, so that it finds all of it when it goes on; its count of
gathered connections says that it did.  Replies are compared with what one request after the other
would get.
"""
import random
import signal
import socket
import sys

from harness import case, main
from memcache import Server, Stopped, wait_until


def gathered(s):
    return int(s.stats()["gathered"])


def exchange(s, said):
    """[(what, expected)], each on a connection of its own, all at once; the clients, still open."""
    before = int(s.stats()["connections_opened"])
    clients = [s.connect() for _ in said]
    wait_until(lambda: int(s.stats()["connections_opened"]) >= before + len(said),
               "no worker has the connections")
    with Stopped(s):
        for c, (what, _) in zip(clients, said):
            c.send(what)
    for c, (what, expected) in zip(clients, said):
        heard = c.hear(len(expected))
        assert heard == expected, f"{what[:80]!r}: expected {expected!r}, heard {heard[:200]!r}"
    return clients


@case
def every_kind_of_input_beside_others(t):
    s = Server(t, "-m", "16", "-t", "1")
    s.say(b"set a 0 0 1\r\nA\r\nset b 7 0 2\r\nBB\r\n", b"STORED\r\nSTORED\r\n")
    binary_noop = b"\x80\x0a" + bytes(22)
    large = b"x" * 80000
    found = b"VALUE a 0 1\r\nA\r\n"
    said = [
        (b"get a\r\n", found + b"END\r\n"),
        (b"get nope\r\n", b"END\r\n"),
        (b"get a nope b\r\n", found + b"VALUE b 7 2\r\nBB\r\nEND\r\n"),
        (b"set c 0 0 3\r\nccc\r\n", b"STORED\r\n"),
        (b"set d 0 0 3 noreply\r\nddd\r\nget d\r\n", b"VALUE d 0 3\r\nddd\r\nEND\r\n"),
        (b"mg a v\r\nmg b v f\r\nmn\r\n", b"VA 1\r\nA\r\nVA 2 f7\r\nBB\r\nMN\r\n"),
        (b"mg YQ== b v k\r\n", b"VA 1 kYQ== b\r\nA\r\n"),
        (b"nonsense\r\n", b"ERROR\r\n"),
        (b"get " + b"k" * 251 + b"\r\n", b"CLIENT_ERROR bad command line format\r\n"),
        (binary_noop, b"\x81\x0a" + bytes(22)),
        (b"set large 0 0 80000\r\n" + large + b"\r\n", b"STORED\r\n"),
        (b"version\r\nget a\r\n", b"VERSION 1.6.18\r\n" + found + b"END\r\n"),
        (b"get a\r\nquit\r\nget a\r\n", found + b"END\r\n"),
        (b"touch a 0\r\n", b"TOUCHED\r\n"),
        (b"delete e\r\n", b"NOT_FOUND\r\n"),
        (b"get a\r\nget ", found + b"END\r\n"),
        (b"set half 0 0 10\r\n12345", b""),
        (b"set huge 0 0 2000000\r\n", b"SERVER_ERROR object too large for cache\r\n"),
    ]
    before = gathered(s)
    clients = exchange(s, said)
    clients[-3].say(b"b\r\n", b"VALUE b 7 2\r\nBB\r\nEND\r\n")
    clients[-2].say(b"67890\r\n", b"STORED\r\n")
    clients[-1].send(b"get a\r\n" * 285714 + b"12\r\n")  # a block that is skipped
    for c, (what, _) in zip(clients, said):
        if b"quit" in what:
            assert c.closes() == b""
        elif what != binary_noop:
            c.say(b"get c\r\n", b"VALUE c 0 3\r\nccc\r\nEND\r\n")
    assert gathered(s) - before >= len(said) - 1, gathered(s) - before
    assert s.end()[0] == 0


@case
def one_connection_is_served_at_once(t):
    s = Server(t, "-m", "16", "-t", "1")
    with s.connect() as c:
        for _ in range(100):
            c.say(b"get a\r\n", b"END\r\n")
    assert gathered(s) == 0


@case
def clients_that_leave_meanwhile(t):
    s = Server(t, "-m", "16", "-t", "1")
    clients = [s.connect() for _ in range(20)]
    for c in clients:
        c.say(b"", b"")
    with Stopped(s):
        for i, c in enumerate(clients):
            c.send(b"set k%d 0 0 1\r\nx\r\n" % i)
            if i % 4 == 1:
                c.socket.shutdown(socket.SHUT_WR)
            if i % 4 == 2:
                c.socket.close()
    for i, c in enumerate(clients):
        if i % 4 != 2:
            assert c.hear(8) == b"STORED\r\n"
        if i % 4 == 1:
            assert c.closes() == b""
    # What arrived before its client left has been carried out.
    s.say(b"get " + b" ".join(b"k%d" % i for i in range(20)) + b"\r\n",
          b"".join(b"VALUE k%d 0 1\r\nx\r\n" % i for i in range(20)) + b"END\r\n")
    wait_until(lambda: int(s.stats()["curr_connections"]) == 11, "who has left is still counted")


@case
def a_signal_finds_what_has_arrived(t):
    s = Server(t, "-m", "16", "-t", "1")
    clients = [s.connect() for _ in range(20)]
    for c in clients:
        c.say(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n")
    with Stopped(s):
        for c in clients:
            c.send(b"get k\r\n")
        s.process.send_signal(signal.SIGTERM)
    for c in clients:
        assert c.closes() == b"VALUE k 0 1\r\nx\r\nEND\r\n"
    assert s.end()[0] == 0


@case
def strangers_beside_users(t):
    users = t.path("users")
    with open(users, "w", encoding="ascii") as f:
        f.write("user:word\n")
    s = Server(t, "-m", "16", "-t", "1", "--auth-file", users)
    login = b"set x 0 0 9\r\nuser word\r\n"
    refused = b"CLIENT_ERROR unauthenticated\r\n"
    said = [
        (login, b"STORED\r\n"),
        (b"get a\r\n", refused),
        (login + b"set a 0 0 2000\r\n" + b"y" * 2000 + b"\r\n", b"STORED\r\nSTORED\r\n"),
        (b"set x 0 0 9\r\nuser worm\r\n", b"CLIENT_ERROR authentication failure\r\n"),
    ]
    clients = [s.connect() for _ in said]
    with Stopped(s):
        for c, (what, _) in zip(clients, said):
            c.send(what)
    for c, (what, expected) in zip(clients, said):
        assert (heard := c.hear(len(expected))) == expected, (what, heard)
    clients[0].say(b"get a\r\n", b"VALUE a 0 2000\r\n" + b"y" * 2000 + b"\r\nEND\r\n")


@case
def many_clients_and_a_model(t):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    r = random.Random(seed)
    s = Server(t, "-m", "16", "-t", "2")
    clients = [s.connect() for _ in range(40)]
    models = [{} for _ in clients]

    def request(i):
        key, model = b"c%d-%d" % (i, r.randrange(3)), models[i]
        kind = r.randrange(5)
        if kind == 0:
            model[key] = value = bytes(r.choices(b"xyz", k=r.choice((0, 1, 50, 3000))))
            return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), b"STORED\r\n"
        if kind == 1:
            was = model.pop(key, None)
            return b"delete %s\r\n" % key, b"NOT_FOUND\r\n" if was is None else b"DELETED\r\n"
        if kind == 2:
            found = b"EN\r\n" if key not in model else b"VA %d\r\n%s\r\n" % (len(model[key]), model[key])
            return b"mg %s v\r\n" % key, found
        keys = [b"c%d-%d" % (i, n) for n in range(3)] if kind == 3 else [key]
        found = b"".join(b"VALUE %s 0 %d\r\n%s\r\n" % (k, len(model[k]), model[k])
                         for k in keys if k in model)
        return b"get %s\r\n" % b" ".join(keys), found + b"END\r\n"

    rounds, sent = 60, 0
    for _ in range(rounds):
        expected = {}
        with Stopped(s):
            for i in r.sample(range(40), r.randrange(1, 41)):
                said = [request(i) for _ in range(r.choice((1, 1, 1, 3)))]
                clients[i].send(b"".join(what for what, _ in said))
                expected[i] = b"".join(reply for _, reply in said)
        sent += len(expected)
        for i, reply in expected.items():
            assert (heard := clients[i].hear(len(reply))) == reply, (i, reply[:200], heard[:200])
    # The last one of a worker's turn may be alone.
    assert gathered(s) >= sent - 2 * rounds, (gathered(s), sent)


if __name__ == "__main__":
    sys.exit(main())
