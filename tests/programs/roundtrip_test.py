"""What goes in comes out: files, folders, arrays; and what is there already is not stored again."""

import json
import os
import random

import numpy as np

from tilekv_testing import (CONDITION, DIFFERS, DTYPE_BITS, MIB, NUMPY_DTYPES, USAGE, EmbeddedCase,
                            ServedCase, main, safetensors_file, tensor_bytes)

PAGES_BYTES = MIB // 4  # of a small model's manifest, source headers and commit, at most


def tensors_of(draw, **shapes):
    """{name: (dtype, shape, content)} of NAME=(dtype, *sizes), random content."""
    return {name: (dtype, shape, draw.randbytes(tensor_bytes(dtype, shape)))
            for name, (dtype, *shape) in shapes.items()}


def changed_at(content, place):
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1:]


def files_below(folder):
    """{relative path: content}, links followed."""
    files = {}
    for place, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as source:
                files[os.path.relpath(path, folder)] = source.read()
    return files


class RoundTrips:
    """Mixed into a kind of store."""

    max_object = "1MiB"

    def setUp(self):
        super().setUp()
        self.draw = random.Random(20)

    # --- one file

    def comes_back(self, model, content):
        source = self.write(f"in/{model}.safetensors", content)
        self.tilekv("model", "import", model, source)
        report = self.as_json("model", "export", model, self.path(f"{model}.safetensors"))
        self.assertTrue(report["as_imported"])
        self.assertTrue(self.read(f"{model}.safetensors") == content, "other bytes than imported")

    def test_a_safetensors_file_comes_back_to_the_byte_whoever_wrote_it(self):
        some = tensors_of(self.draw, b=("F32", 700, 1000), a=("F16", 33), z=("I64", 2, 2),
                          e=("U8", 0), long=("BF16", 1_000_000))
        names = list(some)
        meta = {"format": "pt", "z": "é\n\"", "a": ""}
        files = {
            "reference": safetensors_file(some),
            "reference-with-metadata": safetensors_file(some, metadata={"format": "pt"}),
            "metadata-in-any-order": safetensors_file(some, metadata=meta),
            "empty-metadata": safetensors_file(some, metadata={}),
            "data-in-another-order": safetensors_file(some, order=names),
            "header-in-another-order": safetensors_file(some, header_order=names[::-1]),
            "spaced": safetensors_file(some, metadata=meta, spaced=True, header_order=names),
            "not-padded": safetensors_file(some, pad=1),
            "padded-to-a-page": safetensors_file(some, pad=4096),
            "no-tensors": safetensors_file({}, metadata={"a": "b"}),
            "nothing": safetensors_file({}),
        }
        for model, content in files.items():
            with self.subTest(file=model):
                self.comes_back(model, content)

    def test_every_dtype_comes_back(self):
        shapes = {f"{size}.{dtype}": (dtype, *shape) for dtype in DTYPE_BITS
                  for size, shape in (("tiny", [4]), ("small", [7, 24]), ("cut", [1000, 4096]))
                  if size != "cut" or dtype in ("F4", "F6_E2M3", "F8_E4M3", "BF16", "C64")}
        tensors = tensors_of(self.draw, **shapes)
        self.comes_back("dtypes", safetensors_file(tensors))
        for name in ("tiny.F8_E5M2", "small.BF16", "cut.F4", "cut.C64"):
            raw = self.run_raw("tensor", "get", "dtypes", name, "-")
            self.assertTrue(raw.stdout == tensors[name][2], name)

    def test_shapes_without_elements_or_dimensions_come_back(self):
        tensors = tensors_of(self.draw, scalar=("F32",), none=("F32", 0), row=("F32", 2, 0),
                             middle=("F32", 0, 7, 3), after=("F32", 1, 1, 1, 1, 3),
                             deep=("U8", *[1] * 63, 2))
        self.comes_back("shapes", safetensors_file(tensors))
        shown = {row["name"]: row["shape"] for row in self.as_json("tensor", "ls", "shapes")}
        self.assertEqual(shown, {name: list(entry[1]) for name, entry in tensors.items()})
        for name in ("scalar", "row"):
            self.tilekv("tensor", "get", "shapes", name, self.path(name + ".npy"))
            array = np.load(self.path(name + ".npy"))
            self.assertEqual(array.shape, tuple(tensors[name][1]))
            self.assertEqual(array.tobytes(), tensors[name][2])

    def test_names_of_tensors_are_any_text(self):
        names = ["", "..", "/etc/passwd", "a/b/../c", "new\nline", "tab\t\x7f\x1b[31m", "quote\"'\\",
                 "\u00e9", "e\u0301", "\U0001F600", "\u2028", "x" * 60_000]
        tensors = {name: ("I32", (1,), self.draw.randbytes(4)) for name in names}
        self.comes_back("names", safetensors_file(tensors))
        self.comes_back("raw-names", safetensors_file(tensors, spaced=True))
        listed = {row["name"] for row in self.as_json("tensor", "ls", "names")}
        self.assertEqual(listed, set(names))
        self.assertNotIn("\x1b", self.tilekv("tensor", "ls", "names"))
        for name in names[1:-1]:
            raw = self.run_raw("tensor", "get", "names", name, "-")
            self.assertEqual(raw.stdout, tensors[name][2], name)

    def test_an_existing_file_is_replaced_with_y_only(self):
        content = safetensors_file(tensors_of(self.draw, a=("U8", 10)))
        self.tilekv("model", "import", "m", self.write("in/m.safetensors", content))
        out = self.write("out.safetensors", b"old")
        self.fails(USAGE, "model", "export", "m", out)
        self.assertEqual(self.read("out.safetensors"), b"old")
        self.tilekv("model", "export", "m", out, "-y")
        self.assertEqual(self.read("out.safetensors"), content)

    # --- folders

    def write_shards(self, folder):
        """A model of three shards as Hugging Face's tools lay it out; its tensors."""
        tensors = tensors_of(self.draw, **{"embed.weight": ("BF16", 3000, 512),
                                           "layers.0.w": ("BF16", 1024, 1024),
                                           "layers.0.b": ("BF16", 1024),
                                           "layers.1.w": ("BF16", 1024, 1024),
                                           "layers.1.b": ("BF16", 1024)})
        shards = [["embed.weight"], ["layers.0.w", "layers.0.b"], ["layers.1.w", "layers.1.b"]]
        weight_map = {}
        for number, names in enumerate(shards, 1):
            file_name = f"model-{number:05}-of-{len(shards):05}.safetensors"
            self.write(f"{folder}/{file_name}", safetensors_file(
                {name: tensors[name] for name in names}, metadata={"format": "pt"}))
            weight_map.update({name: file_name for name in names})
        total = sum(len(content) for _, _, content in tensors.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        self.write(f"{folder}/model.safetensors.index.json", json.dumps(index, indent=2).encode())
        self.write(f"{folder}/config.json", b'{ "hidden_size": 512 }\n')
        self.write(f"{folder}/tokenizer/tokenizer.json", self.draw.randbytes(2_500_000))
        self.write(f"{folder}/tokenizer/deep/er/vocab.txt", b"")
        return tensors

    def test_a_folder_of_shards_comes_back_file_by_file(self):
        self.write_shards("in")
        self.tilekv("model", "import", "m", self.path("in"))
        report = self.as_json("model", "export", "m", self.path("out"))
        self.assertTrue(report["as_imported"])
        self.assertEqual(files_below(self.path("out")), files_below(self.path("in")))

    def test_a_snapshot_made_of_links_comes_back_as_files(self):
        self.write_shards("plain")
        snapshot = self.path("models--org--name", "snapshots", "0123abcd")
        blobs = self.path("models--org--name", "blobs")
        os.makedirs(blobs)
        for number, (path, content) in enumerate(files_below(self.path("plain")).items()):
            self.write(f"models--org--name/blobs/{number:040x}", content)
            link = os.path.join(snapshot, path)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(os.path.relpath(os.path.join(blobs, f"{number:040x}"),
                                       os.path.dirname(link)), link)
        self.assertTrue(os.path.islink(os.path.join(snapshot, "config.json")))
        self.tilekv("model", "import", "m", snapshot)
        self.tilekv("model", "export", "m", self.path("out"))
        self.assertEqual(files_below(self.path("out")), files_below(self.path("plain")))
        self.assertFalse(os.path.islink(self.path("out", "config.json")))

    def test_one_folder_can_become_other_shards(self):
        tensors = self.write_shards("in")
        self.tilekv("model", "import", "m", self.path("in"))
        report = self.as_json("model", "export", "m", self.path("out"), "--max-shard-size", "4MiB")
        self.assertFalse(report["as_imported"])
        with open(self.path("out", "model.safetensors.index.json"), encoding="utf-8") as text:
            weight_map = json.load(text)["weight_map"]
        self.assertEqual(set(weight_map), set(tensors))
        for file_name in set(weight_map.values()):
            names = [name for name in tensors if weight_map[name] == file_name]
            expected = safetensors_file({name: tensors[name] for name in names},
                                        metadata={"format": "pt"})
            self.assertTrue(self.read("out/" + file_name) == expected, file_name)

    def test_a_refused_folder_leaves_nothing_visible(self):
        self.write_shards("in")
        os.unlink(self.path("in", "model-00002-of-00003.safetensors"))
        before = self.as_json("store", "info")["objects"]
        self.fails(USAGE, "model", "import", "m", self.path("in"))
        self.assertEqual(self.as_json("model", "ls"), [])
        self.assertEqual(self.as_json("store", "info")["objects"], before)

    # --- what is there already

    def stored_bytes(self):
        return self.as_json("store", "info")["content_bytes"]

    def test_a_second_import_stores_next_to_nothing(self):
        self.write_shards("in")
        first = self.as_json("model", "import", "m", self.path("in"))
        self.assertGreater(first["new_bytes"], 9_000_000)
        for model in ("m", "other"):
            before = self.stored_bytes()
            again = self.as_json("model", "import", model, self.path("in"))
            self.assertLess(again["new_bytes"], MIB)
            self.assertLess(self.stored_bytes() - before, MIB)
            # Nothing but the commit.
            self.assertLess(again["new_bytes"], 1000)
            self.assertEqual(again["digest"], first["digest"])

    def test_one_changed_tensor_stores_its_own_tiles_and_manifest_pages(self):
        tensors = tensors_of(self.draw, **{f"layer.{i:02}": ("F32", 1024, 1024) for i in range(6)},
                             **{f"bias.{i:02}": ("F32", 1024) for i in range(40)})
        source = self.write("m.safetensors", safetensors_file(tensors))
        self.tilekv("model", "import", "m", source)

        def changes(name, content, most_bytes, most_tiles):
            before = self.stored_bytes()
            latest = self.as_json("model", "show", "m")["version"]
            dtype, shape, _ = tensors[name]
            tensors[name] = (dtype, shape, content)
            self.write("m.safetensors", safetensors_file(tensors))
            report = self.as_json("model", "import", "m", source)
            self.assertLess(report["new_bytes"], most_bytes + PAGES_BYTES)
            self.assertLess(self.stored_bytes() - before, most_bytes + PAGES_BYTES)
            # Beside tiles: root, commit, a page or two.
            self.assertLessEqual(report["new_objects"], most_tiles + 4)
            diff = self.as_json("model", "diff", f"m@{latest}", "m", code=DIFFERS)
            self.assertEqual([row["name"] for row in diff["tensors"]], [name])
            self.assertEqual(diff["tensors"][0]["changed_tiles"], most_tiles)

        changes("layer.03", self.draw.randbytes(4 * MIB), 4 * MIB, 4)  # all of it
        changes("layer.01", changed_at(tensors["layer.01"][2], 5), MIB, 1)  # one element
        changes("bias.17", self.draw.randbytes(4096), MIB, 1)  # its pack
        self.tilekv("model", "export", "m", self.path("out.safetensors"))
        self.assertTrue(self.read("out.safetensors") == safetensors_file(tensors))

    def test_a_renamed_tensor_stores_manifest_pages_only(self):
        tensors = tensors_of(self.draw, a=("F32", 1024, 1024), b=("F32", 1024, 1024))
        self.tilekv("model", "import", "m", self.write("1.safetensors", safetensors_file(tensors)))
        tensors["c"] = tensors.pop("a")
        renamed = self.write("2.safetensors", safetensors_file(tensors))
        report = self.as_json("model", "import", "m", renamed)
        self.assertLess(report["new_bytes"], PAGES_BYTES)
        self.tilekv("model", "export", "m", self.path("out.safetensors"))
        self.assertTrue(self.read("out.safetensors") == self.read("2.safetensors"))

    def test_all_versions_come_back_after_a_restart(self):
        kept = {}
        for version in (1, 2, 3):
            kept[version] = safetensors_file(tensors_of(self.draw, a=("F32", 600, 1024),
                                                        **{f"v{version}": ("I16", 9)}))
            self.tilekv("model", "import", "m",
                        self.write(f"{version}.safetensors", kept[version]))
        self.restart()
        for version, content in kept.items():
            out = f"out{version}.safetensors"
            self.tilekv("model", "export", f"m@{version}", self.path(out))
            self.assertTrue(self.read(out) == content, version)
        self.tilekv("store", "fsck", "--content")

    def test_a_condition_holds_after_the_content_is_there(self):
        source = self.write("m.safetensors", safetensors_file(tensors_of(self.draw, a=("U8", 9))))
        self.tilekv("model", "import", "m", source)
        self.fails(CONDITION, "model", "import", "m", source, "--if-version", "0")
        self.assertEqual(self.as_json("model", "show", "m")["version"], 1)

    # --- arrays

    def test_arrays_of_every_dtype_come_back_to_the_byte(self):
        os.mkdir(self.path("in"))
        arrays = {}
        for dtype in NUMPY_DTYPES.values():
            name = f"array-{np.dtype(dtype).name}"
            content = self.draw.randbytes(33 * 70 * np.dtype(dtype).itemsize)
            if dtype == "?":
                content = bytes(byte & 1 for byte in content)
            arrays[name] = np.frombuffer(content, dtype).reshape(33, 70)
        arrays["scalar"] = np.float32(-0.0)
        arrays["empty"] = np.zeros((3, 0, 2), np.int16)
        for name, array in arrays.items():
            np.save(self.path("in", name + ".npy"), array)
        self.tilekv("model", "import", "m", self.path("in"))
        for name in arrays:
            self.tilekv("tensor", "get", "m", name, self.path(name + ".npy"))
            self.assertTrue(self.read(name + ".npy") == self.read(f"in/{name}.npy"), name)

    def test_one_array_exports_to_the_file_that_it_was(self):
        np.save(self.path("in.npy"), np.arange(700_000, dtype=np.float64).reshape(700, 1000))
        self.tilekv("model", "import", "m", self.path("in.npy"))
        self.tilekv("model", "export", "m", self.path("out.npy"))
        self.assertTrue(self.read("out.npy") == self.read("in.npy"))

    def test_arrays_in_fortran_order_or_big_endian_keep_their_values(self):
        base = np.frombuffer(self.draw.randbytes(4 * 600 * 500), "<i4").reshape(600, 500)
        arrays = {
            "fortran": np.asfortranarray(base),
            "big": base.astype(">i4"),
            "both": np.asfortranarray(base.astype(">f8")),
            "complex": base.astype(">c8"),
            "cube": np.asfortranarray(base.astype("<f4").reshape(30, 20, 500)),
            "halves": (base % 2000).astype(">f2")[:50],
        }
        for name, array in arrays.items():
            with self.subTest(array=name):
                np.save(self.path(name + ".npy"), array)
                self.tilekv("model", "import", name, self.path(name + ".npy"))
                self.tilekv("model", "export", name, self.path("out.npy"), "-y")
                got = np.load(self.path("out.npy"))
                self.assertEqual(got.shape, array.shape)
                self.assertEqual(got.dtype, array.dtype.newbyteorder("<"))
                self.assertTrue(got.flags.c_contiguous)
                self.assertEqual(got.tobytes(), array.astype(got.dtype).tobytes())

    def test_archives_of_arrays_stored_and_deflated_keep_their_values(self):
        wide = np.frombuffer(self.draw.randbytes(4 * 900 * 700), "<f4").reshape(900, 700)
        arrays = {
            "wide": wide,
            "layer/fortran": np.asfortranarray(wide[:600]),
            "big": (np.arange(70_000) % 251).astype(">i4").reshape(70, 1000),
            "scalar": np.float64(-0.0),
            "empty": np.zeros((3, 0), np.int16),
        }
        np.savez(self.path("stored.npz"), **arrays)
        np.savez_compressed(self.path("deflated.npz"), **arrays)
        for name in ("stored", "deflated"):
            self.tilekv("model", "import", name, self.path(name + ".npz"), "--memory", "64MiB")
            listed = self.as_json("tensor", "ls", name)
            self.assertEqual(sorted(row["name"] for row in listed), sorted(arrays))
            for tensor, array in arrays.items():
                self.tilekv("tensor", "get", name, tensor, self.path("out.npy"), "-y")
                got = np.load(self.path("out.npy"))
                self.assertEqual(got.shape, array.shape)
                self.assertEqual(got.tobytes(), array.astype(got.dtype).tobytes(), tensor)
        same = self.as_json("model", "diff", "stored", "deflated")
        self.assertTrue(same["same"])

    def test_archives_that_are_not_right_leave_nothing(self):
        np.savez(self.path("objects.npz"), a=np.arange(3), b=np.array([1, None], dtype=object))
        self.assertIn("never unpickled", self.fails(USAGE, "model", "import", "m", self.path("objects.npz")))
        np.savez(self.path("raw.npz"), a=np.arange(4, dtype="<u2").view("V2"), b=np.arange(3))
        self.assertIn("BF16 for bfloat16", self.fails(USAGE, "model", "import", "m", self.path("raw.npz")))
        np.savez(self.path("flipped.npz"), a=np.arange(100_000))
        content = bytearray(self.read("flipped.npz"))
        content[len(content) // 2] ^= 1
        self.write("flipped.npz", bytes(content))
        self.assertIn("damaged", self.fails(USAGE, "model", "import", "m", self.path("flipped.npz")))
        self.assertEqual(self.as_json("model", "ls"), [])
        self.tilekv("model", "import", "m", self.path("raw.npz"), "--dtype", "a=BF16")
        dtypes = {row["name"]: row["dtype"] for row in self.as_json("tensor", "ls", "m")}
        self.assertEqual(dtypes, {"a": "BF16", "b": "I64"})

    def test_an_export_of_arrays_does_not_claim_to_be_their_files(self):
        os.mkdir(self.path("in"))
        for name in ("a", "b"):
            np.save(self.path("in", name + ".npy"), np.arange(5, dtype=np.int32))
        self.tilekv("model", "import", "m", self.path("in"))
        report = self.as_json("model", "export", "m", self.path("out"))
        self.assertEqual(list(files_below(self.path("out"))), ["model.safetensors"])
        self.assertFalse(report["as_imported"])

    def test_what_loads_code_is_never_loaded(self):
        np.save(self.path("objects.npy"), np.array([1, None], dtype=object), allow_pickle=True)
        self.assertIn("pickle", self.fails(USAGE, "model", "import", "m", self.path("objects.npy")))
        self.write("model.pt", b"PK\x03\x04")
        self.fails(USAGE, "model", "import", "m", self.path("model.pt"))
        self.assertEqual(self.as_json("model", "ls"), [])


class EmbeddedRoundTrips(RoundTrips, EmbeddedCase):
    pass


class ServedRoundTrips(RoundTrips, ServedCase):
    pass


if __name__ == "__main__":
    main(globals())
