"""Clusters of real nodes on an etcd of their own."""

import json
import subprocess

from etcd_testing import Etcd
from tilekv_testing import (DONE, USAGE, ProgramCase, Server, clean_environment, programs, wait_until)

CLUSTER = "prod"


class ClusterCase(ProgramCase):
    """An etcd with a cluster, and as many nodes as a test starts."""

    settings = ()

    def setUp(self):
        super().setUp()
        self.etcd = Etcd()
        self.addCleanup(self.etcd.close)
        self.nodes = {}
        self.env.update(TILEKV_ETCD=self.etcd.endpoints, TILEKV_CLUSTER=CLUSTER)
        self.tilekv("cluster", "init", *self.settings)

    def flags(self, name):
        return ("--etcd", self.etcd.endpoints, "--cluster", CLUSTER, "--node-id", name,
                "--host", "host-" + name, "--memory", "128MiB")

    def start(self, name, *flags):
        listen = "127.0.0.1:0"
        if name in self.nodes:  # again, where it was
            listen = self.nodes[name].addresses["grpc"]
        node = Server(self.path(name), *self.flags(name), *flags, listen=listen)
        self.addCleanup(node.kill)
        self.nodes[name] = node
        self.env["TILEKV_STORE"] = node.uri
        return node

    def refused(self, data_dir, *flags):
        """The log of a server that does not start, and why."""
        result = subprocess.run(
            [programs["tilekv-server"], "--data-dir", data_dir, "--listen", "127.0.0.1:0",
             "--http", "127.0.0.1:0", *flags], env=clean_environment(), capture_output=True,
            timeout=120, check=False)
        self.assertEqual(result.returncode, USAGE, result.stderr)
        return result.stderr.decode()

    def at(self, name, *words, **options):
        return self.tilekv("--store", self.nodes[name].uri, *words, **options)

    def seen_by(self, name):
        """{node: what `node ls` says of it}."""
        return {node["node"]: node for node in
                self.as_json("--store", self.nodes[name].uri, "node", "ls")}

    def check(self, *flags, code=DONE):
        """What `cluster check` finds; it ends with this exit status."""
        result = self.run_raw("-o", "json", "cluster", "check", *flags)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        return json.loads(result.stdout)

    def wait_repaired(self):
        """Until every node of the map is here, and each object is at its owners and nowhere else."""
        def is_repaired():
            status = self.as_json("cluster", "status")
            return status["repair"]["complete"]
        wait_until(is_repaired, "repair is complete")
        self.assertEqual(self.check("--deep")["findings"], [])

    def wait_seen(self, by, node, **fields):
        def as_wanted():
            seen = self.seen_by(by).get(node, {})
            return all(seen.get(key) == value for key, value in fields.items())
        wait_until(as_wanted, f"{by} sees {node} as {fields}")


def npy(rows, columns, content):
    head = (f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}").encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + content
