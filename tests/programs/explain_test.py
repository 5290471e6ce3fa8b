"""A store explains itself: --explain, perf and the log of slow calls, with a node."""

import os

import numpy as np

from tilekv_testing import MIB, TOO_LARGE, ServedCase, free_bytes, main


class Explained(ServedCase):
    def server_flags(self):
        return [*super().server_flags(), "--slow-call-ms", "1"]

    def import_matrix(self, *flags, mib=8):
        np.save(self.path("w.npy"), np.random.default_rng(4).random((mib * 256, 1024), dtype="f4"))
        return self.as_json("model", "import", "m", self.path("w.npy"), *flags)

    def parts(self, told):
        self.assertAlmostEqual(sum(part["share"] for part in told["parts"]), 1)
        self.assertIn("of the time", told["limit"])
        return {part["part"]: part["seconds"] for part in told["parts"]}

    def test_an_import_says_what_it_sent_and_a_load_which_node_was_waited_for(self):
        report = self.import_matrix("--explain")
        sent = self.parts(report["explain"])
        self.assertEqual(report["explain"]["sent_bytes"], report["new_bytes"])
        self.assertLessEqual({"source", "hash", "link", "put", "commit"}, set(sent))
        told = self.as_json("model", "load", "m", "--explain")["explain"]
        self.assertLessEqual({"fetch", "verify", "place"}, set(self.parts(told)))
        self.assertEqual(told["received_bytes"], 8 * MIB)
        self.assertEqual(told["retries"], 0)
        self.assertTrue(self.env["TILEKV_STORE"].endswith(told["slowest"]["node"]))
        self.assertIn("tensor 'w', tile ", told["slowest"]["what"])
        self.assertIn(f"waiting for node {told['slowest']['node']}",
                      self.tilekv("model", "load", "m", "--explain"))
        trusting = self.as_json("model", "load", "m", "--explain", "--no-verify")["explain"]
        self.assertNotIn("verify", self.parts(trusting))

    def test_perf_compares_a_node_with_the_loopback(self):
        report = self.as_json("perf", "--bytes", "16MiB", "--seconds", "60")
        figures = {figure["what"]: figure for figure in report["figures"]}
        self.assertEqual(list(figures), ["hash", "tcp", "put", "get", "slice"])
        for name in ("tcp", "put", "get"):
            self.assertEqual(figures[name]["bytes"], 16 * MIB, name)
        self.assertIn("--disk", report["not_measured"])
        self.assertEqual(report["left_bytes"], 16 * MIB)
        self.assertIn("'tilekv store gc'", self.run_raw("perf", "--bytes", "1MiB").stderr.decode())
        both = self.as_json("perf", "--bytes", "16MiB", "--seconds", "60", "--disk", self.path(""))
        self.assertEqual([figure["what"] for figure in both["figures"]],
                         ["hash", "disk write", "disk read", "tcp", "put", "get", "slice"])
        self.assertEqual(both["not_measured"], "")
        self.assertEqual([name for name in os.listdir(self.path("")) if "perf" in name], [])
        error = self.fails(TOO_LARGE, "perf", "--bytes", str(free_bytes(self.data_dir)))
        self.assertIn("free on the store's disk", error)

    def test_a_slow_call_is_in_the_log_with_what_it_waited_for(self):
        self.import_matrix(mib=64)
        self.tilekv("store", "fsck", "--content")
        lines = [line for line in self.server.log().splitlines() if "event=slow_call" in line]
        for line in lines:
            for field in ("call", "ms", "queue_ms", "budget_ms", "client_ms", "work_ms", "bytes",
                          "peer", "reason", "unlogged"):
                self.assertIn(f" {field}=", line)
            self.assertNotIn("call=KeepSession", line)
        self.assertTrue([line for line in lines if "call=Fsck" in line], "64 MiB are hashed in it")


if __name__ == "__main__":
    main(globals())
