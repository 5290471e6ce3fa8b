"""How tiles are stored, from import to recode: what an admin does and sees.

    codec_test.py TILEKV [unittest's arguments]
"""

import os
import sys
import unittest

import numpy as np

import cli_test_base
from cli_test_base import DIFFERS, DONE, USAGE, CliTest, damage_payloads, write_safetensors


class Codecs(CliTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(1)
        self.weights = random.normal(0, 0.02, (1024, 1024)).astype(np.float32)
        self.weights[0, :5] = [np.nan, -0.0, np.inf, -np.inf, 1e-42]
        self.counts = random.integers(0, 5, (256, 1024)).astype(np.int64)
        self.source = self.path("source.safetensors")
        write_safetensors(self.source, {"weights": self.weights, "counts": self.counts})

    def import_with(self, codec, model="m"):
        self.tilekv("model", "import", model, self.source, "--codec", codec)

    def renewed(self):
        path = self.path("renewed.safetensors")
        write_safetensors(path, {"weights": self.weights + 1, "counts": self.counts + 1})
        return path

    def encodings(self, tensor, model="m"):
        shown = self.as_json("manifest", "show", model, "--tensor", tensor, "--tiles")
        return {copy["encoding"] for one in shown["tensors"]
                for tile in one["tile_list"] for copy in tile["copies"]}

    def stored_bytes(self):
        return self.as_json("du")["total"]["stored_bytes"]

    def expect_content(self, model="m"):
        self.tilekv("model", "export", model, self.path("out.safetensors"), "-y")
        self.assertTrue(self.read("out.safetensors") == self.read("source.safetensors"))
        self.tilekv("tensor", "get", model, "weights", self.path("part.npy"), "--slice",
                    "100:200, ::7", "-y")
        part = np.load(self.path("part.npy"))
        self.assertEqual(part.tobytes(), np.ascontiguousarray(self.weights[100:200, ::7]).tobytes())
        self.tilekv("model", "verify", model)

    def test_each_codec_gives_back_every_bit_and_shows_what_it_stored(self):
        expected = {"none": ("none", "none"), "zstd": ("zstd", "zstd"),
                    "planes": ("planes(4)", "none"), "auto": ("planes(4)", "zstd")}
        digests = set()
        for codec, (weights, counts) in expected.items():
            with self.subTest(codec):
                self.env["TILEKV_STORE"] = self.path("store-" + codec)
                self.import_with(codec)
                self.assertEqual(self.encodings("weights"), {weights})
                self.assertEqual(self.encodings("counts"), {counts})
                self.expect_content()
                digests.add(self.as_json("model", "show", "m")["digest"])
                total = self.as_json("du")["total"]
                if codec == "none":
                    self.assertEqual(total["stored_bytes"], total["unique_bytes"])
                else:
                    self.assertLess(total["stored_bytes"], total["unique_bytes"] * 9 // 10)
        self.assertEqual(len(digests), 1)

    def test_a_second_import_with_another_codec_stores_nothing_new(self):
        self.import_with("none")
        before = self.stored_bytes()
        remark = "'tilekv store recode other --codec planes'"
        second = self.run_raw("model", "import", "other", self.source, "--codec", "planes")
        self.assertEqual(second.returncode, DONE, second.stderr)
        self.assertIn(remark, second.stderr.decode())
        self.assertLess(self.stored_bytes() - before, 100_000)
        self.assertEqual(self.encodings("weights", "other"), {"none"})
        # Nothing to say where no codec was asked for, or everything is new.
        for words in (("more", self.source), ("new", self.renewed(), "--codec", "planes")):
            self.assertNotIn(b"recode", self.run_raw("model", "import", *words).stderr)
        # What the remark says to do does it.
        self.tilekv("store", "recode", "other", "--codec", "planes")
        self.assertEqual(self.encodings("weights", "other"), {"planes(4)"})

    def test_recode_changes_what_is_stored_and_no_version(self):
        self.import_with("none")
        before = self.as_json("model", "show", "m")
        stored = self.stored_bytes()
        dry = self.as_json("store", "recode", "--codec", "auto", "--dry-run")
        self.assertTrue(dry["dry_run"])
        self.assertLess(dry["stored_after"], dry["stored_before"])
        self.assertEqual(self.stored_bytes(), stored)
        done = self.as_json("store", "recode", "--codec", "auto")
        self.assertEqual(done["stored_after"], dry["stored_after"])
        self.assertEqual(self.stored_bytes(), stored - done["stored_before"] + done["stored_after"])
        self.assertEqual(self.encodings("weights"), {"planes(4)"})
        self.assertEqual(self.as_json("model", "show", "m"), before)
        self.expect_content()
        self.assertEqual(self.as_json("store", "recode", "--codec", "auto")["changed"], 0)
        self.tilekv("store", "fsck", "--content")

    def test_recode_takes_models_by_the_beginning_of_their_names(self):
        self.import_with("none", "mine")
        write_safetensors(self.source, {"weights": self.weights * 2, "counts": self.counts + 1})
        self.import_with("none", "theirs")
        self.tilekv("store", "recode", "mi", "--codec", "planes")
        self.assertEqual(self.encodings("weights", "mine"), {"planes(4)"})
        self.assertEqual(self.encodings("weights", "theirs"), {"none"})

    def test_recode_refuses_what_it_does_not_know_and_reports_damage(self):
        self.import_with("none")
        self.fails(USAGE, "store", "recode")
        self.assertIn("auto, none, zstd, planes",
                      self.fails(USAGE, "store", "recode", "--codec", "lz4"))
        damage_payloads(self.path("store"))
        self.assertGreater(self.as_json("store", "recode", "--codec", "planes",
                                        code=DIFFERS)["damaged"], 0)


if __name__ == "__main__":
    cli_test_base.TILEKV = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
