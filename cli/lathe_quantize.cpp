// SPDX-License-Identifier: Apache-2.0
//
// `lathe quantize`: a float model and samples of its inputs in, the same model with Q and DQ nodes out.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "arguments/arguments.h"
#include "arguments/values.h"
#include "arguments/words.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/observer.h"
#include "budget_search.h"
#include "calibration_data.h"
#include "commands.h"
#include "engine_setup.h"
#include "onnx/import.h"
#include "output_file.h"
#include "report/table.h"
#include "say.h"

namespace lathe::cli {
namespace {

onnx::QuantizationScope read_scope(const CommandWords& arguments) {
  onnx::QuantizationScope scope;
  for (const auto& item : split_list(arguments.value("--op-types"))) scope.op_types.insert(item);
  for (const auto& item : split_list(arguments.value("--exclude"))) scope.exclude.push_back(item);
  return scope;
}

// What looks at steps of one size has no meaning for FP8, whose steps grow with the numbers.
void check_small_floats(const CommandWords& arguments, CalibrationMethod method) {
  if (method != CalibrationMethod::Max && method != CalibrationMethod::Percentile)
    throw_input_error("--method=" + arguments.value("--method") +
                      " weighs steps of one size; with --activations=fp8 it is max or percentile");
  if (arguments.has("--save-cache"))
    throw_input_error("--save-cache writes scales of int8; leave it out with --activations=fp8");
}

QuantizeOptions read_quantize_options(const CommandWords& arguments) {
  QuantizeOptions options{.scope = read_scope(arguments)};
  if (arguments.has("--method"))
    options.calibration.method = calibration_method_from_name(arguments.value("--method"));
  if (arguments.has("--percentile")) {
    options.calibration.percentile =
        static_cast<double>(parse_float("--percentile", arguments.value("--percentile")));
    if (!(options.calibration.percentile > 50 && options.calibration.percentile <= 100))
      throw_input_error("--percentile is a share of the elements: more than 50, at most 100");
    if (options.calibration.method != CalibrationMethod::Percentile)
      throw_input_error("--percentile belongs to --method=percentile");
  }
  const std::string type = arguments.value("--activations");
  if (type == "int8")
    options.activations = DType::Int8;
  else if (type == "fp8")
    options.activations = DType::Float8E4M3FN;
  else if (!type.empty() && type != "uint8")
    throw_input_error("--activations is uint8, int8 or fp8, not '" + type + "'");
  if (type == "fp8") check_small_floats(arguments, options.calibration.method);
  options.corrects_bias = arguments.has("--correct-bias");
  if (arguments.has("--smooth")) {
    options.smoothing = static_cast<double>(parse_float("--smooth", arguments.value("--smooth")));
    if (!(options.smoothing >= 0 && options.smoothing <= 1))
      throw_input_error("--smooth is a strength from 0 to 1: 0.5 divides what is large evenly between both");
    if (arguments.has("--save-cache"))
      throw_input_error("--save-cache cannot hold what --smooth does to channels; leave one out");
  }
  return options;
}

onnx::WeightRounding read_rounding(const CommandWords& arguments) {
  for (const char* flag : {"--method", "--percentile", "--activations", "--save-cache", "--smooth",
                           "--correct-bias", "--budget"})
    if (arguments.has(flag))
      throw_input_error(std::string(flag) + " is for activations; --weight-only leaves them float");
  for (const char* flag : {"--samples", "--preprocess", "--shapes"})
    if (arguments.has(flag) && !arguments.has("--calib"))
      throw_input_error(std::string(flag) + " is for samples, and there is no --calib");
  onnx::WeightRounding rounding;
  const std::string type = arguments.value("--weight-only");
  if (type != "int4" && type != "int8")
    throw_input_error("--weight-only is int4 or int8, not '" + type + "'");
  rounding.bits = type == "int4" ? 4 : 8;
  if (arguments.has("--block")) rounding.block = parse_int("--block", arguments.value("--block"));
  if (rounding.block < 16 || rounding.block > 1024 || (rounding.block & (rounding.block - 1)) != 0)
    throw_input_error("--block is a power of two from 16 to 1024, as MatMulNBits wants it");
  return rounding;
}

// "3 MatMul: its weights are computed", one line for each type and reason.
void print_left(const std::vector<onnx::QuantizationPlan::Left>& left) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const auto& node : left) ++counts[{node.op_type, node.reason}];
  for (const auto& [key, count] : counts) say("  stays float: {} {}: {}\n", count, key.first, key.second);
}

Json result_json(const QuantizeResult& result, const std::string& file) {
  Json left = Json::array();
  for (const auto& node : result.left)
    left.push_back(
        {{"node", node.node}, {"type", node.op_type}, {"reason", node.reason}, {"tensor", node.tensor}});
  return {{"file", file},
          {"bytes", result.model.bytes.size()},
          {"samples", result.samples},
          {"quantized_tensors", result.model.activations},
          {"quantized_weights", result.model.weights},
          {"weight_bytes_before", result.model.weight_bytes_before},
          {"weight_bytes", result.model.weight_bytes},
          {"left", left}};
}

void print_result(const CommandWords& arguments, const QuantizeResult& result, const std::string& file,
                  const Json& front) {
  if (arguments.has("--json")) {
    Json json = result_json(result, file);
    if (!front.is_null()) json["search"] = front;
    return fmt::print("{}\n", dump_json(json));
  }
  const onnx::QuantizedModel& model = result.model;
  say("wrote {} ({}): {} weights quantised ({} of weights were {})", file,
      bytes_text(static_cast<int64_t>(model.bytes.size())), model.weights, bytes_text(model.weight_bytes),
      bytes_text(model.weight_bytes_before));
  if (model.activations > 0) say(", and {} tensors", model.activations);
  if (result.samples > 0) say(", by {} samples", result.samples);
  say("\n");
  print_left(result.left);
}

// The text of a calibration cache; empty where the samples are something else.
std::string read_cache(const std::string& source) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(source, ignored)) return {};
  const auto file = MappedFile::open(source);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  return is_calibration_cache(text) ? std::string(text) : std::string();
}

void warn_of_floats(const BudgetResult& result) {
  const BudgetPoint &kept = result.kept(), &floats = result.float32();
  if (floats.ms < kept.ms)
    say_to(stderr, "warning: the float32 model is faster here: {:.3g} ms, the quantised one {:.3g} ms.\n",
           floats.ms, kept.ms);
}

QuantizeResult calibrate_within(const CommandWords& arguments, const std::string& model,
                                const Network& network, Builder& builder, CalibrationData& data,
                                const QuantizeOptions& options, Json& json) {
  BudgetOptions search{.budget = AccuracyBudget::parse(arguments.value("--budget"))};
  search.directory = std::filesystem::path(model).parent_path();
  search.build.batch_part = 0;
  search.build.optimization_level = 2;
  if (arguments.has("--builderOptimizationLevel"))
    search.build.optimization_level =
        parse_int("--builderOptimizationLevel", arguments.value("--builderOptimizationLevel"));
  if (search.build.optimization_level < 1 || search.build.optimization_level > 5)
    throw_input_error("--builderOptimizationLevel is 1 to 5 with --budget: level 0 times nothing");
  if (isatty(STDERR_FILENO) != 0)
    search.progress = [](const std::string& text) { say_to(stderr, "{}\n", text); };
  BudgetResult result =
      search_within(model, network, builder, data, options, search, progress_line(data.count()));
  json = front_json(result, search.budget);
  if (!arguments.has("--json"))
    say("Accuracy against the float32 model, on samples that calibration has not seen; times of "
        "engines:\n\n{}\n",
        front_text(result, search.budget));
  warn_of_floats(result);
  return std::move(result.model);
}

// With samples, weights take up each other's errors.
QuantizeResult round_weights_alone(const CommandWords& arguments, const std::string& model) {
  const onnx::WeightRounding rounding = read_rounding(arguments);
  const onnx::QuantizationScope scope = read_scope(arguments);
  if (!arguments.has("--calib")) return quantize_weights(model, rounding, scope);
  NullObserver observer;
  const ImportedModel imported = import_onnx(std::filesystem::path(model), observer);
  CalibrationData data = open_calibration_data(arguments, input_infos(imported.graph));
  const auto inputs = measure_inputs(
      model, imported.graph, scope, [&](std::vector<Tensor>& sample) { return data.next(sample); },
      progress_line(data.count()));
  QuantizeResult result = quantize_weights(model, rounding, scope, inputs);
  result.samples = data.count();
  return result;
}

QuantizeResult calibrate(const CommandWords& arguments, const std::string& model, Json& front) {
  if (!arguments.has("--calib"))
    throw_input_error(
        "--calib names the samples: a folder of .npy or .npz files, or 'random' (--weight-only needs none)");
  if (arguments.has("--block")) throw_input_error("--block belongs to --weight-only");
  if (const std::string cache = read_cache(arguments.value("--calib")); !cache.empty()) {
    for (const char* flag : {"--method", "--percentile", "--activations", "--samples", "--save-cache",
                             "--smooth", "--correct-bias", "--budget", "--preprocess"})
      if (arguments.has(flag))
        throw_input_error(std::string(flag) +
                          " is for samples; a calibration cache has scales of int8 already");
    return quantize_with_scales(model, parse_calibration_cache(cache, arguments.value("--calib")),
                                read_scope(arguments));
  }
  const QuantizeOptions options = read_quantize_options(arguments);
  NullObserver observer;
  Builder builder(open_device(system_flags_of(arguments)), observer);
  const Network network = builder.parse_onnx(model);
  CalibrationData data = open_calibration_data(arguments, network.inputs());
  if (arguments.has("--budget"))
    return calibrate_within(arguments, model, network, builder, data, options, front);
  return quantize_model(
      model, network, builder, [&](std::vector<Tensor>& sample) { return data.next(sample); }, options,
      progress_line(data.count()));
}

}  // namespace

int run_quantize(const Words& words) {
  const CommandWords arguments(words, command_syntax("quantize"));
  if (arguments.positional().size() != 1)
    throw_input_error(
        "quantize takes one model: lathe quantize model.onnx --calib samples/ -o quantized.onnx");
  const std::string model = arguments.positional()[0], file = arguments.value("-o");
  require_new_file(file, "quantized.onnx", arguments.has("--force"));
  Json front;
  const QuantizeResult result = arguments.has("--weight-only") ? round_weights_alone(arguments, model)
                                                               : calibrate(arguments, model, front);
  write_file_atomically(file, result.model.bytes);
  if (arguments.has("--save-cache"))
    write_file_atomically(
        arguments.value("--save-cache"),
        calibration_cache_text(result.scales, read_quantize_options(arguments).calibration.method));
  print_result(arguments, result, file, front);
  return 0;
}

}  // namespace lathe::cli
