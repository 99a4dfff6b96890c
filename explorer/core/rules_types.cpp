// SPDX-License-Identifier: Apache-2.0
//
// Precision and layout: reformats, Q/DQ, conversions, types without fast units, sizes that fast units cannot use.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "explorer/core/decimal.h"
#include "explorer/core/findings.h"
#include "explorer/core/rule_parts.h"
#include "explorer/core/tensor_words.h"

namespace lathe::explorer {
namespace {

std::string conversion_text(const Layer& layer) {
  const auto side = [](const std::vector<TensorUse>& uses) {
    return uses.empty() ? std::string("?") : fmt::format("{} ({})", uses[0].type, uses[0].format);
  };
  return fmt::format("{}: {} to {}", short_name(layer), side(layer.inputs), side(layer.outputs));
}

bool converts_type(const Layer& layer) {
  return !layer.input_precision.empty() && !layer.output_precision.empty() &&
         layer.input_precision != layer.output_precision;
}

bool is_narrow(const std::string& type) {
  return type == "INT8" || type == "FP8" || type == "INT4" || type == "FP4";
}

// Channels of the first input and output, 0 when there is no such dimension.
std::array<int64_t, 2> channels_of(const Layer& layer) {
  const auto channels = [](const std::vector<TensorUse>& uses) {
    return uses.empty() || uses[0].shape.size() < 3 ? 0 : uses[0].shape[1];
  };
  return {channels(layer.inputs), channels(layer.outputs)};
}

// A Cast that the model asks for; what the builder put in has no ONNX node.
bool is_models_own(const Layer& layer) {
  return layer.type != "Reformat" && !layer.origins.empty() && !layer.origins_from_name;
}

// "fp16:chw,fp32:chw" for the network's inputs or outputs, with the types into which reformats turn them, or from which.
// Empty when no reformat touches them, and for layouts that the flag has no plain word for.
std::string io_formats(const EngineData& engine, const std::vector<int>& reformats, const std::string& io) {
  std::string text;
  bool changed = false;
  for (const auto& binding : engine.bindings) {
    if (binding.io != io) continue;
    std::string type = binding.type;
    for (const int i : reformats) {
      const Layer& layer = engine.layers[static_cast<size_t>(i)];
      if (layer.inputs.empty() || layer.outputs.empty()) continue;
      const TensorUse& outer = io == "input" ? layer.inputs[0] : layer.outputs[0];
      const TensorUse& inner = io == "input" ? layer.outputs[0] : layer.inputs[0];
      if (outer.tensor != binding.tensor || inner.type == outer.type) continue;
      type = inner.type;
      changed = true;
    }
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kWords = {
        {{"FP32", "fp32"}, {"FP16", "fp16"}, {"BF16", "bf16"}, {"INT8", "int8"}, {"INT32", "int32"}}};
    const auto word =
        std::find_if(kWords.begin(), kWords.end(), [&](const auto& w) { return w.first == type; });
    if (word == kWords.end()) return "";
    text += fmt::format("{}{}:chw", text.empty() ? "" : ",", word->second);
  }
  return changed ? fmt::format("--{}IOFormats={}", io, text) : "";
}

// Ours binds in the model's types only; TensorRT's engines can take and give others.
std::string reformat_command(const EngineData& engine, const std::vector<int>& reformats) {
  std::string flags;
  for (const char* io : {"input", "output"}) {
    if (engine.sources.front().dialect == "lathe") break;
    const std::string formats = io_formats(engine, reformats, io);
    flags += (flags.empty() || formats.empty() ? "" : " ") + formats;
  }
  return build_command(engine, flags.empty() ? "--builderOptimizationLevel=5" : flags);
}

}  // namespace

std::vector<Finding> find_reformats(const EngineData& engine) {
  const auto layers = layers_where(
      engine, [](const Layer& l) { return (l.kind == "reformat" || l.kind == "cast") && !is_models_own(l); });
  if (layers.empty()) return {};
  const double time = time_of(engine, layers);
  Finding f{"reformats", fmt::format("Changes of layout or type: {}", count_text(layers.size(), "layer")),
            "info", "high"};
  f.evidence = slowest_lines(engine, layers, [](const Layer& l) {
    return l.average_ms() ? fmt::format("{}: {:g} ms", conversion_text(l), *l.average_ms())
                          : conversion_text(l);
  });
  f.layers = layers;
  if (engine.statistics.layer_sum_ms) {
    f.gain_ms = time;
    f.gain_basis = "their whole time, if neighbours agree on layout and type";
  }
  f.command = reformat_command(engine, layers);
  f.action = f.command.find("IOFormats") != std::string::npos
                 ? "Give inputs and take outputs in the type that the engine uses inside."
             : f.command.empty() ? "The tuner had all its levels and found them cheaper than the kernels "
                                   "that need none: only a narrower "
                                   "choice of types or a wider one changes that."
                                 : "They are the price of faster kernels beside them, as far as the tuner "
                                   "looked: let it look further.";
  return {f};
}

// A to B and back to A with nothing but other reformats between.
std::vector<Finding> find_reformat_ping_pong(const EngineData& engine) {
  std::vector<int> layers;
  std::vector<std::string> evidence;
  for (const auto& tensor : engine.tensors) {
    if (tensor.producers.size() != 1 || tensor.consumers.size() != 1) continue;
    const Layer& first = engine.layers[static_cast<size_t>(tensor.producers[0])];
    const Layer& second = engine.layers[static_cast<size_t>(tensor.consumers[0])];
    const bool both = (first.kind == "reformat" || first.kind == "cast") &&
                      (second.kind == "reformat" || second.kind == "cast");
    if (!both || first.inputs.empty() || second.outputs.empty()) continue;
    if (first.inputs[0].type != second.outputs[0].type || first.inputs[0].format != second.outputs[0].format)
      continue;
    layers.push_back(first.index);
    layers.push_back(second.index);
    evidence.push_back(fmt::format("{} and {} undo each other", short_name(first), short_name(second)));
  }
  if (layers.empty()) return {};
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  Finding f{"reformat-ping-pong",
            fmt::format("Reformatted there and back again: {}", count_text(evidence.size(), "pair")), "low",
            "high"};
  f.evidence = std::move(evidence);
  if (engine.statistics.layer_sum_ms) f.gain_ms = time_of(engine, layers);
  f.gain_basis = "their whole time";
  f.layers = std::move(layers);
  f.action = "Report it: the builder should have removed both.";
  return {f};
}

std::vector<Finding> find_converting_slices(const EngineData& engine) {
  const auto layers =
      layers_where(engine, [](const Layer& l) { return l.type == "Slice" && converts_type(l); });
  if (layers.empty()) return {};
  Finding f{"slice-conversion",
            fmt::format("Slices that convert the type, too: {}", count_text(layers.size(), "layer")), "low",
            "medium"};
  f.evidence = slowest_lines(engine, layers, conversion_text);
  f.layers = layers;
  f.action =
      "Quantise (or keep in the narrow type) what stands beside the slice, so that it only moves bytes.";
  return {f};
}

// A quantisation that was not fused into its neighbours: a layer of its own with INT8 on exactly one side.
std::vector<Finding> find_dangling_quantisation(const EngineData& engine) {
  const auto layers = layers_where(engine, [](const Layer& l) {
    const bool scales = l.type == "Scale" || l.type == "Quantize" || l.type == "Dequantize" ||
                        l.type == "QuantizeLinear" || l.type == "DequantizeLinear";
    return scales && is_narrow(l.input_precision) != is_narrow(l.output_precision);
  });
  if (layers.empty()) return {};
  Finding f{"dangling-qdq",
            fmt::format("Quantise or dequantise layers of their own: {}", count_text(layers.size(), "layer")),
            "low", "high"};
  f.evidence = slowest_lines(engine, layers, conversion_text);
  f.layers = layers;
  if (engine.statistics.layer_sum_ms) f.gain_ms = time_of(engine, layers);
  f.gain_basis = "their whole time, when they fuse into their neighbours";
  f.action =
      "Place Q/DQ pairs so that the layer between them can run in INT8: quantise all its inputs, and the "
      "residual branch too.";
  return {f};
}

std::vector<Finding> find_float_after_int8(const EngineData& engine) {
  const auto layers = layers_where(engine, [](const Layer& l) {
    return is_convolution(l) && is_narrow(l.input_precision) && is_float_type(l.output_precision) &&
           !is_narrow(l.output_precision);
  });
  if (layers.empty()) return {};
  Finding f{"quantised-in-float-out",
            fmt::format("Quantised in, float out: {}", count_text(layers.size(), "convolution")), "low",
            "medium"};
  f.evidence = slowest_lines(engine, layers, conversion_text);
  f.layers = layers;
  // The result of each could be a quarter or half as many bytes.
  double saved = 0;
  for (const int i : layers)
    saved += static_cast<double>(engine.layers[static_cast<size_t>(i)].bytes_written.value_or(0)) * 0.5;
  if (engine.peaks.bytes_per_s && engine.statistics.layer_sum_ms) {
    f.gain_ms = round_ms(saved / *engine.peaks.bytes_per_s * 1e3);
    f.gain_basis = "half of the bytes they write, at peak bandwidth";
  }
  f.action = "Quantise their outputs, too.";
  return {f};
}

// Matrix work in FP32 in an engine whose device has faster units for narrower types.
std::vector<Finding> find_slow_types(const EngineData& engine) {
  const auto fp32 = engine.peaks.flops_per_s.find("FP32");
  std::string faster;
  double peak = fp32 == engine.peaks.flops_per_s.end() ? 0 : fp32->second;
  for (const auto& [type, rate] : engine.peaks.flops_per_s) {
    if ((type == "FP16" || type == "BF16") && rate > 1.3 * peak) faster = type, peak = rate;
  }
  if (fp32 == engine.peaks.flops_per_s.end() || faster.empty() || engine.peaks.source == "estimated")
    return {};
  const auto layers = layers_where(engine, [](const Layer& l) {
    return (is_convolution(l) || is_matmul(l)) && l.precision == "FP32" && l.roofline.verdict == "compute";
  });
  if (layers.empty()) return {};
  const double time = time_of(engine, layers);
  // When the builder could have used the type it did not find it faster, whatever the peaks say.
  const auto allowed = allowed_types(engine);
  const bool refused = allowed.contains(faster) ||
                       std::any_of(engine.layers.begin(), engine.layers.end(), [&](const Layer& l) {
                         return l.precision == faster && (is_convolution(l) || is_matmul(l));
                       });
  Finding f{"float32-matrix-work",
            refused
                ? fmt::format("FP32 although {} was allowed: {}", faster, count_text(layers.size(), "layer"))
                : fmt::format("FP32 where {} is {:.1f}x faster: {}", faster, peak / fp32->second,
                              count_text(layers.size(), "layer")),
            refused ? "info" : "low", "medium"};
  f.evidence = slowest_lines(engine, layers, [](const Layer& l) {
    return fmt::format("{}: {:g} ms", short_name(l), l.average_ms().value_or(0));
  });
  f.layers = layers;
  if (refused) {
    f.command = build_command(engine, "--builderOptimizationLevel=5");
    f.action =
        f.command.empty()
            ? fmt::format("The tuner had all its levels and found no faster {} kernel for them.", faster)
            : fmt::format("The tuner found no faster {} kernel for them at its level: let it look further.",
                          faster);
    return {f};
  }
  if (time > 0) f.gain_ms = round_ms(time * (1 - fp32->second / peak));
  f.gain_basis = "their time, by the ratio of the peaks";
  f.action = fmt::format("Let the builder use {}; check the accuracy with `lathe diff`.", faster);
  f.command = build_command(engine, faster == "BF16" ? "--bf16" : "--fp16");
  return {f};
}

std::vector<Finding> find_no_matrix_unit(const EngineData& engine) {
  if (engine.device.kind == "cpu") return {};
  const auto uses_matrix_unit = [](const std::string& tactic) {
    for (const char* word : {"imma", "hmma", "xmma", "wgmma", "hgmma", "qgmma", "igmma", "utcmma", "tensorop",
                             "i88", "884", "16816", "s1688", "s16816"}) {
      if (tactic.find(word) != std::string::npos) return true;
    }
    return false;
  };
  // A convolution without a tactic has its runner for a name (CudaDepthwiseConvolution); Cask's runners are many kernels.
  const auto kernel_of = [](const Layer& l) {
    const bool runner_tells = is_convolution(l) && !l.runner.starts_with("Cask");
    return l.tactic.empty() && runner_tells ? l.runner : l.tactic;
  };
  const auto layers = layers_where(engine, [&](const Layer& l) {
    const std::string kernel = kernel_of(l);
    return (is_convolution(l) || is_matmul(l)) && !kernel.empty() && !l.precision.empty() &&
           l.precision != "FP32" && l.precision != "FP64" && !uses_matrix_unit(kernel);
  });
  if (layers.empty() || engine.sources.front().dialect == "lathe") return {};
  Finding f{"no-tensor-core",
            fmt::format("No tensor core by the tactic's name: {}", count_text(layers.size(), "matrix layer")),
            "low", "low"};
  f.evidence = slowest_lines(engine, layers, [](const Layer& l) {
    const auto [in, out] = channels_of(l);
    return fmt::format(
        "{}: {}{}", short_name(l), layer_facts(l),
        in > 0 && in < 32 ? fmt::format("; only {} input channels: acceleration may be impossible", in) : "");
  });
  f.layers = layers;
  if (engine.statistics.layer_sum_ms) f.gain_ms = time_of(engine, layers) / 2;
  f.gain_basis = "half of their time";
  f.action = "Make channel counts multiples of 8 (FP16) or 16 (INT8), and pad small first layers.";
  return {f};
}

std::vector<Finding> find_channel_alignment(const EngineData& engine) {
  const auto multiple_of = [](const Layer& l) {
    return l.precision == "INT8" || l.precision == "FP8" ? 16 : 8;
  };
  const auto layers = layers_where(engine, [&](const Layer& l) {
    if (!is_convolution(l) || l.inputs.empty() || l.outputs.empty() || l.inputs[0].shape.size() != 4)
      return false;
    const auto [in, out] = channels_of(l);
    return in > 0 && out > 0 && (in % multiple_of(l) != 0 || out % multiple_of(l) != 0);
  });
  if (layers.empty()) return {};
  Finding f{"channel-alignment",
            fmt::format("Channels that vector and matrix units fill badly: {}",
                        count_text(layers.size(), "convolution")),
            "info", "medium"};
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    const auto [in, out] = channels_of(l);
    return fmt::format("{}: {} to {} channels, not multiples of {}", short_name(l), in, out, multiple_of(l));
  });
  f.layers = layers;
  f.action =
      "Pad the channels of the model where the waste is large; three input channels of an image cannot be "
      "helped.";
  return {f};
}

std::vector<Finding> find_gemm_alignment(const EngineData& engine) {
  const auto bad = [](const Layer& l) {
    if (!is_matmul(l) || l.outputs.empty() || l.inputs.empty() || l.outputs[0].shape.empty() ||
        l.inputs[0].shape.empty())
      return false;
    const int64_t n = l.outputs[0].shape.back(), k = l.inputs[0].shape.back();
    return (n > 64 && n % 8 != 0) || (k > 64 && k % 8 != 0);
  };
  const auto layers = layers_where(engine, bad);
  if (layers.empty()) return {};
  Finding f{
      "gemm-alignment",
      fmt::format("Extents that are no multiples of 8: {}", count_text(layers.size(), "matrix product")),
      "low", "medium"};
  f.evidence = slowest_lines(engine, layers, [](const Layer& l) {
    return fmt::format("{}: inner {}, columns {}", short_name(l), l.inputs[0].shape.back(),
                       l.outputs[0].shape.back());
  });
  f.layers = layers;
  f.action = "Pad the vocabulary or hidden size to a multiple of 8 (better: 64).";
  return {f};
}

}  // namespace lathe::explorer
