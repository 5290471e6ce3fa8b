"""Every command of tilekv once, right and wrong, on a store in a directory; those of models, tensors
and manifests are in cli_models_test.py.

Usage: cli_commands_test.py PATH_OF_TILEKV [unittest's arguments]
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

import cli_test_base
from cli_test_base import (CONDITION, DATA_LOSS, DIFFERS, DONE, INTERRUPTED, NOT_FOUND, TOO_LARGE,
                           UNAVAILABLE, USAGE, CliTest, damage_payloads, on_terminal,
                           wait_until_read)


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
        self.assertEqual(self.fails(NOT_FOUND, "kv", "put", "k", self.path("nowhere")),
                         f"NOT_FOUND: '{self.path('nowhere')}' is not there\n")
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
        told = " ".join(self.tilekv("store", "gc", "--help").split())
        for words in ("by more than 20 %", "is in doubt", "--confirm the round"):
            self.assertIn(words, told)
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

    def test_an_index_made_anew_says_which_objects_came_back(self):
        self.tilekv("kv", "put", "kept", "-", stdin=os.urandom(200_000))
        self.tilekv("kv", "put", "gone", "-", stdin=os.urandom(200_000))
        self.tilekv("kv", "rm", "gone", "-y")
        rebuilt = self.run_raw("store", "fsck", "--rebuild-index")
        self.assertEqual(rebuilt.returncode, DONE, rebuilt.stderr)
        self.assertIn(b"1 object (", rebuilt.stdout)
        self.assertIn(b"1 of 2 objects in the new index is needed by no name", rebuilt.stderr)
        self.assertIn(b"'tilekv store gc'", rebuilt.stderr)
        self.tilekv("store", "gc")
        again = self.run_raw("store", "fsck", "--rebuild-index")
        self.assertNotIn(b"needed by no name", again.stderr)


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
