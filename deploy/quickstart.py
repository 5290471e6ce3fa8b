#!/usr/bin/python3
"""What the quickstart does beside TileKV, with NumPy alone. Debian's Python, which has Debian's NumPy.

    deploy/quickstart.py make-matrix FILE.npy              9000 x 9000 fp32, the same values every time
    deploy/quickstart.py same-slice SOURCE TENSOR SLICE GOT.npy
                                                           NumPy's slice of the source (.npy or .safetensors) is GOT.npy
    deploy/quickstart.py within MIB COMMAND...             runs a command whose peak memory has to stay within MIB
    deploy/quickstart.py free-ports                        two ports of the loopback that are free now
"""
import json
import resource
import socket
import subprocess
import sys

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


def free_ports():
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    print(*(s.getsockname()[1] for s in sockets))


COMMANDS = {"make-matrix": make_matrix, "same-slice": same_slice, "within": within, "free-ports": free_ports}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
