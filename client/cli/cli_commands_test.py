"""Every command of tilekv once, right and wrong, on a store in a directory.

Usage: cli_commands_test.py PATH_OF_TILEKV [unittest's arguments]
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

import numpy as np

import cli_test_base
from cli_test_base import (CONDITION, DATA_LOSS, DIFFERS, DONE, INTERRUPTED, NOT_FOUND, TOO_LARGE,
                           UNAVAILABLE, USAGE, CliTest, damage_payloads, on_terminal,
                           wait_until_read, write_safetensors)

class Values(CliTest):
    def test_what_was_put_comes_back(self):
        content = os.urandom(300_000)
        self.write("in", content)
        put = self.as_json("kv", "put", "some/key", self.path("in"))
        self.assertEqual(put["length"], len(content))
        self.assertEqual(self.run_raw("kv", "get", "some/key").stdout, content)
        self.tilekv("kv", "get", "some/key", self.path("out"))
        self.assertEqual(self.read("out"), content)

    def test_ranges_count_from_both_ends(self):
        content = bytes(range(256)) * 4
        self.tilekv("kv", "put", "k", "-", stdin=content)
        for text, expected in {"0:10": content[:10], "-10:": content[-10:], ":-1000": content[:-1000],
                               "5:3": b"", "1KiB:": b"", "-5KiB:2": content[:2]}.items():
            self.assertEqual(self.run_raw("kv", "get", "k", "--range", text).stdout, expected, text)
        self.fails(USAGE, "kv", "get", "k", "--range", "7")

    def test_a_value_comes_from_a_pipe_of_unknown_length(self):
        self.tilekv("kv", "put", "k", "-", stdin=b"x" * 1_000_000)
        self.assertEqual(self.as_json("kv", "stat", "k")["length"], 1_000_000)
        self.tilekv("kv", "put", "empty", "-")
        self.assertEqual(self.as_json("kv", "stat", "empty")["length"], 0)

    def test_a_value_above_the_limit_is_refused_with_the_remedy(self):
        self.tilekv("store", "init", "--max-object-bytes", "1MiB")
        self.write("weights", b"w" * 2_000_000)
        error = self.fails(TOO_LARGE, "kv", "put", "weights", self.path("weights"))
        self.assertEqual(
            error,
            "OBJECT_TOO_LARGE: key 'weights' is 2,000,000 bytes (1.9 MiB); this store takes objects "
            "up to 1,048,576 bytes (1 MiB). Store a matrix with 'tilekv model import NAME FILE', "
            "any other file with 'tilekv kv put --chunked'.\n")
        self.fails(NOT_FOUND, "kv", "stat", "weights")
        self.tilekv("kv", "put", "weights", self.path("weights"), "--chunked")
        self.assertTrue(self.as_json("kv", "stat", "weights")["chunked"])
        self.assertEqual(self.run_raw("kv", "get", "weights", "--range", "-5:").stdout, b"wwwww")

    def test_ranges_of_a_chunked_value_cross_its_pieces(self):
        self.tilekv("store", "init", "--max-object-bytes", "64KiB")
        content = bytes(i * 7 % 251 for i in range(300_000))
        self.write("value", content)
        self.tilekv("kv", "put", "k", self.path("value"), "--chunked")
        for first, last in ((0, 1), (65_535, 65_537), (65_536, 131_072), (60_000, 290_000), (299_999, 300_000)):
            got = self.run_raw("kv", "get", "k", "--range", f"{first}:{last}").stdout
            self.assertTrue(got == content[first:last], (first, last))
        self.assertTrue(self.run_raw("kv", "get", "k").stdout == content)

    def test_conditions_hold_or_nothing_happens(self):
        version = self.as_json("kv", "put", "k", "-", "--if-absent")["version"]
        self.assertIn(f"at version {version}", self.fails(CONDITION, "kv", "put", "k", "-",
                                                          "--if-absent", stdin=b"b"))
        self.fails(CONDITION, "kv", "put", "k", "-", "--if-version", "1000000", stdin=b"b")
        self.tilekv("kv", "put", "k", "-", "--if-version", str(version), stdin=b"c")
        self.assertEqual(self.tilekv("kv", "get", "k"), "c")
        self.fails(CONDITION, "kv", "put", "new", "-", "--if-version", "7")
        self.fails(USAGE, "kv", "put", "k", "-", "--if-version", "1", "--if-absent")

    def test_missing_keys_and_files_are_not_found(self):
        self.tilekv("store", "init")
        self.fails(NOT_FOUND, "kv", "get", "k")
        self.fails(NOT_FOUND, "kv", "get", "k", self.path("out"))
        self.assertFalse(os.path.exists(self.path("out")))
        self.fails(NOT_FOUND, "kv", "stat", "k")
        self.fails(NOT_FOUND, "kv", "rm", "k", "-y")
        self.fails(NOT_FOUND, "kv", "put", "k", self.path("nowhere"))
        self.assertIn("model import", self.fails(USAGE, "kv", "put", "k", self.folder.name))

    def test_an_existing_file_is_overwritten_with_y_only(self):
        self.tilekv("kv", "put", "k", "-", stdin=b"new")
        self.write("out", b"old")
        self.assertIn("-y", self.fails(USAGE, "kv", "get", "k", self.path("out")))
        self.assertEqual(self.read("out"), b"old")
        self.tilekv("kv", "get", "k", self.path("out"), "-y")
        self.assertEqual(self.read("out"), b"new")
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["out", "store"])
        self.fails(USAGE, "kv", "get", "k", self.folder.name, "-y")

    def test_a_device_is_written_directly(self):
        self.tilekv("kv", "put", "k", "-", stdin=b"new")
        self.tilekv("kv", "get", "k", "/dev/null")
        self.assertTrue(os.path.exists("/dev/null"))

    def test_lists_are_in_order_and_resumable(self):
        for key in ("b", "a", "c", "ab"):
            self.tilekv("kv", "put", key, "-", stdin=key.encode())
        keys = lambda *words: [row["key"] for row in self.as_json("kv", "ls", *words)]
        self.assertEqual(keys(), ["a", "ab", "b", "c"])
        self.assertEqual(keys("a"), ["a", "ab"])
        self.assertEqual(keys("--limit", "2"), ["a", "ab"])
        self.assertEqual(keys("--after", "ab"), ["b", "c"])
        self.assertEqual(keys("nothing"), [])
        lines = self.tilekv("kv", "ls", "-o", "jsonl").splitlines()
        self.assertEqual([json.loads(line)["key"] for line in lines], ["a", "ab", "b", "c"])
        self.assertIn("STORED", self.tilekv("kv", "ls", "-o", "wide").splitlines()[0])

    def test_keys_that_are_not_text_are_escaped(self):
        self.tilekv("kv", "put", b"\xff\n", "-", stdin=b"x")
        row = self.as_json("kv", "ls")[0]
        self.assertEqual(row["key_hex"], "ff0a")
        self.assertNotIn("\n\n", self.tilekv("kv", "ls"))
        self.assertEqual(self.tilekv("kv", "get", b"\xff\n"), "x")

    def test_rm_asks_and_refuses_where_nobody_answers(self):
        self.tilekv("kv", "put", "k", "-", stdin=b"x")
        error = self.fails(USAGE, "kv", "rm", "k")
        self.assertIn("removes the value 'k'", error)
        self.assertIn("-y", error)
        self.fails(CONDITION, "kv", "rm", "k", "-y", "--if-version", "1000000")
        self.tilekv("kv", "stat", "k")
        self.tilekv("kv", "rm", "k", "-y")
        self.fails(NOT_FOUND, "kv", "stat", "k")


class Stores(CliTest):
    def test_the_limit_is_a_property_of_the_store(self):
        self.tilekv("store", "init", "--max-object-bytes", "16MiB")
        self.assertEqual(self.as_json("store", "info")["max_object_bytes"], 16 << 20)
        self.tilekv("store", "init", "--max-object-bytes", "16MiB")
        error = self.fails(USAGE, "store", "init", "--max-object-bytes", "32MiB")
        self.assertTrue(error.startswith("STORE_MISMATCH: "), error)
        self.fails(USAGE, "store", "init", "--max-object-bytes", "1KiB")
        self.fails(USAGE, "store", "init", "--max-object-bytes", "lots")

    def test_only_what_stores_something_makes_a_store(self):
        for words in (("ls",), ("du",), ("kv", "get", "k"), ("model", "ls"), ("store", "info"),
                      ("store", "fsck"), ("manifest", "show", "m"), ("kv", "rm", "k", "-y"),
                      ("model", "tag", "m", "t"), ("model", "rm", "m@1", "-y"), ("store", "gc"),
                      ("store", "fsck", "--content")):
            self.fails(NOT_FOUND, *words)
            self.assertFalse(os.path.exists(self.path("store")))

    def test_without_a_store_the_error_says_how_to_name_one(self):
        error = self.fails(USAGE, "ls", env={"TILEKV_STORE": ""})
        self.assertIn("--store", error)
        self.assertIn("TILEKV_STORE", error)

    def test_a_store_is_named_by_option_too(self):
        self.tilekv("--store", self.path("other"), "kv", "put", "k", "-", stdin=b"x")
        self.assertEqual(self.tilekv("kv", "get", "k", "--store", "file:" + self.path("other")), "x")
        self.fails(USAGE, "ls", "--store", "http://x")
        self.fails(UNAVAILABLE, "ls", "--store", "tilekv://127.0.0.1:1")

    def test_a_directory_that_cannot_be_written_is_an_error(self):
        self.write("file", b"")
        result = self.run_raw("store", "init", "--store", self.path("file/below"))
        self.assertNotEqual(result.returncode, DONE)
        self.assertTrue(result.stderr)

    def test_gc_takes_what_nothing_refers_to(self):
        self.tilekv("kv", "put", "k", "-", stdin=os.urandom(200_000))
        self.tilekv("kv", "put", "k", "-", stdin=os.urandom(200_000))
        plan = self.as_json("store", "gc", "--dry-run")
        self.assertEqual(plan["deleted_objects"], 1)
        done = self.as_json("store", "gc", "--wait")
        self.assertEqual(done["deleted_objects"], 1)
        self.assertEqual(self.as_json("store", "gc")["deleted_objects"], 0)
        self.fails(USAGE, "store", "gc", "--dry-run", "--wait")
        self.fails(USAGE, "store", "gc", "--dry-run", "--end-sessions")
        self.fails(USAGE, "store", "gc", "--confirm", "no hexadecimal digits")
        self.assertIn("no round is held", self.fails(USAGE, "store", "gc", "--confirm", "00ff"))
        self.tilekv("store", "gc", "--end-sessions")
        self.assertEqual(len(self.run_raw("kv", "get", "k").stdout), 200_000)

    def test_fsck_finds_damage(self):
        self.tilekv("kv", "put", "k", "-", stdin=os.urandom(500_000))
        self.assertIn("sound", self.tilekv("store", "fsck", "--content"))
        damage_payloads(self.path("store"))
        report = self.as_json("store", "fsck", "--content", code=DATA_LOSS)
        self.assertGreater(report["problem_count"], 0)
        self.tilekv("store", "fsck", "--content", code=DATA_LOSS)
        self.fails(DATA_LOSS, "kv", "get", "k")
        self.assertTrue(report["problems"][0]["lost"])

    def test_fsck_repairs_what_can_be(self):
        self.tilekv("kv", "put", "k", "-", stdin=os.urandom(500_000))
        orphan = self.path("store/payload/0/200")
        with open(orphan, "wb") as file:
            file.write(b"half a payload")
        report = self.as_json("store", "fsck", "--repair", code=DIFFERS)
        self.assertEqual((report["problem_count"], report["repaired_count"]), (1, 1))
        self.assertFalse(os.path.exists(orphan))
        self.assertIn("sound", self.tilekv("store", "fsck", "--repair"))

    def test_a_lost_index_is_made_anew(self):
        large = os.urandom(500_000)
        self.tilekv("kv", "put", "large", "-", stdin=large)
        self.tilekv("kv", "put", "small", "-", stdin=os.urandom(5_000))
        shutil.rmtree(self.path("store/index"))
        self.assertIn("--rebuild-index", self.fails(DATA_LOSS, "kv", "put", "k", "-"))
        self.assertIn("--rebuild-index", self.fails(DATA_LOSS, "kv", "get", "large"))
        report = self.as_json("store", "fsck", "--rebuild-index", code=DATA_LOSS)
        self.assertEqual([p["where"] for p in report["problems"]], ["key 'small'"])
        self.assertEqual(self.run_raw("kv", "get", "large").stdout, large)


class Models(CliTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.matrix = random.random((1000, 1024), dtype=np.float32)
        self.tensors = {
            "embed": self.matrix,
            "bias": random.random(100, dtype=np.float32),
            "ids": np.arange(10, dtype=np.int64),
            "half": random.random((3, 5)).astype(np.float16),
        }
        os.mkdir(self.path("model"))
        write_safetensors(self.path("model/model.safetensors"), self.tensors, {"format": "pt"})
        self.write("model/config.json", b'{"hidden": 1024}')
        self.tilekv("store", "init", "--max-object-bytes", "1MiB")
        self.tilekv("model", "import", "m", self.path("model"), "--tag", "first", "-m", "the first")

    def import_changed(self, name="m", *words):
        changed = dict(self.tensors)
        changed["embed"] = self.matrix.copy()
        changed["embed"][0, 0] += 1
        write_safetensors(self.path("model/model.safetensors"), changed, {"format": "pt"})
        return self.as_json("model", "import", name, self.path("model"), *words)

    def test_import_is_all_or_nothing_and_says_what_it_did(self):
        second = self.as_json("model", "import", "m", self.path("model"))
        self.assertEqual(second["version"], 2)
        self.assertEqual(second["tensors"], 4)
        self.assertLess(second["new_bytes"], 1 << 20)
        self.assertGreater(second["shared_bytes"], 4_000_000)
        self.write("bad.safetensors", b"version https://git-lfs.github.com/spec/v1\n")
        self.fails(USAGE, "model", "import", "bad", self.path("bad.safetensors"))
        self.fails(NOT_FOUND, "model", "show", "bad")
        self.fails(NOT_FOUND, "model", "import", "x", self.path("nowhere"))
        self.fails(USAGE, "model", "import", "m@3", self.path("model"))
        self.fails(USAGE, "model", "import", "m", self.path("model"), "--layout", "diagonal")
        self.fails(USAGE, "model", "import", "m", self.path("model"), "--codec", "rar")
        self.fails(USAGE, "model", "import", "m", self.path("model"), "--tag", "1st")

    def test_import_keeps_its_condition(self):
        error = self.fails(CONDITION, "model", "import", "m", self.path("model"), "--if-version", "0")
        self.assertIn("latest version of 'm' is 1", error)
        self.tilekv("model", "import", "m", self.path("model"), "--if-version", "1")
        self.tilekv("model", "import", "new", self.path("model"), "--if-version", "0")

    def test_a_dry_run_shows_the_cut_and_stores_nothing(self):
        plan = self.as_json("model", "import", "other", self.path("model"), "--dry-run")
        embed = next(row for row in plan["tensors"] if row["name"] == "embed")
        self.assertGreater(embed["tiles"], 1)
        self.assertEqual(embed["shape"], [1000, 1024])
        self.fails(NOT_FOUND, "model", "show", "other")
        # Tensors in packs too are counted as the import does.
        self.assertEqual(plan["tiles"],
                         self.as_json("model", "import", "other", self.path("model"))["tiles"])

    def test_a_destination_is_named_as_it_was_asked_for(self):
        self.tilekv("model", "import", "m", self.path("model"))
        error = self.fails(NOT_FOUND, "model", "export", "m",
                           self.path("none/out.safetensors"))
        self.assertIn("none/out.safetensors' cannot be written: its folder is not there", error)
        self.assertNotIn(".tmp", error)
        self.assertIn(" to folder ", self.tilekv("model", "export", "m", self.path("out.txt")))
        self.assertIn("'nofile' is not there",
                      self.fails(NOT_FOUND, "model", "import", "m", "nofile"))

    def test_files_left_out_are_listed_with_sizes_and_reasons(self):
        self.write("model/pytorch_model.bin", b"12345")
        os.mkdir(self.path("model/onnx"))
        self.write("model/onnx/model.onnx", b"123")
        listed = [{"path": "onnx/model.onnx", "bytes": 3, "why": "a graph of ONNX"},
                  {"path": "pytorch_model.bin", "bytes": 5,
                   "why": "weights in a binary format, most often a pickle of PyTorch"}]
        plan = self.as_json("model", "import", "m", self.path("model"), "--dry-run")
        self.assertEqual(plan["left_out"], listed)
        self.assertEqual([file["path"] for file in plan["side_files"]], ["config.json"])
        report = self.as_json("model", "import", "m", self.path("model"))
        self.assertEqual(report["left_out"], listed)
        remarks = self.run_raw("model", "import", "m", self.path("model"), "--dry-run").stderr
        self.assertIn(b"left out: pytorch_model.bin (5 B)", remarks)
        report = self.as_json("model", "import", "m", self.path("model"), "--include", "*.bin")
        self.assertEqual([file["path"] for file in report["left_out"]], ["onnx/model.onnx"])
        self.tilekv("model", "export", "m", self.path("out"))
        self.assertEqual(self.read("out/pytorch_model.bin"), b"12345")
        os.makedirs(self.path("pickles"))
        self.write("pickles/model.pt", b"123")
        self.assertIn("torch.load", self.fails(USAGE, "model", "import", "p", self.path("pickles")))

    def test_an_export_refuses_what_its_destination_cannot_honour(self):
        def refused(destination, *words):
            return self.fails(USAGE, "model", "export", "m", self.path(destination), *words)
        for destination in ("x.npy", "x.safetensors"):
            self.assertIn("--max-shard-size", refused(destination, "--max-shard-size", "1MB"))
        self.assertIn("--include", refused("x", "--no-weights", "--include", "embed"))
        self.assertIn("--max-shard-size", refused("x", "--no-weights", "--max-shard-size", "1MB"))
        self.assertIn("holds one tensor", refused("x.npy"))
        self.assertIn("no tensor", refused("x.npy", "--include", "nothing*"))
        self.assertFalse(os.path.exists(self.path("x")))
        self.tilekv("model", "export", "m", self.path("x.npy"), "--include", "embed")
        self.assertTrue((np.load(self.path("x.npy")) == self.matrix).all())

    def test_export_gives_the_same_bytes(self):
        self.tilekv("model", "export", "m", self.path("out"))
        for name in ("model.safetensors", "config.json"):
            self.assertEqual(self.read("out/" + name), self.read("model/" + name), name)
        self.fails(USAGE, "model", "export", "m", self.path("out"))
        self.tilekv("model", "export", "m", self.path("out"), "-y")
        self.tilekv("model", "export", "m", self.path("side"), "--no-weights")
        self.assertEqual(os.listdir(self.path("side")), ["config.json"])
        self.fails(NOT_FOUND, "model", "export", "nothing", self.path("x"))
        self.assertFalse(os.path.exists(self.path("x")))

    def test_load_reads_everything(self):
        report = self.as_json("model", "load", "m", "--to", "null", "--memory", "64MiB")
        self.assertGreaterEqual(report["bytes"], self.matrix.nbytes)
        self.assertIn("m@1", self.tilekv("model", "load", "m"))
        self.fails(USAGE, "model", "load", "m", "--to", "disk")

    def test_explain_says_where_the_time_went(self):
        for words in (["load", "m"], ["export", "m", self.path("out")],
                      ["import", "other", self.path("model")], ["load", "m", "--no-verify"]):
            told = self.as_json("model", *words, "--explain")["explain"]
            # The destination is written beside the rest.
            self.assertAlmostEqual(sum(part["share"] for part in told["parts"]
                                       if part["part"] != "destination"), 1)
            self.assertIn("of the time was spent", told["limit"])
            parts = {part["part"] for part in told["parts"]}
            self.assertEqual("verify" in parts, words[0] != "import" and "--no-verify" not in words)
            self.assertEqual("destination" in parts, words[0] == "export")
            if words[0] == "import":
                self.assertEqual(told["sent_bytes"], 0)  # all of it was there
                self.assertIn("hash", parts)
            else:
                self.assertGreaterEqual(told["received_bytes"], told["asked_bytes"])
                self.assertGreaterEqual(told["asked_bytes"], self.matrix.nbytes)
        text = self.tilekv("model", "load", "m", "--explain")
        self.assertIn("reading the store's disk", text)
        self.assertIn("limit: ", text)
        self.assertNotIn("limit", self.tilekv("model", "load", "m"))

    def test_perf_measures_and_leaves_nothing_behind(self):
        before = self.as_json("du")
        report = self.as_json("perf", "--bytes", "24MiB", "--seconds", "60")
        figures = {figure["what"]: figure for figure in report["figures"]}
        self.assertEqual(list(figures), ["hash", "disk write", "disk read", "put", "get", "slice"])
        for name in ("disk write", "disk read", "put", "get"):
            self.assertEqual(figures[name]["bytes"], 24 << 20, name)
        for name in ("put", "get", "slice"):
            self.assertGreater(figures[name]["share_of_machine"], 0)
            self.assertTrue(figures[name]["limit"])
        self.assertEqual(self.as_json("du"), before)
        self.assertEqual([name for name in os.listdir(self.path("store/tmp")) if "perf" in name], [])
        self.assertIn("disk write", self.tilekv("perf", "--bytes", "8MiB", "--seconds", "1"))
        self.fails(USAGE, "perf", "--seconds", "0")
        self.fails(USAGE, "perf", "--bytes", "0")
        free = os.statvfs(self.path("store"))
        error = self.fails(TOO_LARGE, "perf", "--bytes", str(free.f_bavail * free.f_frsize))
        self.assertIn("free on the store's disk", error)

    def test_listings_show_versions_and_tags(self):
        self.import_changed()
        self.tilekv("model", "import", "team/other", self.path("model"))
        models = {(row["namespace"], row["name"]): row for row in self.as_json("model", "ls")}
        self.assertEqual(set(models), {("default", "m"), ("team", "other")})
        self.assertEqual(models["default", "m"]["live_versions"], 2)
        self.assertEqual([row["name"] for row in self.as_json("model", "ls", "te")], ["other"])
        self.assertEqual([row["name"] for row in self.as_json("model", "ls", "m")], ["m"])
        log = self.as_json("model", "log", "m")
        self.assertEqual([row["version"] for row in log], [2, 1])
        self.assertEqual(log[1]["tags"], ["first"])
        self.assertEqual(log[1]["message"], "the first")
        self.fails(NOT_FOUND, "model", "log", "nothing")
        self.assertIn("@2", self.tilekv("model", "log", "m"))
        rows = {row["name"]: row["kind"] for row in self.as_json("ls")}
        self.assertEqual(rows, {"m": "model", "team/other": "model"})

    def test_show_names_digest_dtypes_and_side_files(self):
        show = self.as_json("model", "show", "m@first")
        self.assertEqual(show["version"], 1)
        self.assertEqual(show["dtypes"]["F32"]["tensors"], 2)
        self.assertEqual(show["side_files"], [{"path": "config.json", "bytes": 16}])
        self.assertEqual(show["metadata"], {"format": "pt"})
        by_digest = self.as_json("model", "show", "m@" + show["digest"][:3 + 12])
        self.assertEqual(by_digest["digest"], show["digest"])
        self.assertIn(show["digest"], self.tilekv("model", "show", "m"))
        self.assertIn("'nothing'", self.fails(NOT_FOUND, "model", "show", "nothing"))
        self.fails(NOT_FOUND, "model", "show", "m@7")
        self.fails(NOT_FOUND, "model", "show", "m@nope")
        self.fails(USAGE, "model", "show", "a--b")

    def test_diff_tells_changed_tiles_and_exits_with_1(self):
        self.import_changed()
        diff = self.as_json("model", "diff", "m@1", "m@2", code=DIFFERS)
        self.assertEqual([row["name"] for row in diff["tensors"]], ["embed"])
        self.assertEqual(diff["tensors"][0]["changed_tiles"], 1)
        self.assertIn("embed", self.tilekv("model", "diff", "m@1", "m@2", code=DIFFERS))
        self.assertTrue(self.as_json("model", "diff", "m@1", "m@first")["same"])
        self.fails(NOT_FOUND, "model", "diff", "m@1", "m@9")

    def test_verify_finds_damage(self):
        self.assertIn("sound", self.tilekv("model", "verify", "m"))
        damage_payloads(self.path("store"))
        report = self.as_json("model", "verify", "m", code=DIFFERS)
        self.assertTrue(report["damages"])
        self.assertTrue(any("embed" in damage["where"] for damage in report["damages"]))
        self.assertIn("embed", self.fails(DATA_LOSS, "tensor", "get", "m", "embed",
                                          self.path("x.npy")))
        self.assertFalse(os.path.exists(self.path("x.npy")))

    def test_mv_gives_another_name_to_all_versions_and_tags(self):
        self.import_changed()
        self.tilekv("model", "cp", "m", "taken")
        self.fails(CONDITION, "model", "mv", "m", "taken")
        self.fails(USAGE, "model", "mv", "m", "m")
        self.fails(USAGE, "model", "mv", "m@1", "n")
        self.fails(NOT_FOUND, "model", "mv", "nothing", "n")
        moved = self.as_json("model", "mv", "m", "team/n")
        self.assertEqual(moved, {"from": "m", "to": "team/n", "versions": 2, "tags": 1})
        self.fails(NOT_FOUND, "model", "show", "m")
        self.assertEqual(self.as_json("model", "show", "team/n@first")["version"], 1)
        self.assertIn("sound", self.tilekv("model", "verify", "team/n"))

    def test_cp_makes_a_version_without_copying(self):
        self.tilekv("model", "cp", "m@first", "team/copy", "--tag", "start")
        copy = self.as_json("model", "show", "team/copy")
        self.assertEqual(copy["digest"], self.as_json("model", "show", "m")["digest"])
        self.assertEqual(copy["tags"], ["start"])
        self.fails(CONDITION, "model", "cp", "m", "team/copy", "--if-version", "0")
        self.fails(USAGE, "model", "cp", "m", "team/copy@1")
        self.fails(NOT_FOUND, "model", "cp", "m@9", "x")

    def test_tags_move_and_keep_conditions(self):
        self.import_changed()
        self.tilekv("model", "tag", "m@1", "prod")
        self.fails(CONDITION, "model", "tag", "m@2", "prod", "--if-tag-at", "2")
        self.tilekv("model", "tag", "m@2", "prod", "--if-tag-at", "1")
        self.assertEqual(self.as_json("model", "show", "m@prod")["version"], 2)
        self.fails(CONDITION, "model", "tag", "m@2", "prod", "--if-tag-at", "0")
        self.tilekv("model", "untag", "m", "prod")
        self.fails(NOT_FOUND, "model", "untag", "m", "prod")
        self.fails(NOT_FOUND, "model", "show", "m@prod")
        for tag in ("latest", "7", "a--b"):
            self.fails(USAGE, "model", "tag", "m", tag)
        self.fails(NOT_FOUND, "model", "tag", "m@9", "prod")

    def test_rm_needs_a_version_and_shows_both_forms(self):
        error = self.fails(USAGE, "model", "rm", "m", "-y")
        self.assertIn("tilekv model rm m@N", error)
        self.assertIn("tilekv model rm m --all-versions", error)
        self.fails(USAGE, "model", "rm", "m@1", "--all-versions", "-y")
        self.fails(USAGE, "model", "rm", "-y")
        self.tilekv("model", "show", "m")

    def test_rm_does_not_take_a_tagged_version(self):
        for words in (("m@1",), ("m@first",), ("m", "--all-versions")):
            error = self.fails(CONDITION, "model", "rm", *words, "-y")
            self.assertIn("tilekv model untag m first", error)
        self.tilekv("model", "show", "m@1")

    def test_rm_shows_its_plan_and_undelete_brings_back(self):
        self.import_changed()
        error = self.fails(USAGE, "model", "rm", "m@2")
        self.assertIn("m@2", error)
        self.assertIn("undelete", error)
        self.tilekv("model", "rm", "m@2", "-y")
        self.fails(NOT_FOUND, "model", "show", "m@2")
        self.assertEqual(self.as_json("model", "show", "m")["version"], 1)
        self.assertEqual([row["version"] for row in self.as_json("model", "log", "m", "--deleted")],
                         [2, 1])
        self.fails(USAGE, "model", "undelete", "m")
        self.fails(NOT_FOUND, "model", "undelete", "m@1")
        self.tilekv("model", "undelete", "m@2")
        self.assertEqual(self.as_json("model", "show", "m")["version"], 2)
        self.fails(NOT_FOUND, "model", "rm", "m@9", "-y")

    def test_rm_now_is_for_good(self):
        self.tilekv("model", "untag", "m", "first")
        self.tilekv("model", "rm", "m", "--all-versions", "--now", "-y")
        self.fails(NOT_FOUND, "model", "undelete", "m@1")
        self.assertEqual(self.as_json("model", "ls"), [])
        self.assertGreater(self.as_json("store", "gc")["deleted_objects"], 0)
        self.assertEqual(self.as_json("model", "import", "m", self.path("model"))["version"], 2)

    def test_du_shows_what_is_shared(self):
        self.import_changed()
        usage = self.as_json("du")
        total = usage["total"]
        self.assertGreater(total["logical_bytes"], 2 * self.matrix.nbytes)
        self.assertLess(total["referenced_bytes"], 1.6 * self.matrix.nbytes)
        self.assertEqual([row["name"] for row in usage["rows"]][0], "m")
        self.assertIn("LOGICAL", self.tilekv("du"))
        self.assertEqual(self.as_json("du", "m")["rows"][0]["versions"], 2)

    def test_tensors_are_listed_and_sliced_as_numpy_does(self):
        rows = {row["name"]: row for row in self.as_json("tensor", "ls", "m")}
        self.assertEqual(rows["embed"]["shape"], [1000, 1024])
        self.assertEqual(rows["bias"]["layout"], "pack")
        for text in ("", "-3:", "10:20,::2", "...,-1", "::-7,5:1000:3", "5", "None,3:4", "5:2"):
            words = ["--slice", text] if text else []
            self.tilekv("tensor", "get", "m", "embed", self.path("x.npy"), "-y", *words)
            expected = eval(f"self.matrix[{text or '...'}]")  # the text is ours
            got = np.load(self.path("x.npy"))
            self.assertEqual(got.shape, expected.shape, text)
            np.testing.assert_array_equal(got, expected, text)
        raw = self.run_raw("tensor", "get", "m", "embed", "-", "--slice", "-2:").stdout
        self.assertEqual(raw, self.matrix[-2:].tobytes())
        self.fails(USAGE, "tensor", "get", "m", "embed", self.path("y.npy"), "--slice", "1:2:3:4")
        self.fails(USAGE, "tensor", "get", "m", "embed", self.path("y.npy"), "--slice", "1000")
        self.fails(USAGE, "tensor", "get", "m", "embed", self.path("y.npy"), "--slice", "0,0,0")
        self.fails(USAGE, "tensor", "get", "m", "embed", self.path("y.txt"))
        self.fails(NOT_FOUND, "tensor", "get", "m", "nothing", self.path("y.npy"))
        self.fails(USAGE, "tensor", "get", "m", "embed", self.path("x.npy"))
        self.assertFalse(os.path.exists(self.path("y.npy")))

    def test_the_manifest_shows_where_tiles_are_and_who_shares_them(self):
        self.import_changed()
        shown = self.as_json("manifest", "show", "m@2", "--tensor", "embed", "--tiles")
        tiles = shown["tensors"][0]["tile_list"]
        self.assertEqual(len(tiles), shown["tensors"][0]["tiles"])
        self.assertEqual(sum(tile["bytes"] for tile in tiles), self.matrix.nbytes)
        self.assertEqual(sorted({tile["state"] for tile in tiles}), ["shared", "unique"])
        self.assertEqual([tile["state"] for tile in tiles].count("unique"), 1)
        self.assertEqual({tuple(tile["shared_with"]) for tile in tiles}, {("m@1",), ()})
        self.assertTrue(all(tile["copies"][0]["state"] == "good" for tile in tiles))
        self.fails(NOT_FOUND, "manifest", "show", "m", "--tensor", "nothing")
        self.fails(NOT_FOUND, "manifest", "show", "nothing")

    def test_the_manifest_draws_the_largest_cut_tensor(self):
        self.import_changed()
        text = self.tilekv("manifest", "show", "m@2")
        self.assertIn("┌", text)
        self.assertIn("░", text)
        self.assertRegex(text, r"▓ 1 only in this version")
        self.assertIn("1,000 └", text)
        ascii_only = self.tilekv("manifest", "show", "m", env={"LANG": "C"})
        self.assertTrue(ascii_only.isascii())
        self.assertIn("+--", ascii_only)
        self.assertNotIn("\x1b", text)
        self.assertIn("in a pack", self.tilekv("manifest", "show", "m", "--tensor", "bias"))

    def test_tiles_without_a_sound_copy_are_marked(self):
        for folder, _, names in os.walk(self.path("store/payload")):
            for name in names:
                os.unlink(os.path.join(folder, name))
        report = self.as_json("model", "verify", "m", code=DIFFERS)
        self.assertTrue(report["damages"])
        self.tilekv("store", "fsck", "--content", code=DATA_LOSS)
        tiles = self.as_json("manifest", "show", "m", "--tensor", "embed", "--tiles")
        states = {tile["state"] for tile in tiles["tensors"][0]["tile_list"]}
        self.assertFalse(states & {"unique", "shared"}, states)

    def test_npy_files_are_models_too(self):
        np.save(self.path("w.npy"), self.matrix)
        self.tilekv("model", "import", "matrix", self.path("w.npy"), "--layout", "bands")
        self.tilekv("tensor", "get", "matrix", "w", self.path("back.npy"))
        self.assertEqual(self.read("back.npy"), self.read("w.npy"))

    def test_a_model_names_its_store(self):
        store = self.path("store")
        self.tilekv("model", "show", store + "#m", env={"TILEKV_STORE": ""})
        self.fails(USAGE, "model", "diff", store + "#m", self.path("other") + "#m")


class Program(CliTest):
    def test_version_and_help(self):
        self.assertRegex(self.tilekv("version"), r"^tilekv \d+\.\d+\.\d+\n$")
        self.assertEqual(self.tilekv("--version"), self.tilekv("version"))
        self.assertIn("model import", self.tilekv("--help"))
        self.assertIn("--chunked", self.tilekv("kv", "put", "--help"))
        self.assertIn("version", self.as_json("version"))

    def test_wrong_uses_exit_with_2(self):
        self.assertIn("did you mean 'model'", self.fails(USAGE, "modle", "ls"))
        self.fails(USAGE, "kv")
        self.fails(USAGE, "kv", "get")
        self.fails(USAGE, "kv", "get", "k", "--wrong")

    def test_errors_are_json_where_results_are(self):
        self.tilekv("store", "init")
        for form in ("json", "jsonl"):
            error = json.loads(self.fails(NOT_FOUND, "kv", "get", "k", "-o", form))
            self.assertEqual(error["error"], "NOT_FOUND")
            self.assertIn("'k'", error["message"])
        self.assertEqual(json.loads(self.fails(USAGE, "kv", "nonsense", "-o", "json"))["error"],
                         "INVALID_ARGUMENT")

    def test_quiet_says_nothing(self):
        self.write("in", b"x")
        self.assertEqual(self.tilekv("kv", "put", "k", self.path("in"), "-q"), "")

    def test_a_closed_pipe_ends_quietly(self):
        self.tilekv("kv", "put", "k", "-", stdin=os.urandom(5_000_000))
        process = subprocess.Popen([cli_test_base.TILEKV, "kv", "get", "k"], env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(10)
        process.stdout.close()
        self.assertEqual(process.wait(60), 141)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    def test_ctrl_c_leaves_nothing_behind(self):
        self.tilekv("store", "init")
        process = subprocess.Popen([cli_test_base.TILEKV, "kv", "put", "k", "-", "--chunked"], env=self.env,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdin.write(b"x" * 100_000)
        process.stdin.flush()
        # Until its handler is there a signal would end it at once: wait until it reads.
        wait_until_read(process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), INTERRUPTED)
        self.assertIn(b"CANCELLED", process.stderr.read())
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        self.fails(NOT_FOUND, "kv", "stat", "k")

    def test_a_terminal_gets_questions_and_colours(self):
        self.tilekv("kv", "put", "k", "-", stdin=b"x")
        text, code = on_terminal([cli_test_base.TILEKV, "kv", "rm", "k"], {**self.env, "TERM": "xterm"}, b"n\n")
        self.assertIn("Go on? [y/N]", text)
        self.assertEqual(code, INTERRUPTED)
        text, code = on_terminal([cli_test_base.TILEKV, "kv", "ls"], {**self.env, "TERM": "xterm"})
        self.assertIn("\x1b[1mKEY", text)
        text, code = on_terminal([cli_test_base.TILEKV, "kv", "ls"],
                                 {**self.env, "TERM": "xterm", "NO_COLOR": "1"})
        self.assertNotIn("\x1b", text)
        text, code = on_terminal([cli_test_base.TILEKV, "kv", "rm", "k"], {**self.env, "TERM": "xterm"}, b"y\n")
        self.assertEqual(code, DONE)
        self.fails(NOT_FOUND, "kv", "stat", "k")


if __name__ == "__main__":
    cli_test_base.TILEKV = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
