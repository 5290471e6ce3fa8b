"""What tests of the programs share: temporary stores, running tilekv, servers, peak memory, files.

A test program is called as `NAME_test.py TILEKV TILEKV_SERVER [OTHER PROGRAMS] [unittest's arguments]`
and ends with `main(globals())`. Whatever a test starts has ended when the test has, failed or not.
"""

import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

DONE, DIFFERS, USAGE, NOT_FOUND, CONDITION, UNAVAILABLE, DATA_LOSS, TOO_LARGE = range(8)
INTERRUPTED = 130

MIB = 1 << 20
PATIENCE_S = 120  # a program that has not answered by then has failed

programs = {}  # "tilekv", "tilekv-server" and what else main() was told


def main(namespace, *more_programs):
    """Runs the tests of `namespace`. Paths of programs come first on the command line."""
    for name in ("tilekv", "tilekv-server", *more_programs):
        programs[name] = os.path.abspath(sys.argv.pop(1))
    unittest.main(module=namespace["__name__"], verbosity=2)


def clean_environment(**more):
    """That of a user who has set nothing."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("TILEKV_", "LC_")) and key not in ("LANG", "NO_COLOR")}
    env.update(LANG="C.UTF-8", COLUMNS="100", **more)
    return env


def pass_over(why):
    """Ends a test that cannot run here. In CI (CI is set) that is a failure: there nothing is left
    untested without being noticed."""
    if os.environ.get("CI"):
        raise AssertionError(f"CI passes nothing over: {why}")
    raise unittest.SkipTest(why)


def wait_until(condition, what, process=None):
    """Until `condition()` is true; its value. An error once `process` has ended or patience has."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        ended = process is not None and process.poll() is not None
        value = condition()
        if value:
            return value
        if ended:
            raise AssertionError(f"the process ended with {process.returncode} before {what}")
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {PATIENCE_S} s")
        time.sleep(0.002)


MEASURE = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(pid, 0)
print(status, usage.ru_maxrss)
"""


class Server:
    """A tilekv-server on a directory and on free ports. Its log is the file `log_path`.

    `before` runs in its process before the program does.
    """

    def __init__(self, data_dir, *flags, listen="127.0.0.1:0", before=None):
        self.data_dir = data_dir
        self.log_path = data_dir + ".log"
        address = os.path.join(data_dir, "ADDRESS")
        if os.path.exists(address):  # of one that was killed
            os.unlink(address)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [programs["tilekv-server"], "--data-dir", data_dir, "--listen", listen,
                 "--http", "127.0.0.1:0", *flags],
                env=clean_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=before)
        try:
            wait_until(lambda: os.path.exists(address), "the server serves", self.process)
        except BaseException:
            self.kill()
            sys.stderr.write(self.log())
            raise
        with open(address, encoding="ascii") as lines:
            self.addresses = dict(line.split() for line in lines)
        self.uri = "tilekv://" + self.addresses["grpc"]

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def kill(self):
        """As kill -9 does it. No harm when it has ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self):
        """As an operator does it; the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.kill()

    def peak_bytes(self):
        """The most memory that it has held so far."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        raise AssertionError("no VmHWM")


class ProgramCase(unittest.TestCase):
    """A temporary directory, and tilekv run in it."""

    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tilekv-test-")
        self.addCleanup(self.folder.cleanup)
        self.env = clean_environment()

    # --- files

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as out:
            out.write(content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as source:
            return source.read()

    # --- tilekv

    def run_raw(self, *words, stdin=b"", timeout=PATIENCE_S):
        return subprocess.run([programs["tilekv"], *words], input=stdin, capture_output=True,
                              timeout=timeout, env=self.env)

    def tilekv(self, *words, code=DONE, **options):
        """Runs it, checks the exit code, and gives standard output as text."""
        result = self.run_raw(*words, **options)
        self.assertEqual(result.returncode, code, f"{words}: {result.stdout!r} {result.stderr!r}")
        return result.stdout.decode("utf-8", "surrogateescape")

    def fails(self, code, *words, **options):
        """Runs it, checks the exit code, and gives standard error as text."""
        result = self.run_raw(*words, **options)
        self.assertEqual(result.returncode, code, f"{words}: {result.stdout!r} {result.stderr!r}")
        return result.stderr.decode()

    def as_json(self, *words, code=DONE, **options):
        return json.loads(self.tilekv(*words, "-o", "json", code=code, **options))

    def start_tilekv(self, *words):
        """Runs it beside the test, killed at the latest when the test ends."""
        process = subprocess.Popen([programs["tilekv"], *words], env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(finish, process)
        return process

    def run_measured(self, *words):
        """Runs it, which must succeed, and gives its peak memory in bytes."""
        # By a process that is small itself: what it has held counts as held by what it starts.
        measured = subprocess.run([sys.executable, "-S", "-c", MEASURE, programs["tilekv"], *words],
                                  env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  text=True, check=True)
        status, peak_kib = (int(word) for word in measured.stdout.split())
        self.assertEqual(os.waitstatus_to_exitcode(status), DONE, words)
        return peak_kib * 1024


def finish(process):
    if process.poll() is None:
        process.kill()
    process.communicate()


class EmbeddedCase(ProgramCase):
    """The store is a directory that tilekv opens itself."""

    max_object = "256MiB"

    def setUp(self):
        super().setUp()
        self.data_dir = self.path("store")
        self.env["TILEKV_STORE"] = self.data_dir
        self.tilekv("store", "init", "--max-object-bytes", self.max_object)

    def restart(self):
        """Nothing is running between two commands."""

    def server_flags(self):
        return ()


class ServedCase(ProgramCase):
    """The store is behind one server."""

    max_object = "256MiB"

    def setUp(self):
        super().setUp()
        self.data_dir = self.path("store")
        self.server = None
        self.start_server()

    def server_flags(self):
        return ()

    def start_server(self):
        self.server = Server(self.data_dir, "--max-object-bytes", self.max_object,
                             *self.server_flags())
        self.addCleanup(self.server.kill)
        self.env["TILEKV_STORE"] = self.server.uri

    def restart(self):
        """Ends it, however, and starts another on the same directory."""
        self.server.kill()
        self.start_server()


def payload_files(data_dir):
    """Objects that have a file of their own, those being written included."""
    return [os.path.join(folder, name)
            for folder, _, names in os.walk(os.path.join(data_dir, "payload")) for name in names]


def free_bytes(path):
    return shutil.disk_usage(path).free


# --- safetensors, by its definition: u64 length, JSON, data

DTYPE_BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8,
              "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16,
              "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64,
              "I64": 64, "U64": 64}
NUMPY_DTYPES = {"BOOL": "?", "U8": "<u1", "I8": "<i1", "I16": "<i2", "U16": "<u2", "F16": "<f2",
                "I32": "<i4", "U32": "<u4", "F32": "<f4", "C64": "<c8", "F64": "<f8", "I64": "<i8",
                "U64": "<u8"}
_WRITER_ORDER = {name: place for place, name in enumerate(DTYPE_BITS)}


def tensor_bytes(dtype, shape):
    elements = 1
    for size in shape:
        elements *= size
    assert elements * DTYPE_BITS[dtype] % 8 == 0
    return elements * DTYPE_BITS[dtype] // 8


def reference_order(tensors):
    """Names as the reference writer orders them: by descending dtype, then by name."""
    return sorted(tensors, key=lambda name: (-_WRITER_ORDER[tensors[name][0]], name.encode()))


def safetensors_head(tensors, order=None, metadata=None, pad=8, spaced=False, header_order=None):
    """Length and header of a file of {name: (dtype, shape, ...)}, data in `order`.

    Without more it is what the reference writer makes. `spaced` and `header_order` change the JSON
    text only, `pad` the multiple that it is padded to.
    """
    order = order or reference_order(tensors)
    offsets, at = {}, 0
    for name in order:
        dtype, shape = tensors[name][:2]
        offsets[name] = [at, at + tensor_bytes(dtype, shape)]
        at = offsets[name][1]
    header = {} if metadata is None else {"__metadata__": metadata}
    for name in header_order or order:
        dtype, shape = tensors[name][:2]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets[name]}
    text = json.dumps(header, separators=(", ", " : ") if spaced else (",", ":"),
                      ensure_ascii=spaced).encode()
    text += b" " * (-len(text) % pad)
    return struct.pack("<Q", len(text)) + text


def safetensors_file(tensors, order=None, **head):
    """A file of {name: (dtype, shape, content)}."""
    order = order or reference_order(tensors)
    for dtype, shape, content in tensors.values():
        assert len(content) == tensor_bytes(dtype, shape), (dtype, shape, len(content))
    return safetensors_head(tensors, order, **head) + b"".join(tensors[name][2] for name in order)
