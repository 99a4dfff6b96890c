# SPDX-License-Identifier: Apache-2.0
"""See where an inference engine's time goes.

    import lathe_explorer
    report = lathe_explorer.load("layers.json", "profile.json", "times.json")
    report.engine.layers                       # a dataframe, one row per layer
    report.engine.by_type
    print(report.text())

    ab = lathe_explorer.load(["a.layers.json", "a.profile.json"], ["b.layers.json", "b.profile.json"])
    ab.rows                                    # layers of both, aligned by their ONNX nodes

    lathe_explorer.process("model.onnx", "out", "--bf16")       # builds and profiles with the lathe program, then loads

Files are of TensorRT 8 to 11 or of Lathe; reading, join, roofline, findings and comparison are those of `lathe explore`.
`lathe_explorer.trex` has the names of NVIDIA's engine explorer.
"""
from .report import Engine, Report, analyse, compare, load, process

__all__ = ["Engine", "Report", "analyse", "compare", "load", "process"]
__version__ = "0.2.0"
