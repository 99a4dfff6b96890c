# SPDX-License-Identifier: Apache-2.0
"""`lathe quantize --budget` and `trtexec --budget`: what is kept fits on samples that calibration has not seen, and what fits nothing is
one error."""
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
    engines(t, unseen, losses)


def engines(t, unseen, losses):
    """trtexec: the engine that was judged is the one that is saved. `losses`: of the models that `lathe quantize` wrote."""
    def search(budget, *flags, level=1):
        return t.run("--onnx=small.onnx", "--calib=more", f"--budget={budget}", f"--builderOptimizationLevel={level}", "--saveEngine=within.engine",
                     "--exportSummary=within.json", "--iterations=1", "--warmUp=0", "--duration=0", *flags)

    def found():
        return json.loads((t.folder / "within.json").read_text())["budget"]

    def kept_of(points):
        return next(p for p in points if p["kept"])

    done = search("l2<1e-9", "--best")
    t.check(done.code == 1 and "no engine in types narrower than float32 keeps l2<1e-9: the nearest, with " in done.log() and "&&&& FAILED" in done.text(), "nothing fits", done)
    t.check(not (t.folder / "within.engine").exists() and not (t.folder / "within.json").exists(), "a budget that nothing meets leaves files behind")
    limit = losses[0] * 0.8
    for flag in ("--int8", "--best"):
        done = search(f"l2<{limit:.6f}", flag)
        if not t.check(done.code == 0 and "[I] Budget: kept " in done.log() and "products in floats" in done.log(), f"{flag}: a budget between", done):
            continue
        points = found()["points"]
        kept = kept_of(points)
        t.check(kept["fits"] and kept["value"] < limit and not any(p["fits"] for p in points if p["float_products"] == 0), f"{flag}: {points}")
        t.check(flag == "--best" or kept["float_products"] < 8, f"--int8 keeps no integers: {points}")
        others = [p["ms"] for p in points if p["fits"] and (flag == "--best" or p["float_products"] < 8)]
        t.check(kept["ms"] == min(others), f"{flag}: what is kept is not the fastest that fits: {points}")
        expected, ours = [], []
        for sample in unseen:  # the saved engine, alone
            sample[None].tofile(t.folder / "x.bin")
            again = t.run("--loadEngine=within.engine", "--loadInputs=input:x.bin", "--exportOutput=y.json", "--iterations=1", "--warmUp=0", "--duration=0")
            if not t.check(again.code == 0, f"{flag}: the saved engine", again):
                return
            ours.append(json.loads((t.folder / "y.json").read_text())[0]["values"])
            expected.append(judge.run(t.folder / "small.onnx", {"input": sample[None]})[0].flatten())
        loss = relative_l2(np.array(ours), np.array(expected))
        t.check(abs(loss - kept["value"]) < 1e-5 + 1e-3 * kept["value"] and loss < limit, f"{flag}: the saved engine loses {loss:.3e}, the search said {kept['value']:.3e}")
    for budget in ("l2<1", "l2<1.5e-3"):  # where the device has BF16 and it is faster: within the first budget alone, beyond the second
        done = search(budget, "--best", level=3)
        if t.check(done.code == 0, f"--best within {budget}", done):
            points = found()["points"]
            alone = [p for p in points if p["float_products"] == 8 and p["narrow_floats"]]
            t.check(len(alone) <= 1 and all(p["narrow_floats"] == any(a["fits"] for a in alone) for p in points if p["float_products"] < 8), f"types of floats within {budget}: {points}")
    (t.folder / "pairs").mkdir()
    for i in range(2):
        np.save(t.folder / "pairs" / f"{i}.npy", np.concatenate([unseen[None, i], unseen[None, i]]))
    done = t.run("--onnx=small.onnx", "--calib=random", "--budget=cosine>0.5", "--best", "--builderOptimizationLevel=1", "--skipInference")
    t.check(done.code == 0 and "--calib=random: the samples are random numbers" in done.log(), "random samples", done)
    for text, flags in (("--budget needs types to choose from: add --best", ["--calib=more", "--budget=l2<1"]),
                        ("--budget judges engines on samples: add --calib=<folder>", ["--best", "--budget=l2<1"]),
                        ("not 'rmse<1'", ["--best", "--calib=more", "--budget=rmse<1"]),
                        ("leave --inputIOFormats and --outputIOFormats out", ["--best", "--calib=more", "--budget=l2<1", "--inputIOFormats=fp16:chw"]),
                        ("level 0 times nothing", ["--best", "--calib=more", "--budget=l2<1", "--builderOptimizationLevel=0"]),
                        ("small.cache is a calibration cache", ["--best", "--calib=small.cache", "--budget=l2<1"]),
                        ("nowhere: no such folder or file", ["--best", "--calib=nowhere", "--budget=l2<1"]),
                        ("a sample that judges the budget (the engine's shapes have to allow those of the samples)", ["--best", "--calib=pairs", "--budget=l2<1", "--builderOptimizationLevel=1"]),
                        ("is quantised already", ["--onnx=max_uint8.onnx", "--best", "--calib=more", "--budget=l2<1"]),
                        ("more is a folder of samples, which --calib takes with --budget", ["--int8", "--calib=more"])):
        done = t.run(*([] if flags[0].startswith("--onnx") else ["--onnx=small.onnx"]), *flags, "--saveEngine=refused.engine")
        t.check(done.code == 1 and text in done.log() and not (t.folder / "refused.engine").exists(), f"{flags}", done)
    done = t.run("--loadEngine=within.engine", "--best", "--calib=more", "--budget=l2<1")
    t.check(done.code == 1 and "--budget searches while an engine is built" in done.log(), "--loadEngine", done)
