"""Repair between real nodes: whatever happens to one, each object comes to its owners and leaves all others."""

import os
import shutil
import signal

from cluster_testing import ClusterCase, npy
from tilekv_testing import (DATA_LOSS, DIFFERS, DONE, MIB, USAGE, main, payload_files,
                            wait_until)


class Repair(ClusterCase):
    def setUp(self):
        super().setUp()
        for name in ("n1", "n2", "n3"):
            self.start(name)
        for name in self.nodes:
            for other in self.nodes:
                self.wait_seen(name, other, registered=True)

    def import_model(self, name, by="n1"):
        source = self.write(name + ".npy", npy(1024, 4096, os.urandom(16 * MIB)))
        self.at(by, "model", "import", name, source)

    def files(self):
        return {name: len(payload_files(node.data_dir)) for name, node in self.nodes.items()}

    def new_store(self, name):
        """The store that an empty directory of this node has become, as its server says."""
        error = self.refused(self.path(name), *self.flags(name))
        return error[error.index("store=") + len("store="):].split('"')[0].split()[0].strip('".')

    def only(self, name):
        """From now on no other node answers."""
        for other, node in self.nodes.items():
            if other != name:
                node.kill()
        for other in self.nodes:
            if other != name:
                self.wait_seen(name, other, registered=False)

    def test_what_a_node_missed_while_it_was_away_comes_to_it(self):
        self.import_model("before")
        self.nodes["n3"].kill()
        self.import_model("meanwhile")
        self.start("n3")
        self.wait_repaired()
        files = self.files()
        self.assertEqual(len(set(files.values())), 1, files)
        self.only("n3")
        self.at("n3", "model", "verify", "before")
        self.at("n3", "model", "verify", "meanwhile")

    def test_a_node_whose_disk_was_replaced_gets_everything_again(self):
        self.import_model("m")
        before = self.files()
        self.nodes["n2"].kill()
        self.wait_seen("n1", "n2", registered=False)
        shutil.rmtree(self.path("n2"))
        self.at("n1", "node", "set", "n2", "store=" + self.new_store("n2"))
        self.start("n2")
        self.wait_repaired()
        self.assertEqual(self.files(), before)
        self.only("n2")
        self.at("n2", "model", "verify", "m")

    def test_what_is_wrong_is_told_by_severity(self):
        self.import_model("m")
        self.import_model("other")
        self.assertEqual(self.check("--deep")["verdict"], "well")
        self.nodes["n3"].kill()
        self.env["TILEKV_STORE"] = self.nodes["n1"].uri
        self.wait_seen("n1", "n3", registered=False)
        report = self.check(code=DIFFERS)
        self.assertEqual((report["verdict"], report["loss_count"]), ("degraded", 0))
        self.assertIn("n3", [finding["where"] for finding in report["findings"]])
        # Its disk is gone for good, and one object of each kind of those that are left.
        paths = payload_files(self.nodes["n1"].data_dir)
        names = {os.path.relpath(path, self.nodes["n1"].data_dir) for path in paths}
        self.assertGreater(len(names), 2)
        for node in ("n1", "n2"):
            for path in payload_files(self.nodes[node].data_dir):
                with open(path, "r+b") as file:
                    file.seek(os.path.getsize(path) // 2)
                    file.write(b"rot rot rot rot")
        shutil.rmtree(self.path("n3"))
        self.at("n1", "node", "set", "n3", "store=" + self.new_store("n3"))
        self.start("n3")
        self.wait_seen("n1", "n3", registered=True)
        self.env["TILEKV_STORE"] = self.nodes["n1"].uri
        report = self.check("--deep", code=DATA_LOSS)
        self.assertEqual(report["verdict"], "loss")
        lost = {finding["where"] for finding in report["findings"]
                if finding["severity"] == "loss"}
        self.assertEqual(lost, {"default/m@1", "default/other@1"})

    def test_a_node_that_is_gone_for_good_is_removed_once_all_is_well_without_it(self):
        self.start("n4")
        self.import_model("m")
        self.wait_repaired()
        self.tilekv("node", "drain", "n4", "--wait")
        self.assertIn("is here", self.fails(USAGE, "-y", "node", "remove", "n4", "--lost"))
        self.tilekv("node", "undrain", "n4")
        self.wait_repaired()
        self.nodes["n4"].kill()
        self.at("n1", "node", "drain", "n4")
        self.wait_seen("n1", "n4", registered=False)
        self.env["TILEKV_STORE"] = self.nodes["n1"].uri
        self.assertIn("--lost", self.fails(USAGE, "-y", "node", "remove", "n4"))
        # Not while others are away, who might be the only ones that hold something.
        self.nodes["n3"].kill()
        self.assertIn("n3", self.fails(USAGE, "-y", "node", "remove", "n4", "--lost"))
        self.start("n3")
        self.env["TILEKV_STORE"] = self.nodes["n1"].uri

        def is_removed():
            return self.run_raw("-y", "node", "remove", "n4", "--lost").returncode == DONE
        wait_until(is_removed, "repair has made the copies that n4 had")
        wait_until(lambda: "n4" not in self.seen_by("n2"), "n4 is forgotten")
        self.wait_repaired()
        self.at("n2", "model", "verify", "m")

    def test_a_node_more_takes_its_share_and_nothing_stands_twice(self):
        for i in range(3):
            self.import_model(f"m{i}", by=f"n{i + 1}")
        before = self.files()
        self.start("n4")
        self.wait_repaired()
        after = self.files()
        self.assertEqual(sum(after.values()), sum(before.values()), after)
        self.assertGreater(after["n4"], 0)
        for name in self.nodes:
            for i in range(3):
                self.at(name, "model", "verify", f"m{i}")

    def test_rot_is_found_by_a_reader_and_mended_from_another_node(self):
        self.import_model("m")
        damaged = payload_files(self.nodes["n2"].data_dir)
        for path in damaged:
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 4]))
        self.assertGreater(len(damaged), 0)
        self.at("n2", "model", "verify", "m")  # by the other nodes' copies

        def is_mended():
            # Whoever reads through this node meets what is not mended yet.
            result = self.run_raw("--store", self.nodes["n2"].uri, "model", "verify", "m")
            self.assertEqual(result.returncode, DONE, result.stderr)
            return not set(payload_files(self.nodes["n2"].data_dir)) & set(damaged)
        wait_until(is_mended, "every damaged file is replaced")
        self.wait_repaired()
        self.only("n2")
        self.at("n2", "model", "verify", "m")

    def test_garbage_of_a_node_that_was_away_does_not_come_back(self):
        self.import_model("gone")
        self.import_model("kept")
        self.nodes["n3"].kill()
        self.wait_seen("n1", "n3", registered=False)
        self.at("n1", "-y", "model", "rm", "gone@1", "--now")
        self.at("n1", "store", "gc")
        left = len(payload_files(self.nodes["n1"].data_dir))
        self.start("n3")

        def is_swept():
            self.at("n2", "store", "gc")
            return len(payload_files(self.nodes["n3"].data_dir)) == left
        wait_until(is_swept, "n3 has given up what was deleted")
        self.wait_repaired()
        self.assertEqual(set(self.files().values()), {left})

    def test_a_node_that_stood_still_is_repaired_around_and_with(self):
        self.nodes["n3"].process.send_signal(signal.SIGSTOP)
        self.wait_seen("n1", "n3", registered=False)
        self.import_model("m")
        self.nodes["n3"].process.send_signal(signal.SIGCONT)
        self.wait_seen("n1", "n3", registered=True)
        self.env["TILEKV_STORE"] = self.nodes["n1"].uri
        self.wait_repaired()
        self.only("n3")
        self.at("n3", "model", "verify", "m")


if __name__ == "__main__":
    main(globals())
