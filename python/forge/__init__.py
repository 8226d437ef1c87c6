"""FORGE for Python: a cache in the memory of other machines.

	import forge

	with forge.Cache("shm:/forge") as cache:
	    cache.set("sky", b"blue", expire_after=60)
	    cache.get("sky")                    # b"blue", or None
	    cache.get_many(["sky", "sea"])      # {"sky": b"blue"}

Pure Python over libforge.so.0: nothing is compiled and no header is needed.  The library is the
file that $FORGE_LIBRARY names, else the one the system's loader finds.

A Cache may be used by any number of threads, up to `threads` of them at once: each has a session of
its own from its first call to its end.  A process made by fork() opens a Cache of its own.  Keys are
str (taken as UTF-8) or bytes, values bytes, times seconds.  What went wrong is a forge.Error with
.status and .name, e.g. "FORGE_E_VALUE_LARGE"; a miss is no error.
"""
import collections
import ctypes
import os
import threading
import weakref

__all__ = ["Cache", "Entry", "Error", "Item", "LibraryMissing", "library_version"]

LIBRARY = "libforge.so.0"

_MISS, _NOT_STORED, _EXISTS, _E_INVAL = 1, 2, 3, -1
_TTL_NEVER = 2 ** 64 - 1

Item = collections.namedtuple("Item", "value flags cas ttl")
Item.__doc__ = "A value with its flags, its cas id, and the seconds it has left or None."

Entry = collections.namedtuple("Entry", "key value_bytes flags cas ttl")
Entry.__doc__ = "A key that Cache.entries() found, as bytes, and what is stored with it."


class Error(Exception):
    """A call failed: .status is FORGE's number, .name its symbol; the text says what to do."""

    def __init__(self, status, name, text):
        super().__init__(f"{text} ({name})")
        self.status, self.name = status, name


class LibraryMissing(ImportError):
    """libforge.so.0 is not there or cannot be used."""


# ---- forge/forge.h ------------------------------------------------------------------------------

class _Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class _Expiry(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_uint64 * 2)]


class _Item(ctypes.Structure):
    _fields_ = [("value", _Bytes), ("flags", ctypes.c_uint32), ("expiry", _Expiry)]


class _Value(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t),
                ("flags", ctypes.c_uint32), ("cas", ctypes.c_uint64),
                ("ttl_ms", ctypes.c_uint64)]


class _Op(ctypes.Structure):
    _fields_ = [("verb", ctypes.c_int), ("create", ctypes.c_uint8), ("key", _Bytes),
                ("item", _Item), ("cas", ctypes.c_uint64), ("delta", ctypes.c_uint64),
                ("initial", ctypes.c_uint64), ("buffer", ctypes.c_void_p),
                ("buffer_bytes", ctypes.c_size_t), ("timeout_us", ctypes.c_uint64),
                ("user", ctypes.c_void_p), ("status", ctypes.c_int), ("found", _Value),
                ("number", ctypes.c_uint64), ("next", ctypes.c_void_p),
                ("opaque", ctypes.c_uint64 * 2)]


class _Options(ctypes.Structure):
    _fields_ = [("sessions_max", ctypes.c_uint), ("in_flight_max", ctypes.c_uint),
                ("timeout_us", ctypes.c_uint64), ("policy", ctypes.c_char_p),
                ("key_file", ctypes.c_char_p), ("ca_file", ctypes.c_char_p),
                ("dead_percent", ctypes.c_uint)]


class _Limits(ctypes.Structure):
    _fields_ = [("key_bytes", ctypes.c_size_t), ("value_bytes", ctypes.c_size_t)]


class _Entry(ctypes.Structure):
    _fields_ = [("key", _Bytes), ("value_bytes", ctypes.c_size_t), ("flags", ctypes.c_uint32),
                ("cas", ctypes.c_uint64), ("ttl_ms", ctypes.c_uint64)]


(_GET, _TOUCH, _GET_AND_TOUCH, _SET, _ADD, _REPLACE, _CAS, _APPEND, _PREPEND, _INCR, _DECR,
 _DELETE, _DELETE_IF, _FLUSH) = range(14)

_STAT_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64,
                            ctypes.c_char_p)
_POINTER = ctypes.c_void_p
_OUT = ctypes.POINTER(ctypes.c_void_p)

_FUNCTIONS = {
    "forge_version": (ctypes.c_char_p, []),
    "forge_detail": (ctypes.c_char_p, []),
    "forge_status_name": (ctypes.c_char_p, [ctypes.c_int]),
    "forge_status_text": (ctypes.c_char_p, [ctypes.c_int]),
    "forge_open": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(_Options), _OUT]),
    "forge_close": (ctypes.c_int, [_POINTER]),
    "forge_session_open": (ctypes.c_int, [_POINTER, _OUT]),
    "forge_session_close": (None, [_POINTER]),
    "forge_get_limits": (ctypes.c_int, [_POINTER, ctypes.POINTER(_Limits)]),
    "forge_expire_never": (_Expiry, []),
    "forge_expire_after_ms": (_Expiry, [ctypes.c_uint64]),
    "forge_expire_at_unix_ms": (_Expiry, [ctypes.c_uint64]),
    "forge_rest": (ctypes.c_int, [_POINTER]),
    "forge_run": (ctypes.c_int, [_POINTER, ctypes.POINTER(_Op), ctypes.c_size_t]),
    "forge_scan_open": (ctypes.c_int, [_POINTER, _OUT]),
    "forge_scan_next": (ctypes.c_int, [_POINTER, ctypes.POINTER(_Entry)]),
    "forge_scan_close": (None, [_POINTER]),
    "forge_session_stats": (ctypes.c_int, [_POINTER, _STAT_FN, ctypes.c_void_p]),
}


def _load():
    path = os.environ.get("FORGE_LIBRARY") or LIBRARY
    try:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as why:
        raise LibraryMissing(
            f"cannot use {path}: {why}.  It is the shared library of FORGE: run `make install` in "
            f"its source tree (then ldconfig), or set FORGE_LIBRARY to the path of "
            f"{LIBRARY}") from None
    return library


_lib = _load()


def library_version():
    """The version of the library that was loaded."""
    return _lib.forge_version().decode()


def _fail(status, text=None):
    name = _lib.forge_status_name(status).decode()
    text = text or _lib.forge_detail().decode(errors="replace")
    raise Error(status, name, text)


def _check(status):
    if status < 0:
        _fail(status)
    return status


def _check_op(op):
    if op.status < 0:
        _fail(op.status, _lib.forge_status_text(op.status).decode())
    return op.status


def _milliseconds(seconds):
    if seconds < 0:
        raise ValueError("a time before now or 1970 is no expiry")
    return min(int(seconds * 1000), 2 ** 64 - 1)


def _microseconds(timeout):
    """0 is no timeout, so the shortest is 1."""
    return min(max(1, int(timeout * 1e6)), 2 ** 64 - 1) if timeout else 0


def _expiry(after, at):
    if after is not None and at is not None:
        raise ValueError("expire_after and expire_at exclude each other")
    if after is not None:
        return _lib.forge_expire_after_ms(_milliseconds(after))
    if at is not None:
        return _lib.forge_expire_at_unix_ms(_milliseconds(at))
    return _lib.forge_expire_never()


def _as_bytes(text):
    """bytes() would make five zeroes of 5, and one byte of each number in a list."""
    if isinstance(text, str):
        return text.encode()
    try:
        return memoryview(text).tobytes()
    except TypeError:
        raise TypeError(f"keys and values are str or bytes, not {type(text).__name__}") from None


def _uint(number, bits, what):
    """A number as it is: ctypes would cut it to its lowest bits."""
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{what} is {number}; it must be from 0 to 2**{bits} - 1")
    return number


def _ttl(ttl_ms):
    return None if ttl_ms == _TTL_NEVER else ttl_ms / 1000


class _Session:
    """A thread's way into the pool; closed when the thread is gone."""

    def __init__(self, client):
        self.pointer = None
        self.lock = threading.Lock()
        pointer = ctypes.c_void_p()
        _check(_lib.forge_session_open(client, ctypes.byref(pointer)))
        self.pointer = pointer
        self.scans = weakref.WeakSet()

    def scan_open(self):
        scan = _Scan(self)
        self.scans.add(scan)
        return scan

    def close(self):
        with self.lock:
            pointer, self.pointer = self.pointer, None
        if pointer:
            for scan in list(self.scans):
                scan.close()
            _lib.forge_session_close(pointer)

    __del__ = close


class _Scan:
    """A walk, which keeps its session and ends with it: a generator may outlive the cache."""

    def __init__(self, session):
        self.session, self.thread = session, threading.get_ident()
        self.pointer = None
        pointer = ctypes.c_void_p()
        _check(_lib.forge_scan_open(session.pointer, ctypes.byref(pointer)))
        self.pointer = pointer

    def next(self, entry):
        if threading.get_ident() != self.thread:
            raise RuntimeError("a walk through the keys belongs to the thread that began it")
        if not self.pointer:
            raise ValueError("the cache is closed")
        return _check(_lib.forge_scan_next(self.pointer, ctypes.byref(entry)))

    def close(self):
        with self.session.lock:
            pointer, self.pointer = self.pointer, None
        if pointer:
            _lib.forge_scan_close(pointer)


class Cache:
    """A pool of FORGE's.  Close it, or use it in a with statement."""

    def __init__(self, pool="shm:/forge", threads=16, timeout=None, policy=None, key_file=None,
                 ca_file=None, dead_percent=0):
        """pool: "shm:/name", the path of a file, "tcp://host:port" or "unix:/path"; threads
        that may use it at once; timeout of every operation in seconds; policy: the pool's; key_file: a key
        for nodes that ask for one; ca_file: who vouches for nodes behind tls://;
        dead_percent: members that may be dead before groups are compacted for it, 1 to 100; 0: the
        policy's share."""
        if timeout is not None and timeout < 0:
            raise ValueError("a timeout is not below 0")
        pool = os.fsencode(pool)
        if b"\0" in pool:
            raise ValueError("a pool's name has no zero byte")
        options = _Options(_uint(threads, 32, "threads"), 0, _microseconds(timeout),
                           policy.encode() if policy else None,
                           os.fsencode(key_file) if key_file else None,
                           os.fsencode(ca_file) if ca_file else None,
                           _uint(dead_percent, 32, "dead_percent"))
        pointer = ctypes.c_void_p()
        _check(_lib.forge_open(pool, ctypes.byref(options), ctypes.byref(pointer)))
        self._client = pointer
        self._local = threading.local()
        self._sessions = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Leave the pool.  No other thread is in a call."""
        with self._lock:
            client, self._client = self._client, None
            sessions, self._sessions = self._sessions, []
        if not client:
            return
        for session in (reference() for reference in sessions):
            if session:
                session.close()
        if os.getpid() == self._pid:
            _check(_lib.forge_close(client))

    def _session(self):
        session = getattr(self._local, "session", None)
        if session is None or session.pointer is None:
            with self._lock:
                if not self._client:
                    raise ValueError("the cache is closed")
                session = _Session(self._client)
                self._sessions = [r for r in self._sessions if r()] + [weakref.ref(session)]
            self._local.session = session
        return session.pointer

    def _run(self, verb, key, value=b"", flags=0, expire_after=None, expire_at=None, **fields):
        key, value = _as_bytes(key), _as_bytes(value)
        op = _Op(verb=verb, **fields)
        op.key = _Bytes(_address(key), len(key))
        op.item = _Item(_Bytes(_address(value), len(value)), _uint(flags, 32, "flags"),
                        _expiry(expire_after, expire_at))
        _check(_lib.forge_run(self._session(), ctypes.byref(op), 1))
        _check_op(op)
        return op

    # finding

    def get(self, key, default=None):
        """The value, or default."""
        op = self._run(_GET, key)
        return default if op.status == _MISS else _value(op)

    def item(self, key):
        """The value with what is stored beside it, or None."""
        op = self._run(_GET, key)
        return None if op.status == _MISS else _item(op)

    def get_many(self, keys):
        """{key: value} of those that are there; the round trips overlap."""
        if isinstance(keys, (str, bytes)):
            raise TypeError("get_many() takes keys, not one key: use get()")
        keys = list(keys)
        raw = [_as_bytes(key) for key in keys]
        ops = (_Op * len(raw))()
        for op, key in zip(ops, raw):
            op.verb, op.key = _GET, _Bytes(_address(key), len(key))
        _check(_lib.forge_run(self._session(), ops, len(raw)))
        return {key: _value(op) for key, op in zip(keys, ops) if _check_op(op) == 0}

    def touch(self, key, *, expire_after=None, expire_at=None):
        """Give it another expiry.  Is it there?"""
        return self._run(_TOUCH, key, expire_after=expire_after, expire_at=expire_at).status == 0

    def get_and_touch(self, key, *, expire_after=None, expire_at=None):
        """The value, which gets another expiry, or None."""
        op = self._run(_GET_AND_TOUCH, key, expire_after=expire_after, expire_at=expire_at)
        return None if op.status == _MISS else _value(op)

    # storing

    def set(self, key, value, *, flags=0, expire_after=None, expire_at=None):
        """Store in any case.  The new cas id."""
        return self._run(_SET, key, value, flags, expire_after, expire_at).found.cas

    def add(self, key, value, *, flags=0, expire_after=None, expire_at=None):
        """Store if there is no such key.  Was it stored?"""
        return self._run(_ADD, key, value, flags, expire_after, expire_at).status == 0

    def replace(self, key, value, *, flags=0, expire_after=None, expire_at=None):
        """Store if there is such a key.  Was it stored?"""
        return self._run(_REPLACE, key, value, flags, expire_after, expire_at).status == 0

    def cas(self, key, value, cas, *, flags=0, expire_after=None, expire_at=None):
        """Store if the item still has that cas id.  Was it stored?"""
        return self._run(_CAS, key, value, flags, expire_after, expire_at,
                         cas=_uint(cas, 64, "cas")).status == 0

    def append(self, key, tail):
        """Lengthen the value.  Is it there?"""
        return self._run(_APPEND, key, tail).status == 0

    def prepend(self, key, head):
        """Lengthen the value at its front.  Is it there?"""
        return self._run(_PREPEND, key, head).status == 0

    def incr(self, key, delta=1, *, initial=None, expire_after=None, expire_at=None):
        """Count up; the new number.  None, or initial and stored, if there is no such key."""
        return self._count(_INCR, key, delta, initial, expire_after, expire_at)

    def decr(self, key, delta=1, *, initial=None, expire_after=None, expire_at=None):
        """Count down, to 0 at least; else as incr()."""
        return self._count(_DECR, key, delta, initial, expire_after, expire_at)

    def _count(self, verb, key, delta, initial, after, at):
        op = self._run(verb, key, expire_after=after, expire_at=at,
                       delta=_uint(delta, 64, "delta"), create=initial is not None,
                       initial=_uint(initial or 0, 64, "initial"))
        return None if op.status == _MISS else op.number

    # removing

    def delete(self, key, *, cas=None):
        """Remove it, or only if it still has that cas id.  Was it removed?"""
        verb = _DELETE if cas is None else _DELETE_IF
        return self._run(verb, key, cas=_uint(cas or 0, 64, "cas")).status == 0

    def flush(self):
        """Remove everything, for all clients of the pool."""
        self._run(_FLUSH, b"")

    # having nothing to do

    def rest(self):
        """Leave nothing half done: for a thread that will call nothing for a while.  Over a network
        a call may leave work to the next one, and until that is done other clients cannot have the
        groups it is about.  A thread that stays idle calls it again about once a second."""
        session = getattr(self._local, "session", None)
        if session is not None and session.pointer is not None:
            _check(_lib.forge_rest(session.pointer))

    # looking around

    def entries(self):
        """Every key of the pool as an Entry, beside traffic: forge_scan(3) says what that means."""
        self._session()
        scan, entry = self._local.session.scan_open(), _Entry()
        try:
            while scan.next(entry) != _MISS:
                yield Entry(ctypes.string_at(entry.key.data, entry.key.bytes), entry.value_bytes,
                            entry.flags, entry.cas, _ttl(entry.ttl_ms))
        finally:
            scan.close()

    def keys(self):
        """Every key of the pool, as bytes."""
        return (entry.key for entry in self.entries())

    def stats(self):
        """{name: count} of what this thread's session did."""
        counts = {}

        @_STAT_FN
        def each(_, name, value, __):
            counts[name.decode()] = value

        _check(_lib.forge_session_stats(self._session(), each, None))
        return counts

    def limits(self):
        """(most bytes of a key, most bytes of a value)"""
        limits = _Limits()
        _check(_lib.forge_get_limits(self._client, ctypes.byref(limits)))
        return limits.key_bytes, limits.value_bytes


def _address(data):
    """Where bytes lie; whoever asks keeps them alive."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value


def _value(op):
    return ctypes.string_at(op.found.data, op.found.bytes)


def _item(op):
    return Item(_value(op), op.found.flags, op.found.cas, _ttl(op.found.ttl_ms))
