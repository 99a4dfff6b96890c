# SPDX-License-Identifier: Apache-2.0
"""trex's command: `lathe-trex draw|summary|process ...` (or python -m lathe_explorer.trex)."""
from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterable

import pandas as pd

from . import graphing
from .engine_plan import EnginePlan
from .misc import group_count, group_mean_attr, group_sum_attr
from .plan_graph import PlanGraph


def draw_engine(args: argparse.Namespace) -> str:
    """Writes the picture of a layer file beside it and returns its path."""
    if args.display_constant and not args.display_regions:
        warnings.warn("constants that no layer of the file makes are drawn as memory; --display_regions shows the others so, too", stacklevel=2)
    plan = EnginePlan(args.input, args.profiling_json)
    only, name = None, args.input
    if args.beam[1] > 0:
        only, name = (lambda graph: graph.beam(*args.beam)), f"{args.input}.beam"
    elif args.query:
        only, name = (lambda graph: graph.query(args.query)), f"{args.input}.query"
    selected: list[str] = []

    def choose(graph: PlanGraph) -> Iterable[str]:
        assert only is not None
        selected.extend(only(graph))
        print(f"{len(selected)} nodes")
        return selected

    graph = graphing.to_dot(plan, graphing.layer_type_formatter, display_forking_regions=True, display_region_reuse=True, display_edge_details=False,
                            remove_disconnected_layers=True, highlight_layers=[args.beam[0]], display_regions=args.display_regions or args.display_region_names,
                            display_layer_names=not args.no_layer_names, display_constants=args.display_constant, display_metadata=args.display_metadata,
                            display_region_names=args.display_region_names, only=choose if only else None)
    return graphing.render_dot(graph, name, args.output_format)


def summarize_engine(plan: EnginePlan, group_tactics: bool = False, sort_key: str = "count") -> pd.DataFrame:
    """Tactics with their share of the time and their number. Grouped: without the hash at their end, shares summed; else the
    mean share of each."""
    frame = plan.df.assign(tactic=[re.sub(r"_0x.*", "", str(t)) if group_tactics else str(t) for t in plan.df["tactic"]])
    table = (group_sum_attr if group_tactics else group_mean_attr)(frame, "tactic", "latency.pct_time")
    table = table.merge(group_count(frame, "tactic"), on="tactic")
    by = {"count": "count", "latency": "latency.pct_time"}.get(sort_key)
    if by is not None:
        table = table.sort_values(by, ascending=False, kind="stable").reset_index(drop=True)
    return table.rename(columns={"latency.pct_time": "latency %"})


def _parse_beam(text: str) -> tuple[str, int]:
    name, _, radius = text.rpartition(",")
    if not name or not radius.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name, a comma and a radius, as in Conv_0,2")
    return name, int(radius)


def _process(words: list[str]) -> int:
    program = shutil.which("lathe")
    if program is None:
        print("process is a command of the lathe program, which is not on the PATH", file=sys.stderr)
        return 1
    return subprocess.run([program, "process", *words]).returncode


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["process"]:  # its arguments are that program's
        return _process(words[1:])
    parser = argparse.ArgumentParser(prog="lathe-trex", epilog="process: see lathe help process")
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw", help="draw an engine")
    draw.add_argument("input", help="layer information (JSON)")
    draw.add_argument("--profiling_json", "-pj")
    draw.add_argument("--output_format", "-of", default="svg", choices=["svg", "png", "dot"])
    draw.add_argument("--display_regions", "-dr", action="store_true", help="memory regions as nodes")
    draw.add_argument("--display_constant", "-dc", action="store_true", help="constant inputs")
    draw.add_argument("--no_layer_names", "-no_ln", action="store_true")
    draw.add_argument("--display_metadata", "-dm", action="store_true")
    draw.add_argument("--display_region_names", "-drn", action="store_true", help="implies --display_regions")
    draw.add_argument("--beam", "-b", default=("", 0), type=_parse_beam, metavar="NODE,RADIUS", help="only what is near a node")
    draw.add_argument("--query", "-q", metavar="REGEX", help="only nodes whose name or attributes match, and their neighbours")
    summary = commands.add_parser("summary", help="tactics of an engine")
    summary.add_argument("input", help="layer information (JSON)")
    summary.add_argument("--profiling_json", "-pj")
    summary.add_argument("--sort_key", "-sk", choices=["count", "latency", "id"], default="count")
    summary.add_argument("--group_tactics", "-gt", action="store_true")
    commands.add_parser("process", help="from a model to all its files: runs `lathe process`")
    args = parser.parse_args(words)
    try:
        if args.command == "draw":
            draw_engine(args)
        else:
            table = summarize_engine(EnginePlan(os.fspath(args.input), args.profiling_json), args.group_tactics, args.sort_key)
            print(table.to_string(index=False))
    except (OSError, ValueError, RuntimeError) as error:
        print(f"lathe-trex: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
