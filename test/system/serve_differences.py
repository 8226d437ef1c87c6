"""Where replies differ from memcached 1.6.18's: rows of doc/serve.md's table, request by request.

What is answered here on purpose, so that no row becomes untrue unnoticed.  The first case is all
of ms: its expectations are memcached's, but for one row.
"""
import itertools
import struct
import sys
import time

from harness import case, main
from memcache import Server, wait_until

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


# ---- rows of the table: text and meta ---------------------------------------------------------

@case
def the_order_of_flags_means_nothing(t):
    Server(t, "-m", "16").say(b"mg k t N30 v\r\nmg k N30 v t\r\n",
                              b"VA 0 t30 W\r\n\r\nVA 0 t30 Z\r\n\r\n")


@case
def a_line_of_keys_needs_one(t):
    s = Server(t, "-m", "16")
    for line in (b"get", b"gets", b"gat", b"gats", b"gat 0", b"gats 0", b"gat 0 "):
        s.say(line + b"\r\n", BAD_LINE)


@case
def a_bad_store_takes_its_block_along(t):
    """Also where noreply hides what was wrong: no value is read as commands."""
    s = Server(t, "-m", "16")
    s.say(b"set k 0 0 3\r\nold\r\n", b"STORED\r\n")
    block = b"\r\ndelete k\r\n"
    for line in (b"set k x 0 8", b"set k 0 x 8", b"set " + b"k" * 251 + b" 0 0 8",
                 b"cas k 0 0 8 x", b"add k 4294967296 0 8"):
        s.say(line + b" noreply" + block, b"")
        s.say(line + block, BAD_LINE)
    for line in (b"set k", b"set k 0", b"set k 0 0 x"):  # and no block
        s.say(line + b" noreply\r\n", b"")
        s.say(line + b"\r\n", BAD_LINE)
    s.say(b"get k\r\n", b"VALUE k 0 3\r\nold\r\nEND\r\n")


@case
def keys_in_base64_are_as_encoders_write_them(t):
    s = Server(t, "-m", "16")
    error = b"CLIENT_ERROR error decoding key\r\n"
    for key in (b"@@@", b"abc", b"YWJ", b"YW=j", b"YW==", b"YX==", b"====", b"YWJj!"):
        for command in (b"mg %s b k", b"md %s b k", b"ma %s b k", b"me %s b", b"ms %s 1 b\r\na"):
            s.say(command % key + b"\r\n", error)


@case
def a_key_may_have_any_byte_but_spaces(t):
    """A NUL is one of the key, and ends neither it nor the line."""
    s = Server(t, "-m", "16")
    s.say(b"set n 0 0 1\r\n5\r\nset n\0x 0 0 1\r\n7\r\nget n n\0x n\0\r\n",
          b"STORED\r\nSTORED\r\nVALUE n 0 1\r\n5\r\nVALUE n\0x 0 1\r\n7\r\nEND\r\n")
    s.say(b"incr n\0x 1\r\ntouch n\0x 0\r\nmg n\0x v\r\nms n\0y 1\r\na\r\ndelete n\0\r\n",
          b"8\r\nTOUCHED\r\nVA 1\r\n8\r\nHD\r\nNOT_FOUND\r\n")


@case
def numbers_are_digits_alone(t):
    s = Server(t, "-m", "16")
    s.say(b"set n 0 0 1\r\n5\r\n", b"STORED\r\n")
    token = b"CLIENT_ERROR bad token in command line format\r\n"
    exptime = b"CLIENT_ERROR invalid exptime argument\r\n"
    for bad in (b"+5", b"\t5", b"5\0"):
        s.say(b"incr n " + bad + b"\r\n", b"CLIENT_ERROR invalid numeric delta argument\r\n")
        s.say(b"touch n " + bad + b"\r\n", exptime)
        s.say(b"gat " + bad + b" n\r\n", exptime)
        s.say(b"mg n T" + bad + b"\r\nmd n C" + bad + b"\r\n", token * 2)
        s.say(b"set n " + bad + b" 0 1\r\na\r\n", BAD_LINE)
        s.say(b"set n 0 " + bad + b" 1\r\na\r\n", BAD_LINE)
    no = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
    for value in (b"+5", b" 5", b"5 ", b"5\0"):
        s.say(b"set n 0 0 %d\r\n%s\r\nincr n 1\r\n" % (len(value), value), b"STORED\r\n" + no)


@case
def a_key_that_is_too_long_drops_no_reply(t):
    s = Server(t, "-m", "16")
    s.say(b"set n 0 0 1\r\n5\r\nmg n v\r\nms n 1\r\n6\r\nget n " + b"k" * 251 + b"\r\n",
          b"STORED\r\nVA 1\r\n5\r\nHD\r\n" + BAD_LINE)


@case
def what_is_wrong_with_a_flag_is_told(t):
    s = Server(t, "-m", "16")
    for command in (b"mg k ", b"md k ", b"ma k ", b"me k "):
        for flags, error in ((b"q q", b"duplicate flag"), (b"z", b"invalid flag"),
                             (b"Tx", b"bad token in command line format"),
                             (b"Dx", b"invalid numeric delta value"),
                             (b"Jx", b"invalid numeric initial value"),
                             (b"MII", b"incorrect length for M token")):
            s.say(command + flags + b"\r\n", b"CLIENT_ERROR " + error + b"\r\n")


@case
def what_is_joined_is_a_new_value(t):
    """Nobody is to renew it, and nobody has been told to; of a number that grew that stays."""
    s = Server(t, "-m", "16")
    for mark in (b"md k I\r\n", b"md k I\r\nmg k\r\n", b"mg k T10\r\nmg k R30\r\n"):
        for join in (b"append k 0 0 1\r\n0\r\n", b"prepend k 0 0 1\r\n0\r\n", b"ms k 1 MA\r\n0\r\n",
                     b"ms k 1 MP\r\n0\r\n", b"ms k 1 MA N9\r\n0\r\n"):
            with s.connect() as c:
                with_reply(c, b"set k 0 0 1\r\n0\r\n" + mark + join)
                c.say(b"mg k s\r\n", b"HD s2\r\n")
    s.say(b"set k 0 0 1\r\n9\r\nmd k I\r\nincr k 1\r\nmg k\r\n", b"STORED\r\nHD\r\n10\r\nHD X W\r\n")


@case
def what_is_joined_may_be_longer_than_what_is_sent(t):
    t.node("--size", "16M", "--value-max", "4K")
    s = Server(t, "--pool", t.pool, "-I", "1024")
    block = b" 0 0 1024\r\n" + bytes(1024) + b"\r\n"
    s.say(b"set k" + block + b"append k" + block + b"prepend k" + block + b"append k" + block,
          b"STORED\r\n" * 4)
    s.say(b"set j 0 0 1025\r\n" + bytes(1025) + b"\r\nmg k s\r\n",
          b"SERVER_ERROR object too large for cache\r\nHD s4096\r\n")


@case
def q_hides_no_error_of_a_value(t):
    s = Server(t, "-m", "16", "-I", "1k")
    s.say(b"ms k 2000 q\r\n" + bytes(2000) + b"\r\n",
          b"SERVER_ERROR object too large for cache\r\n")
    s.say(b"ms k 1 q\r\nabcms k 1 q\r\na\r\n", b"CLIENT_ERROR bad data chunk\r\n")


@case
def what_is_made_has_the_ttl_of_n(t):
    """The ttl of N is that of what is made, whatever T says; q hides that, too."""
    Server(t, "-m", "16").say(b"mg k N30 T80 t\r\nma n N30 q\r\nmg k t T33\r\n",
                              b"HD t30 W\r\nHD t33 Z\r\n")


@case
def a_flush_may_be_for_a_time_of_the_clock(t):
    s = Server(t, "-m", "16")
    there = b"VALUE k 0 1\r\na\r\nEND\r\n"
    s.say(b"set k 0 0 1\r\na\r\nflush_all %d\r\nget k\r\n" % (time.time() + 1000),
          b"STORED\r\nOK\r\n" + there)
    s.say(b"flush_all %d\r\nget k\r\n" % (time.time() - 1000), b"OK\r\nEND\r\n")
    s.say(b"set k 0 0 1\r\na\r\nflush_all %d\r\n" % (time.time() + 2), b"STORED\r\nOK\r\n")
    with s.connect() as c:
        wait_until(lambda: with_reply(c, b"get k\r\n") == b"END\r\n", "it is not flushed")


# ---- rows of the table: binary ----------------------------------------------------------------

OK, INVALID, UNKNOWN = 0, 4, 0x81


def binary(opcode, extras=b"", key=b"", value=b"", key_bytes=None):
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key) if key_bytes is None else key_bytes,
                       len(extras), 0, 0, len(body), 0, 0) + body


@case
def a_malformed_request_ends_where_its_header_says(t):
    """The connection goes on: each request is answered, and so is the one behind it."""
    s = Server(t, "-m", "16")
    with s.connect() as c:
        for request, status in (
                (binary(0x00), INVALID), (binary(0x00, b"1234", b"k"), INVALID),
                (binary(0x09, key=b"k", value=b"v"), INVALID),
                (binary(0x01, key=b"k", value=b"v"), INVALID),
                (binary(0x11, bytes(8), b"k" * 251, b"v"), INVALID),
                (binary(0x08, b"1"), INVALID), (binary(0x0a, key=b"k"), INVALID),
                (binary(0x00, key=b"abc", key_bytes=9), INVALID),
                (binary(0x60), UNKNOWN), (binary(0x60, b"12", b"abc", b"value"), UNKNOWN),
                (binary(0x1b, bytes(4)), OK)):
            c.send(request + binary(0x0a))
            for expected in ((request[1], status), (0x0a, OK)):
                head = c.hear(24)
                c.hear(struct.unpack(">I", head[8:12])[0])
                assert (head[1], struct.unpack(">H", head[6:8])[0]) == expected, (request, head)


@case
def a_binary_add_never_replaces(t):
    s = Server(t, "-m", "16")
    with s.connect() as c:
        c.send(binary(0x01, bytes(8), b"k", b"v"))
        right = c.hear(24)[16:]
        for cas in (bytes(8), right):
            request = binary(0x02, bytes(8), b"k", b"w")
            c.send(request[:16] + cas + request[24:])
            head = c.hear(24)
            c.hear(struct.unpack(">I", head[8:12])[0])
            assert head[6:8] == b"\0\2", head
    s.say(b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n")


@case
def a_binary_time_has_no_sign(t):
    """What a client means by -1 lives until 2106."""
    s = Server(t, "-m", "16")
    with s.connect() as c:
        for exptime in (2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1):
            times = struct.pack(">I", exptime)
            for request in (binary(0x01, bytes(4) + times, b"k", b"v"), binary(0x1c, times, b"k"),
                            binary(0x1d, times, b"k"), binary(0x00, b"", b"k")):
                c.send(request)
                head = c.hear(24)
                c.hear(struct.unpack(">I", head[8:12])[0])
                assert head[6:8] == bytes(2), (exptime, request, head)


if __name__ == "__main__":
    sys.exit(main())
