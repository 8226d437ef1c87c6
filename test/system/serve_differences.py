"""Corner cases in which a server could differ from memcached 1.6.18, request by request.

The cases named as_memcached hold where both answer alike.  The others are rows of doc/serve.md's
table of differences: what is answered here on purpose, so that no row becomes untrue unnoticed.
"""
import itertools
import re
import sys

from harness import case, main
from memcache import Server

BAD_LINE = b"CLIENT_ERROR bad command line format\r\n"


def with_reply(c, data):
    """What comes back for data, which is one request or several."""
    c.send(data + b"mn\r\n")
    return c.until(b"MN\r\n")[:-4]


# ---- stores by ms -----------------------------------------------------------------------------

def meta_set(mode, there, cas, stale, vivify):
    """The code that ms must be answered with, and the value and its marks after it."""
    old, new, nothing = b"old", b"new", (None, b"")
    joined = b"newold" if mode == b"MP" else b"oldnew"
    if not there:
        if mode == b"ME" or (mode in (b"", b"MS") and not cas):
            return b"HD", (new, b"")
        if mode in (b"MA", b"MP"):
            # The one difference: N makes the value, as newer versions do.
            return (b"HD", (new, b"")) if vivify and not cas else (b"NS", nothing)
        return b"NF" if cas else b"NS", nothing
    if mode == b"ME":
        return b"NS", (old, b"")
    if mode in (b"MA", b"MP"):
        return (b"EX", (old, b"")) if cas == "other" else (b"HD", (joined, b""))
    if cas == "other":
        return (b"HD", (new, b" X W")) if stale else (b"EX", (old, b""))
    return b"HD", (new, b"")


@case
def every_meta_set_as_memcached_but_for_vivify(t):
    s = Server(t, "-m", "16")
    wrong = []
    with s.connect() as c:
        for mode, there, cas, stale, vivify, quiet in itertools.product(
                (b"", b"MS", b"ME", b"MA", b"MP", b"MR"), (False, True), (None, "right", "other"),
                (False, True), (False, True), (False, True)):
            with_reply(c, b"md k\r\n")
            cas_id = b"1"  # lower than any
            if there:
                made = with_reply(c, b"ms k 3 c\r\nold\r\n")
                if cas == "right":
                    cas_id = made.strip().split(b"c")[1]
            flags = [mode, b"C" + cas_id if cas else b"", b"I" if stale else b"",
                     b"N60" if vivify else b"", b"q" if quiet else b""]
            line = b"ms k 3 " + b" ".join(f for f in flags if f)
            reply = with_reply(c, line + b"\r\nnew\r\n")
            after = with_reply(c, b"mg k v\r\n")
            code, (value, marks) = meta_set(mode, there, cas, stale, vivify)
            found = b"VA %d%s\r\n%s\r\n" % (len(value), marks, value) if value else b"EN\r\n"
            code = b"" if quiet and code == b"HD" else code + b"\r\n"
            if (reply, after) != (code, found):
                wrong.append(f"{line} {there=}: {reply} {after}, not {code} {found}")
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    sys.exit(main())
