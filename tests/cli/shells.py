# SPDX-License-Identifier: Apache-2.0
"""Completion of shells and the pages of the manual, in the programs that read them where those are installed; the progress
line of a build on a terminal."""
import fcntl
import os
import pty
import shutil
import struct
import subprocess
import termios

# What readline gives the function: words, "=" on its own; the last one is being typed.
BASH = """
source <(lathe completion bash)
touch 'a file.onnx'
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _lathe; echo "${COMPREPLY[*]}"; }
"""


def bash(t, *words):
    script = BASH + "try " + " ".join(f"'{word}'" for word in words)
    return run(t, "bash", "--norc", "-c", script).stdout.strip()


def run(t, *command, **more):
    return subprocess.run(command, cwd=t.folder, capture_output=True, text=True, env={"PATH": f"{t.bin}:/usr/bin:/bin", "HOME": str(t.folder)}, **more)


def completion(t):
    for words, text in ((["lathe", "exp"], "explore"), (["lathe", "explore", "--jun"], "--junit="), (["lathe", "zoo", "resn"], "resnet50"),
                        (["lathe", "completion", ""], "bash zsh fish"), (["trtexec", "--saveE"], "--saveEngine="),
                        (["trtexec", "--device", "="], "cpu auto"), (["trtexec", "--device", "=", "a"], "auto"),
                        (["trtexec", "--device=a"], "--device=auto"), (["trtexec", "--onnx", "=", "a f"], "a file.onnx"),
                        (["lathe", "zoo", "resnet50", "-o", "a f"], "a file.onnx"), (["lathe", "retune", "--builderO"], "--builderOptimizationLevel="),
                        (["lathe", "trtexec", "--bf"], "--bf16"), (["lathe", "inspect", "a f"], "a file.onnx"), (["lathe", "nonsense", "x"], "")):
        t.check(bash(t, *words) == text, f"bash completes {words} with {bash(t, *words)!r}, not {text!r}")
    for shell, words in (("zsh", ["-n"]), ("fish", ["--no-execute"])):
        script = run(t, "lathe", "completion", shell)
        t.check(script.returncode == 0 and "--saveEngine" in script.stdout.replace("-l saveEngine", "--saveEngine"), f"completion {shell}", None)
        if shutil.which(shell):
            (t.folder / "script").write_text(script.stdout)
            checked = run(t, shell, *words, "script")
            t.check(checked.returncode == 0 and not checked.stderr, f"{shell} reads its completion: {checked.stderr}")
    if shutil.which("fish"):
        (t.folder / "script").write_text(run(t, "lathe", "completion", "fish").stdout)
        for line, text in (("trtexec --saveE", "--saveEngine"), ("lathe exp", "explore"), ("trtexec --device=a", "--device=auto")):
            found = run(t, "fish", "--no-config", "-c", f"source script; complete -C '{line}'").stdout
            t.check(any(row.split("\t")[0] == text for row in found.splitlines()), f"fish completes {line!r} with {found!r}")


def manual(t):
    for page, parts in (("lathe", ["explore", "--fail-if", "--builderOptimizationLevel"]), ("trtexec", ["--builderOptimizationLevel", "--cpuThreads"])):
        text = run(t, "lathe", "man", page).stdout
        for part in parts:
            t.check(part.replace("-", "\\-") in text, f"the page {page} says nothing of {part}")
        if shutil.which("groff"):
            r = run(t, "groff", "-man", "-Tascii", "-ww", input=text)
            t.check(r.returncode == 0 and not r.stderr, f"groff reads the page {page}: {r.stderr}")
        if shutil.which("mandoc"):
            r = run(t, "mandoc", "-Tlint", "-Wstyle", input=text)
            t.check(not r.stdout, f"mandoc reads the page {page}: {r.stdout}")


def on_terminal(t, *words, columns=100):
    """What a program writes to a terminal on its stderr; stdout goes to a file."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(t.folder / "out.log", "wb") as out:
        process = subprocess.Popen([t.bin / words[0], *words[1:]], cwd=t.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=slave)
    os.close(slave)
    text = b""
    try:
        while chunk := os.read(master, 65536):
            text += chunk
    except OSError:  # the other end is closed
        pass
    os.close(master)
    t.check(process.wait() == 0, f"{words} on a terminal: {text[-500:]}")
    return text.decode()


def progress(t):
    """A line with an estimate while a build times layers, cut to the terminal, gone at the end, and never in a log."""
    build = ("--onnx=tiny.onnx", "--skipInference", "--optShapes=input:2x3x64x64")
    for words in (("trtexec", *build), ("lathe", "process", "tiny.onnx", "terminal_out", "-b", "--optShapes=input:2x3x64x64")):
        text = on_terminal(t, *words, columns=40)
        lines = [line for line in text.split("\r\x1b[K") if "Tuning" in line]
        t.check(len(lines) > 1 and lines[0].startswith("[-"), f"{words} shows no progress: {text!r}")
        t.check(all(len(line) < 40 for line in lines), f"{words}: a progress line is wider than the terminal: {text!r}")
        t.check(text.endswith("\r\x1b[K"), f"{words}: the progress line stays: {text[-200:]!r}")
        t.check(b"Tuning  " not in (t.folder / "out.log").read_bytes(), f"{words}: progress is in the log")
    text = on_terminal(t, "trtexec", *build, "--verbose")
    t.check("\x1b[K" not in text, f"progress beside verbose lines: {text!r}")
    r = t.run(*build)
    t.check(not any("\x1b" in line for line in r.err + r.out), "progress in a log", r)


def run_all(t):
    progress(t)
    completion(t)
    manual(t)
