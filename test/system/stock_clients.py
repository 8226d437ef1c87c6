"""Clients from Debian against a server: stock_clients.py pymemcache|pylibmc PORT.

Exits 77 when the client is not installed for this Python.  Run by serve_protocol.py, which tries
Debian's own Python too.
"""
import sys


def pymemcache(port):
    from pymemcache.client.base import Client

    c = Client(("127.0.0.1", port))
    assert c.set("a", b"1") and c.get("a") == b"1" and c.get("nope") is None
    assert c.set_many({"b": b"2", "c": b"3"}) == []
    assert c.get_many(["a", "b", "c", "d"]) == {"a": b"1", "b": b"2", "c": b"3"}
    value, cas = c.gets("a")
    assert c.cas("a", b"5", cas, noreply=False) is True
    assert c.cas("a", b"6", cas, noreply=False) is False
    assert c.cas("nope", b"6", cas, noreply=False) is None and value == b"1"
    assert c.incr("a", 4) == 9 and c.decr("a", 10) == 0 and c.incr("nope", 1) is None
    assert c.touch("a", 10, noreply=False) and not c.add("a", b"x", noreply=False)
    assert c.append("a", b"y", noreply=False) and c.get("a") == b"0y"
    assert c.delete("a", noreply=False) and not c.delete("a", noreply=False)
    assert c.stats()[b"cmd_set"] > 0 and c.version() and c.flush_all(noreply=False)
    assert c.get("b") is None
    c.quit()


def pylibmc(port):
    import pylibmc as stock

    for binary in (False, True):
        c = stock.Client([f"127.0.0.1:{port}"], binary=binary, behaviors={"cas": True})
        assert c.set("k", {"a": 1}) and c.get("k") == {"a": 1}
        assert c.set_multi({"x": 1, "y": 2}) == []
        assert c.get_multi(["x", "y", "z"]) == {"x": 1, "y": 2}
        if not binary:
            value, cas = c.gets("k")
            assert c.cas("k", 7, cas) and not c.cas("k", 8, cas) and value == {"a": 1}
        assert c.incr("x", 2) == 3 and c.delete("x") and not c.delete("x")
        assert c.add("n", 1) and not c.add("n", 2) and c.replace("n", 3) and c.get("n") == 3
        assert c.get_stats() and c.flush_all() and c.get("y") is None


if __name__ == "__main__":
    try:
        {"pymemcache": pymemcache, "pylibmc": pylibmc}[sys.argv[1]](int(sys.argv[2]))
    except ImportError:
        sys.exit(77)
