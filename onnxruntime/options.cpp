// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <memory>

namespace lathe::onnxruntime_ep {
namespace {

struct ReleasePairs {
  void operator()(OrtKeyValuePairs* pairs) const { ort().ReleaseKeyValuePairs(pairs); }
};

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& wanted) {
  throw v1::Error(v1::ErrorKind::Input,
                  v1::ErrorFields{.what = "'" + value + "' is no value for it",
                                  .where = "option '" + name + "' of the Lathe provider",
                                  .hint = "give it " + wanted});
}

bool read_flag(const std::string& name, const std::string& value) {
  if (value == "1" || value == "true" || value == "True") return true;
  if (value == "0" || value == "false" || value == "False") return false;
  refuse(name, value, "1 or 0");
}

int read_number(const std::string& name, const std::string& value, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number >= least && number <= most)
    return number;
  refuse(name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
}

struct Option {
  std::string_view name;
  std::function<void(Options&, const std::string& name, const std::string& value)> set;
};

// The one list of options; docs/onnxruntime.md says what they do.
const std::vector<Option>& all_options() {
  using Text = const std::string&;
  static const std::vector<Option> options = {
      {"fp16", [](Options& o, Text name, Text value) { o.build.fp16 = read_flag(name, value); }},
      {"bf16", [](Options& o, Text name, Text value) { o.build.bf16 = read_flag(name, value); }},
      {"best", [](Options& o, Text name, Text value) { o.build.best = read_flag(name, value); }},
      {"optimization_level", [](Options& o, Text name,
                                Text value) { o.build.optimization_level = read_number(name, value, 0, 5); }},
      {"threads",
       [](Options& o, Text name, Text value) { o.device.threads = read_number(name, value, 0, 4096); }},
      {"device", [](Options& o, Text, Text value) { o.device.device = value; }},
      {"timing_cache_file", [](Options& o, Text, Text value) { o.timing_cache_file = value; }},
  };
  return options;
}

void set_option(Options& options, const std::string& name, const std::string& value) {
  std::string names;
  for (const Option& option : all_options()) {
    if (option.name == name) return option.set(options, name, value);
    names += (names.empty() ? "" : ", ") + std::string(option.name);
  }
  throw v1::Error(v1::ErrorKind::Input, v1::ErrorFields{.what = "the Lathe provider has no such option",
                                                        .where = "option '" + name + "'",
                                                        .hint = "its options are " + names});
}

}  // namespace

Options read_options(const OrtSessionOptions& session, std::string_view provider) {
  // ONNX Runtime puts a provider's options among the session's, behind its name in small letters.
  std::string prefix = "ep." + std::string(provider) + ".";
  std::transform(prefix.begin(), prefix.end(), prefix.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  OrtKeyValuePairs* made = nullptr;
  check(ort().GetSessionOptionsConfigEntries(&session, &made));
  const std::unique_ptr<OrtKeyValuePairs, ReleasePairs> pairs(made);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  ort().GetKeyValuePairs(pairs.get(), &keys, &values, &count);
  Options options;
  for (size_t i = 0; i < count; ++i) {
    const std::string_view key = keys[i];
    if (key.starts_with(prefix)) set_option(options, std::string(key.substr(prefix.size())), values[i]);
  }
  return options;
}

}  // namespace lathe::onnxruntime_ep
