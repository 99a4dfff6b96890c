# SPDX-License-Identifier: Apache-2.0
"""The validator of the 23 rules (tests/cli/trex_rules.py) finds each of them broken: one change of the files of TensorRT 10
per rule."""
import pathlib
import sys

import dialects

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import trex_rules  # noqa: E402


def layer_of(plan, name):
    return next(layer for layer in plan["Layers"] if layer["Name"] == name)


# A change of plan or profile that breaks each rule.
BREAKS = {
    1: lambda plan, _: plan.update(Layers=[]), 2: lambda plan, _: plan.pop("Bindings"), 3: lambda plan, _: plan["Layers"][0].pop("Inputs"),
    4: lambda plan, _: plan["Layers"][0]["Inputs"][0].update(Dimensions=["N", 3]), 5: lambda plan, _: plan["Layers"][1].update(Metadata=None),
    6: lambda plan, _: layer_of(plan, "conv1 + relu1").update(OutMaps=1.5), 7: lambda plan, _: layer_of(plan, "flatten1").update(ParameterType="Shuffle"),
    9: lambda _, profile: profile.reverse(), 11: lambda plan, _: layer_of(plan, "fc").update(Outputs=[]), 12: lambda plan, _: plan["Layers"][0].pop("Origin"),
    13: lambda plan, _: layer_of(plan, "conv1 + relu1").update(Kernel=[3]), 14: lambda plan, _: layer_of(plan, "PWN(PWN(sigmoid1), mul1)").update(LayerType="kgen"),
    15: lambda plan, _: layer_of(plan, "pool1").update(PoolingType="MEAN"), 16: lambda plan, _: plan["Layers"][0]["Inputs"][0].update({"Format/Datatype": "Float"}),
    17: lambda plan, _: plan["Bindings"].append("nobody's"), 18: lambda plan, _: plan["Layers"][0].update(Name="reformat [profile 1]"),
    19: lambda plan, _: layer_of(plan, "fc").update(Name=" + fc"), 20: lambda plan, _: layer_of(plan, "fc").update(Metadata="fc"),
    21: lambda plan, _: layer_of(plan, "conv1 + relu1").update(Weights={"Type": "Int4", "Count": 8}), 22: lambda plan, _: plan["Layers"].insert(0, plan["Layers"].pop()),
    23: lambda plan, _: layer_of(plan, "fc").update(TacticName="sm90_wgmma_64x64"),
}


def broken_rules(t):
    """The validator finds each rule broken; 8 is about the text, 10 about logs."""
    for rule, change in BREAKS.items():
        plan, profile = dialects.layer_information(10), dialects.profile(10)
        change(plan, profile)
        report = trex_rules.Report()
        rows = trex_rules.check_layers(plan, report)
        if rows:
            trex_rules.check_profile(profile, rows, plan["Layers"], report)
        t.check(any(p.startswith(f"rule {rule}:") for p in report.problems), f"rule {rule} is broken and not found: {report.problems}")
    for rule, text in ((8, '{"Layers": [}'), (10, dialects.log(10).replace("Throughput", "Speed"))):
        (t.folder / "broken").write_text(text)
        report = trex_rules.Report()
        (trex_rules.load if rule == 8 else trex_rules.check_log)(t.folder / "broken", report)
        t.check(any(p.startswith(f"rule {rule}:") for p in report.problems), f"rule {rule} is broken and not found: {report.problems}")
    t.check(set(BREAKS) | {8, 10} == set(range(1, 24)), "a rule is not tried")
