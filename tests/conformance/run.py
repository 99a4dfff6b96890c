#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's node tests, and our own cases of other domains, on every backend; checks (or writes) docs/operators.md.

usage: run.py --build build [--all] [--update] [--backend cuda|described [--page docs/operators-cuda.md --device "NVIDIA H100" [--results DIR]]]
Without --all: the cases of 1.23 and 1.19 on the oracle and the CPU backend. --all: the models after they were written as ONNX and read
again, and the CPU backend at every instruction set that this machine has, too. --backend: that one alone; --page writes how many cases pass, and how many of them
without the reference, to a page of its own, --results from what another machine's run left in its build/conformance.
described: only plans for the GPU of tests/gpu/h200.json, which need none and are part of a run without --backend; too many layers that the host would run are a failure. --update writes docs/operators.md; otherwise a page that is not up to date is a failure.
"""
import argparse, collections, json, pathlib, re, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
RELEASES = ("1.23", "1.19")
TENSORRT = "trt.plugins"  # not a domain of theirs: models have plugins in any
DOMAINS = ("com.microsoft", "ai.onnx.ml", TENSORRT)
SUITES = ("suites",)  # ONNX's other suites; the page counts node tests only
SEQUENCES = {"ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence"}
LEVELS = ("avx2", "avx512", "avx512_bf16", "amx")


def read_exceptions():
    rules = []
    for line in (HERE / "exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            head, reason = line.split(": ", 1)
            release, backend, case = head.split()
            pattern = re.compile(re.escape(case).replace(r"\*", ".*"))
            rules.append({"release": release, "backend": backend, "pattern": pattern, "text": line, "reason": reason, "used": False})
    return rules


def excepted(rules, release, backend, case):
    for rule in rules:
        if rule["reason"].startswith(("within ", "random:")):
            continue  # what it lets pass has passed
        if rule["release"] in ("*", release) and rule["backend"] in ("*", backend) and rule["pattern"].fullmatch(case):
            rule["used"] = True
            return True
    return False


def looser(rules, release, backend):
    """Arguments for the cases that may differ in a way that can be looked at."""
    arguments = []
    for rule in rules:
        case = rule["text"].split()[2].rstrip(":")
        kind = rule["reason"].split(":")[0]
        if rule["release"] not in ("*", release) or rule["backend"] not in ("*", backend):
            continue
        if kind.startswith("within "):
            arguments += ["--within", f"{case}={kind.removeprefix('within ')}"]
        elif kind == "random":
            arguments += ["--random", case]
    return arguments


def run(build, rules, release, backend, isa=None):
    out = build / "conformance" / f"{release}-{isa or backend}.json"
    command = [build / "bin" / "conformance", build / "conformance" / release, "--backend", backend, "--json", out]
    done = subprocess.run([*command, *looser(rules, release, backend), *(["--cpuIsa", isa] if isa else [])], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr
    return json.loads(out.read_text()), done.stdout


def judge(rules, release, backend, cases):
    bad = [c for c in cases if c["result"] in ("failed", "refused") and not excepted(rules, release, backend, c["name"])]
    for rule in rules:  # those that let cases pass
        rule["used"] |= any(rule["reason"].startswith(("within ", "random:")) and rule["pattern"].fullmatch(c["name"]) for c in cases)
    counts = collections.Counter(c["result"] for c in cases)
    print(f"{backend} {release}: {counts['passed']} passed, {counts['passed frozen']} passed with constants, "
          f"{counts['passed random']} passed in type and shape (their values are random), {counts['unsupported']} not supported, "
          f"{counts['failed'] + counts['refused'] - len(bad)} excepted, {len(bad)} failed")
    for c in bad:
        print(f"  {c['name']}: {c['reason'][:300]}")
    return not bad


def main_operator(case):
    """The operator that a case is about: its only one, or nothing for expanded function bodies."""
    return case["operators"][0] if len(case["operators"]) == 1 else None


def operator_rows(results):
    rows = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    opsets, reasons = collections.defaultdict(set), collections.defaultdict(set)
    for (release, backend), cases in results.items():
        for case in cases if release in RELEASES else ():
            operator = main_operator(case)
            if operator is None:
                continue
            rows[operator][backend][case["result"]] += 1
            opsets[operator].add(case["opset"])
            if case["result"] == "unsupported":
                reasons[operator].add("other element types" if "element type" in case["reason"] else
                                      case["reason"].split("): ")[-1])
    return rows, opsets, reasons


def cell(counter):
    total, frozen = sum(counter.values()), counter["passed frozen"]
    return f"{counter['passed'] + counter['passed random']}{f' + {frozen}' if frozen else ''} of {total}" if total else ""


def operators_page(results):
    rows, opsets, reasons = operator_rows(results)
    def works(operator):
        return any(rows[operator]["oracle"][verdict] for verdict in ("passed", "passed frozen", "passed random", "failed"))  # failed: excepted

    supported = sorted(o for o in rows if works(o))
    missing = sorted(o for o in rows if not works(o) and o not in SEQUENCES)
    text = ["# ONNX operators", "",
            "Made by `tests/conformance/run.py --update` from ONNX's own node tests (releases 1.23 and 1.19): how many cases of each operator",
            "pass. Opsets 1 to 28 are read; the column says which ones the cases use. `39 + 39 of 78`: 39 pass as they are, 39 more once their inputs",
            "of shapes, axes or scales are made constants, as most exporters write them; as inputs they are refused. Cases that differ for a reason are listed in `tests/conformance/exceptions.txt`.",
            "Where values are random (Bernoulli, Dropout in training), a case passes when types and shapes are right.",
            "", "Strings are bytes in an engine, and operators on them run on the host; ImageDecoder reads JPEG, PNG, BMP, WebP and PNM ([architecture.md](architecture.md)).", "",
            "| operator | opsets of the cases | oracle | cpu | notes |", "|---|---|---|---|---|"]
    for o in supported:
        versions = ", ".join(str(v) for v in sorted(opsets[o]) if v)
        notes = "; ".join(sorted(r for r in reasons[o] if len(r) < 90))
        text.append(f"| {o} | {versions} | {cell(rows[o]['oracle'])} | {cell(rows[o]['cpu'])} | {notes} |")
    others = sorted(SEQUENCES - set(supported))
    text += ["", "Also read: functions of the model, MaxRoiPool, Multinomial, random numbers, and " + ", ".join(others) + ".",
             "How many tensors a sequence has that is an input is said before the import (`--inputLengths`). Where only a run finds lengths or positions, the tensors of a sequence have one element type and rank. Such an output is one tensor of their slices where they have one shape;",
             "else `y` has all elements, one tensor behind the other, and `y.shapes` a row for the shape of each ([python.md](python.md#sequences-and-optionals)).", "",
             *(["Not supported: " + ", ".join(missing) + ".", ""] if missing else [])]
    problems = []
    for domain in DOMAINS:
        section, wrong = domain_section(domain, results)
        text += section
        problems += wrong
    return "\n".join(text), problems


def backend_page(results, backend, device):
    """How many cases of each operator pass on a backend, and how many of them with kernels alone."""
    cells = collections.defaultdict(collections.Counter)
    left = collections.defaultdict(collections.Counter)
    for (release, _), cases in results.items():
        for case in cases:
            operator = main_operator(case)
            if operator is None or case["result"] == "unsupported":
                continue
            name = operator if release in RELEASES else f"{release} {operator}"
            cells[name]["cases"] += 1
            cells[name]["passed"] += case["result"].startswith("passed")
            cells[name]["kernels"] += case["result"].startswith("passed") and not case["fallbacks"]
            left[name].update(set(case["fallbacks"]))
    total = {key: sum(c[key] for c in cells.values()) for key in ("cases", "passed", "kernels")}
    text = [f"# ONNX operators on {backend.upper()}", "",
            f"Made by `tests/conformance/run.py --backend {backend} --page` on an {device}, from ONNX's node tests (releases {' and '.join(RELEASES)}) and our own cases of",
            "other domains: how many cases pass, shapes, axes or scales as constants where they are refused as inputs, and how many of them without a layer",
            "that the reference runs on the host.", "",
            f"**{total['passed']} of {total['cases']} cases pass, {total['kernels']} of them ({100 * total['kernels'] / max(total['cases'], 1):.1f} %) on the GPU alone.**", "",
            "| operator | passed | without the host | runs on the host |", "|---|---|---|---|"]
    for name in sorted(cells):
        c = cells[name]
        text.append(f"| {name} | {c['passed']} of {c['cases']} | {c['kernels']} | {', '.join(sorted(left[name]))} |")
    return "\n".join([*text, ""])


LEAST_ON_DEVICE = 100  # per cent of the cases of a described GPU that nothing on the host runs
FOR_THE_HOST = "Plugin"  # strings and files of pictures, which no GPU is asked to read


def judge_plans(results):
    """Prints which operators the host would run, by how many cases, and whether few enough cases have one."""
    left, total, with_host = collections.defaultdict(collections.Counter), 0, 0
    for cases in results.values():
        for case in cases:
            if case["result"] != "planned" or FOR_THE_HOST in case["fallbacks"]:
                continue
            total += 1
            with_host += bool(case["fallbacks"])
            for operator, reason in set(zip(case["fallbacks"], case["fallback_reasons"])):
                left[operator][reason] += 1
    for operator, reasons in sorted(left.items(), key=lambda item: -sum(item[1].values())):
        print(f"  {sum(reasons.values()):4d} {operator}: {'; '.join(f'{reason} ({n})' for reason, n in reasons.most_common(3))}")
    share = 100 * (total - with_host) / max(total, 1)
    print(f"{total - with_host} of {total} cases without strings and pictures ({share:.1f} %) are planned without a layer on the host")
    return share >= LEAST_ON_DEVICE


def operators_of(domain):
    """All operators that the domain has, by the schemas of those who define it."""
    if domain == "com.microsoft":
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema as all_schemas
    else:
        from onnx.defs import get_all_schemas as all_schemas
    return sorted({schema.name for schema in all_schemas() if schema.domain == domain})


def read_reasons(domain):
    """Why operators of the domain are not supported, by name."""
    reasons = {}
    for line in (HERE / "domains" / "not_supported.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            head, reason = line.split(": ", 1)
            for name in head.split()[1:] if head.split()[0] == domain else ():
                reasons[name] = reason
    return reasons


def domain_section(domain, results):
    """A table of all operators of a domain, and what is wrong with the lists behind it."""
    counts = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    for backend in ("oracle", "cpu"):
        for case in results[domain, backend]:
            for operator in case["operators"]:
                counts[operator][backend][case["result"]] += 1
    reasons, problems, rows = read_reasons(domain), [], []
    operators = sorted({*counts, *reasons}) if domain == TENSORRT else operators_of(domain)
    for operator in operators:
        has_cases = operator in counts
        if has_cases == (operator in reasons):
            problems.append(f"{domain} {operator}: it needs cases in tests/conformance/domains, or else a reason in not_supported.txt")
        cells = [cell(counts[operator][backend]) for backend in ("oracle", "cpu")] if has_cases else ["", ""]
        rows.append(f"| {operator} | {cells[0]} | {cells[1]} | {'' if has_cases else reasons.get(operator, '')} |")
    problems += [f"not_supported.txt: {domain} has no operator {name}" for name in reasons if name not in operators]
    supported = sum(1 for o in operators if o in counts)
    title = "Plugins of TensorRT, by name" if domain == TENSORRT else domain
    return [f"## {title}", "", f"{supported} of {len(operators)} operators, written out with those above where they are imported. The cases are ours "
            "(`tests/conformance/domains`),", "the expected results ONNX Runtime's, or NumPy's where it has no kernel for the CPU.", "",
            "| operator | oracle | cpu | why not |", "|---|---|---|---|", *rows, ""], problems


def check_page(page, update):
    path = ROOT / "docs" / "operators.md"
    if update:
        path.write_text(page)
        print(f"wrote {path.relative_to(ROOT)}")
        return True
    if path.exists() and path.read_text() == page:
        return True
    print("docs/operators.md is not up to date: run tests/conformance/run.py --build build --update")
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--backend")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--device", default="NVIDIA GPU")
    parser.add_argument("--results", type=pathlib.Path)
    args = parser.parse_args()
    build = args.build.resolve()
    (build / "conformance").mkdir(exist_ok=True)
    for script in ("dump_cases.py", "domain_cases.py"):
        subprocess.run([sys.executable, "-W", "ignore", HERE / script, build / "conformance"], check=True)
    rules, results, good = read_exceptions(), {}, True
    for release in RELEASES + SUITES + DOMAINS if args.backend else ():
        if args.results:
            cases, output = json.loads((args.results / f"{release}-{args.backend}.json").read_text()), ""
        else:
            cases, output = run(build, rules, release, args.backend)
        if cases is None:
            sys.exit(f"{args.backend} on {release}: {output}")
        results[release, args.backend] = cases
        good &= judge(rules, release, args.backend, cases)
    if args.page:
        args.page.write_text(backend_page(results, args.backend, args.device))
    if args.backend == "described":
        return 0 if judge_plans(results) and good else 1
    if args.backend:
        return 0 if good else 1
    for release in RELEASES + SUITES + DOMAINS:
        for backend in ("oracle", "cpu"):
            cases, output = run(build, rules, release, backend)
            if cases is None:
                sys.exit(f"{backend} on {release}: {output}")
            results[release, backend] = cases
            good &= judge(rules, release, backend, cases)
    plans = {release: run(build, rules, release, "described") for release in RELEASES + SUITES + DOMAINS}
    for release, (cases, output) in plans.items():
        if cases is None:
            sys.exit(f"plans for a described GPU of {release}: {output}")
    good &= judge_plans({release: cases for release, (cases, _) in plans.items()})
    for release in RELEASES if args.all else ():
        cases, output = run(build, rules, release, "exported")
        if cases is None:
            sys.exit(f"exported models of {release}: {output}")
        good &= judge(rules, release, "exported", cases)
    if args.all:  # whole networks take the oracle minutes
        cases, output = run(build, rules, "light", "cpu")
        if cases is None:
            sys.exit(f"light: {output}")
        good &= judge(rules, "light", "cpu", cases)
    for isa in LEVELS if args.all else ():
        for release in RELEASES + SUITES + DOMAINS:
            cases, output = run(build, rules, release, "cpu", isa)
            if cases is None:
                print(f"cpu {isa}: {output.strip()}")
                break
            print(f"{isa}: ", end="")
            good &= judge(rules, release, "cpu", cases)
    for rule in rules:
        if not rule["used"] and (args.all or rule["backend"] != "exported"):
            print(f"this exception is not needed: {rule['text']}")
            good = False
    page, problems = operators_page(results)
    for problem in problems:
        print(problem)
    return 0 if check_page(page, args.update) and good and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
