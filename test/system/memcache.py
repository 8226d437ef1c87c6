"""A server under test and a client that says bytes and hears bytes, for serve*.py.

With FORGE_TEST_LATENCY=TIME in the environment every server's fabric takes so long for a verb, with
"socket" a server that would make a pool of its own reaches one over a Unix socket: its requests wait
and overlap, and clients must not be able to tell.
"""
import itertools
import os
import re
import select
import signal
import socket
import subprocess
import time

from harness import FORGE, PATIENCE_S, Node

LATENCY = os.environ.get("FORGE_TEST_LATENCY")
numbers = itertools.count()


def on_slow_fabric(box, arguments):
    """The same server on a pool with latency: one of its own becomes one with a memory node."""
    arguments = list(arguments)
    if "-m" in arguments:
        at = arguments.index("-m")
        pool = f"{box.pool}-{next(numbers)}"
        wish = ["--size", arguments[at + 1] + "M"]
        if "-I" in arguments and arguments[arguments.index("-I") + 1].endswith("m"):
            wish += ["--value-max", arguments[arguments.index("-I") + 1]]
        box.shm_files.append("/dev/shm" + pool.removeprefix("shm:"))
        if LATENCY == "socket":
            place = "unix:" + box.path(f"node-{next(numbers)}")
            wish += ["--listen", place]
        Node(box, "--pool", pool, *wish)
        # On a busy host a node may not run for longer than the usual deadline.
        arguments[at:at + 2] = ["--pool", place + "?timeout=20s" if LATENCY == "socket" else pool]
    if "--pool" in arguments and LATENCY != "socket":
        arguments[arguments.index("--pool") + 1] += f"?latency={LATENCY}"
    return arguments


class Server:
    """`forge serve` that has said that it is ready, on a port of its own choosing."""

    def __init__(self, box, *arguments, port=True, before=None):
        if LATENCY:
            arguments = on_slow_fabric(box, arguments)
        argv = [FORGE, "serve", *arguments]
        if port:
            argv += ["--listen", "127.0.0.1:0"]
        if before:  # what a shell does that then becomes the server
            argv = ["sh", "-c", before + ' && exec "$0" "$@"'] + argv
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=box.env)
        box.processes.append(self.process)
        self.ready = self.process.stdout.readline().decode()
        if not self.ready.startswith("ready "):
            out, err = self.process.communicate(timeout=PATIENCE_S)
            raise AssertionError(f"not ready: {argv}: {self.ready!r} {out!r} {err!r}")
        found = re.search(r"127\.0\.0\.1:(\d+)", self.ready)
        self.port = int(found.group(1)) if found else None
        self.pool = re.search(r" on (\S+?)(?:\?(?:latency|timeout)=\w+)?: ", self.ready).group(1)
        box.shm_files.append("/dev/shm" + self.pool.removeprefix("shm:"))

    def connect(self):
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S))

    def say(self, data, expected):
        """One conversation on a connection of its own; exactly these bytes come back."""
        with self.connect() as c:
            return c.say(data, expected)

    def stats(self, group=""):
        with self.connect() as c:
            c.send(f"stats {group}\r\n".encode())
            lines = c.until(b"END\r\n").decode().split("\r\n")
        return dict(line.split(" ", 2)[1:] for line in lines if line.startswith("STAT "))

    def memory_kib(self):
        """What it holds; nothing where a sanitizer holds more than the server does."""
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii") as f:
            if re.search("lib[at]san", f.read()):
                return 0
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            fields = dict(line.split(":", 1) for line in f if ":" in line)
        return int(fields["RssAnon"].split()[0])

    def end(self, number=signal.SIGTERM):
        """Send a signal, wait; the exit status, and what was printed to standard error."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert out == b"", f"a server says only that it is ready, not {out!r}"
        return self.process.returncode, err.decode(errors="replace")


class Stopped:
    """What clients send meanwhile is there at once when the server goes on."""

    def __init__(self, server):
        self.process = server.process

    def __enter__(self):
        self.process.send_signal(signal.SIGSTOP)
        wait_until(self._is_stopped, "the server does not stop")

    def _is_stopped(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)


class Client:
    def __init__(self, connection):
        self.socket = connection
        self.heard = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def send_split(self, data, part):
        """In parts, each of which the server most likely reads by itself."""
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), part):
            self.socket.sendall(data[at:at + part])

    def _more(self):
        part = self.socket.recv(1 << 16)
        self.heard += part
        return part

    def until(self, end):
        """What comes, up to and with these bytes."""
        looked = 0
        while (at := self.heard.find(end, looked)) < 0:
            looked = max(0, len(self.heard) - len(end))
            assert self._more(), f"closed after {self.heard[-300:]!r}, not {end!r}"
        return self._take(at + len(end))

    def _take(self, n):
        reply = bytes(self.heard[:n])
        del self.heard[:n]
        return reply

    def hear(self, n):
        while len(self.heard) < n:
            assert self._more(), f"closed after {self.heard[-300:]!r}"
        return self._take(n)

    def say(self, data, expected):
        """Send, and hear exactly what is expected: a marker behind it proves that no more came."""
        self.send(data)
        self.send(b"mn\r\n")
        reply = self.until(b"MN\r\n")
        if reply.endswith(b"\r\nMN\r\n") or reply == b"MN\r\n":
            reply = reply[:-4]
        assert reply == expected, f"{data[:200]!r}: expected {expected!r}, heard {reply!r}"
        return reply

    def closes(self):
        """Whether the server has closed, and what it said before."""
        try:
            while self._more():
                pass
        except ConnectionResetError:
            pass
        return bytes(self.heard)


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def shared_file(root, name):
    """A file of ../shared, or None when it is not there."""
    base = os.environ.get("FORGE_SHARED") or os.path.join(root, "..", "shared")
    path = os.path.join(base, name)
    return path if os.path.exists(path) else None
