"""What tests of tilekv share: running it, on a store in a directory of its own."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import tempfile
import termios
import time
import unittest

TILEKV = None  # the program's path, set by the test's main

DONE, DIFFERS, USAGE, NOT_FOUND, CONDITION, UNAVAILABLE, DATA_LOSS, TOO_LARGE = range(8)
INTERRUPTED = 130


def write_safetensors(path, tensors, metadata=None):
    """Tensors in the reference writer's form: by dtype, then by name."""
    names = {"float32": "F32", "float16": "F16", "int64": "I64", "uint8": "U8"}
    rank = {"uint8": 0, "float16": 1, "float32": 2, "int64": 3}
    order = sorted(tensors, key=lambda name: (-rank[tensors[name].dtype.name], name))
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name in order:
        array = tensors[name]
        header[name] = {"dtype": names[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            out.write(tensors[name].tobytes())


class CliTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tilekv-cli-")
        self.addCleanup(self.folder.cleanup)
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("TILEKV_", "LC_")) and key not in ("LANG", "NO_COLOR")}
        self.env.update(TILEKV_STORE=self.path("store"), LANG="C.UTF-8", COLUMNS="100")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as out:
            out.write(content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as source:
            return source.read()

    def run_raw(self, *words, stdin=b"", env=None):
        return subprocess.run([TILEKV, *words], input=stdin, capture_output=True, timeout=120,
                              env={**self.env, **(env or {})})

    def tilekv(self, *words, code=DONE, **options):
        """Runs it, checks the exit code, and gives standard output as text."""
        result = self.run_raw(*words, **options)
        self.assertEqual(result.returncode, code,
                         f"{words}: {result.stdout!r} {result.stderr!r}")
        return result.stdout.decode("utf-8", "surrogateescape")

    def fails(self, code, *words, **options):
        """Runs it, checks the exit code, and gives standard error as text."""
        result = self.run_raw(*words, **options)
        self.assertEqual(result.returncode, code,
                         f"{words}: {result.stdout!r} {result.stderr!r}")
        return result.stderr.decode()

    def as_json(self, *words, code=DONE):
        return json.loads(self.tilekv(*words, "-o", "json", code=code))


def damage_payloads(store):
    """Flips a byte in the content of every payload file."""
    for folder, _, names in os.walk(os.path.join(store, "payload")):
        for name in names:
            with open(os.path.join(folder, name), "r+b") as payload:
                payload.seek(4096 + 100)
                byte = payload.read(1)
                payload.seek(4096 + 100)
                payload.write(bytes([byte[0] ^ 1]))


def wait_until_read(process):
    """Until the process has taken what is in its standard input."""
    left = bytearray(4)
    while process.poll() is None:
        fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, left)
        if struct.unpack("i", left)[0] == 0:
            return
        time.sleep(0.01)


def on_terminal(command, env, answer=b""):
    """Runs it on a terminal of its own: what it showed, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, env)
    if answer:
        os.write(terminal, answer)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        shown += piece
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return shown.decode(), os.waitstatus_to_exitcode(status)
