"""Hosts of a made-up network, for tests: a memory node and compute nodes, each with a network of its own.

A host is a network namespace. The memory node's has an address of its own, NODE, and a link (a veth
pair) to each compute node's; what is done to a link is done to packets that pass it. That takes root
and iproute2, and nothing else: packets are dropped by a BPF program of four instructions (where
netem is missing, as in small kernels), links are slowed by a token bucket.

	with Network(t, 2) as net:
		node = net.run_node(t, ...)
		net.lose(0, 0.02)
"""
import os
import shutil
import subprocess

from harness import FORGE, PATIENCE_S, Skip
from wire import Wire

NODE = "10.77.255.1"
PORT = 7000
URL = f"tcp://{NODE}:{PORT}"


def ip(*arguments, check=True, tool="ip"):
    done = subprocess.run([tool, *arguments], capture_output=True, timeout=PATIENCE_S, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{tool} {' '.join(arguments)}: {done.stderr.decode()}")
    return done


class Network:
    """The memory node's host, and `count` of compute nodes."""

    def __init__(self, t, count):
        self.node = f"{t.name[1:]}-mn"[-60:]
        self.hosts = [f"{t.name[1:]}-cn{i}"[-60:] for i in range(count)]

    def __enter__(self):
        if os.geteuid() != 0:
            raise Skip("hosts of their own are network namespaces, which only root can make")
        for tool in ("ip", "tc"):
            if not shutil.which(tool):
                raise Skip(f"{tool} is not there to make hosts with: install iproute2")
        made = ip("netns", "add", self.node, check=False)
        if made.returncode:
            raise Skip(f"this system makes no network namespaces: {made.stderr.decode().strip()}")
        try:
            self.set_up()
        except Exception:
            self.__exit__()
            raise
        return self

    def set_up(self):
        ip("-n", self.node, "link", "set", "lo", "up")
        ip("-n", self.node, "addr", "add", f"{NODE}/32", "dev", "lo")
        for i, host in enumerate(self.hosts):
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
            ip("link", "add", f"cn{i}", "netns", self.node, "type", "veth", "peer", "name", "mn",
               "netns", host)
            ip("-n", self.node, "addr", "add", f"10.77.{i}.1/24", "dev", f"cn{i}")
            ip("-n", host, "addr", "add", f"10.77.{i}.2/24", "dev", "mn")
            ip("-n", self.node, "link", "set", f"cn{i}", "up")
            ip("-n", host, "link", "set", "mn", "up")
            ip("-n", host, "route", "add", f"{NODE}/32", "via", f"10.77.{i}.1")
            for name, device in ((self.node, f"cn{i}"), (host, "mn")):
                ip("-n", name, "qdisc", "add", "dev", device, "clsact", tool="tc")

    def __exit__(self, *_):
        for name in (self.node, *self.hosts):
            ip("netns", "del", name, check=False)

    def ends(self, i):
        """Both ends of compute node i's link: (namespace, device)."""
        return (self.node, f"cn{i}"), (self.hosts[i], "mn")

    def on(self, host):
        """What goes before a command to run it there; host: "node" or a number."""
        return ["ip", "netns", "exec", self.node if host == "node" else self.hosts[host]]

    # What is done to the link of compute node i, at both its ends.

    def lose(self, i, share):
        """Lose that share of the packets each way; 1: all of them, silently."""
        limit = min(int(share * 2**32), 2**32 - 1)
        # load a random word; if it is below the limit, drop the packet, else go on
        program = f"4,32 0 0 4294963256,53 1 0 {limit},6 0 0 2,6 0 0 4294967295"
        for name, device in self.ends(i):
            ip("-n", name, "filter", "add", "dev", device, "egress", "bpf", "bytecode", program,
               "da", tool="tc")

    def mend(self, i):
        """Lose nothing any more."""
        for name, device in self.ends(i):
            ip("-n", name, "filter", "del", "dev", device, "egress", tool="tc")

    def slow(self, i, rate):
        """As slow a link, each way: "2mbit"."""
        for name, device in self.ends(i):
            ip("-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst",
               "16kb", "latency", "200ms", tool="tc")

    def cut(self, i):
        """Neither end hears of the other again, and the client's own end knows: a cable is pulled."""
        ip("-n", self.node, "link", "set", f"cn{i}", "down")

    def join(self, i):
        ip("-n", self.node, "link", "set", f"cn{i}", "up")

    def spoil(self, i):
        """Compute node i goes by another link from now on, which may do more to packets (wire.py)."""
        if not os.path.exists("/dev/net/tun"):
            raise Skip("there is no /dev/net/tun to make a link of that reorders packets: modprobe tun")
        wire = Wire((self.node, f"10.78.{i}.1"), (self.hosts[i], f"10.78.{i}.2"))
        ip("-n", self.hosts[i], "route", "replace", f"{NODE}/32", "via", f"10.78.{i}.1")
        return wire

    def counters(self, host):
        """What TCP of a host has counted."""
        name = self.node if host == "node" else self.hosts[host]
        found = {}
        for path in ("/proc/net/snmp", "/proc/net/netstat"):
            lines = ip("netns", "exec", name, "cat", path).stdout.decode().splitlines()
            for names, values in zip(lines[::2], lines[1::2]):
                if names.startswith("Tcp"):
                    found.update(zip(names.split()[1:], map(int, values.split()[1:])))
        return found

    # Programs on hosts.

    def run_node(self, t, *arguments):
        """`forge node` of t's pool, listening at NODE; ready."""
        argv = [*self.on("node"), FORGE, "node", "--pool", t.pool, "--listen", URL, *arguments]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
        t.processes.append(process)
        lines = []
        while not lines or not lines[-1].startswith("ready "):
            lines.append(process.stdout.readline().decode())
            if not lines[-1]:
                raise AssertionError(f"not ready: {process.communicate()}")
        return process

    def start(self, t, host, *argv, env=None):
        process = subprocess.Popen([*self.on(host), *argv], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**t.env, **(env or {})})
        t.processes.append(process)
        return process

    def forge(self, t, host, *arguments):
        """Run to the end, as t.forge() does."""
        from harness import Result
        process = self.start(t, host, FORGE, *arguments)
        out, err = process.communicate(timeout=PATIENCE_S)
        return Result([FORGE, *arguments], process.returncode, out, err)
