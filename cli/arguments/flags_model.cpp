// SPDX-License-Identifier: Apache-2.0
//
// Flags that name the model, its shapes and its types.
#include <fmt/format.h>

#include <cstdlib>

#include "arguments/arguments.h"
#include "arguments/flag.h"

namespace lathe::cli {
namespace {

using O = Options;
using S = const std::string;

void refuse_caffe(O& o, S&) {
  o.refuse("--model/--deploy/--uff/--output",
           "need Caffe or UFF models, which no TensorRT since 9 reads; convert to ONNX");
}

}  // namespace

std::vector<Flag> model_flags() {
  return {
      {Section::Model, "--onnx", "<file>", "ONNX model to build from",
       [](O& o, S& v) {
         const char* home = std::getenv("HOME");  // the shell leaves the ~ of --onnx=~/model.onnx alone
         o.model.onnx = v.starts_with("~") && home != nullptr ? home + v.substr(1) : v;
       }},
      {Section::Model, "--inputLengths", "<spec>",
       "how many tensors an input has that is a sequence, or an optional (0 or 1), as in --inputLengths=x:3; "
       "those of a sequence are the inputs x_0, x_1, x_2",
       [](O& o, S& v) {
         for (const auto& [name, length] : parse_shapes("--inputLengths", v)) {
           if (length.size() != 1)
             throw_input_error("--inputLengths=" + v + ": expected a number for '" + name +
                               "', as in --inputLengths=x:3");
           o.model.input_lengths[name] = length[0];
         }
       }},
      {Section::Build, "--loadEngine", "<file>", "run this engine file, build nothing",
       [](O& o, S& v) { o.build.load_engine = v; }},
      {Section::Model, "--model", "<file>", "", refuse_caffe},
      {Section::Model, "--deploy", "<file>", "", refuse_caffe},
      {Section::Model, "--uff", "<file>", "", refuse_caffe},
      {Section::Model, "--uffInput", "<spec>", "", refuse_caffe, true},
      {Section::Model, "--uffNHWC", "", "", refuse_caffe},
      {Section::Model, "--output", "<names>", "", refuse_caffe, true},
      {Section::Model, "--batch", "<n>", "",
       [](O& o, S& v) {
         o.inference.batch = bounded_int("--batch", v, 1, 1 << 30);
         if (o.build.load_engine.empty()) {
           o.refuse("--batch", fmt::format("is for models with an implicit batch, ONNX models have none; use "
                                           "--shapes=<input>:{}x... instead",
                                           o.inference.batch));
         }
       }},
      {Section::Model, "--maxBatch", "<n>", "",
       [](O& o, S& v) {
         bounded_int("--maxBatch", v, 1, 1 << 30);
         refuse_when_building(o, "--maxBatch",
                              "is for models with an implicit batch; use --maxShapes instead");
       }},
      {Section::Model, "--explicitBatch", "", "",
       [](O& o, S&) {
         o.warn("--explicitBatch flag has been deprecated and has no effect!");
         o.warn(
             "Explicit batch dim is automatically enabled if input model is ONNX or if dynamic shapes are "
             "provided "
             "when the engine is built.");
       }},
      {Section::Model, "--explicitPrecision", "", "",
       [](O& o, S&) { o.warn("--explicitPrecision flag has been deprecated and has no effect!"); }},
  };
}

std::vector<Flag> shape_flags() {
  return {
      {Section::Build, "--minShapes", "<spec>", "smallest input shapes, as in --minShapes=input:1x3x224x224",
       nullptr, true},
      {Section::Build, "--optShapes", "<spec>", "shapes to tune for; alone: the only shapes", nullptr, true},
      {Section::Build, "--maxShapes", "<spec>", "largest input shapes", nullptr, true},
      {Section::Build, "--profile", "<n>",
       "starts optimization profile n: the shape flags right after it belong to it; numbers are 0, 1, ...",
       nullptr, true},
      {Section::Build, "--minShapesCalib", "<spec>", "", nullptr},
      {Section::Build, "--optShapesCalib", "<spec>", "", nullptr},
      {Section::Build, "--maxShapesCalib", "<spec>", "", nullptr},
  };
}

std::vector<Flag> precision_flags() {
  return {
      {Section::Build, "--fp16", "", "let layers compute in FP16 where that is faster",
       [](O& o, S&) { o.build.fp16 = true; }},
      {Section::Build, "--bf16", "", "let layers compute in BF16 where that is faster",
       [](O& o, S&) { o.build.bf16 = true; }},
      {Section::Build, "--int8", "",
       "accepted for models with QuantizeLinear/DequantizeLinear; others need --calib",
       [](O& o, S&) { o.build.int8 = true; }},
      {Section::Build, "--fp8", "",
       "accepted for models with QuantizeLinear/DequantizeLinear to FP8; lathe quantize --activations=fp8 "
       "writes them",
       [](O& o, S&) {
         o.build.fp8 = true;
         if (o.build.int8)
           throw_input_error("Invalid usage, fp8 and int8 aren't allowed to be enabled together.");
       }},
      {Section::Build, "--int4", "", "",
       [](O& o, S&) {
         o.build.int4 = true;
         refuse_when_building(
             o, "--int4", "needs INT4 tactics; this build has none. Models with INT4 weights run without it");
       }},
      {Section::Build, "--best", "", "the fastest of all types that the device has",
       [](O& o, S&) { o.build.best = true; }},
      {Section::Build, "--noTF32", "", "no TF32 for FP32 math on a GPU (a CPU never uses it)",
       [](O& o, S&) { o.build.tf32 = false; }},
      {Section::Build, "--stronglyTyped", "", "types come from the model alone",
       [](O& o, S&) {
         auto& b = o.build;
         if (b.best)
           throw_input_error(
               "Invalid usage, --best is not allowed with --stronglyTyped: types come from the model.");
         b.strongly_typed = true;
         const auto drop = [&](bool& flag, const char* mode, const char* builder_flag) {
           if (!flag) return;
           flag = false;
           o.warn(fmt::format(
               "Invalid usage, setting {} mode is not allowed if graph is strongly typed. Disabling "
               "BuilderFlag::{}.",
               mode, builder_flag));
         };
         drop(b.fp16, "fp16", "kFP16");
         drop(b.int8, "int8", "kINT8");
         drop(b.bf16, "bf16", "kBF16");
       }},
      {Section::Build, "--precisionConstraints", "none|obey|prefer",
       "what --layerPrecisions and --layerOutputTypes are worth: obey makes what has no tactic an error",
       [](O& o, S& v) {
         o.build.precision_constraints = one_of("precision constraints", v, {"none", "obey", "prefer"});
       }},
      {Section::Build, "--layerPrecisions", "<spec>",
       "what single layers compute in, by the names of ONNX nodes: fp32, fp16 or bf16, as in "
       "--layerPrecisions=*:fp16,/head/MatMul:fp32 (with --precisionConstraints)",
       [](O& o, S& v) {
         for (const LayerTypeNames& entry : parse_layer_types("--layerPrecisions", v))
           if (entry.types.size() != 1)
             throw_input_error(fmt::format(
                 "--layerPrecisions: layer {} computes in one type; --layerOutputTypes takes a type "
                 "for each of its outputs",
                 entry.layer));
         o.build.layer_precisions = v;
       }},
      {Section::Build, "--layerOutputTypes", "<spec>",
       "the types of their results, for each output one behind a +",
       [](O& o, S& v) {
         parse_layer_types("--layerOutputTypes", v);
         o.build.layer_output_types = v;
       }},
      {Section::Build, "--layerDeviceTypes", "<spec>", "",
       [](O& o, S& v) {
         o.build.layer_device_types = v;
         refuse_when_building(o, "--layerDeviceTypes", "needs a DLA core; this build has no DLA backend");
       }},
      {Section::Build, "--calib", "<file>",
       "with --int8: a calibration cache of TensorRT, whose scales a float model is quantised with; with "
       "--budget: "
       "samples, a folder of .npy or .npz files or pictures, or 'random'",
       [](O& o, S& v) { o.build.calibration = v; }},
      {Section::Build, "--calibProfile", "<n>", "",
       [](O& o, S& v) {
         bounded_int("--calibProfile", v, 0, 1 << 30);
         refuse_when_building(o, "--calibProfile",
                              "needs INT8 calibration; use a model with QuantizeLinear/DequantizeLinear");
       }},
      {Section::Build, "--inputIOFormats", "<spec>",
       "types and formats of inputs; the model's own types in chw are supported",
       [](O& o, S& v) { o.build.input_formats = parse_io_formats("--inputIOFormats", v); }},
      {Section::Build, "--outputIOFormats", "<spec>", "the same for outputs",
       [](O& o, S& v) { o.build.output_formats = parse_io_formats("--outputIOFormats", v); }},
      {Section::Build, "--directIO", "", "",
       [](O& o, S&) {
         o.build.direct_io = true;
         o.warn(
             "--directIO has no effect: bindings are linear, and reformats behind them are chosen by time.");
       }},
      {Section::Build, "--sparsity", "disable|enable|force", "",
       [](O& o, S& v) {
         o.build.sparsity = one_of("sparsity", v, {"disable", "enable", "force"});
         if (v == "enable")
           o.warn("--sparsity=enable has no effect: there are no tactics for sparse weights on this device.");
         if (v == "force")
           refuse_when_building(o, "--sparsity=force",
                                "rewrites weights to 2:4 for sparse tensor cores; no device here has them");
       }},
      {Section::Build, "--decomposableAttentions", "<names>", "",
       [](O& o, S&) {
         o.warn("--decomposableAttentions has no effect: attention is fused or not by time.");
       }},
      {Section::Build, "--distributiveIndependence", "", "",
       [](O& o, S&) {
         refuse_when_building(o, "--distributiveIndependence",
                              "needs tactics whose results do not depend on the position in a batch; there "
                              "is no such promise");
       }},
  };
}

}  // namespace lathe::cli
