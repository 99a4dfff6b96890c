// SPDX-License-Identifier: Apache-2.0
#include "ir/plugin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/error_check.h"
#include "ir/edit.h"
#include "ir/graph.h"
#include "ir/text.h"

namespace lathe {
namespace {

Tensor bytes_of(std::string_view text) {
  Tensor tensor = Tensor::allocate(DType::UInt8, {static_cast<int64_t>(text.size())});
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(tensor.mutable_bytes().data()));
  return tensor;
}

TEST(PluginFields, ComeBackAsTheyWere) {
  const std::vector<PluginField> fields = {
      {"alpha", Tensor::scalar_f32(0.1F)},
      {"huge", Tensor::scalar_i64(std::numeric_limits<int64_t>::max())},
      {"infinite", Tensor::scalar_f32(-INFINITY)},
      {"list", Tensor::from<int64_t>({3}, {1, -2, 3})},
      {"matrix", Tensor::from<float>({100, 1}, std::vector<float>(100, 1.5F))},
      {"mode", bytes_of("nearest \"one\""), true},
      {"raw", bytes_of("\xff\x01"), true}};
  const std::string text = plugin_fields_text(fields);
  const std::vector<PluginField> again = plugin_fields_from(text);
  ASSERT_EQ(again.size(), fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    EXPECT_EQ(again[i].name, fields[i].name);
    EXPECT_EQ(again[i].is_text, fields[i].is_text);
    EXPECT_EQ(again[i].value.dtype(), fields[i].value.dtype());
    EXPECT_EQ(again[i].value.extents(), fields[i].value.extents());
    EXPECT_TRUE(std::ranges::equal(again[i].value.bytes(), fields[i].value.bytes())) << fields[i].name;
  }
  EXPECT_EQ(plugin_fields_text(again), text);
  EXPECT_EQ(plugin_fields_text({}), "");
  EXPECT_TRUE(plugin_fields_from("").empty());
}

TEST(PluginFields, DamagedOnesAreRefused) {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"[1]", "no JSON object"},
           {"{\"a\": 3}", "cannot be read"},
           {"{\"a\": {\"type\": \"float99\", \"dims\": []}}", "unknown type"},
           {"{\"a\": {\"type\": \"float32\", \"dims\": [2], \"values\": [1]}}", "another number of values"},
           {"{\"a\": {\"type\": \"float32\", \"dims\": [1], \"bytes\": \"00\"}}", "another number of bytes"},
           {"{\"a\": {\"type\": \"float32\", \"dims\": [-1], \"bytes\": \"\"}}", "too many elements"},
           {"{\"a\": {\"text\": \"0g\"}}", "not hexadecimal"}})
    EXPECT_NE(error_of([&] { plugin_fields_from(text); }).find(part), std::string::npos) << text;
}

TEST(Plugins, KeepTheirTextAndMissTheirCode) {
  const std::string text =
      "graph \"g\" {\n  input %x: float32[n]\n  %y: float32[n] = Plugin \"swish\" (%x) {plugin=\"Swish\", "
      "version=\"1\", "
      "fields=\"{\\\"beta\\\":1}\"}\n  output %y\n}\n";
  Graph graph = parse_graph(text);
  const auto& op = std::get<Plugin>(graph.node(graph.order()[0]).op);
  EXPECT_EQ(op.identity(), (PluginIdentity{"Swish", "1", ""}));
  EXPECT_EQ(op.fields, "{\"beta\":1}");
  EXPECT_EQ(to_text(parse_graph(to_text(graph))), to_text(graph));
  EXPECT_NE(error_of([&] { bind_plugins(graph, nullptr); }).find("the plugin 'Swish' version 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { bind_plugins(graph, nullptr, "ask its maker"); }).find("ask its maker"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe
