"""Several servers on one pool, one of them killed again and again, under verified load.

	serve_soak.py FORGE SOURCE_ROOT BUILD_ROOT [SECONDS [IDLE]]

A value names its key and its number; whoever reads one checks it.  Each key's writer remembers
what was acknowledged: a read may miss, since this is a cache and servers die with values in their
open groups, but what it returns is the last acknowledged value or the one that was under way.
Beside that IDLE connections do nothing but have to be there at the end, and others send garbage,
half requests, and do not read their replies.  At the end the pool is checked.
"""
import random
import resource
import sys
import threading
import time

from harness import PATIENCE_S, Skip, case, main
from memcache import Server, wait_until

SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 6
IDLE = int(sys.argv[5]) if len(sys.argv) > 5 else 500
KEYS = 200


class Writer(threading.Thread):
    """Owns some keys: sets, gets, increments and deletes them, through whichever server lives."""

    def __init__(self, number, servers, stop):
        super().__init__()
        self.number, self.servers, self.stop = number, servers, stop
        self.rng = random.Random(number)
        self.known = {}  # key: values that a Get may return
        self.wrong, self.hits, self.done, self.cut = [], 0, 0, 0

    def run(self):
        while not self.stop.is_set():
            try:
                with self.rng.choice(self.servers).connect() as c:
                    for _ in range(200):
                        self.step(c)
                        if self.stop.is_set():
                            return
            except (OSError, AssertionError):
                self.cut += 1  # the server was killed; what was under way may have happened
                time.sleep(0.01)

    def step(self, c):
        key = b"w%d-%d" % (self.number, self.rng.randrange(KEYS))
        before = self.known.setdefault(key, {None})
        dice = self.rng.random()
        if dice < 0.5:
            value = b"%s:%d:" % (key, self.done) + b"v" * self.rng.randrange(400)
            self.known[key] = before | {value}
            c.send(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
            if c.until(b"\r\n") == b"STORED\r\n":
                self.known[key] = {value}
        elif dice < 0.55:
            self.known[key] = before | {None}
            c.send(b"delete %s\r\n" % key)
            c.until(b"\r\n")
            self.known[key] = {None}
        else:
            c.send(b"get %s\r\n" % key)
            reply = c.until(b"END\r\n")
            if reply != b"END\r\n":
                self.hits += 1
                value = reply.split(b"\r\n", 1)[1][:-7]
                if value not in before:
                    self.wrong.append((key, value[:40], [v and v[:40] for v in before]))
        self.done += 1


def misbehave(servers, stop, seed):
    rng = random.Random(seed)
    while not stop.is_set():
        try:
            with rng.choice(servers).connect() as c:
                c.socket.settimeout(0.2)
                what = rng.randrange(3)
                if what == 0:
                    c.send(rng.randbytes(rng.randrange(1, 3000)))
                elif what == 1:
                    c.send(b"set half 0 0 5000\r\n" + b"x" * rng.randrange(5000))
                else:
                    for _ in range(50):
                        c.send(b"get " + b" ".join(b"w0-%d" % i for i in range(KEYS)) + b"\r\n")
                time.sleep(rng.random() * 0.1)
        except (OSError, AssertionError):
            pass


def permit_files(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Skip(f"{wanted} open files are needed, {hard} are permitted")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


@case
def servers_come_and_go_under_load(t):
    permit_files(IDLE + 1000)
    t.node("--size", "48M", "--cn-max", "16")

    def server():
        return Server(t, "--pool", t.pool, "-t", "2", "-c", str(IDLE + 100))

    servers, stop = [server() for _ in range(3)], threading.Event()
    before = servers[0].memory_kib()
    idle = [servers[0].connect() for _ in range(IDLE)]
    for c in idle:  # each has been served once, and is at rest
        c.say(b"", b"")
    if before:
        wait_until(lambda: servers[0].memory_kib() - before < 1024 + 2 * IDLE,
                   f"{IDLE} idle connections hold {servers[0].memory_kib() - before} KiB")
        print(f"{IDLE} idle connections hold {servers[0].memory_kib() - before} KiB", flush=True)
    writers = [Writer(i, servers, stop) for i in range(4)]
    others = [threading.Thread(target=misbehave, args=(servers, stop, i)) for i in range(2)]
    for thread in writers + others:
        thread.start()
    kills, start, done, hits = 0, time.monotonic(), 0, 0
    # Longer, if a busy host or a sanitizer has not let enough be done by then.
    while time.monotonic() - start < SECONDS or kills < 3 or hits <= done / 10:
        assert time.monotonic() - start < SECONDS + PATIENCE_S, "the load was none"
        time.sleep(min(1.0, SECONDS / 5))
        victim = 1 + kills % 2  # the first one keeps the idle connections
        servers[victim].process.kill()
        servers[victim].process.communicate()
        servers[victim] = server()
        kills += 1
        done, hits = sum(w.done for w in writers), sum(w.hits for w in writers)
    stop.set()
    for thread in writers + others:
        thread.join()
    wrong = [w for writer in writers for w in writer.wrong]
    done, hits = sum(w.done for w in writers), sum(w.hits for w in writers)
    print(f"{done} operations, {hits} hits, {kills} servers killed, "
          f"{sum(w.cut for w in writers)} connections cut, {IDLE} idle", flush=True)
    assert not wrong, wrong[:5]
    for c in idle:
        c.say(b"", b"")
        c.socket.close()
    # Who is killed is recovered by whoever notices.
    wait_until(lambda: servers[0].stats()["pool_nodes"] == "3", "the dead are still registered")
    for s in servers:
        code, err = s.end()
        lines = [line for line in err.splitlines() if "ended without leaving" not in line]
        assert code == 0 and not lines, (code, err[-2000:])
    t.on_pool("check").expect(0)


if __name__ == "__main__":
    sys.exit(main())
