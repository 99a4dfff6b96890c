// SPDX-License-Identifier: Apache-2.0
//
// Precision and layout: reformats, Q/DQ, conversions, types without fast units, sizes that fast units cannot
// use.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json.h"
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
  return type == "INT8" || type == "UINT8" || type == "FP8" || type == "INT4" || type == "FP4";
}

// Channels of the first input and output, 0 when there is no such dimension.
std::array<int64_t, 2> channels_of(const Layer& layer) {
  const auto channels = [](const std::vector<TensorUse>& uses) {
    return uses.empty() || uses[0].shape.size() < 3 ? 0 : uses[0].shape[1];
  };
  return {channels(layer.inputs), channels(layer.outputs)};
}

// Rounds to few values and back: Q/DQ of the model, whatever layer it became.
bool is_quantisation(const Layer& layer) {
  const auto is_one = [](const std::string& type) {
    return type == "Quantize" || type == "Dequantize" || type == "QuantizeLinear" ||
           type == "DequantizeLinear" || type == "Scale";
  };
  const auto origin = layer.attributes->find("Origin");
  return is_one(layer.type) || (origin != layer.attributes->end() && *origin == "QDQ") ||
         std::any_of(layer.origins.begin(), layer.origins.end(),
                     [&](const LayerOrigin& o) { return is_one(o.op_type); });
}

// A Cast that the model asks for; what the builder put in has no ONNX node.
bool is_models_own(const Layer& layer) {
  return layer.type != "Reformat" && !layer.origins.empty() && !layer.origins_from_name;
}

// "fp16:chw,fp32:chw" for the network's inputs or outputs, with the types into which reformats turn them, or
// from which. Empty when no reformat touches them, and for layouts that the flag has no plain word for.
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
std::string io_flags(const EngineData& engine, const std::vector<int>& reformats) {
  std::string flags;
  for (const char* io : {"input", "output"}) {
    if (engine.sources.front().dialect == "lathe") break;
    const std::string formats = io_formats(engine, reformats, io);
    flags += (flags.empty() || formats.empty() ? "" : " ") + formats;
  }
  return flags;
}

}  // namespace

namespace {

bool is_change(const Layer& layer) {
  return layer.kind == "reformat" || layer.kind == "cast";
}

// The layer reads an input of the network, or writes an output of it.
bool touches_binding(const EngineData& engine, const Layer& layer) {
  return std::any_of(engine.bindings.begin(), engine.bindings.end(), [&](const Binding& binding) {
    if (!binding.tensor || (binding.io != "input" && binding.io != "output")) return false;
    const auto& uses = binding.io == "input" ? layer.inputs : layer.outputs;
    return !uses.empty() && uses[0].tensor == *binding.tensor;
  });
}

Finding changes_finding(const EngineData& engine, const char* id, const std::string& title,
                        const std::vector<int>& layers) {
  Finding f{id, fmt::format("{}: {}", title, count_text(layers.size(), "layer")), "info", "high"};
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    return l.average_ms() ? fmt::format("{}: {}", conversion_text(l), time_words(engine, *l.average_ms()))
                          : conversion_text(l);
  });
  f.layers = layers;
  if (engine.statistics.layer_sum_ms) {
    f.gain_ms = time_of(engine, layers);
    f.gain_basis = "their whole time, if neighbours agree on layout and type";
  }
  return f;
}

}  // namespace

// Quantisations are none: to feed INT8 instead would take the model's scale along.
std::vector<Finding> find_reformats(const EngineData& engine) {
  std::vector<int> outer = layers_where(engine, [&](const Layer& l) {
    return is_change(l) && !is_models_own(l) && !is_quantisation(l) && touches_binding(engine, l);
  });
  std::vector<int> inner = layers_where(engine, [&](const Layer& l) {
    return is_change(l) && !is_models_own(l) && !is_quantisation(l) && !touches_binding(engine, l);
  });
  std::vector<Finding> findings;
  const std::string formats = outer.empty() ? "" : io_flags(engine, outer);
  if (formats.empty()) {
    inner.insert(inner.end(), outer.begin(), outer.end());
    std::sort(inner.begin(), inner.end());
  } else {
    Finding f = changes_finding(engine, "io-formats", "Inputs and outputs change their type", outer);
    f.action = "Give inputs and take outputs in the type that the engine uses inside.";
    f.command = build_command(engine, formats);
    findings.push_back(std::move(f));
  }
  if (inner.empty()) return findings;
  Finding f = changes_finding(engine, "reformats", "Changes of layout or type", inner);
  f.command = build_command(engine, "--builderOptimizationLevel=5");
  f.action =
      f.command.empty()
          ? "The tuner had all its levels and found them cheaper than the kernels that need none: only a "
            "narrower choice of types or a wider one changes that."
          : "They are the price of faster kernels beside them, as far as the tuner looked: let it look "
            "further.";
  findings.push_back(std::move(f));
  return findings;
}

namespace {

// Nothing is lost between the two: a narrower type in the middle rounds, which the builder may do for its own
// purposes, and may not take back where the model asks for it.
bool undo_each_other(const Layer& first, const Layer& second) {
  if (!is_change(first) || !is_change(second) || is_quantisation(first) || is_quantisation(second))
    return false;
  if (first.inputs.empty() || first.outputs.empty() || second.outputs.empty()) return false;
  const TensorUse &before = first.inputs[0], &middle = first.outputs[0], &after = second.outputs[0];
  if (before.type != after.type || before.format != after.format) return false;
  const bool models = is_models_own(first) || is_models_own(second);
  return !models || element_bits(middle.type) >= element_bits(before.type);
}

}  // namespace

// A to B and back to A with nothing but other reformats between.
std::vector<Finding> find_reformat_ping_pong(const EngineData& engine) {
  struct Pair {
    const Layer *first, *second;
    double ms;
  };
  std::vector<Pair> pairs;
  std::vector<int> layers;
  for (const auto& tensor : engine.tensors) {
    if (tensor.producers.size() != 1 || tensor.consumers.size() != 1) continue;
    const Layer& first = engine.layers[static_cast<size_t>(tensor.producers[0])];
    const Layer& second = engine.layers[static_cast<size_t>(tensor.consumers[0])];
    if (!undo_each_other(first, second)) continue;
    pairs.push_back({&first, &second, first.average_ms().value_or(0) + second.average_ms().value_or(0)});
    layers.push_back(first.index);
    layers.push_back(second.index);
  }
  if (pairs.empty()) return {};
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.ms > b.ms; });
  Finding f{"reformat-ping-pong",
            fmt::format("Reformatted there and back again: {}", count_text(pairs.size(), "pair")), "low",
            "high"};
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(pairs.size(), kShown); ++i)
    f.evidence.push_back(
        fmt::format("{} and {} undo each other", short_name(*pairs[i].first), short_name(*pairs[i].second)));
  if (pairs.size() > kShown) f.evidence.push_back(fmt::format("and {} more", pairs.size() - kShown));
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
    const bool alone = is_change(l) || l.type == "Scale" || l.origins.size() <= 1;
    return alone && is_quantisation(l) && is_narrow(l.input_precision) != is_narrow(l.output_precision);
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
  // How much faster is only known where both the peaks and the times are.
  const bool known =
      engine.measurement.usable && engine.peaks.is_stable("FP32") && engine.peaks.is_stable(faster);
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
            : known ? fmt::format("FP32 where {} is {:.1f}x faster: {}", faster, peak / fp32->second,
                                  count_text(layers.size(), "layer"))
                    : fmt::format("FP32 where {} is faster: {}", faster, count_text(layers.size(), "layer")),
            refused ? "info" : "low", "medium"};
  f.evidence = slowest_lines(engine, layers, [&](const Layer& l) {
    return fmt::format("{}: {}", short_name(l), time_words(engine, l.average_ms().value_or(0)));
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
  if (time > 0 && known) {
    f.gain_ms = round_ms(time * (1 - fp32->second / peak));
    f.gain_basis = "their time, by the ratio of the peaks";
  }
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
  // A convolution without a tactic has its runner for a name (CudaDepthwiseConvolution); Cask's runners are
  // many kernels.
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
