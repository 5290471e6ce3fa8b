"""A node under too much work, among clients that misbehave, and gone for a while: those who behave go on."""

import random
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.request

from tilekv_testing import (DONE, INTERRUPTED, MIB, UNAVAILABLE, ProgramCase, Server, ServedCase,
                            main, payload_files, programs, safetensors_file, safetensors_head,
                            wait_until)

# Of a client that is refused at every try: more than it makes in the first three seconds.
TRIES_OF_AN_OUTAGE = 16
RETRY_FOR_S = 30  # kRetryFor_s
# Of a command that waits for no place, on a machine with much else to do: sooner than a client that
# stands still loses its own.
SHORT_CALL_S = 10
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and empty settings


def host_and_port(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


class Refusal:
    """In the place of a node that is gone: hangs up on everybody, and counts them."""

    def __init__(self, address):
        self.tries = 0
        self.listener = socket.create_server(host_and_port(address), backlog=64)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.tries += 1
            connection.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


class MetricsCase(ServedCase):
    def metric(self, name):
        """The sum of its values over all labels."""
        with urllib.request.urlopen(f"http://{self.server.addresses['http']}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if line.startswith((name + " ", name + "{")))


class RestartTest(MetricsCase):
    """The node goes away in the middle of a transfer and is back some seconds later."""

    max_object = "1MiB"

    def write_long_source(self, zeros):
        draw = random.Random(1)
        tensors = {f"a{i:02}": ("F32", (512, 1024)) for i in range(16)}
        tensors["z"] = ("F32", (zeros // 8192, 2048))
        with open(self.path("long.safetensors"), "wb") as out:
            out.write(safetensors_head(tensors))
            for _ in range(16):
                out.write(draw.randbytes(2 * MIB))
            out.truncate(out.tell() + zeros)
        return self.path("long.safetensors")

    def restart_within(self, process, stop):
        self.assertIsNone(process.poll(), "it was over too soon")
        address = self.server.addresses["grpc"]
        if stop == signal.SIGKILL:
            self.server.kill()
        else:
            self.server.process.send_signal(stop)
            self.server.process.wait(60)
        outage = Refusal(address)
        try:
            wait_until(lambda: outage.tries >= TRIES_OF_AN_OUTAGE, "the client tries again", process)
        finally:
            outage.close()
        self.server = Server(self.data_dir, listen=address)
        self.addCleanup(self.server.kill)

    def assert_done(self, process):
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, DONE, (out, err))

    def test_an_import_goes_on(self):
        source = self.write_long_source(2 << 30)
        process = self.start_tilekv("model", "import", "m", source)
        wait_until(lambda: len(payload_files(self.data_dir)) >= 16, "it has stored something", process)
        self.restart_within(process, signal.SIGKILL)
        self.assert_done(process)
        self.assertEqual(self.as_json("model", "show", "m")["version"], 1)
        self.assertIn("sound", self.tilekv("model", "verify", "m"))

    def test_a_load_goes_on(self):
        self.tilekv("model", "import", "m", self.write_long_source(4 << 30))
        before = self.metric("tilekv_sent_bytes_total")
        process = self.start_tilekv("model", "load", "m")
        wait_until(lambda: self.metric("tilekv_sent_bytes_total") > before + 64 * MIB,
                   "it has read something", process)
        self.restart_within(process, signal.SIGTERM)
        self.assert_done(process)


class ConnectTest(ProgramCase):
    def test_ctrl_c_ends_a_command_that_waits_for_a_silent_node(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        store = f"tilekv://127.0.0.1:{silent.getsockname()[1]}"
        for words in (("kv", "stat", "k"), ("model", "ls")):
            process = self.start_tilekv("--store", store, *words)
            connection, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            # It would give up by itself, with another code.
            self.assertEqual(process.returncode, INTERRUPTED, (out, err))
            connection.close()

    def test_the_http_port_is_named_as_what_it_may_be(self):
        server = Server(self.path("data"))
        self.addCleanup(server.kill)
        error = self.fails(UNAVAILABLE, "--store", "tilekv://" + server.addresses["http"], "kv", "ls")
        self.assertIn("--http", error)
        self.assertNotIn("C-ares", error)


class NeighboursTest(MetricsCase):
    """200 clients, more than the node has places: some stand still, are slow, or cancel all the time."""

    memory = 256 * MIB
    places = 28  # one for each 8 MiB beyond 32 MiB

    def server_flags(self):
        return ("--memory", str(self.memory))

    def start_neighbours(self, readers, uploads, cancellers):
        process = subprocess.Popen(
            [programs["bad_neighbours"], self.server.addresses["grpc"], str(readers), str(uploads),
             str(cancellers)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        # Places may change hands before the last of them has begun.
        said = []
        while said[-1:] not in (["ready\n"], [""]):
            said.append(process.stdout.readline())
        self.assertLessEqual(set(said), {"broken off\n", "ready\n"})
        process.lost_a_place = "broken off\n" in said
        return process

    def wait_for_a_lost_place(self, process):
        if not process.lost_a_place:
            self.assertEqual(process.stdout.readline(), "broken off\n", "nobody lost a place")

    def end_neighbours(self, process):
        """How many calls they cancelled, were broken off and were refused."""
        out, _ = process.communicate("", timeout=120)
        self.assertEqual(process.returncode, 0)
        return [int(word) for word in out.split() if word.isdigit()]

    def use_the_node(self, seed):
        """What docs/limits.md promises to those who are neither slow nor stand still."""
        draw = random.Random(seed)
        tensors = {f"t{i}": ("F32", (512, 1024), draw.randbytes(2 * MIB)) for i in range(8)}
        content = safetensors_file(tensors)
        model, back = f"m{seed}", f"back{seed}.safetensors"
        source = self.write("m.safetensors", content)
        for words in (("import", model, source), ("export", model, self.path(back))):
            began = time.monotonic()
            self.tilekv("model", *words)
            self.assertLess(time.monotonic() - began, RETRY_FOR_S, words)
        self.assertTrue(self.read(back) == content)
        # These wait for none of the places.
        for words in (("kv", "put", "k", "-"), ("kv", "get", "k"),
                      ("tensor", "get", model, "t1", self.path(f"{seed}.npy"), "--slice", "0:1")):
            began = time.monotonic()
            self.tilekv(*words, stdin=b"value")
            self.assertLess(time.monotonic() - began, SHORT_CALL_S, words)
        self.assertEqual(self.tilekv("kv", "get", "k"), "value")
        with urllib.request.urlopen(f"http://{self.server.addresses['http']}/readyz") as answer:
            self.assertEqual(answer.status, 200)

    def test_others_go_on_beside_200_of_them(self):
        neighbours = self.start_neighbours(readers=30, uploads=20, cancellers=150)
        self.use_the_node(1)
        self.wait_for_a_lost_place(neighbours)
        cancelled, broken_off, _ = self.end_neighbours(neighbours)
        self.assertGreater(cancelled, 150, "the cancelling ones have cancelled")
        self.assertGreater(broken_off, 0)
        # What they held is free again.
        wait_until(lambda: self.metric("tilekv_budget_used_bytes") == 0, "all memory is given back")
        # Others may come.
        neighbours = self.start_neighbours(readers=self.places, uploads=self.places, cancellers=0)
        self.use_the_node(2)
        self.end_neighbours(neighbours)
        wait_until(lambda: self.metric("tilekv_budget_used_bytes") == 0, "all memory is given back")
        self.assertLess(self.server.peak_bytes(), self.memory + 256 * MIB)
        self.assertIn("sound", self.tilekv("store", "fsck", "--content"))
        self.assertEqual(self.server.stop(), DONE)


def raise_open_file_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class ConnectionsCase(ServedCase):
    memory = 64 * MIB

    def server_flags(self):
        return ("--memory", str(self.memory))

    def connect(self, count):
        """Idle connections to the gRPC port, every second one greeted as gRPC does it."""
        made = []
        for i in range(count):
            connection = socket.create_connection(host_and_port(self.server.addresses["grpc"]), 60)
            self.addCleanup(connection.close)
            if i % 2 == 0:
                connection.sendall(HTTP2_PREFACE)
            made.append(connection)
        return made


class ConnectionsTest(ConnectionsCase):
    def test_2000_idle_connections_cost_little_and_stop_nobody(self):
        count = min(2000, raise_open_file_limit() // 2 - 200)
        if count < 2000:
            print(f"only {count} connections: the limit of open files allows no more")
        self.connect(count)
        self.tilekv("kv", "put", "k", "-", stdin=b"value")
        self.assertEqual(self.tilekv("kv", "get", "k"), "value")
        with urllib.request.urlopen(f"http://{self.server.addresses['http']}/healthz") as answer:
            self.assertEqual(answer.status, 200)
        self.assertLess(self.server.peak_bytes(), self.memory + 256 * MIB)
        self.assertEqual(self.server.stop(), DONE)

    def test_garbage_harms_nobody(self):
        draw = random.Random(1)
        for garbage in (draw.randbytes(100_000), b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
                        HTTP2_PREFACE + draw.randbytes(100_000), HTTP2_PREFACE + b"\xff" * 9):
            for kind in ("grpc", "http"):
                address = host_and_port(self.server.addresses[kind])
                with socket.create_connection(address, 60) as connection:
                    try:
                        connection.sendall(garbage)
                        connection.shutdown(socket.SHUT_WR)
                        while connection.recv(65536):
                            pass
                    except OSError:
                        pass  # hung up on
        self.tilekv("kv", "put", "k", "-", stdin=b"value")
        self.assertEqual(self.tilekv("kv", "get", "k"), "value")
        self.assertEqual(self.server.stop(), DONE)


class DescriptorsTest(ConnectionsCase):
    """More connections than the server may have open files."""

    def start_server(self):
        self.server = Server(self.data_dir, *self.server_flags(),
                             before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)))
        self.addCleanup(self.server.kill)
        self.env["TILEKV_STORE"] = self.server.uri

    def test_connections_that_take_all_descriptors_stop_a_node_only_while_they_are_there(self):
        self.tilekv("kv", "put", "before", "-", stdin=b"value")
        for connection in self.connect(400):
            connection.close()
        wait_until(lambda: self.run_raw("kv", "get", "before").stdout == b"value",
                   "it serves again")
        self.tilekv("kv", "put", "k", "-", stdin=bytes(1_000_000))
        self.assertEqual(self.run_raw("kv", "get", "k").stdout, bytes(1_000_000))
        self.assertIn("sound", self.tilekv("store", "fsck", "--content"))
        self.assertEqual(self.server.stop(), DONE)


if __name__ == "__main__":
    main(globals(), "bad_neighbours")
