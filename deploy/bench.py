#!/usr/bin/python3
"""Measures what TileKV claims to reach, and writes docs/benchmarks.md with its chart.

    deploy/bench.py --bin DIR [--folder DIR] [--quick] [--out DIR] [SECTION...]

Debian's Python with Debian's matplotlib. Servers (TileKV's, redis-server, etcd) listen on free ports of the loopback,
keep their data in a temporary folder and are stopped by pid, also on failure. --quick takes a small matrix and one
round: it shows that everything works, not what it reaches.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

MIB = 1 << 20
GIB = 1 << 30
MEMORY = 256 * MIB  # of client and server, in every section
SECTIONS = ("load", "load-embedded", "store", "shards", "planes", "tensors", "values", "memory")


class Failed(Exception):
    """What to say before ending with 1."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, what, process, seconds=30):
    for _ in range(seconds * 20):
        if condition():
            return
        if process.poll() is not None:
            raise Failed(f"{what} ended at once, with status {process.returncode}")
        time.sleep(0.05)
    raise Failed(f"{what} is not ready after {seconds} s")


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Bench:
    def __init__(self, options, folder, stack):
        self.options = options
        self.folder = pathlib.Path(folder)
        self.stack = stack
        self.bytes = 64 * MIB if options.quick else GIB
        self.rounds = 1 if options.quick else 5
        self.server = None

    # --- processes

    def start(self, name, command, **how):
        log = self.stack.enter_context(open(self.folder / f"{name}.log", "wb"))
        process = subprocess.Popen(command, stdout=how.pop("stdout", log), stderr=log, **how)

        def stop():
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.stack.callback(stop)
        return process

    def program(self, name):
        return str(pathlib.Path(self.options.bin) / name)

    def start_server(self):
        data = self.folder / "node"
        self.server = self.start("tilekv-server", [
            self.program("tilekv-server"), "--data-dir", str(data), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
            "--memory", str(MEMORY)], stdin=subprocess.DEVNULL)
        address = data / "ADDRESS"
        wait_for(address.exists, "tilekv-server", self.server)
        addresses = dict(line.split() for line in address.read_text().splitlines())
        self.store = "tilekv://" + addresses["grpc"]
        self.metrics = f"http://{addresses['http']}/metrics"

    def start_rivals(self):
        (self.folder / "tiles").mkdir()
        rivals = self.start("rivals", [self.program("tilekv-bench"), "serve-rivals", "--file", str(self.file),
                                       "--folder", str(self.folder / "tiles")],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ports = json.loads(rivals.stdout.readline())

    def start_redis(self):
        port = free_port()
        process = self.start("redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                                       "--appendonly", "no", "--dir", str(self.folder)], stdin=subprocess.DEVNULL)
        wait_for(lambda: accepts(port), "redis-server", process)
        return process, port

    def start_etcd(self):
        client, peer = free_port(), free_port()
        url = f"http://127.0.0.1:{client}"
        process = self.start("etcd", [
            "etcd", "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--log-level", "error"], stdin=subprocess.DEVNULL)
        wait_for(lambda: accepts(client), "etcd", process)
        return process, client

    # --- sections

    def make_file(self):
        self.file = self.folder / "matrix.raw"
        block = os.urandom(min(self.bytes, 64 * MIB))
        with open(self.file, "wb") as out:
            for i in range(self.bytes // len(block)):
                out.write(block[i * 4096 + 1:] + block[:i * 4096 + 1])  # no tile twice

    def run(self, section, *flags):
        print(f"== {section}", file=sys.stderr, flush=True)
        command = [self.program("tilekv-bench"), section, "--store", self.store, "--folder", str(self.folder), "--file",
                   str(self.file), "--bytes", str(self.bytes), "--memory", str(MEMORY), "--rounds", str(self.rounds),
                   "--file-port", str(self.ports["file_port"]), "--tile-port", str(self.ports["tile_port"]), *flags]
        result = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
        if result.returncode != 0:
            raise Failed(f"section {section} failed with status {result.returncode}")
        return json.loads(result.stdout) if result.stdout.strip() else {}

    def with_rival(self, section, start, flag):
        process, port = start()
        result = self.run(section, flag, str(port))
        process.terminate()
        process.wait()
        return result

    def calls(self):
        """How many calls of each kind the node has answered."""
        with urllib.request.urlopen(self.metrics) as answer:
            text = answer.read().decode()
        counts = {}
        for labels, count in re.findall(r"^tilekv_calls_total\{([^}]*)\} (\S+)$", text, re.M):
            name = re.search(r'call="([^"]*)"', labels) or re.search(r'method="([^"]*)"', labels)
            counts[name[1]] = counts.get(name[1], 0) + float(count)
        return counts

    def tensors(self):
        result = self.run("tensors")
        for model in result["models"]:
            before = self.calls()
            self.run("open-once", "--model", f"tensors-{model['tensors']}")
            after = self.calls()
            model["calls"] = int(sum(after.values()) - sum(before.values()) -
                                 (after.get("Info", 0) - before.get("Info", 0)))
        return result

    def memory(self):
        """Peak memory of programs as people run them, with a model larger than the budgets."""
        size = 256 * MIB if self.options.quick else 4 * GIB
        source = self.folder / "model.safetensors"
        columns = 8192
        header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4 // columns, columns],
                                   "data_offsets": [0, size]}}).encode()
        header += b" " * (-len(header) % 8)
        block = os.urandom(64 * MIB)
        with open(source, "wb") as out:
            out.write(len(header).to_bytes(8, "little") + header)
            for i in range(size // len(block)):
                out.write(block[i * 4099 + 1:] + block[:i * 4099 + 1])
        peaks = {}
        for name, words in (("import", ["import", "bench/memory", str(source)]),
                            ("load", ["load", "bench/memory", "--to", "null"]),
                            ("export", ["export", "bench/memory", str(self.folder / "out.safetensors")])):
            process = subprocess.Popen([self.program("tilekv"), "--store", self.store, "--memory", str(MEMORY), "-q",
                                        "model", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            if os.waitstatus_to_exitcode(status) != 0:
                raise Failed(f"tilekv model {words[0]} failed")
            peaks[name] = usage.ru_maxrss * 1024
        status = pathlib.Path(f"/proc/{self.server.pid}/status").read_text()
        peaks["server"] = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024
        for path in (source, self.folder / "out.safetensors"):
            path.unlink()
        return {"peaks": peaks, "model_bytes": size}

    def all(self, wanted):
        self.make_file()
        self.start_server()
        self.start_rivals()
        how = {"load": lambda: self.with_rival("load", self.start_redis, "--redis-port"),
               "values": lambda: self.with_rival("values", self.start_etcd, "--etcd-port"),
               "tensors": self.tensors, "memory": self.memory}
        return {section: how.get(section, lambda s=section: self.run(s))() for section in wanted}


# --- the report

def medians(section):
    return {row["name"]: statistics.median(row["values"]) for row in section.get("rows", [])}


def claims(results):
    """(what is claimed, the figure, the target, whether it holds), of the sections that were run."""
    rows = []

    def at_least(text, figure, target):
        rows.append((text, f"{figure:.2f}", f"at least {target:g}", figure >= target))

    def at_most(text, figure, target, form="{:.2f}"):
        rows.append((text, form.format(figure), f"at most {form.format(target)}", figure <= target))

    if "load" in results:
        m = medians(results["load"])
        plain = max(m["raw TCP, streams: 1"], m["raw TCP, streams: 2"])
        hashed = max(m["raw TCP, hashed, streams: 1"], m["raw TCP, hashed, streams: 2"])
        at_least("load over TCP, of the better raw TCP", m["TileKV, not verified"] / plain, 0.7)
        at_least("load over TCP verified, of the better raw TCP that hashes", m["TileKV, verified"] / hashed, 0.7)
        redis = max(v for name, v in m.items() if name.startswith("Redis"))
        at_least("load over TCP verified, of the best Redis load", m["TileKV, verified"] / redis, 1)
        at_least("load in bands, of rows", m["TileKV, verified"] / m["TileKV, rows, verified"], 0.9)
    if "load-embedded" in results:
        m = medians(results["load-embedded"])
        at_least("embedded load verified, of pread that hashes", m["TileKV, verified"] / m["pread, hashed"], 0.9)
        at_least("embedded load, of pread", m["TileKV, not verified"] / m["pread"], 0.95)
    if "store" in results:
        m = medians(results["store"])
        at_least("durable store over TCP, of a bare program", m["TileKV over TCP"] / m["bare program, TCP, two streams"],
                 0.85)
        at_least("durable embedded store, of bare hashing and writing",
                 m["TileKV embedded"] / m["hashed, raw files, two threads"], 0.85)
    for cost in results.get("shards", {}).get("costs", []):
        at_most(f"bytes read for bytes asked: {cost['name']}", cost["cost"], 1.3 if "slice" in cost["name"] else 1.1)
    if "planes" in results:
        m = medians(results["planes"])
        at_least("byte planes decoded by one core, GB/s", m["decode planes(2), one core"], 3)
        at_least("load of byte planes over TCP, of the same uncoded",
                 m["load over TCP, verified, planes"] / m["load over TCP, verified, none"], 0.8)
    if "memory" in results:
        peaks = results["memory"]["peaks"]
        for name in ("import", "load", "export"):
            at_most(f"peak memory of {name}, MiB", peaks[name] / MIB, (MEMORY + 96 * MIB) / MIB, "{:.0f}")
        at_most("peak memory of the server, MiB", peaks["server"] / MIB, (MEMORY + 256 * MIB) / MIB, "{:.0f}")
    if "tensors" in results:
        m = medians(results["tensors"])
        for model in results["tensors"]["models"]:
            count = model["tensors"]
            at_most(f"opening a model of {count:,} tensors, ms", 1000 / m[f"open a model of {count} tensors"],
                    100 if count == 10_000 else 500, "{:.0f}")
            at_most(f"calls to open a model of {count:,} tensors", model["calls"], 2, "{:.0f}")
            if count == 100_000:
                at_most("objects of 100,000 tensors of 1 KiB", model["objects"], 20_000, "{:,.0f}")
        loads = [v for name, v in m.items() if re.fullmatch(r"load \d+ MiB", name)]
        at_least("slowest of the loads of 64 MiB to 4 GiB, of the fastest", min(loads) / max(loads), 0.5)
    if "values" in results:
        m = medians(results["values"])
        for call in ("put", "get"):
            at_least(f"kv {call} of 1 KiB, 64 callers, of etcd", m[f"TileKV {call}"] / m[f"etcd {call}"], 0.5)
    return rows


def version_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()[0]
    except (OSError, IndexError):
        return f"{command[0]}: not there"


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    return [f"{os.cpu_count()} processors, {cpu[1] if cpu else 'unknown'}", f"{memory / MIB:.0f} GiB of memory",
            f"Linux {platform.release()}"]


def draw(results, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    panels = [(title, results[section]["rows"]) for section, title in
              (("load", "Load, one node over TCP"), ("load-embedded", "Load, embedded"), ("store", "Store, durable"))
              if section in results]
    if not panels:
        return False
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(9, sum(1.0 + 0.34 * len(p[1]) for p in panels)),
                                   gridspec_kw={"height_ratios": [len(p[1]) + 1 for p in panels]}, squeeze=False)
    for axis, (title, rows) in zip(axes[:, 0], panels):
        names = [row["name"] for row in rows]
        values = [statistics.median(row["values"]) for row in rows]
        spread = [[v - min(r["values"]) for v, r in zip(values, rows)],
                  [max(r["values"]) - v for v, r in zip(values, rows)]]
        colours = ["#1f6feb" if "TileKV" in name else "#9aa4b1" for name in names]
        bars = axis.barh(names, values, color=colours, xerr=spread, ecolor="#555555", capsize=2)
        axis.bar_label(bars, labels=[f"{v:.2f}" for v in values], padding=6, fontsize=8)
        axis.invert_yaxis()
        axis.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axis.set_xlabel("GB/s", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.margins(x=0.12)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    return True


def report(results, options, commit):
    lines = ["# Benchmarks", "",
             "Written by `deploy/bench.sh`, which measures everything here in one run. Contestants take turns, one round "
             "after another; figures are medians of five rounds, so only ratios within one section mean much: the "
             "machine is a virtual one and its disk and network change from hour to hour.", "",
             f"{datetime.date.today().isoformat()}, commit {commit}: " + "; ".join(machine()) + ". " +
             "; ".join((version_of("redis-server", "--version"), version_of("etcd", "--version"))) + ".", "",
             f"The matrix has {(64 * MIB if options.quick else GIB) >> 20} MiB of fp32 in the default layout and tiles; "
             f"client and server have {MEMORY >> 20} MiB each in every section. Memory is as NumPy gives it to large "
             "arrays, in huge pages, and was touched beforehand where nothing else is said; every source was read once untimed. "
             "*Verified* means to the tiles' ids. "
             "Everything runs on one machine, so that client, server and rivals share its processors.", ""]
    if options.quick:
        lines += ["**A quick run, to show that everything works. Its figures mean nothing.**", ""]
    lines += ["## Claims", "", "| | measured | target | |", "| --- | ---: | ---: | --- |"]
    lines += [f"| {text} | {figure} | {target} | {'' if good else '**missed**'} |"
              for text, figure, target, good in claims(results)]
    if draw(results, pathlib.Path(options.out) / "benchmarks.png"):
        lines += ["", "![GB/s of loads and stores](benchmarks.png)"]
    lines += ["", "## Figures", ""]
    for section, result in results.items():
        lines += [f"### {section}", ""]
        if result.get("rows"):
            lines += ["| | median | lowest | highest | |", "| --- | ---: | ---: | ---: | --- |"]
            for row in result["rows"]:
                form = "{:,.0f}" if row["unit"] == "op/s" else "{:.2f}"
                values = [form.format(f(row["values"])) for f in (statistics.median, min, max)]
                lines.append(f"| {row['name']} | {values[0]} | {values[1]} | {values[2]} | {row['unit']} |")
            lines.append("")
        for size in result.get("sizes", []):
            lines.append(f"- bf16 weights in {size['name']}: {100 * size['share']:.1f} % of their size")
        for cost in result.get("costs", []):
            lines.append(f"- {cost['name']}: {cost['cost']:.3f} bytes read for a byte asked")
        for model in result.get("models", []):
            lines.append(f"- {model['tensors']:,} tensors of 1 KiB: {model['objects']:,} objects, opened with "
                         f"{model['calls']} calls")
        for name, peak in result.get("peaks", {}).items():
            lines.append(f"- peak memory of {name}, a model of {result['model_bytes'] >> 20} MiB: {peak >> 20} MiB")
        if lines[-1]:
            lines.append("")
    (pathlib.Path(options.out) / "benchmarks.md").write_text("\n".join(lines).rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of tilekv, tilekv-server and tilekv-bench")
    parser.add_argument("--folder", help="where temporary data goes: on the disk that is measured")
    parser.add_argument("--out", default="docs", help="folder of benchmarks.md and benchmarks.png")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    wanted = options.sections or SECTIONS
    commit = version_of("git", "rev-parse", "--short", "HEAD")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = tempfile.mkdtemp(prefix="tilekv-bench-", dir=options.folder)
    try:
        with contextlib.ExitStack() as stack:
            bench = Bench(options, folder, stack)
            results = bench.all(wanted)
        report(results, options, commit)
    except Failed as failed:
        for log in sorted(pathlib.Path(folder).glob("*.log")):
            sys.stderr.write(f"--- {log.name}\n" + "".join(log.read_text(errors="replace").splitlines(True)[-20:]))
        sys.exit(f"bench: {failed}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    missed = [row for row in claims(results) if not row[3]]
    for text, figure, target, good in claims(results):
        print(f"{'ok    ' if good else 'MISSED'} {text}: {figure} ({target})")
    sys.exit(1 if missed and not options.quick else 0)


if __name__ == "__main__":
    main()
