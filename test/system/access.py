#!/usr/bin/env python3
"""Who is let in at a node, from outside: keys, roles, TLS, and what the programs say of them.

	access.py FORGE SOURCE_ROOT BUILD_ROOT

test/fabric/access.c tries every verb and every message; here are the options, the files, the
environment, the signals, and the logs, which hold no secret.
"""
import os
import secrets
import signal
import socket
import subprocess
import sys
import time

from certificates import certificates
from harness import FORGE, Node, PATIENCE_S, case, main
from proxy import Proxy

SOURCE_ROOT = sys.argv[2]

SECRETS = []


def secret():
    SECRETS.append(secrets.token_hex(32))
    return SECRETS[-1]


def key_file(t, name, *lines, mode=0o600):
    with open(t.path(name), "w", encoding="ascii") as f:
        f.write("".join(line + "\n" for line in lines))
    os.chmod(t.path(name), mode)
    return t.path(name)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def keys(t):
    """A node's file with a key of each role, and a file of each key alone."""
    lines = {role: f"{name} {role} {secret()}"
             for name, role in (("web", "full"), ("reports", "read-only"), ("grafana", "metrics"))}
    for role, line in lines.items():
        key_file(t, role, line)
    return key_file(t, "keys", *lines.values())


def serve(t, *arguments, scheme="tcp", host="127.0.0.1", **more):
    port = free_port()
    t.url = f"{scheme}://{host}:{port}"
    return t.node("--size", "8M", "--listen", f"tcp://{host}:{port}", *arguments, **more)


# Beside others on few processors a node may well not run for longer than a second.
PATIENT = "timeout=20s"


def by(t, role, *more):
    return t.url + "?" + "&".join([PATIENT, f"key-file={t.path(role)}", *more])


def bare(t):
    return f"{t.url}?{PATIENT}"


def end(t, node):
    """And what it logged, in which nothing is to be found that it should have kept."""
    assert node.end() == 0
    for one in SECRETS:
        assert one.encode() not in node.err and one[:16].encode() not in node.err, node.err
    return node.err.decode()


@case
def an_open_door_must_be_asked_for(t):
    for where in ("tcp://0.0.0.0:0", "tcp://[::]:0", "unix:" + t.path("s") + ",tcp://0.0.0.0:0"):
        t.forge("node", "--pool", t.pool, "--size", "8M", "--listen", where).expect(
            2, b"", ("other hosts reach tcp://", "--key-file", "--tls-ca", "--insecure"))
        assert not os.path.exists(t.shm_file), "nothing is made"
    node = t.node("--size", "8M", "--listen", "tcp://0.0.0.0:0", "--insecure")
    end(t, node)
    node = t.node("--size", "8M", "--listen", "tcp://0.0.0.0:0", "--key-file", keys(t))
    end(t, node)
    node = t.node("--size", "8M", "--listen", "tcp://127.0.0.1:0,unix:" + t.path("s"))
    end(t, node)
    t.forge("node", "--pool", t.pool, "--size", "8M", "--listen", "tcp://0.0.0.0:0", "--insecure",
            "--key-file", t.path("keys")).expect(2, b"", ("--insecure", "--key-file"))


@case
def who_has_the_key_comes_in(t):
    node = serve(t, "--key-file", keys(t))
    t.forge("set", "--pool", by(t, "full"), "sky", "blue").expect(0, b"")
    t.forge("get", "--pool", by(t, "full"), "sky").expect(0, b"blue")
    # From the environment: a file, or the line itself.
    with open(t.path("full"), encoding="ascii") as f:
        line = f.read().strip()
    for env in ({"FORGE_KEY_FILE": t.path("full")}, {"FORGE_KEY": line}):
        t.forge("get", "--pool", bare(t), "sky", env=env).expect(0, b"blue")
    # From a file of options.
    with open(t.path("config"), "w", encoding="ascii") as f:
        f.write(f"pool = {by(t, 'full')}\n")
    t.forge("get", "--config", t.path("config"), "sky").expect(0, b"blue")
    # The whole file of the node serves a client, too: its first key, or the one named.
    t.forge("get", "--pool", by(t, "keys"), "sky").expect(0, b"blue")
    t.forge("get", "--pool", by(t, "keys", "key-name=web"), "sky").expect(0, b"blue")
    t.forge("get", "--pool", by(t, "keys", "key-name=grafana"), "sky").expect(
        2, b"", ("the key grafana is good for the role metrics", "full"))
    t.forge("get", "--pool", by(t, "keys", "key-name=nobody"), "sky").expect(
        2, b"", "no key named nobody")
    # A pool's own host needs none: its memory is guarded by its mode.
    t.on_pool("get", "sky").expect(0, b"blue")
    end(t, node)


@case
def each_role_has_its_tools(t):
    """Metrics: what the node counts, by stat and top, and nothing of the pool; reading: that, too."""
    node = serve(t, "--key-file", keys(t))
    t.forge("set", "--pool", by(t, "full"), "sky", "blue").expect(0, b"")
    for role in ("metrics", "read-only"):
        seen = t.forge("stat", "--pool", by(t, role), "--json").expect(0).json()
        assert seen["is_served"] and seen["node"]["connections_total"] > 2, seen
        assert seen["node"]["ops_write"] > 0 and seen["node"]["bytes_in"] > 1000, seen
        page = t.forge("stat", "--pool", by(t, role)).expect(0).out.decode()
        assert "strangers_failed" in page and "of the memory node" in page, page
        top = t.forge("top", "--pool", by(t, role), "--once", "--interval", "100ms").expect(0).out
        if role == "metrics":  # what there is has no rate
            rows = [line.split() for line in top.decode().splitlines()]
            now = [r[0] for r in rows if len(r) > 2 and r[2] in ("threads:", "connections:")]
            assert now == ["-", "-"], top
        if role == "metrics":
            assert "counters" not in seen and seen["schema"] == "forge-stat-metrics-1", seen
            assert "the key is good for what it counts alone" in page and "chunks" not in page
            assert b"connections_total" in top and b"hit ratio" not in top, top
        else:
            assert seen["counters"]["stored"] == 1 and seen["chunks"], seen
            assert b"hit ratio" in top, top
    t.forge("check", "--pool", by(t, "read-only")).expect(0)
    t.forge("check", "--pool", by(t, "metrics")).expect(2, b"", ("grafana", "read-only"))
    t.forge("stat", "--pool", t.url + "?key-file=" + key_file(t, "other", f"web full {secret()}")
            ).expect(2, b"", "does not know this key")
    # A pool that is mapped has no such counters, and a list has the sum of all.
    assert "node" not in t.on_pool("stat", "--json").expect(0).json()
    name = f"{t.pool}-other"
    t.shm_files.append("/dev/shm" + name.removeprefix("shm:"))
    other = Node(t, "--pool", name, "--size", "8M", "--listen", "tcp://127.0.0.1:0", "--key-file", t.path("keys"))
    two = f"{by(t, 'metrics')},{other.listens[0]}?{PATIENT}&key-file={t.path('metrics')}"
    both = t.forge("stat", "--pool", two, "--json").expect(0).json()
    each = [n["node"]["connections_total"] for n in both["nodes"]]
    assert both["all"]["node"]["connections_total"] == sum(each) and len(each) == 2, both
    assert b"connections_total" in t.forge("top", "--pool", two, "--once", "--interval", "100ms").expect(0).out
    end(t, other)
    end(t, node)


@case
def a_node_under_two_names_is_counted_once(t):
    """Also by keys that may not read of it which memory it is."""
    node = serve(t, "--key-file", keys(t))
    for one, two in (("metrics", "metrics"), ("metrics", "read-only"), ("read-only", "metrics")):
        names = by(t, one), by(t, two).replace("127.0.0.1", "localhost")
        seen = t.forge("stat", "--pool", ",".join(names), "--json").expect(
            2, err=("127.0.0.1", "localhost", "are the same memory node: name it once")).json()
        assert len(seen["nodes"]) == 1, seen
        t.forge("top", "--pool", ",".join(names), "--once", "--interval", "100ms").expect(
            2, b"", "are the same memory node: name it once")
    end(t, node)


@case
def every_program_takes_the_key_by_an_option(t):
    node = serve(t, "--key-file", keys(t))
    option = ("--key-file", t.path("full"))

    def run(command, *arguments):
        seen = t.forge(command, *option, "--pool", bare(t), *arguments)
        assert seen.code == 0, seen

    run("set", "sky", "blue")
    run("get", "sky")
    run("keys")
    run("stat")
    run("top", "--once", "--interval", "100ms")
    run("check")
    run("spread")
    run("del", "sky")
    run("flush")
    run("bench", "--ops", "100", "--keys", "10", "--threads", "1", "--json", "-")
    with open(t.path("t.csv"), "w", encoding="ascii") as f:
        f.write("0,1,10\n1,1,10\n")
    run("replay", "--columns", "time,key,size", "--warmup", "0", "--json", "-", t.path("t.csv"))
    served = subprocess.Popen([FORGE, "serve", *option, "--pool", bare(t), "-p", "0", "--listen", "127.0.0.1:0"],
                              stdout=subprocess.PIPE, env=t.env)
    t.processes.append(served)
    assert served.stdout.readline().startswith(b"ready ")
    # What the name says goes before; and the environment behind.
    t.forge("get", *option, "--pool", by(t, "read-only"), "sky").expect(2, b"", "reports")
    t.forge("get", *option, "--pool", bare(t), "sky", env={"FORGE_KEY_FILE": t.path("read-only")}).expect(1)
    t.forge("get", "--key-file", t.path("none"), "--pool", bare(t), "sky").expect(2, b"", t.path("none"))
    served.send_signal(signal.SIGTERM)
    assert served.wait(timeout=PATIENCE_S) == 0
    end(t, node)


@case
def every_byte_comes_by_itself(t):
    """Proofs, TLS, requests and replies, in segments of a byte; and all that was said, once more."""
    certificates(t)
    for scheme, more in (("tcp", ()), ("tls", ("--tls-cert", t.path("node.crt"), "--tls-key",
                                               t.path("node.key")))):
        node = serve(t, "--key-file", keys(t), *more)
        port = int(t.url.rsplit(":", 1)[1])
        with Proxy("127.0.0.1", port) as way:
            way.pieces = lambda data, to_node: (data[i:i + 1] for i in range(len(data)))
            t.url = way.name.replace("tcp", scheme)
            by_it = by(t, "full", *(("ca=" + t.path("ca.crt"),) if more else ()))
            t.forge("set", "--pool", by_it, "sky", "blue" * 500).expect(0, b"")
            t.forge("get", "--pool", by_it, "sky").expect(0, b"blue" * 500)
            t.forge("set", "--pool", by_it, "sky", "grey").expect(0, b"")
            said = [bytes(c.sent) for c in way.connections]
        assert len(said) > 3
        for one in said:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as again:
                try:
                    again.sendall(one)
                    again.shutdown(socket.SHUT_WR)
                    while again.recv(65536):
                        pass
                except OSError:
                    pass  # it was closed before it could read on
        t.on_pool("get", "sky").expect(0, b"grey")
        end(t, node)


@case
def who_has_not_is_refused_with_the_remedy(t):
    node = serve(t, "--key-file", keys(t))
    t.forge("get", "--pool", bare(t), "sky").expect(2, b"", ("asks for a key", "key-file=FILE",
                                                          "FORGE_KEY_FILE"))
    for name, line in (("wrong", f"web full {secret()}"), ("unknown", f"wob full {secret()}")):
        key_file(t, name, line)
        t.forge("get", "--pool", by(t, name), "sky").expect(2, b"", ("does not know this key",))
    key_file(t, "open", "web full " + secret(), mode=0o644)
    t.forge("get", "--pool", by(t, "open"), "sky").expect(2, b"", ("mode 644", "chmod 600"))
    key_file(t, "bad", secret())
    t.forge("get", "--pool", by(t, "bad"), "sky").expect(2, b"", "line 1: a key is NAME ROLE")
    for result in (t.forge("get", "--pool", bare(t), "sky", env={"FORGE_KEY": SECRETS[-1]}),
                   t.forge("get", "--pool", f"{bare(t)}&key={SECRETS[-1]}", "sky")):
        assert result.code == 2 and SECRETS[-1][:16].encode() not in result.err, result
    end(t, node)


@case
def what_each_role_can_do(t):
    node = serve(t, "--key-file", keys(t))
    t.forge("set", "--pool", by(t, "full"), "sky", "blue").expect(0)
    needs_full = {
        "get": ["sky"], "set": ["sky", "grey"], "del": ["sky"], "flush": [], "keys": [],
    }
    for role, name in (("read-only", "reports"), ("metrics", "grafana")):
        for command, arguments in needs_full.items():
            t.forge(command, "--pool", by(t, role), *arguments).expect(
                2, b"", (f"the key {name} is good for the role {role}", "this needs full"))
    # What only looks.
    for command in ("stat", "check"):
        t.forge(command, "--pool", by(t, "full")).expect(0)
        t.forge(command, "--pool", by(t, "read-only")).expect(0)
    t.forge("check", "--pool", by(t, "metrics")).expect(
        2, b"", ("the key grafana is good for the role metrics", "this needs read-only"))
    t.forge("get", "--pool", by(t, "full"), "sky").expect(0, b"blue")
    end(t, node)


@case
def a_client_with_a_key_wants_to_be_asked(t):
    node = serve(t)
    keys(t)
    t.forge("get", "--pool", by(t, "full"), "sky").expect(2, b"", ("asks for no key",
                                                                  "--key-file"))
    t.forge("get", "--pool", bare(t), "sky").expect(1)
    end(t, node)


@case
def a_secret_is_replaced_while_clients_work(t):
    old, new = f"web full {secret()}", f"web full {secret()}"
    node = serve(t, "--key-file", key_file(t, "keys", old))
    key_file(t, "old", old)
    key_file(t, "new", new)

    def reload(*lines, words, says=node.process.stdout):
        key_file(t, "keys", *lines)
        node.process.send_signal(signal.SIGHUP)
        line = says.readline().decode()
        assert words in line, line
        for one in SECRETS:
            assert one[:16] not in line, line

    run = subprocess.Popen([FORGE, "bench", "--pool", by(t, "old"), "--keys", "1000", "--seconds",
                            "1h", "--warmup", "0"], env=t.env, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    t.processes.append(run)
    while t.forge("stat", "--pool", by(t, "old"), "--json").expect(0).json()["compute_nodes"] == []:
        time.sleep(0.05)
    t.forge("get", "--pool", by(t, "new"), "sky").expect(2, b"", "does not know")
    reload(old, new, words="0 clients ended")
    for name in ("old", "new"):
        t.forge("set", "--pool", by(t, name), "sky", name).expect(0)
    reload("nonsense", words="stay as they were", says=node.process.stderr)
    t.forge("get", "--pool", by(t, "old"), "sky").expect(0, b"new")
    assert run.poll() is None
    # The one that goes on with the old secret loses its node; what it held is taken back.
    reload(new, words="1 client ended")
    run.communicate(timeout=PATIENCE_S)
    assert run.returncode != 0
    t.forge("get", "--pool", by(t, "old"), "sky").expect(2, b"", "does not know")
    t.forge("get", "--pool", by(t, "new"), "sky").expect(0, b"new")
    t.forge("check", "--pool", by(t, "new")).expect(0)
    assert node.end() == 0


# ---- TLS ------------------------------------------------------------------------------------------


def cert_of(t, name):
    return ["--tls-cert", t.path(name + ".crt"), "--tls-key", t.path(name + ".key")]


@case
def everything_works_encrypted(t):
    certificates(t)
    node = serve(t, "--key-file", keys(t), *cert_of(t, "node"), scheme="tls")
    ca = f"ca={t.path('ca.crt')}"
    t.forge("set", "--pool", by(t, "full", ca), "sky", "blue").expect(0, b"")
    t.forge("get", "--pool", by(t, "full", ca), "sky").expect(0, b"blue")
    large = os.urandom(700_000)
    t.forge("set", "--pool", by(t, "full", ca), "large", "-", stdin=large).expect(0)
    t.forge("get", "--pool", by(t, "full", ca), "large").expect(0, large)
    t.forge("bench", "--pool", by(t, "full", ca), "--keys", "2000", "--ops", "4000", "--verify",
            "--threads", "2").expect(0)
    t.forge("check", "--pool", by(t, "read-only", ca)).expect(0)
    # tcp:// with tls=1 is the same.
    t.forge("get", "--pool", by(t, "full", ca, "tls=1").replace("tls://", "tcp://"), "sky").expect(
        0, b"blue")
    # In clear nobody gets as far as a challenge.
    t.forge("get", "--pool", by(t, "full").replace("tls://", "tcp://"), "sky").expect(
        2, b"", "write tls:// instead of tcp://")
    assert "TLS" not in end(t, node)


@case
def what_is_said_of_a_node_names_it_as_the_user_did(t):
    port = free_port()
    nobody = (f"no node listens on tls://127.0.0.1:{port}:",
              f"--listen tcp://127.0.0.1:{port}' with its --tls-cert")
    for command in (("get", "k"), ("stat",), ("top", "--once"), ("check",), ("spread",), ("bench",)):
        t.forge(command[0], "--pool", f"tls://127.0.0.1:{port}", *command[1:]).expect(2, b"", nobody)
    t.forge("get", "--pool", f"tcp://127.0.0.1:{port}?tls=1", "k").expect(
        2, b"", (f"no node listens on tcp://127.0.0.1:{port}:",))
    t.on_pool("node", "--size", "8M", "--listen", f"tls://127.0.0.1:{port}").expect(
        2, b"", (f"write tcp://127.0.0.1:{port} to listen", "clients write tls://"))
    # One that has no certificate, and one that shows the wrong key.
    node = serve(t, scheme="tls")
    t.forge("get", "--pool", bare(t), "k").expect(2, b"", (t.url + " closed", "write tcp://"))
    end(t, node)
    certificates(t)
    node = serve(t, "--key-file", keys(t), *cert_of(t, "node"), scheme="tls")
    other = key_file(t, "other", f"web full {secret()}")
    t.forge("get", "--pool", f"{bare(t)}&key-file={other}&ca={t.path('ca.crt')}", "k").expect(2, b"", t.url)
    end(t, node)


@case
def which_side_encrypts_is_logged(t):
    certificates(t)
    t.env["FORGE_LOG"] = "info"
    node = serve(t, "--key-file", keys(t), *cert_of(t, "node"), scheme="tls")
    del t.env["FORGE_LOG"]
    t.forge("get", "--pool", by(t, "full", f"ca={t.path('ca.crt')}"), "sky").expect(1)
    log = end(t, node)
    assert "TLS 1.3: OpenSSL encrypts" in log or "TLS 1.3: the kernel encrypts" in log, log


@case
def the_manuals_key_file_is_a_key_file(t):
    """doc/access.md's example, as it stands there, with its comments."""
    with open(os.path.join(SOURCE_ROOT, "doc/access.md"), encoding="utf-8") as f:
        text = f.read()
    with open(t.path("example"), "w", encoding="ascii") as f:
        f.write("\n".join(line.strip() for line in text.split("# NAME ", 1)[1].split("\n\n")[0]
                          .splitlines()[1:]) + "\n")
    os.chmod(t.path("example"), 0o600)
    node = serve(t, "--key-file", t.path("example"))
    t.forge("set", "--pool", bare(t) + ("&" if "?" in bare(t) else "?") + "key-file=" + t.path("example"),
            "sky", "blue").expect(0)
    end(t, node)


@case
def a_key_that_is_not_the_certificates(t):
    """Is whole, and said to be of another: node, server and client."""
    certificates(t)
    wrong = [t.path("node.crt"), t.path("client.key")]
    said = f"the key {wrong[1]} is not the key of the certificate {wrong[0]}"
    tls = ("--tls-cert", wrong[0], "--tls-key", wrong[1])
    t.on_pool("node", "--size", "16M", "--listen", "tcp://127.0.0.1:0", *tls).expect(2, b"", said)
    t.forge("serve", "--tls", "--port", "0", *tls).expect(2, b"", said)
    node = serve(t, *cert_of(t, "node"), "--tls-ca", t.path("ca.crt"), scheme="tls")
    options = f"&ca={t.path('ca.crt')}&cert={wrong[0]}&cert-key={wrong[1]}"
    t.forge("get", "--pool", bare(t) + options, "sky").expect(2, b"", said)
    end(t, node)


@case
def certificates_are_checked_on_both_sides(t):
    certificates(t)
    node = serve(t, *cert_of(t, "node"), "--tls-ca", t.path("ca.crt"), scheme="tls")
    ours = [f"cert={t.path('client.crt')}", f"cert-key={t.path('client.key')}"]
    ca = f"ca={t.path('ca.crt')}"

    def get(*options):
        return t.forge("get", "--pool", bare(t) + "&" + "&".join(options), "sky")

    get(ca, *ours).expect(1)
    get(ca, "tls-name=node.example", *ours).expect(1)
    other = get(ca, "tls-name=other.example", *ours)
    other.expect(2, b"", ("cannot be trusted", "hostname mismatch", "tls-name="))
    assert b"ca=" not in other.err, other  # its authority is the right one
    get("ca=" + t.path("client.crt"), *ours).expect(2, b"", ("cannot be trusted", "ca="))
    get("tls=1", *ours).expect(2, b"", ("cannot be trusted", "ca="))
    result = get(ca)
    assert result.code == 2 and b"certificate" in result.err, result
    get(ca, "cert=" + t.path("client.crt")).expect(2, b"", "cert-key=")
    get("ca=/nowhere").expect(2, b"", "/nowhere")
    end(t, node)
    node = serve(t, *cert_of(t, "expired"), scheme="tls")
    get(ca).expect(2, b"", ("cannot be trusted", "expired"))
    end(t, node)


# ---- what a stranger can do -----------------------------------------------------------------------


@case
def garbage_keeps_nobody_out(t):
    """Connections that say nothing, or nonsense, from the client's own address."""
    node = serve(t, "--key-file", keys(t), "--strangers-max", "16")
    host, port = t.url.rsplit("/", 1)[1].split(":")
    for _ in range(3):
        silent = [socket.create_connection((host, int(port))) for _ in range(40)]
        for one in silent:
            one.close()
        # Until the node has noticed that they are gone, it may have no room for one more.
        end_s = time.monotonic() + PATIENCE_S
        while t.forge("get", "--pool", by(t, "full"), "sky").code != 1:
            assert time.monotonic() < end_s
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", os.urandom(100)):
        with socket.create_connection((host, int(port))) as s:
            s.sendall(nonsense)
            s.settimeout(PATIENCE_S)
            try:
                while s.recv(100):
                    pass
            except ConnectionResetError:
                pass
    t.forge("get", "--pool", by(t, "full"), "sky").expect(1)
    end(t, node)


@case
def command_lines_hold_no_secret(t):
    """Nothing of a key in what ps shows of a node and a client."""
    node = serve(t, "--key-file", keys(t))
    run = subprocess.Popen([FORGE, "bench", "--pool", by(t, "full"), "--seconds", "1h", "--keys",
                            "100"], env=t.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    t.processes.append(run)
    while t.forge("stat", "--pool", by(t, "full"), "--json").expect(0).json()["compute_nodes"] == []:
        time.sleep(0.05)
    for process in (node.process, run):
        with open(f"/proc/{process.pid}/cmdline", "rb") as f:
            shown = f.read()
        assert b"key-file" in shown
        for one in SECRETS:
            assert one.encode() not in shown
    run.kill()
    run.communicate()
    end(t, node)


if __name__ == "__main__":
    sys.exit(main())
