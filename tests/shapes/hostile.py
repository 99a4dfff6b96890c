# SPDX-License-Identifier: Apache-2.0
"""Command lines of shapes, flags and small models, half of them hostile: no crash, no hang, no bug of ours, an error that says something.

Two kinds of lines. `property_lines`: every dim of a model in turn is 0, 1, 2, a prime and huge, fixed and inside of a profile. `random_lines`:
shapes, profiles and flags at random, seeded. They run in the children of build*/bin/command_lines.
"""
import collections
import itertools
import pathlib
import random
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
SIZES = [0, 1, 2, 7, 4099, 2147483647]
QUICK = ["--iterations=1", "--warmUp=0", "--duration=0"]
OUR_FAULT = re.compile(r"internal error|bug in Lathe|Sanitizer|runtime error|std::|bad_alloc|terminate called|Assertion")


class Model:
    """A model file whose dims are symbols, and which sizes they have as a rule."""

    def __init__(self, path, inputs, usual):
        self.path, self.inputs, self.usual = path, inputs, usual  # {name: [symbol or int]}, {symbol: int}

    def shapes(self, sizes):
        words = []
        for name, dims in self.inputs.items():
            if any(isinstance(d, str) for d in dims):
                words.append(f"{name}:" + "x".join(str(sizes[d] if isinstance(d, str) else d) for d in dims))
        return ",".join(words)


def read_model(path, usual_of=lambda symbol: 4):
    import onnx
    graph = onnx.load(path, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    inputs = {}
    for i in graph.input:
        if i.name not in constants:
            inputs[i.name] = [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim]
    symbols = {d for dims in inputs.values() for d in dims if isinstance(d, str)}
    return Model(path, inputs, {s: usual_of(s) for s in symbols})


def with_symbols(model, path, shared):
    """The static model with a symbol for each dim of an input: one for each size, or one for each dim."""
    import onnx
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    constants = {t.name for t in copy.graph.initializer}
    usual = {}
    for i in copy.graph.input:
        if i.name in constants or not i.type.HasField("tensor_type"):
            continue
        for n, d in enumerate(i.type.tensor_type.shape.dim):
            if not d.HasField("dim_value"):
                continue
            size = d.dim_value
            name = f"s{size}" if shared else f"{re.sub('[^a-zA-Z0-9]', '_', i.name)}_{n}"
            usual[name] = size
            d.dim_param = name
    for o in copy.graph.output:
        o.type.tensor_type.ClearField("shape")
    del copy.graph.value_info[:]
    onnx.save(copy, path)
    return Model(path, read_model(path).inputs, usual)


def conformance_models(folder, of_each=3):
    """Some of ONNX's own node tests of each operator, with symbols for sizes."""
    from onnx.backend.test.case.node import collect_testcases
    models, taken = [], collections.Counter()
    for case in sorted(collect_testcases(), key=lambda c: c.name):
        graph = case.model.graph
        if not graph.input or case.name.endswith("_expanded") or any(not i.type.HasField("tensor_type") for i in graph.input):
            continue
        taken[graph.node[0].op_type] += 1
        if taken[graph.node[0].op_type] > of_each:
            continue
        for shared in (True, False):
            models.append(with_symbols(case.model, folder / f"{case.name}-{shared}.onnx", shared))
    return models


# Operands that were wrong once: a mask without dims, nothing to take the different ones of, lengths for other items.
ONCE_WRONG = ("fullymasked_row_nan_robustness-attn_mask-BOOL-scalar", "unique_bfloat16_sorted_without_axis-X-BFLOAT16-0",
              "reversesequence_batch-sequence_lens-INT64-3")


def operand_lines(folder, of_each=2, step=1):
    """ONNX's own node tests with one operand in another shape or type than its operator takes: every `step`-th, and those that were
    wrong once. A model is written when its line is asked for."""
    import onnx
    from onnx.backend.test.case.node import collect_testcases
    types = [onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8, onnx.TensorProto.DOUBLE]
    taken, number = collections.Counter(), 0
    for case in sorted(collect_testcases(), key=lambda c: c.name):
        graph = case.model.graph
        if case.name.endswith("_expanded") or any(not i.type.HasField("tensor_type") for i in graph.input):
            continue
        taken[graph.node[0].op_type] += 1
        if taken[graph.node[0].op_type] > of_each:
            continue
        for index, operand in enumerate(graph.input):
            own = operand.type.tensor_type
            dims = [d.dim_value for d in own.shape.dim]
            shapes = [[], [0], [1], [2], [3], dims + [2], dims[1:], [d + 1 for d in dims], [max(0, d - 1) for d in dims]]
            variants = [(own.elem_type, shape) for shape in shapes if shape != dims] + [(t, dims) for t in types if t != own.elem_type]
            for elem_type, shape in variants:
                name = f"{case.name}-{operand.name}-{onnx.TensorProto.DataType.Name(elem_type)}-{'x'.join(map(str, shape)) or 'scalar'}"
                number += 1
                if number % step and not name.endswith(ONCE_WRONG):
                    continue
                copy = onnx.ModelProto()
                copy.CopyFrom(case.model)
                copy.graph.input[index].type.CopyFrom(onnx.helper.make_tensor_type_proto(elem_type, shape))
                for o in copy.graph.output:
                    o.type.tensor_type.ClearField("shape")
                path = folder / f"{name}.onnx"
                onnx.save(copy, path)
                yield [f"--onnx={path}", *QUICK, "--builderOptimizationLevel=0"]
                path.unlink()


def profile_words(model, sizes, rng):
    """Inside of a wider profile: min and max around what runs and what is usual."""
    low = {s: min(v, model.usual.get(s, 4), rng.choice([0, 1, 1, 2])) for s, v in sizes.items()}
    high = {s: max(v, model.usual.get(s, 4)) for s, v in sizes.items()}
    opt = {s: min(max(model.usual.get(s, 4), low[s]), high[s]) for s in sizes}
    return [f"--{name}={model.shapes(at)}" for name, at in (("minShapes", low), ("optShapes", opt), ("maxShapes", high), ("shapes", sizes))]


def property_lines(models, rng, levels=(0,)):
    for model in models:
        for symbol, size in itertools.product(sorted(model.usual), SIZES):
            sizes = dict(model.usual) | {symbol: size}
            for level in levels:
                base = [f"--onnx={model.path}", *QUICK, f"--builderOptimizationLevel={level}"]
                yield [*base, f"--shapes={model.shapes(sizes)}"]
                yield [*base, *profile_words(model, sizes, rng)]


FLAGS = ["--fp16", "--bf16", "--best", "--int8", "--noDataTransfers", "--useSpinWait", "--separateProfileRun", "--dumpProfile", "--dumpOutput",
         "--dumpLayerInfo", "--verbose", "--profilingVerbosity=detailed", "--threads", "--infStreams=2", "--cpuIsa=avx2", "--cpuThreads=1",
         "--useCudaGraph", "--skipInference", "--avgTiming=1", "--profilingVerbosity=none", "--verifyPasses", "--noWinograd", "--stronglyTyped",
         "--buildTime=0.1", "--noTF32", "--dumpOptimizationProfile", "--exportOutput=/dev/null", "--exportTimes=/dev/null", "--exportProfile=/dev/null",
         "--exportLayerInfo=/dev/null", "--iterations=2", "--percentile=50", "--useProfile=0", "--batchPart=1", "--batchPart=3", "--maxTactics=2",
         "--exposeDMA", "--avgRuns=1", "--timeDeserialize", "--inputIOFormats=fp32:chw", "--noBuilderCache", "--stopAfter=3"]
HOSTILE = ["--shapes=", "--shapes=x", "--shapes=x:", "--shapes=x:-1", "--shapes=x:0x0x0x0", "--shapes=*:1", "--shapes=input:1x3x2147483647x2147483647",
           "--minShapes=x:9", "--maxShapes=x:0", "--optShapes=x:1x2x3x4x5x6x7x8x9", "--useProfile=7", "--useProfile=-1", "--iterations=-1",
           "--builderOptimizationLevel=99", "--batchPart=-5", "--batchPart=99999999999", "--threads=0", "--threads=-3", "--threads=100000",
           "--streams=0", "--percentile=101", "--percentile=nan", "--loadInputs=x:/dev/null", "--loadInputs=x:/nowhere", "--loadEngine=/dev/null",
           "--timingCacheFile=/dev/null", "--memPoolSize=workspace:0", "--memPoolSize=workspace:-1", "--layerPrecisions=*:fp16", "--inputIOFormats=fp16:chw",
           "--outputIOFormats=int8:hwc", "--onnx=/dev/null", "--onnx=/", "--device=7", "--device=gpu", "--nonsense", "--cpuIsa=mmx", "", "-", "--", "--="]


def random_sizes(model, rng):
    def size(symbol):
        kind = rng.random()
        if kind < 0.5:
            return model.usual[symbol]
        if kind < 0.9:
            return rng.choice([0, 1, 2, 3, 5, 7, 8, 11, 16, 17, 31])
        return rng.choice([64, 127, 1000, 4099, 2147483647])
    return {s: size(s) for s in model.usual}


def random_line(models, rng):
    model = rng.choice(models)
    line = [f"--onnx={model.path}", *QUICK, f"--builderOptimizationLevel={rng.choice([0, 0, 0, 1, 2])}"]
    sizes = random_sizes(model, rng)
    kind = rng.random()
    if kind < 0.4:
        line.append(f"--shapes={model.shapes(sizes)}")
    elif kind < 0.8:
        line += profile_words(model, sizes, rng)
    elif kind < 0.95:
        for name in ("minShapes", "optShapes", "maxShapes", "shapes"):
            if rng.random() < 0.7:
                line.append(f"--{name}={model.shapes(random_sizes(model, rng))}")
    line += rng.sample(FLAGS, rng.choice([0, 0, 1, 2, 3]))
    if rng.random() < 0.3:
        line += rng.sample(HOSTILE, rng.choice([1, 1, 2]))
    rng.shuffle(line)
    return line


def random_lines(models, count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        yield random_line(models, rng)


class Ended:
    """How a command line ended, as harness.Result says it; what came on standard output is not kept."""

    def __init__(self, words, code, errors):
        self.command, self.code, self.out, self.err, self.errors = " ".join(words), code, [], errors.splitlines(), errors

    def lines(self, stream="err"):
        return [re.sub(r"^\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] ", "", line) for line in self.err]

    def text(self):
        return "\n".join([f"$ {self.command}", *self.err[-25:], f"exit {self.code}"])


LARGE = 70_000  # elements: what the reference does in quadratic time, convolutions by computed weights for one, takes minutes from there on
LARGE_SECONDS = 15  # in which a check that is missing has shown itself


def elements(words):
    """Of all inputs of the run."""
    shapes = next((w for w in reversed(words) if w.startswith("--shapes=")), "--shapes=")
    total = 0
    for word in shapes.removeprefix("--shapes=").split(","):
        count = 1
        for extent in word.rpartition(":")[2].split("x"):
            count *= int(extent) if extent.isdigit() else 0
        total += count
    return total


class Server:
    """Processes of command_lines: one for most lines, and one that gives up early on large inputs."""

    def __init__(self, build, seconds=60, mebibytes=0, environment=None):
        program = pathlib.Path(build).resolve() / "bin" / "command_lines"
        self.processes = [subprocess.Popen([str(program), str(limit), str(mebibytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
                          for limit in (seconds, min(seconds, LARGE_SECONDS))]

    def run(self, *words, program="trtexec"):
        process = self.processes[elements(words) > LARGE]
        process.stdin.write(("\t".join([program, *words]) + "\n").encode())
        process.stdin.flush()
        code, count = map(int, process.stdout.readline().split())
        return Ended([program, *words], code, process.stdout.read(count).decode("utf-8", "replace"))

    def close(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()


def fault(code, errors):
    """What is wrong with how a command line ended; nothing when it is fine."""
    if code < 0:
        return {-14: "hangs", -24: "computes for minutes"}.get(code, f"signal {-code}")
    if code not in (0, 1):
        return f"exit {code}"
    if "AddressSanitizer: out-of-memory" in errors:
        return None  # where there is no sanitizer `new` throws, and an error says what was too large
    if OUR_FAULT.search(errors):
        return "our own bug"
    if code == 1 and "[E]" not in errors and "Cannot find any" not in errors:
        return "no error said"
    return None


def run_lines(t, server, lines, kept=None):
    """Runs them and counts how they ended. `kept`: a file that gets every line with a fault."""
    ends, seen = collections.Counter(), collections.Counter()
    for words in lines:
        end = server.run(*words)
        wrong = fault(end.code, end.errors)
        if wrong == "computes for minutes" and elements(words) > LARGE:
            wrong, end.code = None, "after minutes of computing"
        ends[wrong or f"exit {end.code}"] += 1
        t.count += 1
        if not wrong:
            continue
        message = next((line for line in end.err if OUR_FAULT.search(line)), end.errors[-300:])
        kind = wrong + re.sub(r"'[^']*'|\d+", "_", message[22:])
        seen[kind] += 1
        if kept:
            with open(kept, "a") as file:
                file.write(f"{wrong}: {end.command}\n    {message}\n")
        if seen[kind] <= 2:  # the same message again says nothing new
            t.failures.append(f"{wrong}: {end.command}\n{end.errors[-3000:]}")
    return ends
