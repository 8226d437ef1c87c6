"""A link between two hosts that delays, reorders, duplicates and damages packets, each way.

Packets go through a TUN device at either end and this process between, so it takes no netem. What is
damaged has a byte changed behind its IP header, and is dropped by the receiver's checksum.

	wire = Wire((namespace, "10.78.0.1"), (namespace, "10.78.0.2"))
	wire.reordered = 0.1	shares of packets, and likewise duplicated, damaged
	wire.count		how many there were of each
	wire.close()
"""
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

from harness import PATIENCE_S

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
DELAY_S = 0.0002  # of every packet
LATE_S = 0.004  # of one that others overtake, at most


def tun(name):
    """A TUN device of that name here: its descriptor."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


class Wire:
    def __init__(self, *ends, seed=1):
        self.draw = random.Random(seed)
        self.reordered = self.duplicated = self.damaged = 0.0
        self.count = {"passed": 0, "reordered": 0, "duplicated": 0, "damaged": 0}
        self.due = []  # (when, number, descriptor, packet), a heap
        self.number = 0
        self.fds = []
        self.stopping = False
        for i, (namespace, address) in enumerate(ends):
            name = f"ft{os.getpid()}.{i}"
            self.fds.append(tun(name))
            for words in (("link", "set", name, "netns", namespace),
                          ("-n", namespace, "addr", "add", f"{address}/24", "dev", name),
                          ("-n", namespace, "link", "set", name, "up")):
                subprocess.run(["ip", *words], check=True, capture_output=True, timeout=PATIENCE_S)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def send_later(self, by_s, fd, packet):
        self.number += 1
        heapq.heappush(self.due, (time.monotonic() + by_s, self.number, fd, packet))

    def happens(self, share, what):
        if self.draw.random() >= share:
            return False
        self.count[what] += 1
        return True

    def take(self, packet, sink):
        self.count["passed"] += 1
        if packet[0] >> 4 == 4 and self.happens(self.damaged, "damaged"):
            packet = bytearray(packet)
            at = self.draw.randrange(4 * (packet[0] & 15), len(packet))
            packet[at] ^= self.draw.randrange(1, 256)
        late = self.happens(self.reordered, "reordered")
        self.send_later(DELAY_S + (self.draw.random() * LATE_S if late else 0), sink, packet)
        if self.happens(self.duplicated, "duplicated"):
            self.send_later(DELAY_S + self.draw.random() * LATE_S, sink, packet)

    def run(self):
        other = {self.fds[0]: self.fds[1], self.fds[1]: self.fds[0]}
        while not self.stopping:
            wait_s = max(0, self.due[0][0] - time.monotonic()) if self.due else 0.05
            for fd in select.select(self.fds, (), (), wait_s)[0]:
                self.take(os.read(fd, 65536), other[fd])
            while self.due and self.due[0][0] <= time.monotonic():
                _, _, fd, packet = heapq.heappop(self.due)
                try:
                    os.write(fd, packet)
                except OSError:
                    pass  # its queue is full, or its host goes down: a packet is lost

    def close(self):
        self.stopping = True
        self.thread.join()
        for fd in self.fds:
            os.close(fd)
