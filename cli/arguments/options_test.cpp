// SPDX-License-Identifier: Apache-2.0
#include "arguments/options.h"

#include <gtest/gtest.h>

#include <functional>

#include "arguments/arguments.h"
#include "arguments/error_of.h"
#include "arguments/flag.h"
#include "arguments/tactic_sources.h"

namespace lathe::cli {
namespace {

using Words = std::vector<std::string>;

std::string options_error(const Words& words) {
  return error_of([&] { parse_options(words); });
}

TEST(Options, DefaultsAreTrtexecs) {
  const Options options = parse_options({"--onnx=a.onnx"});
  EXPECT_EQ(options.inference.iterations, 10);
  EXPECT_EQ(options.inference.warm_up_ms, 200);
  EXPECT_EQ(options.inference.duration_s, 3);
  EXPECT_EQ(options.build.avg_timing, 8);
  EXPECT_EQ(options.build.timing_cache_mode(), "local");
  EXPECT_EQ(options.reporting.percentiles, (std::vector<float>{90, 95, 99}));
  EXPECT_TRUE(options.notices.empty());
}

TEST(Options, UnknownOnesAreAllListed) {
  EXPECT_EQ(options_error({"--onnx=a", "--foo=1", "--quux"}),
            "Unknown option: --foo 1\n  Unknown option: --quux ");
  EXPECT_EQ(options_error({"--nothing"}), "Unknown option: --nothing ");  // not that a model is missing
}

TEST(Options, UnknownOnesAreMetWithTheNearest) {
  EXPECT_EQ(options_error({"--onx=a.onnx"}), "Unknown option: --onx a.onnx\n    did you mean --onnx=a.onnx?");
  EXPECT_EQ(options_error({"--onnx=a", "--fp_16"}), "Unknown option: --fp_16 \n    did you mean --fp16?");
  // Flags that the help shows come before flags that are only known.
  EXPECT_EQ(options_error({"--onnx=a", "--saveEngne=b"}),
            "Unknown option: --saveEngne b\n    did you mean --saveEngine=b?");
}

TEST(Options, ValuesFollowAnEqualsSign) {
  EXPECT_EQ(options_error({"--onnx", "a.onnx"}),
            "Unknown option: a.onnx \n    values follow an equals sign: write --onnx=a.onnx");
  EXPECT_EQ(options_error({"a.onnx"}), "Unknown option: a.onnx \n    did you mean --onnx=a.onnx?");
  EXPECT_EQ(options_error({"a.plan"}), "Unknown option: a.plan \n    did you mean --loadEngine=a.plan?");
  EXPECT_EQ(options_error({"--fp16", "x"}),
            "Unknown option: x \n    flags begin with --, and values follow an equals sign, as in "
            "--onnx=model.onnx");
  EXPECT_EQ(options_error({"--onnx=a", "--inputLengths=x:1x2"}),
            "--inputLengths=x:1x2: expected a number for 'x', as in --inputLengths=x:3");
  EXPECT_EQ(options_error({"--onnx"}), "--onnx needs a value: write --onnx=<file>");
  EXPECT_EQ(options_error({"--iterations", "--onnx=a"}),
            "--iterations needs a value: write --iterations=<n>");
}

TEST(Options, FlagsGivenTwiceAreNamed) {
  EXPECT_EQ(options_error({"--onnx=a", "--fp16", "--fp16"}), "--fp16 is given twice");
  EXPECT_EQ(options_error({"--onnx=a", "--onnx=b"}), "--onnx is given twice: --onnx=a and --onnx=b");
  const Options options = parse_options({"--onnx=a", "--dynamicPlugins=p", "--dynamicPlugins=q"});
  EXPECT_EQ(options.system.dynamic_plugins, (std::vector<std::string>{"p", "q"}));
}

TEST(Options, SwitchesTakeNoValue) {
  const Options options = parse_options({"--onnx=a", "--fp16=false"});
  EXPECT_TRUE(options.build.fp16);  // as in TensorRT
  ASSERT_EQ(options.notices.size(), 1u);
  EXPECT_EQ(options.notices[0].text,
            "--fp16=false: the value is ignored, --fp16 takes none; leave the flag out to switch it off.");
}

// Scripts of trtexec look for the name of the function that failed behind its own number flags; no other text
// has it.
TEST(Options, NumbersOfTrtexecsFlagsAreAnsweredAsTrtexecDoes) {
  const auto text = [](const char* word) -> std::string {
    try {
      parse_options({"--onnx=a", word});
    } catch (const NumberError& error) {
      return trtexec_text(error);
    }
    return "no error";
  };
  EXPECT_EQ(text("--iterations=x"), "stoi: --iterations=x needs a whole number, as in --iterations=10");
  EXPECT_EQ(text("--warmUp=x"), "stof: --warmUp=x needs a number, as in --warmUp=0.5");
  EXPECT_EQ(text("--cpuThreads=x"), "--cpuThreads=x needs a whole number, as in --cpuThreads=10");
  EXPECT_EQ(text("--buildTime=x"), "--buildTime=x needs a number, as in --buildTime=0.5");
}

TEST(Options, Devices) {
  EXPECT_EQ(parse_options({"--onnx=a", "--device=auto"}).system.device, "auto");
  EXPECT_EQ(parse_options({"--onnx=a", "--device=3"}).system.device, "3");
  for (const std::string name : {"gpu", "-1", "", "99999"}) {
    EXPECT_EQ(options_error({"--onnx=a", "--device=" + name}),
              "--device=" + name + " is no device: write cpu, auto or the number of a GPU, as in --device=0");
  }
}

TEST(Options, ModelAndEngineRules) {
  EXPECT_EQ(options_error({"--verbose"}),
            "Model missing or format not recognized\n    give --onnx=<file> to build an engine, or "
            "--loadEngine=<file> to run "
            "one");
  EXPECT_EQ(options_error({"--disablePass=help"}), "no error");
  EXPECT_EQ(options_error({"--loadEngine=a", "--saveEngine=b"}),
            "no error");  // keeps what was made for this device
  EXPECT_EQ(options_error({"--onnx=a", "--useRuntime=lean"}),
            "Building a TensorRT engine requires --useRuntime=full.");
  EXPECT_EQ(options_error({"--onnx=a", "--int8", "--fp8"}),
            "Invalid usage, fp8 and int8 aren't allowed to be enabled together.");
  EXPECT_EQ(options_error({"--onnx=a", "--best", "--stronglyTyped"}),
            "Invalid usage, --best is not allowed with --stronglyTyped: types come from the model.");
  EXPECT_EQ(options_error({"--onnx=a", "--weightStreamingBudget=1"}),
            "The weight streaming budget can only be set with --allowWeightStreaming specified.");
}

TEST(Options, ValuesAreChecked) {
  EXPECT_EQ(options_error({"--onnx=a", "--percentile=101"}), "Percentile 101.000000is not in [0,100]");
  EXPECT_EQ(options_error({"--onnx=a", "--profilingVerbosity=x"}),
            "Unknown profilingVerbosity: x (known: layer_names_only none detailed default verbose)");
  EXPECT_EQ(options_error({"--onnx=a", "--hardwareCompatibilityLevel=x"}),
            "Unknown hardwareCompatibilityLevel: x. Valid options: none, ampere+, sameComputeCapability.");
  EXPECT_EQ(options_error({"--onnx=a", "--builderOptimizationLevel=9"}),
            "--builderOptimizationLevel=9 is out of range: expected 0 to 5");
  EXPECT_EQ(options_error({"--onnx=a", "--duration=-2"}),
            "--duration=-2 must be -1 (endless), 0 or a number of seconds");
  EXPECT_EQ(options_error({"--onnx=a", "--warmUp=-2"}), "--warmUp=-2 must not be negative");
  EXPECT_EQ(options_error({"--onnx=a", "--persistentCacheRatio=2"}),
            "--persistentCacheRatio=2 must be between 0 and 1");
  EXPECT_EQ(options_error({"--onnx=a", "--buildTime=0"}), "--buildTime=0 must be positive");
  EXPECT_EQ(options_error({"--onnx=a", "--avgRuns=0"}),
            "--avgRuns=0 is out of range: expected 1 to 1073741824");
}

TEST(Options, StronglyTypedDropsPrecisionFlags) {
  const Options options = parse_options({"--onnx=a", "--stronglyTyped", "--fp16"});
  EXPECT_FALSE(options.build.fp16);
  ASSERT_EQ(options.notices.size(), 1u);
  EXPECT_EQ(options.notices[0].text,
            "Invalid usage, setting fp16 mode is not allowed if graph is strongly typed. Disabling "
            "BuilderFlag::kFP16.");
}

TEST(Options, RunShapesBecomeBuildShapes) {
  const Options options = parse_options({"--onnx=a", "--shapes=x:4x3", "--optShapes=y:2"});
  ASSERT_EQ(options.build.profiles.size(), 1u);
  ASSERT_EQ(options.build.profiles[0].size(), 2u);
  EXPECT_EQ(options.build.profiles[0][0].name, "y");
  EXPECT_EQ(options.build.profiles[0][1].name, "x");
  EXPECT_EQ(options.build.profiles[0][1].range.max, (Extents{4, 3}));
}

TEST(Options, Profiles) {
  const Options options = parse_options(
      {"--onnx=a", "--profile=1", "--optShapes=x:8", "--profile=0", "--maxShapes=x:4", "--minShapes=x:1"});
  ASSERT_EQ(options.build.profiles.size(), 2u);
  EXPECT_EQ(options.build.profiles[0][0].range, (ShapeRange{{1}, {4}, {4}}));
  EXPECT_EQ(options.build.profiles[1][0].range, (ShapeRange{{8}, {8}, {8}}));
  EXPECT_EQ(options_error({"--onnx=a", "--profile=0", "--optShapes=x:1", "--profile=0", "--optShapes=x:2"}),
            "Optimization profile index cannot be the same.");
  EXPECT_EQ(options_error({"--onnx=a", "--profile=0", "--verbose", "--optShapes=x:1"}),
            "Found invalid or missing shape spec at profile index 0. ");
  EXPECT_EQ(options_error({"--onnx=a", "--profile=1", "--optShapes=x:1"}),
            "Found invalid or missing shape spec at profile index 0. ");
  EXPECT_EQ(options_error({"--onnx=a", "--optShapes=x:1", "--optShapes=x:2"}),
            "Multiple --minShapes/--optShapes/--maxShapes without --profile are not allowed. ");
  EXPECT_EQ(options_error({"--onnx=a", "--minShapes=x:1", "--profile=0", "--optShapes=x:1"}),
            "Multiple --minShapes/--optShapes/--maxShapes without --profile are not allowed. ");
}

TEST(Options, WhatChangesNumbersIsRefused) {
  for (const char* flag :
       {"--useDLACore=0", "--int4", "--sparsity=force", "--safe", "--batch=4", "--markDebug=x",
        "--tuneBuildRoutes=x", "--loadRefOutputs=a:b", "--runtimePlatform=WindowsAMD64", "--model=a"}) {
    const Options options = parse_options({"--onnx=a", flag});
    EXPECT_EQ(options.refusals.size(), 1u) << flag;
  }
}

TEST(Options, TypesOfLayers) {
  const Options options = parse_options(
      {"--onnx=a", "--layerPrecisions=*:fp16,'/a:b':fp32", "--layerOutputTypes=split:fp16+fp32"});
  EXPECT_TRUE(options.refusals.empty());
  const auto types = parse_layer_types("--layerPrecisions", options.build.layer_precisions);
  ASSERT_EQ(types.size(), 2u);
  EXPECT_EQ(types[1].layer, "/a:b");
  EXPECT_EQ(types[1].types, std::vector<DType>{DType::Float32});
  EXPECT_EQ(parse_layer_types("--layerOutputTypes", options.build.layer_output_types)[0].types.size(), 2u);
  EXPECT_EQ(options_error({"--onnx=a", "--layerPrecisions=conv"}),
            "--layerPrecisions: 'conv' is no layer and type, as in conv1:fp16");
  EXPECT_EQ(options_error({"--onnx=a", "--layerPrecisions=conv:half"}),
            "--layerPrecisions: Invalid data type: half");
  EXPECT_EQ(
      options_error({"--onnx=a", "--layerPrecisions=conv:fp16+fp32"}),
      "--layerPrecisions: layer conv computes in one type; --layerOutputTypes takes a type for each of its "
      "outputs");
}

TEST(Options, ALoadedEngineHasItsTypes) {
  const Options options =
      parse_options({"--loadEngine=a", "--fp8", "--calib=x", "--layerPrecisions=a:fp16", "--batch=4"});
  EXPECT_TRUE(options.refusals.empty());
}

TEST(Options, TacticSourcesSwitchRunnersOff) {
  const auto runners = [](const char* flag) {
    const Options options = parse_options({"--onnx=a", flag});
    EXPECT_TRUE(options.notices.empty()) << flag;
    return disabled_runners(options.build.tactic_sources);
  };
  EXPECT_EQ(runners("--tacticSources=-CUDNN,-cublas_lt"),
            (std::set<std::string, std::less<>>{"CublasLt", "CudnnConvolution"}));
  EXPECT_EQ(runners("--tacticSources=-ONEDNN").size(), 4u);
  EXPECT_TRUE(runners("--tacticSources=+ONEDNN").empty());
}

TEST(Options, WhatOnlyAffectsSpeedWarns) {
  for (const char* flag : {"--tacticSources=-JIT_CONVOLUTIONS", "--sparsity=enable", "--maxAuxStreams=2",
                           "--directIO", "--preview=+profileSharing0806", "--heuristic", "--useManagedMemory",
                           "--persistentCacheRatio=0.5", "--buildOnly", "--explicitPrecision", "--streams=2",
                           "--workspace=16", "--minTiming=1", "--nvtxMode=verbose", "--asyncFileReader"}) {
    const Options options = parse_options({"--onnx=a", flag});
    EXPECT_TRUE(options.refusals.empty()) << flag;
    ASSERT_EQ(options.notices.size(), 1u) << flag;
    EXPECT_EQ(options.notices[0].severity, Severity::Warning) << flag;
  }
}

TEST(Options, EveryNameStandsOnceInTheTable) {
  std::set<std::string_view> names;
  for (const auto& flag : all_flags()) EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
}

TEST(Help, HasTheSectionsAndTheColumn) {
  const std::string text = help_text();
  for (const char* title :
       {"=== Model Options ===", "=== Build Options ===", "=== Inference Options ===",
        "=== Reporting Options ===", "=== System Options ===", "=== Help ===", "=== Examples ==="}) {
    EXPECT_NE(text.find(title), std::string::npos) << title;
  }
  EXPECT_NE(text.find("  --onnx=<file>               ONNX model to build from\n"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cli
