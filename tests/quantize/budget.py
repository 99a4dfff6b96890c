# SPDX-License-Identifier: Apache-2.0
"""`lathe quantize --budget`: the model that is kept fits on samples that calibration has not seen, and what fits nothing is one error."""
import json

import numpy as np

import judge
from judge import relative_l2


def run(t, samples):
    """After run.py's own checks, which make small.onnx. `samples`: more of its inputs."""
    (t.folder / "more").mkdir()
    for i, sample in enumerate(samples):
        np.save(t.folder / "more" / f"{i:02}.npy", sample)
    unseen = np.concatenate(samples[-2:])  # a quarter of eight

    def search(budget, *flags):
        return t.lathe("quantize", "small.onnx", "--calib", "more", f"--budget={budget}", "--builderOptimizationLevel=1", "--force", "-o", "within.onnx", *flags)

    done = search("l2<1e-9")
    t.check(done.code == 1 and "no quantised model keeps l2<1e-9: the nearest, with " in done.log() and not (t.folder / "within.onnx").exists(), "a budget that nothing meets", done)
    done = search("l2<10", "--json")
    whole = json.loads("\n".join(done.out))["search"] if t.check(done.code == 0, "a budget that everything meets", done) else None
    if whole is None:
        return
    losses = [p["value"] for p in whole["points"]]
    t.check(whole["products"] == 8 and whole["points"][0]["float_products"] == 0 and whole["points"][-1]["float_products"] == 8, f"points: {whole}")
    t.check(losses[0] > losses[-1] == 0 and sum(p["kept"] for p in whole["points"]) == 1, f"losses: {losses}")
    errors = [s["l2"] for s in whole["sensitivities"]]
    t.check(errors == sorted(errors, reverse=True) and sum(len(s["nodes"]) for s in whole["sensitivities"]) == 8 and errors[-1] > 0, f"sensitivities: {errors}")
    t.check(all(p["front"] or any(q["value"] <= p["value"] and q["ms"] <= p["ms"] for q in whole["points"] if q is not p) for p in whole["points"]), f"front: {whole}")
    limit = losses[0] * 0.8  # more than half of the products cannot be integers
    done = search(f"l2<{limit:.6f}", "--json")
    if t.check(done.code == 0, "a budget between", done):
        points = json.loads("\n".join(done.out))["search"]["points"]
        kept = next(p for p in points if p["kept"])
        t.check(kept["fits"] and 0 < kept["float_products"] < 8 and kept["value"] < limit, f"kept: {points}")
        t.check(all(p["fits"] == (p["value"] < limit) for p in points), f"fits: {points}")
        loss = relative_l2(judge.run(t.folder / "within.onnx", {"input": unseen})[0], judge.run(t.folder / "small.onnx", {"input": unseen})[0])
        t.check(abs(loss - kept["value"]) < 0.3 * limit, f"ONNX Runtime loses {loss:.2e}, the search said {kept['value']:.2e}")
    for budget, value in (("cosine>0.9", "cosine 1.000000"), ("top1<100%", "top1 0.00%")):
        done = search(budget)
        t.check(done.code == 0 and value in done.log() and "kept" in done.log(), budget, done)
    for budget in ("top1>3", "l2", "l2<", "l2<x", "rmse<1", "cosine<0.9", "l2<-1", "l2<nan"):
        done = search(budget)
        t.check(done.code == 1 and f"not '{budget}'" in done.log(), f"--budget={budget}", done)
    done = t.lathe("quantize", "small.onnx", "--calib", "random", "--samples=1", "--budget=l2<1", "-o", "single.onnx")
    t.check(done.code == 1 and "--budget wants two samples at least" in done.log(), "one sample", done)
