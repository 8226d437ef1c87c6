"""A test of the built programs: cases in the manner of cmocka, so that each is counted.

	from harness import case, main

	@case
	def node_starts(t):
		...

A case gets a Box: names and files of its own, processes that do not outlive it, and checks.  It
fails by an exception.  main() runs every case of the program, prints what the counting of
`make test` understands, and exits 1 if one failed.
"""
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

FORGE = os.path.abspath(sys.argv[1])
# Generous: it is reached only when something is broken.
PATIENCE_S = 120

CASES = []


class Skip(Exception):
    """Raised by a case that cannot run here, with the reason."""


def case(function):
    CASES.append(function)
    return function


class Result:
    """What a run of the program left."""

    def __init__(self, argv, code, out, err, pid=None):
        self.argv, self.code, self.out, self.err, self.pid = argv, code, out, err, pid

    def __str__(self):
        return f"{' '.join(self.argv)}: status {self.code}\n  out: {self.out!r}\n  err: {self.err!r}"

    def expect(self, code, out=None, err=()):
        """The exit status, exactly this output, and these words on standard error."""
        assert self.code == code, f"expected status {code}: {self}"
        assert out is None or self.out == out, f"expected {out!r}: {self}"
        words = (err,) if isinstance(err, str) else err
        for word in words:
            assert word in self.err.decode(errors="replace"), f"no {word!r} in: {self}"
        if not words:
            assert self.err == b"", f"expected no message: {self}"
        if code == 2:
            lines = self.err.decode(errors="replace").splitlines()
            assert len(lines) == 1 and lines[0].startswith("forge"), f"not one sentence: {self}"
        return self

    def json(self):
        return json.loads(self.out)


class Node:
    """A memory node that has said that it is ready."""

    def __init__(self, box, *arguments):
        argv = [FORGE, "node", *arguments]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=box.env)
        box.processes.append(self.process)
        self.listens = []
        self.ready = self.process.stdout.readline().decode()
        while self.ready.startswith("listens "):
            self.listens.append(self.ready.split()[1])
            self.ready = self.process.stdout.readline().decode()
        if not self.ready.startswith("ready "):
            out, err = self.process.communicate(timeout=PATIENCE_S)
            raise AssertionError("not ready: " + str(Result(argv, self.process.returncode,
                                                            self.ready.encode() + out, err)))

    def end(self, number=signal.SIGTERM):
        """Send a signal, wait; the exit status, negative for a death by signal."""
        self.process.send_signal(number)
        out, self.err = self.process.communicate(timeout=PATIENCE_S)
        assert out == b"", f"a node says only that it is ready, not {out!r}"
        return self.process.returncode


DIRECTORIES = "forge-tmp-"


def lock(path, how):
    """A descriptor with that lock on the directory, or None: somebody has another, or it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, how)
        if os.stat(path).st_ino == os.fstat(fd).st_ino and os.fstat(fd).st_uid == os.geteuid():
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def sweep():
    """Remove the directories of tests that were killed, those in C included: nobody has a lock on them."""
    for name in os.listdir(tempfile.gettempdir()):
        path = os.path.join(tempfile.gettempdir(), name)
        fd = lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB) if name.startswith(DIRECTORIES) else None
        if fd is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)


def make_directory():
    """As test/support/tempdir.c has it, with the argument: its path, and the lock."""
    while True:
        path = tempfile.mkdtemp(prefix=f"{DIRECTORIES}{os.getpid()}-")
        fd = lock(path, fcntl.LOCK_SH)
        if fd is not None:
            return path, fd


class Box:
    """What one case uses; all of it is gone afterwards."""

    def __init__(self, name):
        self.name = f"/forge-test-{os.getpid()}-{name}"
        self.pool = "shm:" + self.name
        self.shm_file = "/dev/shm" + self.name
        self.shm_files = [self.shm_file]
        self.dir, self.lock = make_directory()
        self.processes = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FORGE_")}

    def forge(self, *arguments, stdin=b"", env=None):
        """Run to the end; every argument as it is."""
        argv = [FORGE, *arguments]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**self.env, **(env or {})})
        self.processes.append(process)
        out, err = process.communicate(stdin, timeout=PATIENCE_S)
        return Result(argv, process.returncode, out, err, process.pid)

    def on_pool(self, command, *arguments, **more):
        return self.forge(command, "--pool", self.pool, *arguments, **more)

    def node(self, *arguments):
        return Node(self, "--pool", self.pool, *arguments)

    def path(self, name):
        return os.path.join(self.dir, name)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
        shutil.rmtree(self.dir, ignore_errors=True)
        os.close(self.lock)
        for path in self.shm_files:
            try:  # what a server made for itself goes by itself
                os.unlink(path)
            except FileNotFoundError:
                pass


def run(function):
    box = Box(function.__name__)
    try:
        function(box)
        return "      OK"
    except Skip as reason:
        print(reason)
        return " SKIPPED"
    except Exception:  # whatever it is, the case has failed and the others still run
        print("\n".join(traceback.format_exc().splitlines()[-12:]))
        return " FAILED "
    finally:
        box.close()


def main():
    failed = 0
    sweep()
    print(f"[==========] Running {len(CASES)} test(s).")
    for function in CASES:
        print(f"[ RUN      ] {function.__name__}", flush=True)
        outcome = run(function)
        failed += "FAILED" in outcome
        print(f"[ {outcome} ] {function.__name__}", flush=True)
    print(f"[==========] {len(CASES)} test(s) run.")
    return 1 if failed else 0
