# SPDX-License-Identifier: Apache-2.0
"""Runs every command line of seeds.txt. Quick: on the tiny model, with few iterations; full: on a zoo model, as written."""
import pathlib
import shlex
import shutil

HERE = pathlib.Path(__file__).parent


def quicker(words):
    """Few iterations and no fixed time, where the line lets us choose; a long warm-up becomes a short one."""
    words = ["--warmUp=20" if word.startswith("--warmUp=") and word != "--warmUp=0" else word for word in words]
    for flag, value in (("--iterations", 10), ("--duration", 0), ("--warmUp", 20)):
        if not any(word.startswith(flag + "=") for word in words):
            words.append(f"{flag}={value}")
    return words


def run_all(t, model, quick):
    shutil.copy(model, t.folder / "model.onnx")
    for line in (HERE / "seeds.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        words = shlex.split(line.lstrip("@"))
        log = None
        if ">" in words:
            log = words[words.index(">") + 1]
            words = words[: words.index(">")]
        words = quicker(words[1:]) if quick else words[1:]
        r = t.run(*words, timeout=1200)
        t.expect(r, 0, ["re:&&&& PASSED TensorRT.trtexec .*"])
        if log:
            (t.folder / log).write_text("\n".join(r.out) + "\n")
