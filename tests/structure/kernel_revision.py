#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/kernel_revision.cmake: another hash for another source, the same file (and time) for the same sources."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sources = [folder / "a.cpp", folder / "b.inc"]
        header = folder / "kernels.h"
        (folder / "list.cmake").write_text(f'set(FILES "{sources[0]};{sources[1]}")\n')

        def revision():
            subprocess.run(["cmake", f"-DSOURCES={folder}/list.cmake", f"-DHEADER={header}", "-DNAME=kKernels",
                            "-P", ROOT / "cmake/kernel_revision.cmake"], check=True)
            return re.search(r'inline constexpr char kKernels\[\] = "([0-9a-f]{12})";', header.read_text())[1]

        for source in sources:
            source.write_text("int x;\n")
        first, written = revision(), header.stat().st_mtime_ns
        problems = []
        if revision() != first or header.stat().st_mtime_ns != written:
            problems.append("the same sources: the header is written again")
        sources[1].write_text("int y;\n")
        if revision() == first:
            problems.append("another source has the same hash")
    for problem in problems:
        print(f"kernel_revision.cmake: {problem}")
    print(f"3 hashes, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
