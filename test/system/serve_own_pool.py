"""The pool that a server makes for itself, and what becomes of it when the server is killed.

	serve_own_pool.py FORGE SOURCE_ROOT BUILD_ROOT

Who removes it is a process that the server has started, found here as its only child.
"""
import os
import shutil
import signal
import sys

from harness import PATIENCE_S, case, main
from memcache import Server, wait_until


NO_PROCESS = 1 << 22  # the kernel's numbers are smaller


def path_of(s):
    return "/dev/shm" + s.pool.removeprefix("shm:")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


def watcher(s):
    found = children(s.process.pid)
    assert len(found) == 1, found
    with open(f"/proc/{found[0]}/cmdline", "rb") as f:
        assert b"\0gc\0" in f.read()
    return found[0]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(s):
    s.process.kill()
    out, err = s.process.communicate(timeout=PATIENCE_S)  # nobody else has its ends
    assert out == b"", out
    return err


def own(t, *more):
    s = Server(t, "-m", "16", "-t", "1", *more)
    s.say(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n")
    assert os.path.exists(path_of(s))
    return s


@case
def a_killed_servers_memory_comes_back(t):
    s = own(t)
    who = watcher(s)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(who, number)  # as a terminal or a service manager does to all of a group
    kill(s)
    wait_until(lambda: not os.path.exists(path_of(s)), "the pool stays")
    wait_until(lambda: not is_alive(who), "who has removed it stays")


@case
def an_orderly_end_leaves_nobody(t):
    s = own(t)
    who = watcher(s)
    assert s.end() == (0, "") and not os.path.exists(path_of(s))
    wait_until(lambda: not is_alive(who), "nothing is left to be removed")


@case
def a_server_on_a_pool_of_others_has_no_watcher(t):
    t.node("--size", "16M")
    s = Server(t, "--pool", t.pool, "-t", "1")
    assert children(s.process.pid) == []
    kill(s)
    assert os.path.exists(t.shm_file)


def left(t):
    """A pool whose server and watcher were both killed; any server that starts may remove it."""
    s = own(t)
    os.kill(watcher(s), signal.SIGKILL)
    kill(s)
    return s


@case
def the_next_server_collects(t):
    busy, first, second = own(t), left(t), left(t)
    again = own(t)
    assert not os.path.exists(path_of(first)) and not os.path.exists(path_of(second))
    busy.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
    assert busy.end() == (0, "") and again.end() == (0, "")


@case
def so_does_gc(t):
    busy = own(t)
    for _ in range(20):
        s = left(t)
        done = t.forge("gc", "--pool", s.pool)
        if done.code == 0:  # else a server of another test was before it
            break
    assert done.out.startswith(b"removed " + s.pool.encode()), done.out
    done = t.forge("gc", "--pool", busy.pool).expect(0)
    assert done.out.startswith(b"left "), done.out
    busy.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")


def unmade(content):
    """What a server leaves that is killed before its pool is formatted, with a number of no process."""
    path = f"/dev/shm/forge-serve-{NO_PROCESS + os.getpid()}"
    with open(path, "xb") as f:
        f.write(content)
    return path, "shm:/" + os.path.basename(path)


@case
def one_that_was_killed_at_making_it_leaves_nothing(t):
    for content in (b"", bytes(1 << 20)):
        path, pool = unmade(content)
        done = t.forge("gc", "--pool", pool)
        assert not os.path.exists(path), done  # by this, or by a server that another test has started
        path, pool = unmade(content)
        s = own(t)
        assert not os.path.exists(path) and s.end() == (0, "")


@case
def what_is_no_pool_keeps_its_name(t):
    path, pool = unmade(bytes(4000) + b"x" + bytes(1 << 20))
    try:
        t.forge("gc", "--pool", pool).expect(2, b"", "not a FORGE pool")
        s = own(t)
        assert os.path.exists(path) and s.end() == (0, "")
    finally:
        os.unlink(path)


@case
def a_pool_with_the_name_of_this_process_is_replaced(t):
    s, copy = own(t), t.path("copy")
    shutil.copy(path_of(s), copy)
    assert s.end() == (0, "")
    # The kernel gives the number of a process out again some day.
    again = Server(t, "-m", "24", "-t", "1", before=f"cp {copy} /dev/shm/forge-serve-$$")
    again.say(b"get a\r\n", b"END\r\n")
    assert again.end() == (0, "")


@case
def who_has_attached_keeps_it(t):
    s = own(t)
    other = Server(t, "--pool", s.pool, "-t", "1")
    who = watcher(s)
    kill(s)
    other.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
    # A second look of who waits comes a second later, and finds the other server there.
    assert is_alive(who) and os.path.exists(path_of(s))
    other.say(b"set a 0 0 1\r\ny\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\ny\r\nEND\r\n")
    other.end()
    wait_until(lambda: not os.path.exists(path_of(s)), "nobody uses it, and it stays")
    wait_until(lambda: not is_alive(who), "who has removed it stays")


@case
def a_node_may_take_it_over(t):
    s = own(t)
    other = Server(t, "--pool", s.pool, "-t", "1")
    who = watcher(s)
    kill(s)
    t.pool = s.pool
    node = t.node()
    wait_until(lambda: not is_alive(who), "a node serves the pool, and it is waited for")
    other.say(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
    assert other.end()[0] == 0 and os.path.exists(path_of(s))
    t.on_pool("get", "a").expect(0, b"x")
    assert node.end() == 0


@case
def a_pool_that_is_there_has_its_size_and_policy(t):
    def refused(*arguments, env=None, err):
        t.forge("serve", "-p", "0", *arguments, env=env).expect(2, b"", err)

    def accepted(**environment):
        t.forge("serve", "--pool", t.pool, env=environment).expect(2, b"", "there is no pool")

    named = "--pool", t.pool
    with open(t.path("conf"), "w", encoding="ascii") as f:
        f.write("policy = forge\n")
    refused(*named, "-m", "64", err=["--memory-limit (-m) is for", f"--pool names {t.pool}"])
    refused(*named, "--policy", "forge", err="--policy is for")
    refused(*named, "--object-bytes=100", err="--object-bytes is for")
    refused(*named, "--config", t.path("conf"), err="--policy is for")
    refused(*named, env={"FORGE_MEMORY_LIMIT": "64"}, err="--memory-limit (-m) is for")
    refused("-m", "64", env={"FORGE_POOL": t.pool}, err=f"FORGE_POOL names {t.pool}")
    # What memory nodes read, too, is no contradiction in the environment.
    accepted()
    accepted(FORGE_POLICY="forge", FORGE_OBJECT_BYTES="100")


@case
def gc_after_needs_a_pool(t):
    t.forge("gc", "--after", "1").expect(2, b"", "--after needs --pool")


if __name__ == "__main__":
    sys.exit(main())
