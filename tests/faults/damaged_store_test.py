"""Stores that are full, read-only, mixed up or damaged: a clear error, nothing lost, nothing wrong given out."""

import glob
import os
import random
import shutil
import subprocess

from tilekv_testing import (DATA_LOSS, DONE, MIB, TOO_LARGE, UNAVAILABLE, USAGE, EmbeddedCase,
                            ProgramCase, ServedCase, Server, clean_environment, main, pass_over,
                            payload_files, programs, safetensors_file)


PROBLEMS = 1  # what 'model verify' ends with


def flip(path, offset, bit=0):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


class DamageTest(EmbeddedCase):
    """One flipped bit anywhere: what is read is right, or an error."""

    def fill(self):
        draw = random.Random(1)
        self.values = {f"large{i}": draw.randbytes(200_000) for i in range(4)}
        self.values.update({f"small{i}": draw.randbytes(5_000) for i in range(12)})
        self.values.update({f"tiny{i}": draw.randbytes(100) for i in range(12)})
        for key, value in self.values.items():
            self.tilekv("kv", "put", key, "-", stdin=value)

    def read_all(self):
        """How many values were refused; those given out are right."""
        refused = 0
        for key, value in self.values.items():
            result = self.run_raw("kv", "get", key)
            if result.returncode == DONE:
                self.assertTrue(result.stdout == value, key)
                continue
            refused += 1
            self.assertEqual(result.returncode, DATA_LOSS, (key, result.stderr))
            self.assertIn(b"DATA_LOSS", result.stderr)
            self.assertEqual(result.stdout, b"")
        return refused

    def damage(self, pattern, seed):
        """A copy of the store with one flipped bit in the middle of a file's content."""
        keep = self.data_dir
        shutil.rmtree(self.path("copy"), ignore_errors=True)
        shutil.copytree(keep, self.path("copy"))
        self.env["TILEKV_STORE"] = self.path("copy")
        files = sorted(glob.glob(os.path.join(self.path("copy"), pattern)), key=os.path.getsize)
        self.assertTrue(files, pattern)
        draw = random.Random(seed)
        size = os.path.getsize(files[-1])
        flip(files[-1], draw.randrange(size // 4, size * 3 // 4), draw.randrange(8))

    def test_a_flipped_bit_of_a_payload_is_met_by_its_readers_alone(self):
        self.fill()
        self.damage("payload/*/*", 1)
        self.assertEqual(self.read_all(), 1)
        result = self.run_raw("store", "fsck", "--content")
        self.assertEqual(result.returncode, DATA_LOSS, result.stdout)
        # The others are as they were, and storing the value again heals it.
        for key, value in self.values.items():
            self.tilekv("kv", "put", key, "-", stdin=value)
        self.assertEqual(self.read_all(), 0)

    def test_a_flipped_bit_of_index_or_catalog_is_never_passed_over(self):
        self.fill()
        for pattern in ("index/*.log", "catalog/*.log", "index/*.sst", "catalog/*.sst"):
            with self.subTest(pattern=pattern):
                refused = 0
                for seed in range(2):
                    self.damage(pattern, seed)
                    refused += self.read_all()
                self.assertGreater(refused, 0, "nobody has met what was flipped")

    def test_a_server_does_not_start_on_a_damaged_log(self):
        server = Server(self.data_dir)
        self.addCleanup(server.kill)
        for i in range(20):
            self.tilekv("--store", server.uri, "kv", "put", f"k{i}", "-", stdin=bytes(100))
        server.kill()
        self.damage("catalog/*.log", 1)
        result = subprocess.run(
            [programs["tilekv-server"], "--data-dir", self.path("copy"), "--listen", "127.0.0.1:0",
             "--http", "127.0.0.1:0"], env=clean_environment(), capture_output=True, timeout=60)
        self.assertEqual(result.returncode, DATA_LOSS, result.stderr)
        self.assertIn(b"DATA_LOSS", result.stderr)


class HealCase:
    """Mixed into a kind of store: damage is met by a reader, and importing again heals it."""

    def damage_one(self, model, harm):
        """Harms one payload file of the store; the model does not verify any more."""
        harm(payload_files(self.data_dir)[0])
        self.assertIn("DATA_LOSS", self.tilekv("model", "verify", model, code=PROBLEMS))

    def test_importing_a_model_again_heals_what_verifying_it_has_met(self):
        draw = random.Random(2)
        source = self.write("model.safetensors", safetensors_file(
            {"a": ("U8", (300_000,), draw.randbytes(300_000)),
             "b": ("U8", (200_000,), draw.randbytes(200_000))}))
        self.tilekv("model", "import", "m", source)
        for harm in (lambda path: flip(path, 50_000), os.unlink,
                     lambda path: os.truncate(path, 8192)):
            self.damage_one("m", harm)
            self.tilekv("model", "import", "again", source)
            self.tilekv("model", "verify", "m")
            self.tilekv("store", "fsck", "--content")


class EmbeddedHealTest(HealCase, EmbeddedCase):
    def test_a_reader_beside_a_server_tells_it_what_it_met(self):
        source = self.write("model.safetensors", safetensors_file(
            {"a": ("U8", (300_000,), random.Random(3).randbytes(300_000))}))
        server = Server(self.data_dir)
        self.addCleanup(server.kill)
        self.tilekv("--store", server.uri, "model", "import", "m", source)
        self.damage_one("m", lambda path: flip(path, 50_000))  # read from the directory
        self.tilekv("--store", server.uri, "model", "import", "m", source)
        self.tilekv("model", "verify", "m")


class ServedHealTest(HealCase, ServedCase):
    pass


class MixedTest(EmbeddedCase):
    def second_store(self):
        other = self.path("other")
        self.tilekv("--store", other, "kv", "put", "theirs", "-", stdin=bytes(200_000))
        self.tilekv("kv", "put", "ours", "-", stdin=b"x" * 200_000)
        return other

    def test_another_stores_catalog_is_refused(self):
        other = self.second_store()
        shutil.rmtree(self.path("store", "catalog"))
        shutil.copytree(os.path.join(other, "catalog"), self.path("store", "catalog"))
        for words in (("kv", "ls"), ("kv", "rm", "theirs", "-y"), ("store", "gc")):
            error = self.fails(USAGE, *words)
            self.assertIn("STORE_MISMATCH", error)
            self.assertIn("two stores were mixed", error)

    def test_another_stores_payload_is_not_given_out(self):
        other = self.second_store()
        ours, theirs = payload_files(self.data_dir)[0], payload_files(other)[0]
        shutil.copyfile(theirs, ours)
        self.assertIn("DATA_LOSS", self.fails(DATA_LOSS, "kv", "get", "ours"))

    def test_a_later_format_is_refused(self):
        path = self.path("store", "SUPERBLOCK")
        with open(path, encoding="ascii") as file:
            text = file.read()
        key, version = text.split("\n", 1)[0].rsplit(" ", 1)
        with open(path, "w", encoding="ascii") as file:
            file.write(text.replace(f"{key} {version}\n", f"{key} {int(version) + 1}\n", 1))
        error = self.fails(USAGE, "kv", "ls")
        self.assertIn("STORE_MISMATCH", error)
        self.assertIn("use a later TileKV", error)
        self.assertIn("STORE_MISMATCH", self.fails(USAGE, "kv", "put", "k", "-"))


class SmallDiskCase(ProgramCase):
    disk_mib = 160

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            pass_over("mounting a small disk needs root")
        self.disk = self.path("disk")
        os.mkdir(self.disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.disk_mib}m", "tmpfs",
                                  self.disk], capture_output=True)
        if mounted.returncode != 0:
            pass_over(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=True)
        self.data_dir = os.path.join(self.disk, "store")

    def start(self):
        self.server = Server(self.data_dir)
        self.addCleanup(self.server.kill)
        self.env["TILEKV_STORE"] = self.server.uri


class FullDiskTest(SmallDiskCase):
    def test_a_full_disk_refuses_writes_serves_reads_and_is_healed_by_removing(self):
        self.start()
        draw = random.Random(1)
        stored = {}
        for i in range(64):
            value = draw.randbytes(4 * MIB)
            result = self.run_raw("kv", "put", f"k{i}", "-", stdin=value)
            if result.returncode != DONE:
                break
            stored[f"k{i}"] = value
        self.assertEqual(result.returncode, TOO_LARGE, result.stderr)
        self.assertIn(b"STORE_FULL", result.stderr)
        self.assertGreater(len(stored), 2)
        for key, value in stored.items():
            self.assertTrue(self.run_raw("kv", "get", key).stdout == value, key)
        self.assertIn("STORE_FULL", self.fails(TOO_LARGE, "kv", "put", "more", "-", stdin=value))
        first, *others = stored
        self.tilekv("kv", "rm", first, "-y")
        self.tilekv("kv", "rm", others[0], "-y")
        self.tilekv("store", "gc")
        self.tilekv("kv", "put", "again", "-", stdin=stored[first])
        for key in others[1:]:
            self.assertTrue(self.run_raw("kv", "get", key).stdout == stored[key], key)
        self.assertIn("sound", self.tilekv("store", "fsck", "--content"))
        self.assertEqual(self.server.stop(), DONE)


class ReadOnlyDiskTest(SmallDiskCase):
    def remount(self, how):
        subprocess.run(["mount", "-o", f"remount,{how}", self.disk], check=True)

    def test_a_store_on_a_read_only_disk_is_read_and_says_that_it_cannot_be_written(self):
        self.env["TILEKV_STORE"] = self.data_dir
        self.tilekv("kv", "put", "k", "-", stdin=b"value")
        self.remount("ro")
        self.assertEqual(self.tilekv("kv", "get", "k"), "value")
        error = self.fails(UNAVAILABLE, "kv", "put", "k", "-", stdin=b"other")
        self.assertIn("PERMISSION_DENIED", error)
        result = subprocess.run(
            [programs["tilekv-server"], "--data-dir", self.data_dir, "--listen", "127.0.0.1:0",
             "--http", "127.0.0.1:0"], env=clean_environment(), capture_output=True, timeout=60)
        self.assertEqual(result.returncode, UNAVAILABLE, result.stderr)
        self.assertIn(b"PERMISSION_DENIED", result.stderr)
        self.remount("rw")
        self.tilekv("kv", "put", "k", "-", stdin=b"other")
        self.assertEqual(self.tilekv("kv", "get", "k"), "other")


if __name__ == "__main__":
    main(globals())
