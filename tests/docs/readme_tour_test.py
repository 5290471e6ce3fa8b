#!/usr/bin/python3
"""Runs the tour of README.md as a reader would: the block under its heading, in an empty directory.

    readme_tour_test.py README.md DIRECTORY-OF-tilekv
"""

import os
import re
import subprocess
import sys
import tempfile


def main() -> int:
    readme, programs = sys.argv[1:]
    with open(readme, encoding="utf-8") as file:
        blocks = re.findall(r"^```sh\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        print(f"{readme} has {len(blocks)} blocks of sh, expected the tour alone")
        return 1
    with tempfile.TemporaryDirectory(prefix="tilekv-tour-") as directory:
        # The system's python3 first: it is the one that has NumPy.
        environment = dict(os.environ, PATH=f"{programs}:/usr/bin:{os.environ['PATH']}")
        environment.pop("TILEKV_STORE", None)
        tour = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", blocks[0]],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(tour.stdout)
        if tour.returncode != 0:
            print(f"the tour ended with {tour.returncode}")
            return 1
    for expected in ("hello", "first", "exit status 1: they differ", "out.npy"):
        if expected not in tour.stdout:
            print(f"the tour does not show '{expected}'")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
