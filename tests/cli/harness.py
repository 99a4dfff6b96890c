# SPDX-License-Identifier: Apache-2.0
"""Running the command line in tests: a folder of its own, captured streams, and checks that collect what failed."""
import os
import pathlib
import re
import subprocess
import sys

STAMP = re.compile(r"^\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] ")


class Result:
    def __init__(self, process, command):
        self.command, self.code = command, process.returncode
        self.out = process.stdout.decode("utf-8", "replace").splitlines()
        self.err = process.stderr.decode("utf-8", "replace").splitlines()

    def lines(self, stream="out"):
        """Lines without their time stamps."""
        return [STAMP.sub("", line) for line in getattr(self, stream)]

    def log(self):
        """All that it wrote, first to standard output."""
        return "\n".join(self.out + self.err)

    def text(self):
        return "\n".join([f"$ {self.command}", *self.out[-25:], *self.err[-25:], f"exit {self.code}"])


class Tests:
    def __init__(self, build, folder):
        self.bin = pathlib.Path(build).resolve() / "bin"
        self.folder = pathlib.Path(folder)
        self.failures, self.count = [], 0

    def run(self, *words, program="trtexec", limit=None, memory=None, **options):
        """Runs a program of the build in the test folder. `limit`: the largest file that it may write; `memory`: bytes of its addresses."""
        def prepare():
            import resource
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            if memory is not None:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        process = subprocess.run([str(self.bin / program), *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                                 stdout=options.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, preexec_fn=prepare,
                                 timeout=options.pop("timeout", 300), **options)
        if process.stdout is None:
            process.stdout = b""
        return Result(process, " ".join([program, *words]))

    def check(self, condition, what, result=None):
        self.count += 1
        if not condition:
            self.failures.append(what + ("\n" + result.text() if result else ""))
        return condition

    def expect(self, result, code, out=(), err=()):
        """Exit code, and lines (without stamps) that appear in this order in each stream; `re:` marks a pattern."""
        self.check(result.code == code, f"exit code {result.code} instead of {code}", result)
        for stream, wanted in (("out", out), ("err", err)):
            position, lines = 0, result.lines(stream)
            for line in wanted:
                matches = (lambda text, p=line[3:]: re.fullmatch(p, text)) if line.startswith("re:") else (lambda text, p=line: text == p)
                found = next((i for i in range(position, len(lines)) if matches(lines[i])), None)
                if self.check(found is not None, f"std{stream} lacks (at this place): {line}", result):
                    position = found + 1

    def finish(self, name):
        for failure in self.failures:
            print(f"FAILED {failure}\n")
        print(f"{name}: {self.count} checks, {len(self.failures)} failed")
        for failure in self.failures:  # again in short: who sees only the end of a long output wants to know what it was
            print("FAILED " + failure.splitlines()[0])
        return 1 if self.failures else 0


def quiet_environment():
    os.environ.pop("LC_ALL", None)
    sys.stdout.reconfigure(line_buffering=True)
