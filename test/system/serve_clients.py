"""Clients of a server that vanish, are slow, or go on sending, at the moment that suits least.

What is held: nobody but that client notices, what has been answered arrives whole, and who is
neither idle nor too slow keeps the connection.
"""
import re
import socket
import struct
import sys

from harness import case, main
from memcache import Server, Stopped


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


if __name__ == "__main__":
    sys.exit(main())
