"""What a host does to `forge serve`: signals, and descriptors that run out.

A server that was told to end does so, once and in order, however often it is told; one that was
told nothing goes on.
"""
import os
import re
import select
import signal
import socket
import sys

from harness import case, main
from memcache import Server, wait_until

@case
def nohup_keeps_a_server(t):
    s = Server(t, "-m", "16", before="trap '' HUP")
    s.process.send_signal(signal.SIGHUP)
    s.say(b"set a 0 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
    assert s.end() == (0, "")


@case
def who_is_told_twice_to_end_ends_in_order(t):
    """Also when the second time comes while it removes what it has made."""
    for _ in range(10):
        s = Server(t, "-m", "16", "-t", "2", "--pidfile", t.path("pid"))
        while s.process.poll() is None:
            s.process.send_signal(signal.SIGTERM)
        out, err = s.process.communicate()
        assert (s.process.returncode, out, err) == (0, b"", b""), (s.process.returncode, err)
        assert not os.path.exists("/dev/shm" + s.pool.removeprefix("shm:"))


@case
def users_are_read_anew(t):
    """SIGHUP: who is in stays in, new ones come in by the new file, a bad file changes nothing."""
    users = t.path("users")

    def write(text):
        with open(users, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(text)

    def may(proof):
        with s.connect() as c:
            c.send(b"set x 0 0 %d\r\n%s\r\n" % (len(proof), proof))
            return c.until(b"\r\n") == b"STORED\r\n"

    write("ann:1\n")
    s = Server(t, "-m", "16", "--auth-file", users)
    with s.connect() as c:
        c.send(b"set x 0 0 5\r\nann 1\r\n")
        assert c.until(b"\r\n") == b"STORED\r\n" and not may(b"bob 2")
        write("bob:2\n")
        s.process.send_signal(signal.SIGHUP)
        wait_until(lambda: may(b"bob 2"), "the new user is not let in")
        assert not may(b"ann 1")
        write("nobody\n")
        s.process.send_signal(signal.SIGHUP)
        line = s.process.stderr.readline().decode()
        assert "line 1 is not user:password" in line and "as before" in line, line
        assert may(b"bob 2") and not may(b"ann 1")
        c.say(b"get a\r\n", b"END\r\n")
    assert s.end() == (0, "")


@case
def the_limit_of_files_is_raised_for_threads_too(t):
    s = Server(t, "-m", "16", "-t", "60", "-c", "10", before="ulimit -Sn 128")
    s.say(b"get a\r\n", b"END\r\n")
    assert s.end() == (0, "")


def file_count(s):
    return len(os.listdir(f"/proc/{s.process.pid}/fd"))


def metrics_of(s):
    return "127.0.0.1", int(re.search(r"http://127\.0\.0\.1:(\d+)/", s.ready).group(1))


@case
def metrics_wait_for_descriptors(t):
    """Who takes them all has nothing said without end; when some are free, pages come again."""
    s = Server(t, "-m", "16", "-t", "1", "-c", "10", "--metrics", "127.0.0.1:0",
               before="ulimit -n 40")
    clients = [socket.socket() for _ in range(50)]
    for c in clients:
        c.setblocking(False)
        c.connect_ex(metrics_of(s))
    wait_until(lambda: file_count(s) == 40, "there are descriptors left")
    line = s.process.stderr.readline()
    while b"cannot accept" not in line:
        assert b"-conn-limit" in line, line
        line = s.process.stderr.readline()
    for c in clients:
        c.close()
    with socket.create_connection(metrics_of(s)) as c:
        c.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert c.recv(100).startswith(b"HTTP/1.0 200 OK\r\n")
    assert s.end() == (0, "")


@case
def who_looks_at_metrics_keeps_nobody_waiting(t):
    """A page waits for a memory node that stands still; connections are accepted meanwhile."""
    place = "unix:" + t.path("node")
    node = t.node("--size", "16M", "--listen", place)
    s = Server(t, "--pool", place, "-t", "1", "--metrics", "127.0.0.1:0")
    answered = 0
    node.process.send_signal(signal.SIGSTOP)
    with socket.create_connection(metrics_of(s)) as page:
        page.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        while not select.select([page], [], [], 0)[0]:
            s.say(b"version\r\n", b"VERSION 1.6.18\r\n")
            answered += 1
        assert page.recv(100).startswith(b"HTTP/1.0 200 OK\r\n")
    node.process.send_signal(signal.SIGCONT)
    # Before it had begun with the page it could answer one or two.
    assert answered > 5, answered


@case
def a_node_that_was_frozen_comes_back_with_what_it_had(t):
    """Workers without a request kept the id that the server had there, and the node was flushed for it."""
    node = t.node("--size", "16M", "--listen", "tcp://127.0.0.1:0")
    s = Server(t, "--pool", node.listens[0], "-t", "4", "--threads-min", "0")
    t.on_pool("set", "a", "x").expect(0)  # in a chunk that is nobody's when the server is taken for dead
    s.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
    node.process.send_signal(signal.SIGSTOP)
    s.say(b"set b 0 0 1\r\ny\r\n", b"SERVER_ERROR the memory node is gone\r\n")
    node.process.send_signal(signal.SIGCONT)
    wait_until(lambda: s.stats()["memory_nodes_up"] == "1", "the server does not come back")
    s.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
    code, err = s.end()
    assert code == 0 and "back, with what it had" in err, (code, err)


if __name__ == "__main__":
    sys.exit(main())
