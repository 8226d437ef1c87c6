"""Tools for a memcached's operator, unchanged: what has no answer here must not keep them waiting.

	serve_tools.py FORGE SOURCE_ROOT BUILD_ROOT

What they print and how they end is compared with what is documented in doc/serve.md.
"""
import os
import shutil
import subprocess
import sys

from harness import PATIENCE_S, Skip, case, main
from memcache import Server

MEMCACHED_TOOL = "/usr/share/memcached/scripts/memcached-tool"


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@case
def what_is_not_told_is_said_at_once(t):
    s = Server(t, "-m", "16")
    s.say(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n")
    s.say(b"stats sizes\r\n", b"STAT sizes_status disabled\r\nEND\r\n")
    s.say(b"stats cachedump 1 0\r\n", b"CLIENT_ERROR stats cachedump not allowed\r\n")
    s.say(b"lru_crawler enable\r\n", b"ERROR\r\n")
    for command in (b"lru_crawler metadump all\r\n", b"lru_crawler mgdump hash\r\n"):
        with s.connect() as c:
            c.send(command)
            assert c.until(b"\n") == b"ERROR metadump not allowed\r\n"
            assert c.closes() == b"", "more than the refusal came"


@case
def memcached_tool_ends(t):
    if not os.path.exists(MEMCACHED_TOOL) or not shutil.which("perl"):
        raise Skip("memcached-tool is not there: install memcached")
    s = Server(t, "-m", "16")
    s.say(b"set a 0 0 1\r\nx\r\n", b"STORED\r\n")
    for mode, shown in (("display", "Item_Size"), ("stats", "forge_version"), ("settings", "maxbytes"),
                        ("sizes", "sizes_status"), ("dump", ""), ("keys", "")):
        done = run("perl", MEMCACHED_TOOL, f"127.0.0.1:{s.port}", mode)
        assert done.returncode == 0 and shown in done.stdout, (mode, done)


@case
def memcdump_says_why_not(t):
    if not shutil.which("memcdump"):
        raise Skip("memcdump is not there: install libmemcached-tools")
    s = Server(t, "-m", "16")
    done = run("memcdump", f"--servers=127.0.0.1:{s.port}")
    assert done.returncode == 1 and "stats cachedump not allowed" in done.stderr, done


if __name__ == "__main__":
    sys.exit(main())
