"""Memory stays within what --memory says, whatever the size of the model.

A model of 1 GiB, or of 4 GiB with TILEKV_TEST_FULL=1, is imported, loaded and exported with 256 MiB
for the client and 256 MiB for the server; one of 100,000 small tensors with little more than its
tables take. What counts is the most that each process has held.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from tilekv_testing import MIB, EmbeddedCase, ServedCase, free_bytes, main, pass_over, safetensors_head

FULL = os.environ.get("TILEKV_TEST_FULL") == "1"
TENSORS = 16 if FULL else 4
TENSOR_BYTES = 256 * MIB
MODEL_BYTES = TENSORS * TENSOR_BYTES
NEEDED_BYTES = 5 * MODEL_BYTES  # file, store, export, and room for what the store keeps free

MEMORY = "256MiB"
CLIENT_BYTES = (256 + 96) * MIB
SERVER_BYTES = (256 + 256) * MIB
STANDING_READERS = 12

MANY_TENSORS = 100_000
BESIDE_BYTES = 96 * MIB


class Source:
    """The model's file, made once."""

    path = None
    many_path = None


def setUpModule():
    folder = tempfile.mkdtemp(prefix="tilekv-test-")
    unittest.addModuleCleanup(shutil.rmtree, folder)
    if free_bytes(folder) < NEEDED_BYTES:
        pass_over(f"needs {NEEDED_BYTES >> 30} GiB free in {folder}, which has "
                  f"{free_bytes(folder) >> 30}")
    Source.path = os.path.join(folder, "model.safetensors")
    # Square ones are cut into bands, tall ones into row panels, a wide row inside the row.
    shapes = [("F32", (8192, 8192)), ("F32", (131_072, 512)), ("BF16", (8192, 16_384)),
              ("F32", (2, 33_554_432))]
    tensors = {f"layers.{i:02}": shapes[i % len(shapes)] for i in range(TENSORS)}
    draw = np.random.default_rng(4)
    with open(Source.path, "wb") as out:
        out.write(safetensors_head(tensors))
        for _ in range(MODEL_BYTES // (8 * MIB)):
            out.write(draw.integers(0, 2**64, MIB, dtype=np.uint64).tobytes())
    # In an order that is not that of the names, so that the header is kept word by word.
    Source.many_path = os.path.join(folder, "many.safetensors")
    with open(Source.many_path, "wb") as out:
        many = {f"layers.{i}.weight": ("F32", (16, 16)) for i in range(MANY_TENSORS)}
        out.write(safetensors_head(many, order=list(many)))
        out.write(draw.integers(0, 2**64, MANY_TENSORS * 128, dtype=np.uint64).tobytes())


class MemoryCase:
    """Mixed into a kind of store."""

    def server_flags(self):
        return ("--memory", MEMORY)

    def stays_within(self, *words, memory=MEMORY, most=CLIENT_BYTES):
        peak = self.run_measured(*words, "--memory", memory)
        print(f"{type(self).__name__}: {' '.join(words[:3])}: client {peak >> 20} MiB of "
              f"{most >> 20}{self.server_text()}", flush=True)
        self.assertLessEqual(peak, most, words)
        self.check_server()

    def server_text(self):
        return ""

    def check_server(self):
        """Where there is one."""

    def test_import_load_and_export(self):
        self.stays_within("model", "import", "m", Source.path)
        self.stays_within("model", "load", "m", "--to", "null")
        self.stays_within("model", "export", "m", self.path("out.safetensors"))
        same = subprocess.run(["cmp", Source.path, self.path("out.safetensors")], check=False)
        self.assertEqual(same.returncode, 0, "the export differs from its source")
        os.unlink(self.path("out.safetensors"))
        # What is there already takes no more.
        self.stays_within("model", "import", "again", Source.path)
        self.stays_within("model", "verify", "m")

    def test_a_manifest_of_very_many_tensors_counts_too(self):
        def stays_within(mib, *words):
            self.stays_within(*words, memory=f"{mib}MiB", most=mib * MIB + BESIDE_BYTES)

        out = self.path("many.safetensors")
        stays_within(128, "model", "import", "many", Source.many_path)
        stays_within(64, "model", "load", "many")
        stays_within(64, "model", "export", "many", out)
        same = subprocess.run(["cmp", Source.many_path, out], check=False)
        self.assertEqual(same.returncode, 0, "the export differs from its source")
        stays_within(128, "model", "import", "many", Source.many_path)  # beside the older manifest
        stays_within(64, "tensor", "stats", "many")


class EmbeddedMemory(MemoryCase, EmbeddedCase):
    def test_a_tile_larger_than_the_budget_is_coded_step_by_step(self):
        values = np.random.default_rng(5).standard_normal(TENSOR_BYTES // 16, dtype=np.float32)
        path = self.path("one.safetensors")
        with open(path, "wb") as out:  # as bfloat16
            out.write(safetensors_head({"one": ("BF16", (8192, 16_384))}))
            for _ in range(8):
                out.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
        peak = self.run_measured("model", "import", "m", path, "--codec", "planes", "--layout",
                                 "8192x16384", "--memory", "64MiB")
        print(f"one tile of {TENSOR_BYTES >> 20} MiB, coded: {peak >> 20} MiB", flush=True)
        # The tile itself, which goes alone, and what any command may take beside its budget.
        self.assertLessEqual(peak, TENSOR_BYTES + 96 * MIB)
        stored = self.as_json("store", "info")["stored_bytes"]
        self.assertLess(stored, TENSOR_BYTES * 9 // 10, "it is coded")
        self.tilekv("model", "verify", "m")


class ServedMemory(MemoryCase, ServedCase):
    def server_text(self):
        return f", server {self.server.peak_bytes() >> 20} MiB of {SERVER_BYTES >> 20}"

    def check_server(self):
        self.assertLessEqual(self.server.peak_bytes(), SERVER_BYTES)

    def test_readers_that_stand_still_take_no_more_and_hold_nobody_up(self):
        self.stays_within("model", "import", "m", Source.path)
        for i in range(STANDING_READERS):
            reader = self.start_tilekv("tensor", "get", "m", f"layers.{i % TENSORS:02}", "-",
                                       "--memory", MEMORY)
            self.assertEqual(len(reader.stdout.read(1)), 1)  # and no more
        self.stays_within("model", "load", "m", "--to", "null")


if __name__ == "__main__":
    main(globals())
