# SPDX-License-Identifier: Apache-2.0
"""Completion of shells and the pages of the manual, in the programs that read them where those are installed."""
import shutil
import subprocess

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
            r = run(t, "mandoc", "-Tlint", "-Wwarning", input=text)
            t.check(not r.stdout, f"mandoc reads the page {page}: {r.stdout}")


def run_all(t):
    completion(t)
    manual(t)
