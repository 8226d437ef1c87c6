"""Clients of a server that vanish, are slow, or go on sending, at the moment that suits least.

What is held: nobody but that client notices, what has been answered arrives whole, and who is
neither idle nor too slow keeps the connection.
"""
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

from harness import PATIENCE_S, case, main
from memcache import Client, Server, Stopped, wait_until


def reset(connection):
    """Close without a word: whatever is sent there from now on is an error."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@case
def who_asks_for_metrics_may_vanish(t):
    """Several pages are written to a client that does not want one, each to an end of its own."""
    s = Server(t, "-m", "16", "-t", "2", "--metrics", "127.0.0.1:0")
    port = int(re.search(r"metrics http://127.0.0.1:(\d+)", s.ready).group(1))
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    for pages in range(1, 6):
        for end in "closed", "half", "reset":
            c = socket.create_connection(("127.0.0.1", port))
            c.sendall(request)
            c.recv(1)  # the server is at this client
            with Stopped(s):
                c.sendall(request * pages)
                if end == "half":
                    c.shutdown(socket.SHUT_WR)
                if end == "closed":
                    c.close()
                else:
                    reset(c)
    s.say(b"", b"")
    code, err = s.end()
    assert code == 0 and err == "", (code, err)


VALUE = b"v" * 1000
REPLY = b"VALUE k 0 1000\r\n" + VALUE + b"\r\nEND\r\n"


def hear_slowly(connection):
    """All that comes until the end, in parts with pauses between them."""
    parts = []
    try:
        while part := connection.recv(20000):
            parts.append(part)
            if len(parts) % 20 == 0:
                time.sleep(0.01)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def send_on(connection, data):
    """For ever, beside the caller."""

    def send():
        try:
            while True:
                connection.sendall(data)
        except OSError:
            pass  # it is closed

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def encrypted(connection):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection)


def certificate(t):
    """Options for a server with one of its own."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=forge",
                    "-keyout", t.path("key"), "-out", t.path("cert")],
                   check=True, capture_output=True)
    return "--tls", "--tls-cert", t.path("cert"), "--tls-key", t.path("key")


def ends_whole(server, connection, reply=REPLY):
    """Told to end while the client goes on sending, it sends whole replies, and enough of them."""
    with Stopped(server):
        sender = send_on(connection, b"get k\r\n" * 1000)
        while not waiting_input(server.port):
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
    heard = hear_slowly(connection)
    sender.join()
    replies, rest = divmod(len(heard), len(reply))
    assert rest == 0, f"the last reply has {rest} of {len(reply)} bytes, after {replies}"
    assert replies > 0 and heard == reply * replies, f"{replies} replies"
    server.process.communicate(timeout=PATIENCE_S)
    assert server.process.returncode == 0


def waiting_input(port):
    """Bytes that lie unread with who has that port."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        rows = [line.split() for line in f][1:]
    return sum(int(row[4].split(":")[1], 16) for row in rows
               if row[1].endswith(f":{port:04X}") and row[3] == "01")


@case
def sigterm_cuts_no_reply(t):
    s = Server(t, "-m", "32", "-t", "2")
    c = s.connect()
    c.say(b"set k 0 0 1000\r\n" + VALUE + b"\r\n", b"STORED\r\n")
    ends_whole(s, c.socket)


@case
def sigterm_cuts_no_reply_of_many(t):
    """What has arrived asks for more than can be sent until the end."""
    s = Server(t, "-m", "32", "-t", "2")
    c, value = s.connect(), b"v" * 100000
    c.say(b"set k 0 0 100000\r\n" + value + b"\r\n", b"STORED\r\n")
    ends_whole(s, c.socket, b"VALUE k 0 100000\r\n" + value + b"\r\nEND\r\n")


@case
def sigterm_cuts_no_encrypted_reply(t):
    s = Server(t, "-m", "32", "-t", "2", *certificate(t))
    c = Client(encrypted(s.connect().socket))
    c.say(b"set k 0 0 1000\r\n" + VALUE + b"\r\n", b"STORED\r\n")
    ends_whole(s, c.socket)


@case
def what_is_half_when_sigterm_comes_is_waited_for(t):
    """And what comes behind it is not carried out."""
    s = Server(t, "-m", "32", "-t", "1")
    before = s.connect()
    before.say(b"", b"")
    c = s.connect()
    c.say(b"set k 0 0 1000\r\n" + VALUE + b"\r\n", b"STORED\r\n")
    behind = s.connect()
    behind.say(b"", b"")
    with Stopped(s):
        c.send(b"get k\r\nset k 0 0 10\r\n12345")
        s.process.send_signal(signal.SIGTERM)
    c.until(REPLY)
    # The thread, which goes through its connections in their order, has been at this one.
    assert before.closes() == behind.closes() == b""
    c.send(b"67890\r\n" + b"get k\r\n" * 10000)
    assert c.closes() == b"STORED\r\n"
    s.process.communicate(timeout=PATIENCE_S)
    assert s.process.returncode == 0


@case
def what_is_no_request_cuts_no_reply(t):
    """Its error comes behind the replies, although the client sends on."""
    s = Server(t, "-m", "32", "-t", "2", "-p", "0")
    for _ in range(5):
        c = s.connect()
        c.say(b"set k 0 0 1000\r\n" + VALUE + b"\r\n", b"STORED\r\n")
        c.send(b"get k\r\n" * 3000)
        c.hear(1)
        with Stopped(s):
            c.send(b"get k\r\n" * 1000 + b"x" * 3000)
            sender = send_on(c.socket, b"x" * 10000)
        heard = c.heard + hear_slowly(c.socket)
        c.socket.close()
        sender.join()
        assert REPLY[:1] + heard == REPLY * 4000 + b"CLIENT_ERROR line too long\r\n", (
            len(heard), heard[-100:])
    wait_until(lambda: s.stats()["curr_connections"] == "1", "a connection lingers for ever")
    assert s.end()[0] == 0


@case
def who_sends_on_after_quit_is_forgotten(t):
    s = Server(t, "-m", "32", "-t", "1")
    ends = [s.connect() for _ in range(20)]
    for i, c in enumerate(ends):
        c.send(b"mn\r\nquit\r\n" + b"x" * i)
        assert c.closes() == b"MN\r\n"
    # None of them has closed.
    wait_until(lambda: s.stats()["curr_connections"] == "1", "a connection lingers for ever")
    for c in ends:
        c.socket.close()


@case
def what_has_come_in_time_is_served(t):
    """However late its server is: who has sent before the time was over is not idle."""
    s = Server(t, "-m", "16", "-t", "2", "--idle-timeout", "2s")

    def try_it():
        """Whether they themselves, on a busy host, were in time."""
        start = time.monotonic()
        ends = [s.connect() for _ in range(8)]
        silent = s.connect()
        for c in ends + [silent]:
            c.say(b"", b"")
        said_at = time.monotonic()
        with Stopped(s):
            time.sleep(1.3)  # until it is time for the server to look who is idle
            for c in ends:
                c.send(b"mn\r\n")
            if time.monotonic() - start > 1.9:
                return False
            time.sleep(max(0, said_at + 2.3 - time.monotonic()))
        for c in ends:
            assert c.hear(4) == b"MN\r\n"
        assert silent.closes() == b""
        return True

    assert any(try_it() for _ in range(20))


@case
def who_waits_for_others_is_not_idle(t):
    """A thread has only so many requests under way on a slow fabric; others wait longer than that."""
    t.node("--size", "32M")
    s = Server(t, "--pool", t.pool + "?latency=200ms", "-t", "1", "--idle-timeout", "1s")
    pipelines = [s.connect() for _ in range(40)]
    for i, c in enumerate(pipelines):
        c.send(b"".join(b"get k%d.%d\r\n" % (i, k) for k in range(64)))
    for c in pipelines:
        for _ in range(64):
            assert c.until(b"\r\n") == b"END\r\n"


if __name__ == "__main__":
    sys.exit(main())
