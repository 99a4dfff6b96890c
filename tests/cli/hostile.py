# SPDX-License-Identifier: Apache-2.0
"""Engines with right hashes and one hostile value each: refused with what is wrong, before anything runs."""
import json

import damage

QUICK = ["--iterations=1", "--warmUp=0", "--duration=0"]


def write(t, name, edit):
    """hostile.engine: a copy of an engine in which `edit` has changed a section's JSON."""
    data = (t.folder / name).read_bytes()
    sections = damage.read_engine(data)
    content = {section: json.loads(text) for section, text in sections.items() if section != "blocks"}
    edit(content)
    sections.update({section: json.dumps(value).encode() for section, value in content.items()})
    (t.folder / "hostile.engine").write_bytes(damage.write_engine(sections, data))


def refuse(t, what, edit, wanted, name="tiny.engine"):
    write(t, name, edit)
    result = t.run("--loadEngine=hostile.engine", *QUICK)
    start = "engine file 'hostile.engine' is damaged: "
    found = [line for line in result.lines("err") if line.startswith("[E]") and start in line and wanted in line]
    t.check(result.code == 1 and found, f"{what}: no error says '{wanted}'", result)


def variant(content):
    return content["target/0"]["variants"][0]


def first_choice(content, runner):
    return next(c for c in variant(content)["choices"] if c["runner"].startswith(runner))


def replace_text(content, old, new):
    graph = variant(content)["graph"]
    assert old in graph["text"], graph["text"]
    graph["text"] = graph["text"].replace(old, new)


def place(value, where):
    def edit(content):
        memory = variant(content)["memory"]
        memory["placements"] = [p for p in memory["placements"] if p[0] != value] + [[value, *where]]

    return edit


def as_object(content):
    """How older files have it."""
    memory = variant(content)["memory"]
    memory["placements"] = {name: where for name, *where in memory["placements"]}
    variant(content)["packed"] = dict(variant(content)["packed"])


def smaller_manifest(content):
    content["manifest"]["inputs"][0]["shape"] = ["batch", "3", "1", "1"]
    content["manifest"]["profiles"][0]["shapes"]["input"] = [[2, 3, 1, 1]] * 3


def constant_without_bytes(content):
    for constant in variant(content)["graph"]["constants"]:
        constant[2] = -1
    variant(content)["packed"] = {}


def overlapping(content):
    arena = [p for p in variant(content)["memory"]["placements"] if p[1] == "arena"]
    for p in arena:
        p[1:] = arena[0][1:]


def run_all(t):
    t.run("--onnx=tiny.onnx", "--saveEngine=tiny.engine", "--optShapes=input:2x3x64x64", "--skipInference", "--builderOptimizationLevel=0")
    write(t, "tiny.engine", as_object)
    older = t.run("--loadEngine=hostile.engine", *QUICK)
    t.check(older.code == 0, "objects where older files have them", older)
    refuse(t, "an intermediate in the output's memory", place("r0", ["view", "output", "0"]), "'r0' has no place in the arena")
    refuse(t, "a result in the caller's input", place("r0", ["binding", 0]), "'r0' has no place in the arena")
    refuse(t, "a result over a constant", place("r1", ["view", "w0", "0"]), "'r1' has no place in the arena")
    refuse(t, "an output on another output", place("output", ["binding", 0]), "'output' has a wrong binding")
    refuse(t, "values over one another", overlapping, "which is still read")
    refuse(t, "a smaller input in the manifest", smaller_manifest, "damaged")
    refuse(t, "constants that nobody has", constant_without_bytes, "has no data")
    refuse(t, "a view that computes", lambda c: first_choice(c, "Onednn").update(view=True), "cannot be a view")
    refuse(t, "a tactic that is none", lambda c: first_choice(c, "Onednn").update(runner="Pointwise"), "cannot run with tactic")
    refuse(t, "a result that is too small", lambda c: replace_text(c, "%f: float32[2, 8]", "%f: float32[2, 4]"), "but the operator gives")
    refuse(t, "a window of another rank", lambda c: replace_text(c, "kernel=[3, 3], strides=[4, 4]", "kernel=[3], strides=[4, 4]"), "damaged")
    refuse(t, "an arena of 64 TiB", lambda c: variant(c)["memory"].update(arena_bytes=1 << 46), "absurd size")
    refuse(t, "2,000 copies of a variant", lambda c: c["target/0"].update(variants=[variant(c)] * 2000), "has 2000 variants for 1")
