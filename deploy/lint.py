#!/usr/bin/env python3
"""Runs clang-tidy over the project's own sources of a build directory, on all processors.

    deploy/lint.py BUILD_DIR [--minutes N] [PATH_PREFIX...]

BUILD_DIR has been built: its compile_commands.json says how each file is compiled, and Ninja which headers it reads. A file that
passed is not checked again while it, its headers, its command and the checks are the same; what passed is remembered
under ~/.cache/tilekv (or XDG_CACHE_HOME) for 30 days. With --minutes no file is begun after that time; those changed last, by
themselves or by a header, come first, and how many were left is said. Exit status 1 if anything was found.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

CLANG_TIDY = "clang-tidy-14"
ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT_DAYS = 30


def headers_of_objects(build):
    """Object file -> the project's own files that it was made from, as Ninja recorded them."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    headers, current = {}, None
    for line in text.splitlines():
        if line.startswith("    "):
            path = os.path.normpath(os.path.join(build, line.strip()))
            if path.startswith(f"{ROOT}{os.sep}"):
                current.append(path)
        elif ":" in line:
            current = headers.setdefault(line.split(":", 1)[0], [])
    return headers


def sources(build, prefixes):
    """(file, object, command) of each source of the project: nothing generated, nothing of others."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.suffix != ".cc" or ROOT not in path.parents or build in path.parents:
            continue
        relative = str(path.relative_to(ROOT))
        if not prefixes or relative.startswith(tuple(prefixes)):
            yield relative, entry["command"].split(" -o ", 1)[1].split(" ", 1)[0], entry["command"]


def last_changes():
    """Tracked file -> how many commits ago it was changed last; 0 where it is changed now."""
    git = ["git", "-C", ROOT, "-c", "core.quotePath=false"]
    log = subprocess.run([*git, "log", "--format=format:%x00", "--name-only", "--no-renames"], capture_output=True, text=True, check=True)
    ages = {}
    for age, names in enumerate(log.stdout.split("\0")):
        for name in names.split("\n"):
            ages.setdefault(name, age)
    changed = subprocess.run([*git, "diff", "--name-only", "HEAD"], capture_output=True, text=True, check=True)
    ages.update((name, 0) for name in changed.stdout.split("\n"))
    return ages


def key_of(build, relative, command, dependencies, common):
    """Changes when anything that clang-tidy sees of the project changes."""
    digest = hashlib.sha256(common)
    digest.update(command.replace(str(build), "BUILD").replace(str(ROOT), "ROOT").encode())
    for path in sorted({str(ROOT / relative), *dependencies}):
        digest.update(os.path.relpath(path, build if path.startswith(f"{build}{os.sep}") else ROOT).encode())
        digest.update(pathlib.Path(path).read_bytes())
    return digest.hexdigest()


def check(build, relative):
    run = subprocess.run([CLANG_TIDY, "-p", str(build), "--quiet", "--extra-arg=-Wno-unknown-warning-option", str(ROOT / relative)],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return run.returncode == 0, run.stdout + (run.stderr if run.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR", type=pathlib.Path)
    parser.add_argument("--minutes", metavar="N", type=float, default=float("inf"))
    parser.add_argument("prefixes", metavar="PATH_PREFIX", nargs="*")
    options = parser.parse_args()
    build, prefixes = options.build.resolve(), options.prefixes
    end = time.monotonic() + 60 * options.minutes
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tilekv" / "clang-tidy"
    cache.mkdir(parents=True, exist_ok=True)
    for entry in cache.iterdir():
        if entry.stat().st_mtime < time.time() - KEPT_DAYS * 86400:
            entry.unlink(missing_ok=True)

    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    common = version.encode() + (ROOT / ".clang-tidy").read_bytes()
    headers, ages = headers_of_objects(build), last_changes()
    pending, known = [], 0
    for relative, object_file, command in sources(build, prefixes):
        if object_file not in headers:
            sys.exit(f"{relative} has not been built in {build}")
        passed = cache / key_of(build, relative, command, headers[object_file], common)
        if passed.exists():
            passed.touch()
            known += 1
        else:
            made_from = {relative, *(os.path.relpath(path, ROOT) for path in headers[object_file])}
            pending.append((min(ages.get(path, 1 << 30) for path in made_from), relative, passed))

    failed, left = [], []

    def check_in_time(relative):
        return check(build, relative) if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = {pool.submit(check_in_time, relative): (relative, passed) for _, relative, passed in sorted(pending)}
        for done in concurrent.futures.as_completed(checks):
            relative, passed = checks[done]
            if done.result() is None:
                left.append(relative)
                continue
            ok, output = done.result()
            if ok:
                passed.touch()
            else:
                failed.append(relative)
                print(output, flush=True)
    print(f"clang-tidy: {len(pending) - len(left)} files checked, {known} unchanged since they passed, {len(left)} left for want of "
          f"time, {len(failed)} failed")
    for relative in sorted(failed):
        print(f"  {relative}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
