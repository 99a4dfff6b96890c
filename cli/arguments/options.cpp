// SPDX-License-Identifier: Apache-2.0
#include "arguments/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "arguments/arguments.h"
#include "arguments/flag.h"
#include "arguments/suggest.h"
#include "base/error.h"

namespace lathe::cli {
namespace {

void apply(const std::vector<Flag>& flags, Arguments& arguments, Options& options) {
  for (const auto& flag : flags) {
    if (flag.apply == nullptr) continue;
    do {
      const auto value = arguments.take(flag.name);
      if (!value) break;
      flag.apply(options, *value);
    } while (flag.repeatable);
  }
}

bool is_shape_flag(const Argument& argument) {
  return argument.name == "--minShapes" || argument.name == "--optShapes" || argument.name == "--maxShapes";
}

// min, opt and max shapes of one profile, taken from arguments [begin, end).
std::vector<NamedRange> take_ranges(std::vector<Argument>& arguments, size_t begin, size_t end,
                                    Options& options) {
  NamedShapes min, opt, max;
  for (size_t i = begin; i < end; ++i) {
    auto& argument = arguments[i];
    if (!is_shape_flag(argument)) continue;
    argument.taken = true;
    auto& target = argument.name == "--minShapes" ? min : argument.name == "--optShapes" ? opt : max;
    target = parse_shapes(argument.name, argument.value);
  }
  std::vector<std::string> notes;
  auto ranges = complete_ranges(min, opt, max, notes);
  for (auto& note : notes) options.warn(std::move(note));
  return ranges;
}

[[noreturn]] void throw_stray_shapes() {
  throw_input_error("Multiple --minShapes/--optShapes/--maxShapes without --profile are not allowed. ");
}

[[noreturn]] void throw_bad_profile(int index) {
  throw_input_error(fmt::format("Found invalid or missing shape spec at profile index {}. ", index));
}

// --profile=N and the one to three shape flags right after it, in any order.
void take_profiles(Arguments& list, Options& options) {
  auto& arguments = list.all();
  std::map<int, std::vector<NamedRange>> profiles;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name != "--profile") continue;
    arguments[i].taken = true;
    const int index = parse_int("--profile", arguments[i].value);
    if (profiles.contains(index)) throw_input_error("Optimization profile index cannot be the same.");
    size_t end = i + 1;
    while (end < arguments.size() && end < i + 4 && is_shape_flag(arguments[end]) &&
           std::none_of(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                        arguments.begin() + static_cast<std::ptrdiff_t>(end),
                        [&](const Argument& other) { return other.name == arguments[end].name; })) {
      ++end;
    }
    if (end == i + 1) throw_bad_profile(index);
    profiles[index] = take_ranges(arguments, i + 1, end, options);
  }
  const bool has_stray = std::any_of(arguments.begin(), arguments.end(),
                                     [](const Argument& a) { return !a.taken && is_shape_flag(a); });
  if (has_stray) throw_stray_shapes();
  options.build.profiles.clear();
  for (auto& [index, ranges] : profiles) {
    const auto next = static_cast<int>(options.build.profiles.size());
    if (index != next) throw_bad_profile(next);
    options.build.profiles.push_back(std::move(ranges));
  }
}

void take_shapes(Arguments& arguments, Options& options) {
  if (arguments.has("--profile")) return take_profiles(arguments, options);
  for (const char* name : {"--minShapes", "--optShapes", "--maxShapes"}) {
    if (std::count_if(arguments.all().begin(), arguments.all().end(),
                      [&](const Argument& a) { return a.name == name; }) > 1) {
      throw_stray_shapes();
    }
  }
  options.build.profiles = {take_ranges(arguments.all(), 0, arguments.all().size(), options)};
}

void take_calibration_shapes(Arguments& arguments, Options& options) {
  for (const char* name : {"--minShapesCalib", "--optShapesCalib", "--maxShapesCalib"}) {
    if (arguments.take(name) && options.build.load_engine.empty()) {
      options.refuse(name, "needs INT8 calibration; use a model with QuantizeLinear/DequantizeLinear");
    }
  }
}

// An input in --shapes without build shapes is built for exactly that shape, in every profile.
void propagate_shapes(Options& options) {
  if (!options.build.load_engine.empty()) return;
  for (const auto& [name, extents] : options.inference.shapes) {
    for (auto& profile : options.build.profiles) {
      const bool known =
          std::any_of(profile.begin(), profile.end(), [&, &name = name](const NamedRange& range) {
            return range.name == name || matches_pattern(range.name, name);
          });
      if (!known) profile.push_back({name, {extents, extents, extents}});
    }
  }
}

const Flag* find_flag(const std::vector<Flag>& flags, std::string_view name) {
  const auto found =
      std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

// A word without dashes: a file that stands alone, or the value of the flag before it.
std::string bare_word_hint(const std::vector<Argument>& arguments, size_t i, const std::vector<Flag>& flags) {
  const std::string& word = arguments[i].name;
  const Flag* before = i == 0 ? nullptr : find_flag(flags, arguments[i - 1].name);
  if (before != nullptr && !before->value.empty() && !arguments[i - 1].has_value)
    return fmt::format("values follow an equals sign: write {}={}", before->name, word);
  for (const char* ending : {".engine", ".plan", ".trt"}) {
    if (word.ends_with(ending)) return fmt::format("did you mean --loadEngine={}?", word);
  }
  if (word.ends_with(".onnx")) return fmt::format("did you mean --onnx={}?", word);
  return "flags begin with --, and values follow an equals sign, as in --onnx=model.onnx";
}

std::string hint_for(const std::vector<Argument>& arguments, size_t i, const std::vector<Flag>& flags) {
  if (!arguments[i].name.starts_with("-")) return bare_word_hint(arguments, i, flags);
  std::vector<std::string_view> names;
  for (const bool shown : {true, false}) {
    for (const auto& flag : flags) {
      if (flag.help.empty() != shown) names.push_back(flag.name);
    }
  }
  return suggestion(arguments[i].name, names, arguments[i].has_value ? "=" + arguments[i].value : "");
}

// TensorRT says "Unknown option: --foo 1"; what we know beyond that stands in the line below.
std::string complaint_about(const std::vector<Argument>& arguments, size_t i,
                            const std::vector<Flag>& flags) {
  const Argument& argument = arguments[i];
  const Flag* flag = find_flag(flags, argument.name);
  if (flag == nullptr) {
    const std::string hint = hint_for(arguments, i, flags);
    return fmt::format("Unknown option: {} {}", argument.name, argument.value) +
           (hint.empty() ? "" : "\n    " + hint);
  }
  const bool is_last = i + 1 == arguments.size() || arguments[i + 1].name.starts_with("-");
  if (!flag->value.empty() && !flag->value_is_optional && !argument.has_value && is_last)
    return fmt::format("{} needs a value: write {}={}", flag->name, flag->name, flag->value);
  if (flag->repeatable) return "";
  for (size_t k = 0; k < i; ++k) {
    if (arguments[k].name != argument.name) continue;
    if (flag->value.empty()) return fmt::format("{} is given twice", flag->name);
    return fmt::format("{} is given twice: {}={} and {}={}", flag->name, flag->name, arguments[k].value,
                       flag->name, argument.value);
  }
  return "";
}

// Unknown words, values apart from their flags and flags given twice, all of them, before anything else: what
// else there is to say may follow from them.
void check_words(Arguments& list, Options& options) {
  const auto flags = all_flags();
  const auto& arguments = list.all();
  std::string text;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string complaint = complaint_about(arguments, i, flags);
    if (!complaint.empty()) text += (text.empty() ? "" : "\n  ") + complaint;
    const Flag* flag = find_flag(flags, arguments[i].name);
    if (flag != nullptr && flag->value.empty() && arguments[i].has_value)
      options.warn(
          fmt::format("{}={}: the value is ignored, {} takes none; leave the flag out to switch it off.",
                      flag->name, arguments[i].value, flag->name));
  }
  if (!text.empty()) throw_input_error(text);
}

void check_budget_together(const BuildFlags& build) {
  if (build.budget.empty()) return;
  if (!build.load_engine.empty())
    throw_input_error("--budget searches while an engine is built: leave it or --loadEngine out");
  if (!build.best && !build.int8)
    throw_input_error(
        "--budget needs types to choose from: add --best (INT8, and FP16 or BF16 where the device has them) "
        "or "
        "--int8 (INT8 and float32)");
  if (build.calibration.empty())
    throw_input_error(
        "--budget judges engines on samples: add --calib=<folder> with .npy or .npz files or pictures, or "
        "--calib=random, which is good for speed alone");
  if (!build.input_formats.empty() || !build.output_formats.empty())
    throw_input_error(
        "--budget takes samples in the model's own types: leave --inputIOFormats and --outputIOFormats out, "
        "or "
        "write the model with lathe quantize --budget and build an engine of that");
  if (build.optimization_level == 0)
    throw_input_error("--builderOptimizationLevel is 1 to 5 with --budget: level 0 times nothing");
  if (build.profiles.size() > 1)
    throw_input_error("--budget judges engines at one optimization profile: leave the others out");
}

void check_together(Options& options) {
  check_budget_together(options.build);
  if (options.build.disabled_passes.contains("help")) return;  // a question that needs no model
  if (options.model.onnx.empty() && options.build.load_engine.empty()) {
    throw_input_error(
        "Model missing or format not recognized\n    give --onnx=<file> to build an engine, or "
        "--loadEngine=<file> to run one");
  }
}

}  // namespace

void refuse_when_building(Options& options, std::string_view flag, std::string_view needs) {
  if (options.build.load_engine.empty()) options.refuse(flag, needs);
}

void warn_of_no_effect(Options& options, std::string_view flag, std::string_view why) {
  options.warn(fmt::format("{} has no effect: {}.", flag, why));
}

int bounded_int(std::string_view flag, const std::string& text, int low, int high) {
  const int value = parse_int(flag, text);
  if (value < low || value > high) {
    throw_input_error(fmt::format("{}={} is out of range: expected {} to {}", flag, value, low, high));
  }
  return value;
}

std::string one_of(std::string_view what, const std::string& text, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    throw_input_error(fmt::format("Unknown {}: {} (known: {})", what, text, fmt::join(words, " ")));
  }
  return text;
}

std::vector<Flag> all_flags() {
  std::vector<Flag> flags;
  for (auto part : {model_flags(), shape_flags(), precision_flags(), build_flags(), system_flags(),
                    lathe_flags(), refused_flags(), inference_flags(), reporting_flags()}) {
    flags.insert(flags.end(), part.begin(), part.end());
  }
  return flags;
}

std::string trtexec_text(const NumberError& error) {
  const auto own = lathe_flags();
  const bool ours = find_flag(own, error.option()) != nullptr;
  return ours ? error.what() : fmt::format("{}: {}", error.function(), error.what());
}

Options parse_options(const std::vector<std::string>& words) {
  Arguments arguments(words);
  Options options;
  options.words = words;
  if (arguments.has("--help") || arguments.has("-h")) {
    options.help = true;
    return options;
  }
  check_words(arguments, options);
  apply(model_flags(), arguments, options);
  take_shapes(arguments, options);
  take_calibration_shapes(arguments, options);
  apply(precision_flags(), arguments, options);
  apply(build_flags(), arguments, options);
  apply(system_flags(), arguments, options);
  apply(lathe_flags(), arguments, options);
  apply(refused_flags(), arguments, options);
  apply(inference_flags(), arguments, options);
  propagate_shapes(options);
  check_together(options);
  apply(reporting_flags(), arguments, options);
  return options;
}

}  // namespace lathe::cli
