"""Nodes on one etcd: they join by starting, answer for each other, go and come back."""

import os
import signal
import subprocess

from cluster_testing import ClusterCase, npy
from etcd_testing import free_port
from tilekv_testing import (DONE, MIB, NOT_FOUND, UNAVAILABLE, USAGE, ProgramCase,
                            Server, clean_environment, main, payload_files, programs,
                            wait_until)


class ThreeNodes(ClusterCase):
    def setUp(self):
        super().setUp()
        for name in ("n1", "n2", "n3"):
            self.start(name)
        # Every node knows where the others are.
        for name in self.nodes:
            for other in self.nodes:
                self.wait_seen(name, other, registered=True)

    def test_what_one_node_took_every_other_gives_also_when_one_is_gone(self):
        contents = {name: os.urandom(MIB + 17) for name in self.nodes}
        for name, content in contents.items():
            self.at(name, "kv", "put", "at-" + name, "-", stdin=content)
        for name in self.nodes:
            for other, content in contents.items():
                result = self.run_raw("--store", self.nodes[name].uri, "kv", "get", "at-" + other)
                self.assertEqual(result.stdout, content)
        self.nodes["n2"].kill()
        for name in ("n1", "n3"):
            for other, content in contents.items():
                result = self.run_raw("--store", self.nodes[name].uri, "kv", "get", "at-" + other)
                self.assertEqual((result.returncode, result.stdout == content), (DONE, True),
                                 result.stderr)
        # Two copies are enough.
        self.at("n1", "kv", "put", "later", "-", stdin=contents["n1"])
        result = self.run_raw("--store", self.nodes["n3"].uri, "kv", "get", "later")
        self.assertEqual(result.stdout, contents["n1"])
        self.wait_seen("n1", "n2", registered=False)

    def test_a_model_is_read_through_a_node_that_did_not_take_it(self):
        source = self.write("m.npy", npy(512, 1024, os.urandom(2 * MIB)))
        self.at("n1", "model", "import", "m", source)
        self.nodes["n1"].kill()
        self.at("n2", "model", "export", "m", self.path("out"))
        self.at("n3", "model", "verify", "m")

    def test_an_upload_goes_on_at_another_node_when_its_own_is_killed(self):
        source = self.write("m.npy", npy(4096, 6144, os.urandom(96 * MIB)))
        uris = [self.nodes[name].addresses["grpc"] for name in ("n1", "n2", "n3")]
        self.env["TILEKV_STORE"] = "tilekv://" + ",".join(uris)
        importing = self.start_tilekv("model", "import", "m", source)
        wait_until(lambda: len(payload_files(self.nodes["n1"].data_dir)) > 2, "it has begun")
        self.nodes["n1"].kill()
        out, error = importing.communicate(timeout=240)
        self.assertEqual(importing.returncode, DONE, (out, error))
        self.tilekv("model", "verify", "m")
        self.tilekv("model", "export", "m", self.path("out"))
        self.assertTrue(any(self.read(os.path.join("out", name)).endswith(self.read("m.npy")[-MIB:])
                            for name in os.listdir(self.path("out"))))

    def test_a_node_that_was_killed_comes_back_as_itself(self):
        before = self.seen_by("n1")["n3"]
        self.nodes["n3"].kill()
        self.start("n3")
        self.wait_seen("n1", "n3", registered=True)
        after = self.seen_by("n1")["n3"]
        self.assertEqual(after["store_uuid"], before["store_uuid"])
        self.assertEqual(len(self.seen_by("n1")), 3)

    def test_a_node_that_stood_still_for_longer_than_its_lease_registers_again(self):
        self.nodes["n3"].process.send_signal(signal.SIGSTOP)
        self.wait_seen("n1", "n3", registered=False)
        content = os.urandom(MIB)
        self.at("n1", "kv", "put", "a", "-", stdin=content)
        self.assertEqual(self.run_raw("--store", self.nodes["n2"].uri, "kv", "get", "a").stdout,
                         content)
        self.nodes["n3"].process.send_signal(signal.SIGCONT)
        self.wait_seen("n1", "n3", registered=True)
        result = self.run_raw("--store", self.nodes["n3"].uri, "kv", "get", "a")
        self.assertEqual((result.returncode, result.stdout == content), (DONE, True), result.stderr)
        wait_until(lambda: "event=registered_again" in self.nodes["n3"].log(), "it says so")

    def test_a_node_that_is_stopped_is_known_to_be_away_at_once(self):
        self.assertEqual(self.nodes["n3"].stop(), DONE)
        # Long before its lease would have run out: no call to it is tried first.
        self.wait_seen("n1", "n3", registered=False)
        self.assertIn("level=info event=stopped", self.nodes["n3"].log())

    def test_what_a_node_cannot_do_alone_it_refuses(self):
        # What other nodes hold is not taken for lost.
        self.assertIn("on other nodes", self.fails(USAGE, "store", "fsck"))

    def test_what_is_removed_gives_its_space_back_at_every_node(self):
        one, other = (self.write(name, npy(1024, 2048, os.urandom(8 * MIB)))
                      for name in ("one.npy", "other.npy"))
        self.at("n1", "model", "import", "one", one)
        self.at("n2", "model", "import", "other", other)

        def files():
            return {name: len(payload_files(node.data_dir)) for name, node in self.nodes.items()}
        before = files()
        self.tilekv("-y", "model", "rm", "one@1")
        self.assertEqual(self.as_json("store", "gc")["deleted_objects"], 0)
        self.at("n3", "model", "undelete", "one@1")
        self.at("n3", "model", "verify", "one")
        self.at("n2", "-y", "model", "rm", "one@1", "--now")
        would = self.as_json("store", "gc", "--dry-run")
        self.assertEqual(files(), before)
        done = self.as_json("--store", self.nodes["n3"].uri, "store", "gc")
        self.assertEqual(done["deleted_objects"], would["deleted_objects"])
        self.assertGreaterEqual(done["deleted_bytes"], 3 * 8 * MIB)
        self.assertEqual(done["not_reached"], [])
        self.assertEqual({name: 2 * count for name, count in files().items()}, before)
        for name in self.nodes:
            self.at(name, "model", "verify", "other")
        self.at("n1", "model", "export", "other", self.path("out"))

    def test_a_node_that_was_away_is_named_and_collected_when_it_is_back(self):
        source = self.write("m.npy", npy(1024, 2048, os.urandom(8 * MIB)))
        self.at("n1", "model", "import", "m", source)
        self.nodes["n3"].kill()
        self.at("n1", "-y", "model", "rm", "m@1", "--now")
        first = self.as_json("--store", self.nodes["n1"].uri, "store", "gc")
        self.assertEqual(len(first["not_reached"]), 1)
        self.assertIn("n3", first["not_reached"][0])
        self.assertEqual(payload_files(self.nodes["n2"].data_dir), [])
        self.assertNotEqual(payload_files(self.nodes["n3"].data_dir), [])
        self.start("n3")
        self.wait_seen("n1", "n3", registered=True)

        def is_swept():
            self.at("n2", "store", "gc")
            return not payload_files(self.nodes["n3"].data_dir)
        wait_until(is_swept, "n3 deletes its copies")

    def test_while_etcd_is_away_names_fail_and_all_goes_on_when_it_is_back(self):
        self.tilekv("kv", "put", "a", "-", stdin=b"x" * 1000)
        self.etcd.kill()
        error = self.fails(UNAVAILABLE, "kv", "get", "a", timeout=240)
        self.assertIn("NODE_UNAVAILABLE", error)
        wait_until(lambda: not self.as_json("cluster", "status")["catalog"]["answers"],
                   "the node knows that etcd is away")
        self.assertEqual(len(self.as_json("cluster", "status")["nodes"]), 3)
        self.etcd.restart()
        self.assertEqual(self.tilekv("kv", "get", "a"), "x" * 1000)
        self.tilekv("kv", "put", "b", "-", stdin=b"y" * 1000)
        for name in self.nodes:
            self.wait_seen(name, "n1", registered=True)
            wait_until(lambda n=name: self.as_json("--store", self.nodes[n].uri, "cluster",
                                                   "status")["catalog"]["answers"],
                       f"{name} reaches the catalog")

    def test_what_is_being_read_goes_on_while_etcd_and_a_node_are_away(self):
        content = os.urandom(64 * MIB)
        self.at("n2", "kv", "put", "a", "-", stdin=content)
        for away, back in ((self.etcd.pause, self.etcd.resume),
                           (self.etcd.kill, self.etcd.restart)):
            reading = self.start_tilekv("--store", self.nodes["n1"].uri, "kv", "get", "a")
            begin = reading.stdout.read(MIB)
            away()
            self.nodes["n2"].kill()  # the second time it is dead already
            rest, error = reading.communicate(timeout=240)
            self.assertEqual((reading.returncode, begin + rest == content), (DONE, True), error)
            back()
            wait_until(lambda: self.as_json("--store", self.nodes["n1"].uri, "cluster",
                                            "status")["catalog"]["answers"], "etcd is back")

    def test_settings_and_nodes_are_changed_through_any_node(self):
        self.assertEqual(self.tilekv("cluster", "get", "replication").strip(), "3")
        self.assertTrue(self.as_json("cluster", "set", "out-after=5m")["changed"])
        self.assertFalse(self.as_json("cluster", "set", "out-after=300s")["changed"])
        wait_until(lambda: self.at("n1", "cluster", "get", "out-after").strip() == "5m",
                   "n1 knows it")
        self.assertIn("min-copies", self.fails(USAGE, "cluster", "set", "replication=1"))
        self.fails(USAGE, "cluster", "set", "partition-bits=8")
        self.fails(NOT_FOUND, "cluster", "get", "colour")
        self.tilekv("node", "set", "n2", "weight=2", "zone=b")
        shown = self.as_json("node", "show", "n2")
        self.assertEqual((shown["weight"], shown["zone"], shown["host"]), (2.0, "b", "host-n2"))
        self.fails(NOT_FOUND, "node", "show", "n9")
        self.fails(NOT_FOUND, "node", "drain", "n9")

    def test_a_node_is_drained_and_removed_only_where_nothing_is_lost(self):
        self.tilekv("kv", "put", "a", "-", stdin=b"x" * 1000)
        # Three copies, three nodes.
        self.assertIn("add a node", self.fails(USAGE, "node", "drain", "n1"))
        self.start("n4")
        self.wait_repaired()
        self.env["TILEKV_STORE"] = self.nodes["n2"].uri
        self.assertIn("drain it", self.fails(USAGE, "-y", "node", "remove", "n1"))
        # An owner that does not answer confirms nothing, so n1 keeps what it holds.
        self.nodes["n4"].process.send_signal(signal.SIGSTOP)
        self.tilekv("node", "drain", "n1")
        self.wait_seen("n2", "n1", state="draining")
        wait_until(lambda: self.seen_by("n2")["n1"]["objects"] > 0, "n1 says what it holds")
        self.assertIn("objects", self.fails(USAGE, "-y", "node", "remove", "n1"))
        self.nodes["n4"].process.send_signal(signal.SIGCONT)
        self.assertIn("holds nothing", self.tilekv("node", "drain", "n1", "--wait"))
        self.assertEqual(payload_files(self.nodes["n1"].data_dir), [])
        self.tilekv("-y", "node", "remove", "n1")
        wait_until(lambda: "n1" not in self.seen_by("n4"), "n1 is forgotten")
        self.assertEqual(self.at("n4", "kv", "get", "a"), "x" * 1000)


class Joining(ClusterCase):
    settings = ("--replication", "1", "--min-copies", "1", "--max-object-bytes", "1MiB")

    def test_a_cluster_is_made_once(self):
        self.fails(USAGE, "cluster", "init")
        self.fails(USAGE, "cluster", "init", "--cluster", "other", "--replication", "9")
        # That left nothing behind.
        self.tilekv("cluster", "init", "--cluster", "other", "--replication", "7")

    def test_a_node_that_starts_before_its_cluster_waits_and_says_so(self):
        data_dir = self.path("early")
        with open(self.path("early.log"), "wb") as log:
            process = subprocess.Popen(
                [programs["tilekv-server"], "--data-dir", data_dir, "--etcd", self.etcd.endpoints,
                 "--cluster", "early", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
                env=clean_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def log_has(text):
            return text.encode() in self.read("early.log")
        wait_until(lambda: log_has("event=waiting_for_cluster"), "it says so", process)
        self.assertFalse(os.path.exists(os.path.join(data_dir, "SUPERBLOCK")))
        self.tilekv("cluster", "init", "--cluster", "early")
        wait_until(lambda: log_has("event=serving"), "it serves", process)

    def test_a_node_that_waits_ends_when_it_is_told_to(self):
        process = subprocess.Popen(
            [programs["tilekv-server"], "--data-dir", self.path("early"), "--etcd",
             self.etcd.endpoints, "--cluster", "never", "--listen", "127.0.0.1:0", "--http",
             "127.0.0.1:0"],
            env=clean_environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertIn(b"waiting_for_cluster", process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=120)
        self.assertEqual(process.returncode, DONE, rest)

    def test_what_does_not_belong_together_is_refused_with_a_remedy(self):
        first = self.start("n1")
        self.assertEqual(self.as_json("store", "info")["max_object_bytes"], MIB)
        self.assertIn("leave it out",
                      self.refused(self.path("n2"), *self.flags("n2"), "--max-object-bytes", "2MiB"))
        first.stop()
        # Another directory under the same name.
        error = self.refused(self.path("other"), *self.flags("n1"))
        self.assertIn("tilekv node set n1 store=", error)
        # The same directory under another name, in another cluster, and by itself.
        self.assertIn("never renamed", self.refused(self.path("n1"), *self.flags("n2")))
        self.tilekv("cluster", "init", "--cluster", "second", "--max-object-bytes", "1MiB")
        error = self.refused(self.path("n1"), "--etcd", self.etcd.endpoints, "--cluster", "second")
        self.assertIn("another cluster", error)
        self.assertIn("--etcd", self.refused(self.path("n1")))
        self.assertIn("--etcd", self.fails(USAGE, "--store", self.path("n1"), "kv", "ls"))
        # A store with names of its own.
        self.tilekv("--store", self.path("single"), "store", "init", "--max-object-bytes", "1MiB")
        self.assertIn("an empty directory", self.refused(self.path("single"), *self.flags("n3")))

    def test_a_disk_that_was_replaced_is_taken_over_by_the_command_that_is_named(self):
        self.start("n0")
        self.start("n1").kill()
        self.wait_seen("n0", "n1", registered=False)
        error = self.refused(self.path("empty"), *self.flags("n1"))
        command = error[error.index("tilekv node set"):].split('"')[0].split()[1:6]
        self.env["TILEKV_STORE"] = self.nodes["n0"].uri
        self.tilekv(*[word.strip('".') for word in command])
        os.rename(self.path("n1"), self.path("gone"))
        os.rename(self.path("empty"), self.path("n1"))
        self.start("n1")
        self.wait_seen("n0", "n1", registered=True)

    def test_a_node_by_itself_has_no_cluster(self):
        node = Server(self.path("single"))
        self.addCleanup(node.kill)
        self.env["TILEKV_STORE"] = node.uri
        self.assertIn("no part of a cluster", self.fails(USAGE, "cluster", "status"))
        self.assertIn("no part of a cluster", self.fails(USAGE, "node", "drain", "n1"))


class OnLoopback(ProgramCase):
    """deploy/cluster.sh."""

    def cluster(self, *words, code=DONE):
        script = os.path.join(os.path.dirname(__file__), "../../deploy/cluster.sh")
        result = subprocess.run([script, *words], env=self.env, stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=240, check=False, cwd=self.path())
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        return result.stdout.decode()

    def test_a_cluster_is_up_loses_a_node_and_is_down(self):
        port = free_port()
        self.env.update(TILEKV_CLUSTER_DIR=self.path("c"), TILEKV_CLUSTER_PORT=str(port),
                        TILEKV_BIN=os.path.dirname(programs["tilekv-server"]))
        self.addCleanup(self.cluster, "wipe")
        self.cluster("up", "3")
        self.env["TILEKV_STORE"] = f"tilekv://127.0.0.1:{port},127.0.0.1:{port + 20}"
        content = os.urandom(MIB)
        self.tilekv("kv", "put", "a", "-", stdin=content)
        self.cluster("kill", "1")
        self.assertEqual(self.run_raw("kv", "get", "a").stdout, content)
        status = self.cluster("status")
        self.assertIn("node1    does not run", status)
        self.assertIn("local", status)
        self.cluster("start", "1")
        self.assertEqual(self.run_raw("kv", "get", "a").stdout, content)
        self.cluster("down")
        self.assertIn("etcd     does not run", self.cluster("status"))
        self.cluster("up", "3")  # with what it had
        self.assertEqual(self.run_raw("kv", "get", "a").stdout, content)
        self.cluster("kill", "9", code=1)
        self.cluster("sideways", code=USAGE)


if __name__ == "__main__":
    main(globals())
