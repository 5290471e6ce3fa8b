"""What people mistype and what machines lack: the error says what to do, and nothing is left behind."""

import os
import random
import signal
import subprocess

from tilekv_testing import (DONE, INTERRUPTED, MIB, NOT_FOUND, TOO_LARGE, UNAVAILABLE, USAGE,
                            EmbeddedCase, ProgramCase, Server, clean_environment, main, programs,
                            safetensors_file, safetensors_head, wait_until)


class ModelMistakes(EmbeddedCase):
    def setUp(self):
        super().setUp()
        content = random.Random(1).randbytes(1000 * 1000 * 4)
        self.source = self.write("w.safetensors", safetensors_file({"w": ("F32", (1000, 1000), content)}))

    def import_it(self):
        self.tilekv("model", "import", "m", self.source)

    def test_an_empty_slice_is_not_everything(self):
        self.import_it()
        for words in (("--slice", ""), ("--slice=",), ("--slice", "  ")):
            error = self.fails(USAGE, "tensor", "get", "m", "w", self.path("out.npy"), *words)
            self.assertIn("--slice is empty", error)
            self.assertFalse(os.path.exists(self.path("out.npy")))

    def test_a_list_in_brackets_is_not_taken_for_a_slice(self):
        self.import_it()
        error = self.fails(USAGE, "tensor", "get", "m", "w", self.path("out.npy"), "--slice", "[0,1]")
        self.assertIn("brackets", error)

    def test_sliver_tiles_are_refused_with_what_would_do(self):
        error = self.fails(USAGE, "model", "import", "m", self.source, "--layout", "1x1")
        self.assertIn("64 KiB", error)
        self.assertIn("[17, 1000]", error)
        self.tilekv("model", "import", "m", self.source, "--layout", "17x1000")

    def test_an_export_makes_no_folder_under_the_name_of_a_file(self):
        self.import_it()
        for name in ("o.pt", "o.bin", "o.gguf", "o.npz"):
            error = self.fails(USAGE, "model", "export", "m", self.path(name))
            self.assertIn("not written", error)
            self.assertFalse(os.path.exists(self.path(name)))
        self.tilekv("model", "export", "m", self.path("o.pt") + "/")

    def test_a_tensor_above_the_size_of_a_shard_is_remarked(self):
        self.import_it()
        result = self.run_raw("model", "export", "m", self.path("out"), "--max-shard-size", "1MiB")
        self.assertEqual(result.returncode, DONE)
        self.assertIn(b"1 tensor larger than --max-shard-size", result.stderr)

    def test_a_load_goes_nowhere_by_itself(self):
        self.import_it()
        self.tilekv("model", "load", "m")
        self.tilekv("model", "load", "m", "--to", "null")

    def test_a_closed_terminal_ends_an_export_as_ctrl_c_does(self):
        with open(self.path("long.safetensors"), "wb") as out:
            out.write(safetensors_head({"z": ("F32", (3 << 17, 2048))}))
            out.truncate(out.tell() + (3 << 30))
        self.tilekv("model", "import", "long", self.path("long.safetensors"))
        os.mkdir(self.path("out"))
        process = self.start_tilekv("model", "export", "long", self.path("out", "x.safetensors"))
        wait_until(lambda: os.listdir(self.path("out")), "the export has begun its file", process)
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, (out, err))
        self.assertEqual(os.listdir(self.path("out")), [])


class StoreMistakes(ProgramCase):
    def test_a_store_that_is_not_there_says_how_one_is_made(self):
        self.assertIn("tilekv store init",
                      self.fails(NOT_FOUND, "--store", self.path("none"), "kv", "ls"))

    def test_a_store_in_memory_is_no_store_of_a_command(self):
        error = self.fails(USAGE, "--store", "memory:", "kv", "put", "k", "-", stdin=b"x")
        self.assertIn("gone when the command ends", error)

    def test_two_stores_are_one_too_many(self):
        error = self.fails(USAGE, "--store", self.path("a"), "--store", self.path("b"), "kv", "ls")
        self.assertIn("--store is given 2 times", error)
        self.assertIn("given 2 times",
                      self.fails(USAGE, "-o", "json", "--store", self.path("a"), "kv", "ls", "-o", "table"))

    def test_a_store_that_is_refused_leaves_nothing(self):
        self.fails(USAGE, "--store", self.path("new"), "store", "init", "--max-object-bytes", "16")
        self.assertFalse(os.path.exists(self.path("new")))

    def test_a_file_is_no_store(self):
        path = self.write("file", b"x")
        for words in (("kv", "ls"), ("kv", "put", "k", "-")):
            self.assertIn("a store is a directory", self.fails(USAGE, "--store", path, *words))

    def test_another_limit_says_what_can_be_done(self):
        store = self.path("s")
        self.tilekv("--store", store, "store", "init", "--max-object-bytes", "1MiB")
        error = self.fails(USAGE, "--store", store, "store", "init", "--max-object-bytes", "2MiB")
        self.assertIn("Leave it out", error)

    def test_a_store_that_is_served_names_the_server_to_ask(self):
        server = Server(self.path("s"))
        self.addCleanup(server.kill)
        error = self.fails(UNAVAILABLE, "--store", self.path("s"), "kv", "put", "k", "-", stdin=b"x")
        self.assertIn("--store " + server.uri, error)


class FileMistakes(EmbeddedCase):
    def test_a_missing_folder_is_named_as_it_is(self):
        self.tilekv("kv", "put", "k", "-", stdin=b"x")
        error = self.fails(NOT_FOUND, "kv", "get", "k", self.path("no", "file"))
        self.assertIn(f"no folder '{self.path('no')}'", error)
        self.assertNotIn(".tilekv-", error)

    def test_what_is_full_is_not_taken_for_the_store(self):
        self.tilekv("kv", "put", "k", "-", stdin=bytes(MIB))
        self.assertIn("not the store", self.fails(TOO_LARGE, "kv", "get", "k", "/dev/full"))
        with open("/dev/full", "wb") as full:
            result = subprocess.run([programs["tilekv"], "kv", "get", "k"], stdout=full,
                                    stderr=subprocess.PIPE, env=self.env, timeout=60)
        self.assertEqual(result.returncode, TOO_LARGE)
        self.assertIn(b"not the store", result.stderr)


class ServerMistakes(ProgramCase):
    def refused(self, *flags):
        result = subprocess.run([programs["tilekv-server"], *flags], env=clean_environment(),
                                capture_output=True, timeout=60)
        self.assertNotEqual(result.returncode, DONE)
        return result.returncode, result.stderr.decode()

    def test_a_host_that_there_is_not_is_no_port_that_is_taken(self):
        code, error = self.refused("--data-dir", self.path("d"), "--listen", "nosuchhost.invalid:0",
                                   "--http", "127.0.0.1:0")
        self.assertEqual(code, UNAVAILABLE)
        self.assertIn("a name that stands for one", error)
        self.assertNotIn("program that uses it", error)

    def test_a_data_directory_must_be_one(self):
        for name in ("", self.write("file", b"x")):
            code, error = self.refused("--data-dir", name, "--listen", "127.0.0.1:0",
                                       "--http", "127.0.0.1:0")
            self.assertEqual(code, USAGE, error)


if __name__ == "__main__":
    main(globals())
