"""The commands of models, tensors and manifests, right and wrong, on a store in a directory.

Usage: cli_models_test.py PATH_OF_TILEKV [unittest's arguments]
"""

import os
import sys
import unittest

import numpy as np

import cli_test_base
from cli_test_base import (CONDITION, DATA_LOSS, DIFFERS, NOT_FOUND, TOO_LARGE, USAGE, CliTest,
                           damage_payloads, write_safetensors)


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
            blocks = {part["of"] for part in told["parts"]}
            self.assertEqual(blocks, {"threads", "writer"} if words[0] == "export" else {"threads"})
            for block in blocks:
                self.assertAlmostEqual(sum(part["share"] for part in told["parts"]
                                           if part["of"] == block), 1)
            self.assertRegex(told["limit"], "of the (time|writing thread's time)")
            self.assertTrue(told["limit"].split(": ")[1])
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

    def test_perf_measures_and_deletes_nothing(self):
        self.tilekv("kv", "put", "dead", "-", stdin=b"d" * 300_000)
        self.tilekv("kv", "rm", "dead", "-y")
        before = self.as_json("store", "info")
        report = self.as_json("perf", "--bytes", "24MiB", "--seconds", "60")
        figures = {figure["what"]: figure for figure in report["figures"]}
        self.assertEqual(list(figures), ["hash", "disk write", "disk read", "put", "get", "slice"])
        for name in ("disk write", "disk read", "put", "get"):
            self.assertEqual(figures[name]["bytes"], 24 << 20, name)
        for name in ("put", "get", "slice"):
            self.assertGreater(figures[name]["share_of_machine"], 0)
            self.assertTrue(figures[name]["limit"])
        # What was dead before is dead and there; what was stored waits for a collection.
        after = self.as_json("store", "info")
        self.assertEqual(after["objects"], before["objects"] + report["left_bytes"] // report["tile_bytes"])
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


if __name__ == "__main__":
    cli_test_base.TILEKV = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
