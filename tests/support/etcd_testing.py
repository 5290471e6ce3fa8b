"""An etcd for tests: one or several members on free loopback ports, data in a temporary folder.

    with Etcd(members=3) as etcd:
        etcd.endpoints  # "http://127.0.0.1:...,..."

Everything has ended and is gone when the `with` block is left, failed or not.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60
STARTS = 5  # another process may have taken a port meanwhile


def free_port():
    """Below those that the system gives to outgoing connections: one of them could take the port of
    a member while it is killed."""
    while True:
        port = random.randrange(15_000, 32_000)
        with contextlib.closing(socket.socket()) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def listens(port):
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Member:
    def __init__(self):
        self.client_port = free_port()
        self.peer_port = free_port()
        self.process = None


class Etcd:
    """Members are numbered from 0. `flags` are each member's, beside addresses and folder."""

    def __init__(self, members=1, flags=(), heartbeat_ms=100):
        self.flags = list(flags)
        self.heartbeat_ms = heartbeat_ms
        self.folder = tempfile.mkdtemp(prefix="tilekv-etcd-")
        self.members = []
        try:
            for _ in range(STARTS):
                self.members = [Member() for _ in range(members)]
                if self._start_all():
                    return
                self._end_all()
            for index in range(members):
                sys.stderr.write(self.log(index))
            raise AssertionError("etcd does not start")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def endpoints(self):
        return ",".join(f"http://127.0.0.1:{member.client_port}" for member in self.members)

    def log(self, index=0):
        with open(f"{self.folder}/{index}.log", encoding="utf-8", errors="replace") as log:
            return log.read()

    def close(self):
        self._end_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self, index=0):
        """As kill -9 does it. No harm when it has ended."""
        process = self.members[index].process
        if process is not None:
            if process.poll() is None:
                process.kill()
            process.wait()

    def restart(self, index=0):
        """With the same data and addresses."""
        self.kill(index)
        self._spawn(index)
        if not self._wait_until_it_listens(self.members[index]):
            raise AssertionError("etcd does not start again: " + self.log(index))

    def pause(self, index=0):
        """Until all its threads stand still."""
        pid = self.members[index].process.pid
        os.kill(pid, signal.SIGSTOP)
        while True:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "T":
                    return
            time.sleep(0.001)

    def resume(self, index=0):
        self.members[index].process.send_signal(signal.SIGCONT)

    def wipe(self, index=0):
        """The data of a member that was killed."""
        shutil.rmtree(f"{self.folder}/{index}", ignore_errors=True)

    def ctl(self, *words):
        """Standard output of etcdctl, which must succeed."""
        env = dict(os.environ, ETCDCTL_API="3")
        return subprocess.run(["etcdctl", "--endpoints", self.endpoints, *words], check=True,
                              stdout=subprocess.PIPE, env=env, timeout=PATIENCE_S).stdout

    def _start_all(self):
        for index in range(len(self.members)):
            self.wipe(index)
            self._spawn(index)
        return all([self._wait_until_it_listens(member) for member in self.members])

    def _end_all(self):
        for index in range(len(self.members)):
            self.kill(index)

    def _spawn(self, index):
        member = self.members[index]
        client, peer = f"http://127.0.0.1:{member.client_port}", f"http://127.0.0.1:{member.peer_port}"
        cluster = ",".join(f"m{number}=http://127.0.0.1:{other.peer_port}"
                           for number, other in enumerate(self.members))
        with open(f"{self.folder}/{index}.log", "ab") as log:
            member.process = subprocess.Popen(
                ["etcd", "--name", f"m{index}", "--data-dir", f"{self.folder}/{index}",
                 "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", cluster, "--heartbeat-interval", str(self.heartbeat_ms),
                 "--election-timeout", str(10 * self.heartbeat_ms), "--logger", "zap",
                 "--log-outputs", "stderr", "--log-level", "warn", *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @staticmethod
    def _wait_until_it_listens(member):
        deadline = time.monotonic() + PATIENCE_S
        while not listens(member.client_port):
            if member.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True
