#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `make install` puts in place, used from there. usage: run.py --build build [--all]

--all also makes the Debian packages, unpacks them into an empty folder and runs what is in them.
"""
import argparse
import gzip
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/cli"), str(ROOT / "tests/python")]
import tiny_model  # noqa: E402
from blocks import blocks  # noqa: E402

FILES = ["bin/lathe", "bin/trtexec", "share/man/man1/lathe.1.gz", "share/man/man1/trtexec.1.gz", "share/bash-completion/completions/lathe",
         "share/bash-completion/completions/trtexec", "share/zsh/site-functions/_lathe", "share/fish/vendor_completions.d/lathe.fish",
         "share/fish/vendor_completions.d/trtexec.fish"]
LIBRARY = ["include/lathe/builder.h", "lib/liblathe.so", "lib/cmake/lathe/latheConfig.cmake"]


class Checks:
    def __init__(self):
        self.count, self.failures = 0, []

    def check(self, condition, what):
        self.count += 1
        if not condition:
            self.failures.append(what)

    def run(self, *command, **more):
        process = subprocess.run(command, capture_output=True, text=True, **more)
        self.check(process.returncode == 0, f"{' '.join(map(str, command))}: exit {process.returncode}\n{process.stdout[-800:]}{process.stderr[-800:]}")
        return process.stdout


def use(t, prefix, folder, version):
    for name in FILES:
        t.check((prefix / name).exists(), f"{name} is not there")
    for program in ("lathe", "trtexec"):
        t.check(t.run(prefix / "bin" / program, "--version").split()[-1] == version, f"{program} is not of version {version}")
        page = prefix / f"share/man/man1/{program}.1.gz"
        t.check(f"Lathe {version}" in gzip.decompress(page.read_bytes()).decode(), f"{page} is not of version {version}")
    t.run("bash", "-n", prefix / "share/bash-completion/completions/trtexec")
    t.run(prefix / "bin/lathe", "zoo", "detector", "--force", cwd=folder)  # the packages are tried in the same folder
    out = t.run(prefix / "bin/trtexec", "--onnx=detector.onnx", "--builderOptimizationLevel=0", "--iterations=1", "--warmUp=0", "--duration=0",
                "--cpuThreads=1", cwd=folder)
    t.check(out.splitlines()[-1].startswith("&&&& PASSED"), f"the installed trtexec does not run a model: {out[-500:]}")


def use_library(t, prefix, folder):
    """docs/cpp.md as a project outside of this tree, by find_package alone."""
    project = folder / "first"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(blocks(ROOT / "docs/cpp.md", "cmake"))
    (project / "first.cpp").write_text(blocks(ROOT / "docs/cpp.md", "cpp"))
    tiny_model.write(project / "model.onnx", size=32)
    t.run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
    t.run("cmake", "--build", project / "build")
    out = t.run(project / "build/first", cwd=project)
    t.check("160 bytes are needed at these shapes, 4 bytes were given" in out and " ms  " in out, f"docs/cpp.md prints {out!r}")
    t.check((project / "model.engine").stat().st_size > 0, "docs/cpp.md saves no engine")


def use_plugin(t, prefix, folder):
    """examples/plugin as a project outside of this tree, and a model that needs it."""
    build = folder / "plugin"
    t.run("cmake", "-S", ROOT / "examples/plugin", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
    t.run("cmake", "--build", build)
    tiny_model.write_custom(folder / "custom.onnx")
    (folder / "x.raw").write_bytes(struct.pack("<24f", *[i - 12 for i in range(24)]))
    quick = ["--builderOptimizationLevel=0", "--iterations=1", "--warmUp=0", "--duration=0", "--cpuThreads=2", "--loadInputs=x:x.raw", "--shapes=x:2x3x4"]
    library, trtexec = build / "libswish.so", prefix / "bin/trtexec"

    def results(*flags):
        t.run(trtexec, *flags, *quick, "--exportOutput=out.json", cwd=folder)
        return {o["name"]: o["values"] for o in json.loads((folder / "out.json").read_text())}
    swish = [x / (1 + math.exp(-0.5 * x)) for x in range(-12, 12)]
    plain = results("--onnx=custom.onnx", f"--staticPlugins={library}", "--saveEngine=plain.engine", "--exportLayerInfo=layers.json",
                    "--profilingVerbosity=detailed")
    t.check(all(abs(a - b) < 1e-4 for a, b in zip(plain["y"], swish)), f"Swish gives {plain['y']}")
    t.check(all(abs(a - b) < 1e-4 for a, b in zip(plain["z"], [v for v in swish if v > 0])) and len(plain["z"]) == 11, f"Positive gives {plain['z']}")
    layers = (folder / "layers.json").read_text()
    t.check(layers.count('"PluginV3"') == 2, f"layers of a plugin are called otherwise: {layers[:400]}")
    t.check(results("--loadEngine=plain.engine", f"--dynamicPlugins={library}") == plain, "the loaded engine gives other results")

    def refused(text, *flags):
        done = subprocess.run([trtexec, *flags, *quick], cwd=folder, capture_output=True, text=True)
        t.check(done.returncode == 1 and text in done.stderr + done.stdout, f"{flags}: exit {done.returncode}, no {text!r} in {done.stderr[-600:]}")
    refused("is not supported", "--onnx=custom.onnx")
    refused("it needs the plugins 'Swish' version 1 of namespace 'example', 'Positive'", "--loadEngine=plain.engine")
    refused("Unable to open library: nowhere.so", "--onnx=custom.onnx", "--staticPlugins=nowhere.so")
    refused("it exports no function lathe_plugin_library", "--onnx=custom.onnx", f"--staticPlugins={prefix / 'lib/liblathe.so'}")
    t.run(trtexec, "--onnx=custom.onnx", f"--setPluginsToSerialize={library}", "--saveEngine=carries.engine", "--skipInference", *quick, cwd=folder)
    refused("the file carries 'libswish.so', which runs only when you say that you trust the file", "--loadEngine=carries.engine")
    t.check(results("--loadEngine=carries.engine", "--trustEngine") == plain, "an engine that carries its library gives other results")
    out = t.run(prefix / "bin/lathe", "inspect", "plain.engine", f"--dynamicPlugins={library}", cwd=folder)
    t.check("Swish_0" in out, f"lathe inspect shows {out[-400:]}")
    t.run(prefix / "bin/lathe", "diff", "custom.onnx", "plain.engine", f"--dynamicPlugins={library}", "--shapes=x:2x3x4", cwd=folder)


def packages(t, build, folder, version):
    t.run("cpack", "-G", "DEB", "-B", folder / "packages", cwd=build)
    for name, files in (("lathe", FILES), ("liblathe-dev", LIBRARY)):
        package = folder / "packages" / f"{name}_{version}_amd64.deb"
        t.run("dpkg-deb", "-x", package, folder / name)
        for file in [*files, f"share/doc/{name}/copyright", f"share/doc/{name}/changelog.gz"]:
            t.check((folder / name / "usr" / file).exists(), f"{package.name} lacks {file}")
    use(t, folder / "lathe" / "usr", folder, version)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    version = subprocess.run([build / "bin/lathe", "--version"], capture_output=True, text=True).stdout.split()[-1]
    t = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        t.run("cmake", "--install", build, "--prefix", folder / "prefix")
        for file in LIBRARY:
            t.check((folder / "prefix" / file).exists(), f"{file} is not there")
        use(t, folder / "prefix", folder, version)
        use_library(t, folder / "prefix", folder)
        use_plugin(t, folder / "prefix", folder)
        if arguments.all:
            packages(t, build, folder, version)
    for failure in t.failures:
        print("FAILED " + failure)
    print(f"install: {t.count} checks, {len(t.failures)} failed")
    return 1 if t.failures else 0


if __name__ == "__main__":
    sys.exit(main())
