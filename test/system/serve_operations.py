"""Running a server: its pool, limits, signals, statistics, bad options, and garbage."""
import glob
import os
import random
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from harness import FORGE, PATIENCE_S, Skip, case, main
from memcache import LATENCY, Client, Server, wait_until


@case
def its_own_pool_goes_with_it(t):
    if LATENCY:
        raise Skip("a pool of its own has no latency")
    s = Server(t, "-m", "16", "-t", "2")
    name = "/dev/shm" + s.pool.removeprefix("shm:")
    assert os.path.exists(name)
    s.say(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n")
    # Others may attach meanwhile.
    t.forge("get", "--pool", s.pool, "a").expect(0, b"x")
    t.forge("check", "--pool", s.pool).expect(0, err=())
    other = Server(t, "--pool", s.pool, "-t", "1")
    other.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
    assert other.end()[0] == 0
    code, err = s.end()
    assert code == 0 and err == "", (code, err)
    assert not os.path.exists(name)


@case
def a_killed_server_loses_nobody_elses_values(t):
    t.node("--size", "32M")
    one, two = (Server(t, "--pool", t.pool, "-t", "2") for _ in range(2))
    stop = threading.Event()

    def load():
        try:
            with one.connect() as c:
                i = 0
                while not stop.is_set():
                    c.send(b"set k%d 0 0 5\r\nvalue\r\nincr n 1\r\nget k%d\r\n" % (i % 5000, i % 5000))
                    c.until(b"END\r\n")
                    i += 1
        except (AssertionError, OSError):
            pass  # it was killed

    two.say(b"set mine 0 0 1\r\nx\r\nset n 0 0 1\r\n0\r\n", b"STORED\r\nSTORED\r\n")
    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    one.process.kill()
    one.process.communicate()
    stop.set()
    for thread in threads:
        thread.join()
    two.say(b"get mine\r\n", b"VALUE mine 0 1\r\nx\r\nEND\r\n")
    wait_until(lambda: two.stats()["pool_nodes"] == "1", "the dead server is still registered")
    assert two.end()[0] == 0
    t.on_pool("check").expect(0)


@case
def a_server_says_that_its_node_has_ended(t):
    node = t.node("--size", "16M")
    s = Server(t, "--pool", t.pool, "-t", "1")
    s.say(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n")
    node.process.kill()
    node.process.communicate()
    said = s.process.stderr.readline().decode()
    assert "its memory node has ended" in said, said
    s.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
    time.sleep(1.5)  # in which it would say so once more
    code, err = s.end()
    assert code == 0 and err == "", (code, err)


@case
def a_node_that_stands_still_has_not_ended(t):
    if LATENCY not in (None, "", "socket"):
        raise Skip("a latency is for pools that are mapped")
    place = "unix:" + t.path("still")
    node = t.node("--size", "16M", "--listen", place)
    s = Server(t, "--pool", place, "-t", "1")
    node.process.send_signal(signal.SIGSTOP)
    said = ""
    while "does not answer: unix:" not in said and "has ended" not in said:
        line = s.process.stderr.readline().decode()
        assert line, said
        said += line
    node.process.send_signal(signal.SIGCONT)
    code, err = s.end()
    assert code == 0 and "has ended" not in said + err, (code, said, err)


@case
def a_server_goes_over_to_the_pool_that_has_the_name(t):
    node = t.node("--size", "16M")
    s = Server(t, "--pool", t.pool, "-t", "1")
    s.say(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n")
    assert node.end() == 0
    wait_until(lambda: s.stats()["memory_nodes_up"] == "0", "the server keeps a pool that is gone")
    s.say(b"get a\r\nmg a v\r\nset a 0 0 1\r\ny\r\n", b"END\r\n" + b"SERVER_ERROR the memory node is gone\r\n" * 2)
    t.node("--size", "16M")
    wait_until(lambda: s.stats()["memory_nodes_up"] == "1", "the server does not come back")
    s.say(b"get a\r\nset b 0 0 1\r\nz\r\n", b"END\r\nSTORED\r\n")
    t.on_pool("get", "b").expect(0, b"z")
    code, err = s.end()
    assert code == 0 and err.count("the memory node is lost") == 1, (code, err)
    assert "with another memory" in err, err


@case
def sigterm_answers_what_has_come(t):
    s = Server(t, "-m", "32", "-t", "2")
    idle, half, busy = s.connect(), s.connect(), s.connect()
    busy.send(b"set k 0 0 1000\r\n" + b"v" * 1000 + b"\r\n")
    busy.until(b"STORED\r\n")
    half.send(b"set h 0 0 10\r\n12345")
    # More replies than fit the sockets, all of whose requests have arrived.
    busy.send(b"get" + b" k" * 8000 + b"\r\n")
    busy.hear(1000)
    s.process.send_signal(signal.SIGTERM)
    assert idle.closes() == b""
    half.send(b"67890\r\n")
    assert half.closes() == b"STORED\r\n"
    reply = busy.closes()
    assert reply.endswith(b"END\r\n") and len(reply) + 1000 == 8000 * (len("VALUE k 0 1000") + 1004) + 5
    s.process.communicate(timeout=PATIENCE_S)
    assert s.process.returncode == 0
    try:
        s.connect()
        assert False, "it listens on"
    except ConnectionRefusedError:
        pass


@case
def who_does_not_read_delays_the_end_by_seconds(t):
    s = Server(t, "-m", "32", "-t", "1")
    c = s.connect()
    c.say(b"set k 0 0 10000\r\n" + b"v" * 10000 + b"\r\n", b"STORED\r\n")
    c.send(b"get" + b" k" * 5000 + b"\r\n")
    time.sleep(0.2)
    start = time.monotonic()
    assert s.end()[0] == 0
    assert 3 < time.monotonic() - start < 60


@case
def connections_have_a_limit(t):
    s = Server(t, "-m", "16", "-c", "3", "-t", "2")
    first = [s.connect() for _ in range(3)]
    for c in first:
        c.say(b"", b"")
    extra = s.connect()
    assert extra.closes() == b"ERROR Too many open connections\r\n"
    first[0].send(b"quit\r\n")
    assert first[0].closes() == b""

    def fits():
        with s.connect() as c:
            try:
                c.send(b"mn\r\n")
                return c.until(b"\r\n") == b"MN\r\n"
            except (AssertionError, OSError):
                return False

    wait_until(fits, "the place that became free is not given away")
    first[1].send(b"stats\r\n")
    stats = first[1].until(b"END\r\n").decode()
    assert int(re.search(r"rejected_connections (\d+)", stats).group(1)) >= 1


@case
def idle_connections_end(t):
    s = Server(t, "-m", "16", "--idle-timeout", "1s")

    def try_it():
        """Whether the test itself, on a busy host, was never idle for as long."""
        busy, idle = s.connect(), s.connect()
        start = said_at = time.monotonic()
        while time.monotonic() - start < 2.5:
            before, said_at = said_at, time.monotonic()
            if said_at - before > 0.8:
                return False
            busy.say(b"", b"")
            time.sleep(0.1)
        assert idle.closes() == b""
        return True

    assert any(try_it() for _ in range(20))


@case
def who_takes_a_reply_slowly_is_not_idle(t):
    """The kernel has room for megabytes, and says nothing for seconds while it is being taken."""
    s = Server(t, "-m", "32", "--idle-timeout", "2s")
    s.say(b"set big 0 0 900000\r\n" + bytes(900000) + b"\r\n", b"STORED\r\n")
    wanted = 20 * (len(b"VALUE big 0 900000\r\n") + 900000 + len(b"\r\nEND\r\n"))

    def try_it():
        """Whether the test itself, on a busy host, never took its time for as long."""
        slow, asleep = s.connect(), s.connect()
        for one in slow, asleep:
            one.send(20 * b"get big\r\n")
        start = took_at = time.monotonic()
        got = 0
        while got < wanted:
            before, took_at = took_at, time.monotonic()
            if took_at - before > 1.5:
                return False
            is_early = took_at - start < 8
            more = len(slow.socket.recv(20000 if is_early else 1 << 20))
            assert more, f"closed after {got} bytes"
            got += more
            if is_early:
                time.sleep(0.05)
        # The other one took nothing all the time.
        assert len(asleep.closes()) < wanted
        return True

    assert any(try_it() for _ in range(10))


@case
def a_delayed_flush_comes_and_can_be_replaced(t):
    s = Server(t, "-m", "16", "-t", "2")
    s.say(b"set a 0 0 1\r\nx\r\nflush_all 1\r\nget a\r\n",
          b"STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
    time.sleep(1.3)
    s.say(b"get a\r\n", b"END\r\n")
    s.say(b"set a 0 0 1\r\nx\r\nflush_all 1\r\nflush_all 1000\r\n", b"STORED\r\nOK\r\nOK\r\n")
    time.sleep(1.3)
    s.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
    refusing = Server(t, "-m", "16", "-F")
    refusing.say(b"flush_all\r\n", b"CLIENT_ERROR flush_all not allowed\r\n")


@case
def statistics_are_numbers(t):
    s = Server(t, "-m", "16", "-t", "2")
    s.say(b"set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\nincr b 1\r\ndelete a\r\ndelete a\r\n"
          b"cas a 0 0 1 5\r\nx\r\ntouch a 1\r\n",
          b"STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n2\r\nNOT_FOUND\r\nDELETED\r\nNOT_FOUND\r\n"
          b"NOT_FOUND\r\nNOT_FOUND\r\n")
    stats = {}

    def alone():
        """The connection before may still be on its way out."""
        stats.update(s.stats())
        return stats["curr_connections"] == "1"

    wait_until(alone, "a connection does not end")
    for name, value in stats.items():
        if name not in ("version", "forge_version", "libevent"):
            float(value)
    expected = {"cmd_get": 2, "get_hits": 1, "get_misses": 1, "cmd_set": 2, "incr_hits": 1,
                "incr_misses": 1, "delete_hits": 1, "delete_misses": 1, "cas_misses": 1,
                "touch_misses": 1, "cmd_touch": 1, "curr_connections": 1, "threads": 2}
    assert {k: int(stats[k]) for k in expected} == expected, stats
    assert 1 <= int(stats["threads_serving"]) <= 2, stats
    # What the usual exporters for memcached ask for.
    for name in ("uptime time rusage_user rusage_system bytes_read bytes_written limit_maxbytes bytes "
                 "curr_items total_items evictions reclaimed total_connections accepting_conns "
                 "listen_disabled_num conn_yields decr_hits cas_badval pid pointer_size").split():
        assert name in stats, name
    assert s.stats("settings")["maxconns"] == "1024"
    assert "1:chunk_size" in s.stats("slabs") and s.stats("conns")
    s.say(b"stats bogus\r\n", b"ERROR\r\n")
    with s.connect() as c:
        c.send(struct.pack(">BBHBBHIIQ", 0x80, 0x10, 0, 0, 0, 0, 0, 0, 0))
        names = 0
        while True:
            head = c.hear(24)
            key, body = struct.unpack(">H", head[2:4])[0], struct.unpack(">I", head[8:12])[0]
            c.hear(body)
            if key == 0:
                break
            names += 1
        assert names == len(stats)


@case
def items_are_counted_and_what_left(t):
    """evicted + expired + deleted + replaced + flushed + ... = stored - present (X01)."""
    s = Server(t, "-m", "8", "-t", "1")
    with s.connect() as c:
        for start in range(0, 60000, 500):
            c.send(b"".join(b"set k%d 0 %d 200 noreply\r\n%s\r\n" % (i, i % 3 == 0, b"v" * 200)
                            for i in range(start, start + 500)))
            c.send(b"delete k%d noreply\r\nset k%d 0 0 1 noreply\r\nx\r\n" % (start, start + 1))
            c.say(b"", b"")
    assert s.end()[0] == 0
    s = Server(t, "-m", "8", "-t", "1")
    s.say(b"set a 0 0 1\r\nx\r\nset a 0 0 1\r\ny\r\nset b 0 0 1\r\nx\r\ndelete b\r\n",
          b"STORED\r\nSTORED\r\nSTORED\r\nDELETED\r\n")

    def told():
        now = s.stats()
        left = ("replaced deleted expired flushed evicted superseded invalid lost").split()
        gone = sum(int(now["pool_" + name]) for name in left)
        return int(now["pool_stored"]) - gone == int(now["curr_items"]) == 1 and \
            now["pool_deleted"] == now["pool_replaced"] == "1"

    wait_until(told, "what was stored and has left does not add up")


@case
def who_is_not_known_does_nothing(t):
    path = t.path("users")
    with open(path, "w", encoding="ascii") as f:
        f.write("alice:open sesame\nbob:b\n")
    os.chmod(path, 0o600)
    s = Server(t, "-m", "16", "-Y", path)
    no, value = b"CLIENT_ERROR unauthenticated\r\n", b"v" * 5000
    with s.connect() as c:
        c.send(b"get a b c\r\n")
        assert c.until(b"\r\n") == no
        for line in (b"delete a", b"mg a v", b"mn", b"flush_all noreply", b"version", b"stats",
                     b"add x 0 0 5\r\nbob b", b"ms x 5\r\nbob b", b"set x 0 0 5000\r\n" + value):
            c.send(line + b"\r\n")
            assert c.until(b"\r\n") == no, line
        for proof in (b"bob", b"bob x", b"alice b", b"bob b ", b"", b" ", b"alice open", b"bob  b"):
            c.send(b"set x 0 0 %d\r\n%s\r\n" % (len(proof), proof))
            assert c.until(b"\r\n") == b"CLIENT_ERROR authentication failure\r\n", proof
        c.send(b"set x 0 0 17\r\nalice open sesame\r\nset big 0 0 5000\r\n" + value + b"\r\n")
        assert c.until(b"\r\n") == c.until(b"\r\n") == b"STORED\r\n"
        c.say(b"get big x\r\n", b"VALUE big 0 5000\r\n" + value + b"\r\nEND\r\n")
        c.send(b"stats\r\n")
        stats = c.until(b"END\r\n").decode()
        assert re.search(r"auth_cmds 9\r\nSTAT auth_errors 8\r", stats), stats

    def binary(c, opcode, key=b"", value=b""):
        c.send(struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), 0, 0, 0, len(key) + len(value), 0, 0) +
               key + value)
        head = c.hear(24)
        return struct.unpack(">H", head[6:8])[0], c.hear(struct.unpack(">I", head[8:12])[0])

    with s.connect() as c:
        assert binary(c, 0x00, b"big")[0] == 0x20
        assert binary(c, 0x20) == (0, b"PLAIN")
        assert binary(c, 0x21, b"PLAIN", b"\0bob\0c")[0] == 0x20
        assert binary(c, 0x21, b"CRAM-MD5", b"\0bob\0b")[0] == 0x20
        assert binary(c, 0x00, b"big")[0] == 0x20
        assert binary(c, 0x21, b"PLAIN", b"\0bob\0b")[0] == 0
        assert binary(c, 0x00, b"big") == (0, b"\0\0\0\0" + value)
    refused = lambda text, err: (open(path, "w", encoding="ascii").write(text),
                                 t.forge("serve", "-m", "16", "-Y", path).expect(2, err=err))
    refused("", "nobody could log in")
    refused("nonsense\n", "line 1")
    t.forge("serve", "-m", "16", "-Y", t.path("none")).expect(2, err=t.path("none"))


def certificates(t):
    """An authority, a server and a client of it, and a client of another one."""
    if not shutil.which("openssl"):
        raise Skip("openssl is not there to make certificates: install openssl")

    def run(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=PATIENCE_S)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout")
    for ca in ("ca", "other"):
        run("req", "-x509", *curve, t.path(ca + ".key"), "-out", t.path(ca + ".pem"), "-subj",
            "/CN=" + ca, "-days", "2")
    for name, ca in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
        run("req", "-x509", *curve, t.path(name + ".key"), "-out", t.path(name + ".pem"), "-subj",
            "/CN=localhost", "-days", "2", "-addext", "subjectAltName=DNS:localhost", "-CA",
            t.path(ca + ".pem"), "-CAkey", t.path(ca + ".key"), "-addext", "basicConstraints=CA:FALSE")


@case
def connections_can_be_encrypted(t):
    certificates(t)
    files = ["--tls-cert", t.path("server.pem"), "--tls-key", t.path("server.key")]
    s = Server(t, "-m", "32", "-t", "2", "-Z", *files, "-s", t.path("socket"))

    def encrypted(server, name=None, version=None):
        context = ssl.create_default_context(cafile=t.path("ca.pem"))
        if name:
            context.load_cert_chain(t.path(name + ".pem"), t.path(name + ".key"))
        if version:
            context.maximum_version = version
        plain = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        return Client(context.wrap_socket(plain, server_hostname="localhost"))

    value = bytes(range(256)) * 40
    for version in (None, ssl.TLSVersion.TLSv1_2):
        with encrypted(s, version=version) as c:
            c.say(b"set k 0 0 %d\r\n%s\r\n" % (len(value), value), b"STORED\r\n")
            # Replies in many records, 20 MB, which nobody reads at first; then many requests.
            c.send((b"get" + b" k" * 500 + b"\r\n") * 4)
            for _ in range(4):
                assert c.until(b"END\r\n").count(value) == 500
            c.send(b"".join(b"set k%d 0 0 %d\r\n%s\r\n" % (i, len(value), value)
                            for i in range(300)))
            assert c.hear(300 * 8) == b"STORED\r\n" * 300
            c.send_split(b"get k1\r\n", 1)
            assert c.until(b"END\r\n") == b"VALUE k1 0 %d\r\n%s\r\nEND\r\n" % (len(value), value)
    # Who does not speak TLS is not let in, and harms nobody.
    with s.connect() as c:
        c.send(b"get k\r\n")
        assert b"VALUE" not in c.closes()
    # Unix sockets stay as they are.
    with socket.socket(socket.AF_UNIX) as u:
        u.connect(t.path("socket"))
        u.sendall(b"get nope\r\n")
        assert u.recv(100) == b"END\r\n"
    # A client that goes away while it is written to.
    c = encrypted(s)
    c.send(b"get" + b" k" * 3000 + b"\r\n")
    c.hear(10)
    c.socket.close()
    # Certificates of clients.
    strict = Server(t, "-m", "16", "-t", "1", "-Z", *files, "--tls-ca", t.path("ca.pem"))
    with encrypted(strict, "client") as c:
        c.say(b"get a\r\n", b"END\r\n")
    for name in (None, "stranger"):
        try:
            with encrypted(strict, name) as c:
                c.send(b"get a\r\n")
                assert not c.closes()
        except (ssl.SSLError, OSError):
            pass
    assert s.end()[0] == strict.end()[0] == 0
    t.forge("serve", "-m", "16", "-Z").expect(2, err="--tls-cert")
    t.forge("serve", "-m", "16", *files).expect(2, err="--tls")
    t.forge("serve", "-m", "16", "-Z", "--tls-cert", t.path("server.pem"), "--tls-key",
            t.path("client.key")).expect(2, err="client.key")
    t.forge("serve", "-m", "16", "-Z", "--tls-cert", t.path("none"), "--tls-key",
            t.path("client.key")).expect(2, err="none")


@case
def metrics_for_prometheus(t):
    s = Server(t, "-m", "16", "-t", "2", "--metrics", "127.0.0.1:0")
    url = re.search(r"metrics (\S+)", s.ready).group(1)
    s.say(b"set a 0 0 1\r\nx\r\nget a\r\nbogus\r\n",
          b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nERROR\r\n")

    def read():
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as page:
            assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = page.read().decode()
        series, kinds = {}, {}
        for line in text.splitlines():
            if line.startswith("# TYPE"):
                kinds[line.split()[2]] = line.split()[3]
            elif not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                assert name not in series, name
                series[name] = float(value)
        for name in series:
            base = re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", name)
            assert base in kinds or re.sub(r"\{.*", "", name) in kinds, name
        return series

    series = read()
    assert series["forge_serve_get_hits_total"] == 1 and series["forge_serve_protocol_errors_total"] == 1
    # What has been answered is in, of all threads.  Gets of one key in a pipeline may share a lookup.
    names = [b"a%d" % i for i in range(50)]
    s.say(b"".join(b"set %s 0 0 1\r\nx\r\n" % n for n in names), b"STORED\r\n" * 50)
    for number in range(1, 6):
        for _ in range(4):
            s.say(b"".join(b"get %s\r\n" % n for n in names),
                  b"".join(b"VALUE %s 0 1\r\nx\r\nEND\r\n" % n for n in names))
        series = read()
        assert series["forge_cache_gets_total"] == 1 + 200 * number, series
        assert series['forge_verbs_total{purpose="index",verb="READ"}'] >= 1 + 200 * number, series
        assert series["forge_serve_request_seconds_count"] >= 200 * number, series
    series = read()
    buckets = [v for k, v in series.items() if k.startswith("forge_serve_request_seconds_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == series["forge_serve_request_seconds_count"]
    assert series['forge_verbs_total{purpose="data",verb="READ"}'] >= 1
    assert len(series) < 200, f"{len(series)} series"
    assert series["forge_pool_flush_lag_groups"] == 0 < series["forge_pool_window_margin_groups"]
    # Neither connections nor keys nor threads make more.
    more = [s.connect() for _ in range(50)]
    for i, c in enumerate(more):
        c.say(b"set key%d 0 0 1\r\nx\r\n" % i, b"STORED\r\n")
    assert read().keys() == series.keys()
    try:
        urllib.request.urlopen(url.replace("metrics", "other"), timeout=PATIENCE_S)
        assert False, "another page is there"
    except urllib.error.HTTPError as error:
        assert error.code == 404


@case
def top_shows_verbs_of_servers(t):
    s = Server(t, "-m", "16", "-t", "1", "--metrics", "127.0.0.1:0")
    where = re.search(r"metrics http://(\S+)/metrics", s.ready).group(1)
    pool = ["top", "--pool", s.pool, "--metrics", where]
    with s.connect() as c:
        process = subprocess.Popen([FORGE, *pool, "--interval", "2500ms", "--once"], env=t.env,
                                   stdout=subprocess.PIPE)
        t.processes.append(process)
        gets = 0
        while process.poll() is None:
            c.say(b"get a b\r\n", b"END\r\n")
            gets += 2
    page = process.stdout.read().decode()
    rows = {m[1]: m[2].split() for m in re.finditer(r"^(\w+) +([\d,. -]+)$", page, re.M)}
    assert process.returncode == 0 and gets > 2, page
    # A Get of what is not there READs the index once.
    index = [float(n.replace(",", "")) for n in rows["index"]]
    assert index[0] > 0 and index[1:4] == [0, 0, 0] and index[0] == index[4], page
    assert 0.95 <= index[5] <= 1.05 and rows["data"][:4] == ["0"] * 4, page
    assert set(rows) >= {"index", "data", "hotness", "eviction", "space", "control", "all"}, page
    t.forge("top", "--pool", s.pool, "--metrics", "nowhere").expect(2, b"", "no address of a server")
    t.forge("top", "--pool", s.pool, "--metrics", f"127.0.0.1:{s.port}").expect(
        2, b"", "what answers there is no forge serve")
    s.end()


@case
def garbage_hurts_nobody(t):
    s = Server(t, "-m", "16", "-t", "2")
    rng = random.Random(7)
    words = [b"get", b"set", b"mg", b"ms", b"a", b"0", b"1", b"\r\n", b" ", b"noreply", b"cas", b"T30",
             b"incr", b"\x80\x00", b"stats", b"\x00" * 24, b"18446744073709551615", b"flush_all", b"v"]
    for i in range(300):
        with s.connect() as c:
            if i % 2:
                data = rng.randbytes(rng.randrange(1, 5000))
            else:
                data = b"".join(rng.choice(words) + rng.choice([b" ", b"", b"\r\n"])
                                for _ in range(rng.randrange(1, 400)))
            try:
                c.send(data)
                if i % 3:
                    c.socket.shutdown(socket.SHUT_WR)
                    c.closes()
            except OSError:
                pass
    s.say(b"set a 0 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n")
    assert s.end()[0] == 0


@case
def a_large_pipeline_is_answered(t):
    t.env.pop("MALLOC_PERTURB_", None)  # which touches the room for replies that none needs
    s = Server(t, "-m", "16", "-t", "1")
    count = 400000
    requests = b"".join(b"set k%d 0 0 20\r\n" % i + b"v" * 20 + b"\r\nmg k%d v Oabcdefgh\r\n" % i
                        for i in range(100))
    with s.connect() as c:
        sender = threading.Thread(target=lambda: c.send(requests * (count // 100)))
        sender.start()
        expected, heard = b"STORED\r\nVA 20 Oabcdefgh\r\n" + b"v" * 20 + b"\r\n", 0
        while heard < len(expected) * count:
            heard += len(c.socket.recv(1 << 20))
        sender.join()
        assert heard == len(expected) * count
        c.say(b"", b"")
    assert s.memory_kib() < 64 << 10


@case
def it_goes_to_the_background(t):
    path, pidfile = t.path("socket"), t.path("pid")
    t.forge("serve", "-m", "16", "-d", "-s", path, "-P", pidfile).expect(0)
    with open(pidfile, encoding="ascii") as f:
        pid = int(f.read())
    with socket.socket(socket.AF_UNIX) as c:
        c.connect(path)
        c.sendall(b"version\r\n")
        assert c.recv(100).startswith(b"VERSION ")
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not os.path.exists(pidfile) and not os.path.exists(path), "it does not end")
    wait_until(lambda: not glob.glob(f"/dev/shm/forge-serve-{pid}"), "its pool is still there")
    # A failure is told to who started it.
    t.forge("serve", "-m", "16", "-d", "-s", "/nowhere/socket").expect(2, err="/nowhere/socket")


@case
def bad_options_are_named(t):
    def refused(*arguments, err):
        t.forge("serve", *arguments).expect(2, err=err)

    refused("-m", "0", err="-m=0: must be between 1 and 262144 MiB;")
    refused("-p", "70000", err="65535")
    refused("-l", "999.1.1.1", err="999.1.1.1")
    refused("-l", "127.0.0.1:x", err="port")
    refused("-U", "11211", err="UDP")
    refused("-p", "0", err="nobody could connect")
    refused("-a", "9", "-s", t.path("s"), err="octal")
    refused("-B", "morse", err="auto|ascii|binary")
    refused("--pool", t.pool, err="there is no pool")
    refused("-S", err="-S is an option of memcached")
    refused("--policy", "nope", err="no such policy")
    s = Server(t, "-m", "16")
    refused("-m", "16", "-l", f"127.0.0.1:{s.port}", err=str(s.port))
    refused("-m", "16", "--metrics", f"127.0.0.1:{s.port}", err=str(s.port))
    with open(t.path("file"), "w", encoding="ascii") as f:
        f.write("not a socket")
    refused("-m", "16", "-s", t.path("file"), err=t.path("file"))
    t.forge("serve", "-V").expect(0)


@case
def options_come_from_four_places(t):
    def write(text):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)

    def refused(text, err):
        write(text)
        t.forge("serve", "--config", path).expect(2, err=err)

    path = t.path("serve.conf")
    text = "# a small cache\n\nmemory-limit = 16  # MiB\nthreads=2\nconn-limit = 77\ndisable-flush-all = yes\n"
    write(text)
    environment = {"FORGE_THREADS": "3", "FORGE_MEMORY_LIMIT": "32"}
    shown = t.forge("serve", "--config", path, "-m", "64", "--print-config", env=environment)
    shown.expect(0)
    lines = shown.out.decode().splitlines()
    for line in ("memory-limit = 64  (command line)",
                 "threads = 3  (environment, FORGE_THREADS)",
                 f"conn-limit = 77  ({path}:5)", f"disable-flush-all = yes  ({path}:6)",
                 "idle-timeout = 0  (default)"):
        assert line in lines, (line, shown.out)
    s = Server(t, "--config", path, "-t", "1")
    settings = s.stats("settings")
    assert settings["num_threads"] == "1" and settings["maxconns"] == "77", settings
    assert settings["flush_enabled"] == "no", settings
    refused("threads = 2\nmemory-limt = 4\n", f"{path}:2: memory-limt: unknown option, did you "
            "mean memory-limit?")
    refused("threads = many\n", f"{path}:1: threads=many: not a whole number")
    refused("threads 4\n", f"{path}:1: threads 4: not a line 'name = value'")
    refused("threads = 4\nthreads = 5\n", "set before, in line 1")
    t.forge("serve", "--config", t.path("none")).expect(2, err="No such file")
    t.forge("serve", "--config", t.dir).expect(2, err="Is a directory")
    t.forge("serve", "--config").expect(2, err="--config needs a value (FILE)")


if __name__ == "__main__":
    sys.exit(main())
