#!/usr/bin/python3
"""What the quickstart does beside TileKV, with NumPy alone. Debian's Python, which has Debian's NumPy.

    deploy/quickstart.py make-matrix FILE.npy              9000 x 9000 fp32, the same values every time
    deploy/quickstart.py same-slice SOURCE TENSOR SLICE GOT.npy
                                                           NumPy's slice of the source (.npy or .safetensors) is GOT.npy
    deploy/quickstart.py within MIB COMMAND...             runs a command whose peak memory has to stay within MIB
    deploy/quickstart.py midway FILE.npy BREAK... -- LOAD...
                                                           runs LOAD, which writes the array's bytes, and BREAK when half
                                                           of them have come; all bytes have to be the file's
    deploy/quickstart.py free-ports COUNT                  the first of so many ports of the loopback that are free now
"""
import contextlib
import json
import random
import resource
import socket
import subprocess
import sys
import time

import numpy as np


def make_matrix(path):
    np.save(path, np.random.default_rng(7).standard_normal((9000, 9000), dtype=np.float32))


def open_tensor(path, name):
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r")
    raw = np.memmap(path, np.uint8, mode="r")
    header_bytes = int.from_bytes(raw[:8].tobytes(), "little")
    entry = json.loads(raw[8:8 + header_bytes].tobytes())[name]
    if entry["dtype"] != "F32":
        sys.exit(f"{name} is {entry['dtype']}, and this reads F32")
    begin, end = entry["data_offsets"]
    return raw[8 + header_bytes:][begin:end].view("<f4").reshape(entry["shape"])


def same_slice(source, tensor, text, got_path):
    key = tuple(slice(*(int(n) if n else None for n in part.split(":"))) for part in text.split(","))
    want = np.ascontiguousarray(open_tensor(source, tensor)[key])
    got = np.load(got_path)
    if (want.shape, want.dtype) != (got.shape, got.dtype):
        sys.exit(f"NumPy gives {want.shape} of {want.dtype}, TileKV {got.shape} of {got.dtype}")
    if want.tobytes() != got.tobytes():
        sys.exit(f"{tensor}[{text}]: bytes differ")
    print(f"NumPy agrees: {tensor}[{text}] has shape {got.shape}, every byte equal")


def within(mib, *command):
    status = subprocess.run(command, stdin=subprocess.DEVNULL).returncode
    peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"(peak memory of the process: {peak_mib:.0f} MiB, allowed: {mib} MiB)")
    sys.exit(status or peak_mib > int(mib))


def midway(path, *commands):
    split = commands.index("--")
    want = memoryview(np.load(path, mmap_mode="r")).cast("B")
    with subprocess.Popen(commands[split + 1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as load:
        at, broken, longest, last = 0, False, 0.0, time.monotonic()
        while piece := load.stdout.read(1 << 20):
            longest = max(longest, time.monotonic() - last)
            if at + len(piece) > len(want) or piece != want[at:at + len(piece)]:
                sys.exit(f"what came at byte {at:,} is not what the file has there")
            at += len(piece)
            if not broken and at >= len(want) // 2:
                broken = True
                subprocess.run(commands[:split], stdin=subprocess.DEVNULL, check=True)
                print(f"after {at:,} of {len(want):,} bytes: {' '.join(commands[:split])}")
            last = time.monotonic()
    if load.returncode != 0 or at != len(want) or not broken:
        sys.exit(f"{at:,} of {len(want):,} bytes came, exit status {load.returncode}")
    print(f"all {at:,} bytes came, every one equal; the longest wait for the next ones was {longest:.2f} s")


def free_ports(count):
    for first in random.sample(range(20_000, 32_000), 100):
        with contextlib.ExitStack() as sockets:
            try:
                for port in range(first, first + int(count)):
                    sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        print(first)
        return
    sys.exit(f"there are no {count} free ports in a row")


COMMANDS = {"make-matrix": make_matrix, "same-slice": same_slice, "within": within, "midway": midway, "free-ports": free_ports}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
