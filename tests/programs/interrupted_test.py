"""What is cut off leaves nothing half-visible, and what was acknowledged stays: kill -9 and Ctrl-C."""

import os
import random
import signal

from tilekv_testing import (DONE, INTERRUPTED, MIB, NOT_FOUND, UNAVAILABLE, EmbeddedCase,
                            ServedCase, main, payload_files, safetensors_file, safetensors_head,
                            wait_until)

SENT_OBJECTS = 24  # have a payload file when an upload is cut off


def some_tensors(seed, count=8):
    draw = random.Random(seed)
    return {f"t{i:02}": ("F32", (512, 1024), draw.randbytes(2 * MIB)) for i in range(count)}


class InterruptedCase:
    """Mixed into a kind of store."""

    max_object = "1MiB"

    def write_long_source(self, path, zeros=3 << 30):
        """32 MiB that are stored in 32 objects, then zeros: seconds of work, all one object."""
        draw = random.Random(path)
        tensors = {f"a{i:02}": ("F32", (512, 1024)) for i in range(16)}
        tensors["z"] = ("F32", (zeros // 8192, 2048))
        with open(self.path(path), "wb") as out:
            out.write(safetensors_head(tensors))
            for _ in range(16):
                out.write(draw.randbytes(2 * MIB))
            out.truncate(out.tell() + zeros)
        return self.path(path)

    def start_import(self, model):
        """An import that is under way: some of its objects are in the store, more are to come."""
        source = self.write_long_source("long.safetensors")
        before = len(payload_files(self.data_dir))
        process = self.start_tilekv("model", "import", model, source)
        wait_until(lambda: len(payload_files(self.data_dir)) >= before + SENT_OBJECTS,
                   "the import has stored something", process)
        self.assertIsNone(process.poll(), "the import was over too soon to be cut off")
        return process

    def ended(self, process, *codes):
        out, err = process.communicate(timeout=60)
        self.assertIn(process.returncode, codes, (out, err))
        return err.decode()

    def import_first(self, model="m"):
        """A version from before; what there is now."""
        self.first = safetensors_file(some_tensors(1))
        self.tilekv("model", "import", model, self.write("first.safetensors", self.first))
        self.tilekv("store", "gc")
        self.objects_before = self.as_json("store", "info")["objects"]
        self.files_before = len(payload_files(self.data_dir))

    def assert_first_is_whole(self, model="m"):
        self.assertEqual(self.as_json("model", "show", model)["version"], 1)
        self.assertEqual(len(self.as_json("model", "ls")), 1)
        self.tilekv("model", "export", model, self.path("out.safetensors"), "-y")
        self.assertTrue(self.read("out.safetensors") == self.first)

    def assert_gc_takes_the_rest(self, *flags):
        collected = self.as_json("store", "gc", *flags)
        self.assertEqual(collected["sessions"], [])
        self.assertGreaterEqual(collected["deleted_objects"], SENT_OBJECTS // 2)
        self.assertEqual(self.as_json("store", "info")["objects"], self.objects_before)
        self.assertEqual(len(payload_files(self.data_dir)), self.files_before)
        self.assertIn("sound", self.tilekv("store", "fsck", "--content"))

    # --- imports

    def test_an_import_whose_client_is_killed_leaves_nothing(self):
        self.import_first()
        process = self.start_import("m")
        process.kill()
        self.ended(process, -signal.SIGKILL)
        self.assert_first_is_whole()
        self.restart()  # ends the session of the dead client
        self.assert_first_is_whole()
        self.assert_gc_takes_the_rest()
        self.assert_first_is_whole()

    def test_a_new_model_whose_import_is_killed_is_not_found(self):
        process = self.start_import("new")
        process.kill()
        self.ended(process, -signal.SIGKILL)
        for _ in range(2):
            self.fails(NOT_FOUND, "model", "show", "new")
            self.fails(NOT_FOUND, "model", "log", "new")
            self.assertEqual(self.as_json("model", "ls"), [])
            self.restart()
        self.tilekv("model", "import", "new", self.write("s.safetensors", safetensors_file({})))
        self.assertEqual(self.as_json("model", "show", "new")["version"], 1)

    def test_an_import_that_was_cut_off_sends_only_the_rest_when_tried_again(self):
        source = self.write_long_source("again.safetensors", zeros=2 << 30)
        before = len(payload_files(self.data_dir))
        process = self.start_tilekv("model", "import", "m", source)
        wait_until(lambda: len(payload_files(self.data_dir)) >= before + SENT_OBJECTS,
                   "the import has stored something", process)
        process.kill()
        self.ended(process, -signal.SIGKILL)
        self.restart()
        report = self.as_json("model", "import", "m", source)
        # What had a file may have lacked its row still: one for each thread that was storing.
        self.assertLess(report["new_bytes"], (33 - SENT_OBJECTS + 12) * MIB)
        self.assertEqual(report["version"], 1)

    def test_ctrl_c_ends_an_import_at_once_and_leaves_nothing(self):
        self.import_first()
        process = self.start_import("m")
        process.send_signal(signal.SIGINT)
        self.assertIn("CANCELLED", self.ended(process, INTERRUPTED))
        self.assert_first_is_whole()
        # It ended its session itself: nothing holds the rest back.
        self.assert_gc_takes_the_rest()
        self.assert_first_is_whole()

    # --- exports, loads

    def start_export(self, destination):
        """An export of 3 GiB, most of it zeros, whose file has begun."""
        source = self.write_long_source("long.safetensors")
        self.tilekv("model", "import", "long", source)
        os.mkdir(self.path("out"))
        process = self.start_tilekv("model", "export", "long", self.path("out", destination))
        wait_until(lambda: any(names for _, _, names in os.walk(self.path("out"))),
                   "the export has begun its file", process)
        self.assertIsNone(process.poll())
        return process

    def files_of_export(self):
        return [name for _, _, names in os.walk(self.path("out")) for name in names]

    def test_ctrl_c_ends_an_export_and_leaves_no_file(self):
        process = self.start_export("long.safetensors")
        process.send_signal(signal.SIGINT)
        self.assertIn("CANCELLED", self.ended(process, INTERRUPTED))
        self.assertEqual(self.files_of_export(), [])

    def test_ctrl_c_ends_the_export_of_a_folder_and_leaves_no_file(self):
        process = self.start_export("folder")
        process.send_signal(signal.SIGINT)
        self.ended(process, INTERRUPTED)
        self.assertEqual(self.files_of_export(), [])

    def test_an_export_that_is_killed_leaves_nothing_under_the_files_name(self):
        process = self.start_export("long.safetensors")
        process.kill()
        self.ended(process, -signal.SIGKILL)
        self.assertFalse(os.path.exists(self.path("out", "long.safetensors")))


class EmbeddedInterrupted(InterruptedCase, EmbeddedCase):
    pass


class ServedInterrupted(InterruptedCase, ServedCase):
    def test_what_was_acknowledged_survives_kill_9_of_the_server(self):
        contents = {size: random.Random(size).randbytes(size)
                    for size in (0, 1, 512, 513, 40_000, 65_536, 1_000_000)}
        for size, content in contents.items():
            self.tilekv("kv", "put", f"k{size}", "-", stdin=content)
            self.restart()
            self.assertTrue(self.run_raw("kv", "get", f"k{size}").stdout == content, size)
        long = random.Random(1).randbytes(5_000_000)
        self.tilekv("kv", "put", "long", "-", "--chunked", stdin=long)
        self.tilekv("kv", "put", "k1", "-", stdin=b"newer")
        self.tilekv("kv", "rm", "k0", "-y")
        self.restart()
        self.assertTrue(self.run_raw("kv", "get", "long").stdout == long)
        self.assertEqual(self.tilekv("kv", "get", "k1"), "newer")
        self.fails(NOT_FOUND, "kv", "get", "k0")
        self.assertIn("sound", self.tilekv("store", "fsck", "--content"))

    def test_an_import_that_was_acknowledged_survives_kill_9_of_the_server(self):
        self.first = safetensors_file(some_tensors(1))
        source = self.write("first.safetensors", self.first)
        self.tilekv("model", "import", "m", source, "--tag", "prod")
        self.restart()
        self.assertEqual(self.as_json("model", "show", "m@prod")["version"], 1)
        self.assert_first_is_whole()
        self.assertIn("sound", self.tilekv("model", "verify", "m"))
        self.tilekv("store", "gc")
        self.assert_first_is_whole()

    def test_an_import_whose_server_is_killed_leaves_nothing(self):
        self.import_first()
        process = self.start_import("m")
        self.server.kill()
        self.ended(process, UNAVAILABLE)
        self.restart()
        self.assert_first_is_whole()
        self.assert_gc_takes_the_rest()
        self.assert_first_is_whole()

    def test_the_session_of_a_dead_client_ends_by_itself(self):
        self.import_first()
        process = self.start_import("m")
        process.kill()
        self.ended(process, -signal.SIGKILL)
        held = self.as_json("store", "gc")
        self.assertEqual(held["deleted_objects"], 0)
        self.assertGreater(held["kept_by_sessions"], 0)
        self.assertEqual(len(held["sessions"]), 1)
        self.assert_gc_takes_the_rest("--wait")

    def test_a_server_that_is_stopped_leaves_no_address(self):
        self.tilekv("kv", "put", "k", "-", stdin=b"x")
        self.assertEqual(self.server.stop(), DONE)
        self.assertFalse(os.path.exists(os.path.join(self.data_dir, "ADDRESS")))
        self.fails(UNAVAILABLE, "kv", "get", "k")
        self.restart()
        self.assertEqual(self.tilekv("kv", "get", "k"), "x")


if __name__ == "__main__":
    main(globals())
