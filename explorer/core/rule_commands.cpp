// SPDX-License-Identifier: Apache-2.0
//
// Commands to try. One that builds repeats what is known of the engine's own build, shapes and types: without
// them a copied command would build another engine. cli/findings_test.cpp gives each to the command line's
// parser.
#include <fmt/format.h>

#include <algorithm>

#include "explorer/core/rule_parts.h"

namespace lathe::explorer {
namespace {

// For a shell: in quotes when it holds anything but letters, digits and marks without a meaning there.
std::string word(const std::string& text) {
  constexpr std::string_view kPlain = "_-./=:,+@%";
  const auto plain = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kPlain.find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string plain_name(const std::string& binding) {
  const size_t suffix = binding.find(" [profile ");
  return binding.substr(0, suffix);
}

// "a:1x128,b:1x128" of the inputs that have ranges.
std::string shapes_of(const EngineData& engine, const std::function<Shape(const Binding&)>& pick) {
  std::string text;
  for (const auto& binding : engine.bindings) {
    const Shape shape = binding.io == "input" ? pick(binding) : Shape{};
    if (shape.empty() || std::any_of(shape.begin(), shape.end(), [](int64_t n) { return n < 0; })) continue;
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", plain_name(binding.name), fmt::join(shape, "x"));
  }
  return text;
}

std::string flag_with(const std::string& flag, const std::string& value) {
  return value.empty() ? "" : " " + word(flag + "=" + value);
}

size_t profile_count(const EngineData& engine) {
  size_t count = 0;
  for (const auto& binding : engine.bindings) count = std::max(count, binding.profiles.size());
  return count;
}

// One profile of one shape is --shapes; others are spelled out.
std::string build_shapes(const EngineData& engine) {
  const size_t profiles = profile_count(engine);
  const auto side = [&](size_t p, Shape ShapeProfile::*member) {
    return shapes_of(engine, [&](const Binding& binding) {
      return p < binding.profiles.size() ? binding.profiles[p].*member : Shape{};
    });
  };
  std::string text;
  for (size_t p = 0; p < profiles; ++p) {
    const std::string least = side(p, &ShapeProfile::min), best = side(p, &ShapeProfile::opt),
                      most = side(p, &ShapeProfile::max);
    if (profiles == 1 && least == best && best == most) return flag_with("--shapes", best);
    if (profiles > 1) text += fmt::format(" --profile={}", p);
    text += flag_with("--minShapes", least) + flag_with("--optShapes", best) + flag_with("--maxShapes", most);
  }
  return text;
}

// Those of the run, for inputs whose shape is a choice.
std::string run_shapes(const EngineData& engine) {
  return flag_with("--shapes", shapes_of(engine, [](const Binding& binding) {
                     return binding.profiles.empty() ? Shape{} : binding.shape;
                   }));
}

std::string type_flags(const EngineData& engine, const std::string& flags) {
  std::string text;
  for (const auto& [type, flag] :
       {std::pair{"FP16", "--fp16"}, {"BF16", "--bf16"}, {"INT8", "--int8"}, {"FP8", "--fp8"}}) {
    if (allowed_types(engine).contains(type) && flags.find(flag) == std::string::npos)
      text += std::string(" ") + flag;
  }
  return text;
}

std::string model_of(const EngineData& engine) {
  return engine.model_file.empty() ? "model.onnx" : engine.model_file;
}
std::string engine_of(const EngineData& engine) {
  return engine.engine_file.empty() ? "model.engine" : engine.engine_file;
}

}  // namespace

std::set<std::string> allowed_types(const EngineData& engine) {
  std::string text =
      engine.build_settings.substr(std::min(engine.build_settings.find(", "), engine.build_settings.size()));
  if (text.empty()) text = value_of(engine.build_options, "Precision");
  std::set<std::string> types;
  std::string type;
  for (const char c : text + "+") {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
      type += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    } else if (!type.empty()) {
      types.insert(std::exchange(type, ""));
    }
  }
  return types;
}

std::optional<int> optimization_level(const EngineData& engine) {
  constexpr std::string_view kWord = "level ";
  const auto& text = engine.build_settings;
  if (!text.starts_with(kWord) || text.size() <= kWord.size()) return {};
  const char digit = text[kWord.size()];
  return digit >= '0' && digit <= '9' ? std::optional(digit - '0') : std::nullopt;
}

std::string build_command(const EngineData& engine, const std::string& flags) {
  if (flags == "--builderOptimizationLevel=5" && optimization_level(engine).value_or(0) >= 5) return "";
  return fmt::format("trtexec {}{}{} {} --saveEngine=new.engine", word("--onnx=" + model_of(engine)),
                     build_shapes(engine), type_flags(engine, flags), flags);
}

std::string run_command(const EngineData& engine, const std::string& flags) {
  return fmt::format("trtexec {}{} {}", word("--loadEngine=" + engine_of(engine)), run_shapes(engine), flags);
}

std::string diff_command(const EngineData& engine) {
  return fmt::format("lathe diff {} {}{}", word(model_of(engine)), word(engine_of(engine)),
                     run_shapes(engine));
}

std::string retune_command(const EngineData& engine) {
  return fmt::format("lathe retune {} -o new.engine", word(engine_of(engine)));
}

}  // namespace lathe::explorer
