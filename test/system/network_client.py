"""A compute node of test/system/network.py: works until it is ended, and verifies all it reads.

	network_client.py URL NAME

It alone writes the keys of its NAME. A value says which key and version it is, over its whole
length; a hit must not be older than the last version that was acknowledged or seen, nor newer than
any that was tried. A line of JSON every 50 ms: operations, hits, errors, the longest operation so
far, and what was wrong, if anything was. SIGTERM ends it between two operations.
"""
import json
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["FORGE_SOURCE_ROOT"], "python"))
import forge  # noqa: E402

KEYS = 200


class Keys:
    """What is known of each key: the lowest version it may have, and the highest that was tried."""

    def __init__(self, name):
        self.name, self.floor, self.tried = name, [0] * KEYS, [0] * KEYS

    def value(self, k, version):
        piece = f"{self.name}/{k}/{version};".encode()
        return (piece * 100)[: 20 + (k * 37 + version * 11) % 900]

    def check(self, k, found):
        """None, or what is wrong with it."""
        for version in range(self.tried[k], self.floor[k] - 1, -1):
            if found == self.value(k, version):
                self.floor[k] = version
                return None
        return f"key {k} is {found[:60]!r}, versions {self.floor[k]} to {self.tried[k]} were to be"


def reach(url, ended):
    """A link that has just come up may take longer than a deadline to find its neighbours."""
    while not ended:
        try:
            return forge.Cache(url, threads=1)
        except forge.Error as error:
            if error.name != "FORGE_E_NODE":
                raise
            time.sleep(0.05)
    sys.exit("ended before it reached its node")


def main():
    url, name = sys.argv[1:]
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    state = {"ops": 0, "hits": 0, "errors": 0, "max_ms": 0.0, "wrong": None, "last_error": None}
    draw = random.Random(name)
    keys = Keys(name)
    told = 0.0
    with reach(url, ended) as cache:
        while not ended:
            k = draw.randrange(KEYS)
            start = time.monotonic()
            try:
                if draw.random() < 0.4:
                    keys.tried[k] += 1
                    cache.set(f"{name}-{k}", keys.value(k, keys.tried[k]))
                    keys.floor[k] = keys.tried[k]
                else:
                    found = cache.get(f"{name}-{k}")
                    if found is not None:
                        state["hits"] += 1
                        state["wrong"] = state["wrong"] or keys.check(k, bytes(found))
                state["ops"] += 1
            except forge.Error as error:
                state["errors"] += 1
                state["last_error"] = str(error)
                time.sleep(0.002)
            now = time.monotonic()
            state["max_ms"] = max(state["max_ms"], 1000 * (now - start))
            if now - told > 0.05:
                told = now
                print(json.dumps(state), flush=True)
    print(json.dumps(state), flush=True)


main()
