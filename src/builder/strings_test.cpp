// SPDX-License-Identifier: Apache-2.0
//
// Strings through the whole way: a model, its profile, an engine, its file and back, and a run.
#include <gtest/gtest.h>

#include "base/error_check.h"
#include "builder/builder.h"
#include "ir/strings.h"
#include "onnx/test_model.h"
#include "runtime/context.h"

namespace lathe {
namespace {

using onnx::TestModel;

Network strings_network(Builder& builder) {
  TestModel m(20);
  m.input("x", 8 /* string */, {"n"}).strings("end", {"-a-b"}).output("parts").output("count").output("same");
  m.node("StringConcat", {"x", "end"}, {"y"});
  m.node("StringSplit", {"y"}, {"parts", "count"}, {TestModel::text_attribute("delimiter", "-")});
  m.node("RegexFullMatch", {"x"}, {"same"}, {TestModel::text_attribute("pattern", "w+")});
  const std::string bytes = m.bytes();
  return builder.parse_onnx(onnx::as_bytes(bytes));
}

std::vector<std::string> texts_of(const Tensor& tensor) {
  const Strings strings(tensor);
  std::vector<std::string> all;
  for (int64_t i = 0; i < strings.count(); ++i) all.emplace_back(strings[i]);
  return all;
}

TEST(StringsInEngines, AreBuiltSavedAndRun) {
  NullObserver observer;
  const std::shared_ptr<const Backend> backend = open_backend({.threads = 1});
  Builder builder(backend, observer);
  const Network network = strings_network(builder);
  ASSERT_EQ(network.inputs().size(), 1U);
  EXPECT_TRUE(network.inputs()[0].is_string);
  BuildOptions options{.optimization_level = 0};
  OptimizationProfile profile;
  profile.shapes["x"] = {{1, 1}, {2, 8}, {4, 16}};
  options.profiles = {profile};
  const auto built = builder.build(network, options);
  const auto engine = Engine::load(Plan::from_bytes(built->plan()->to_bytes(), "strings.engine"), backend);
  EXPECT_TRUE(engine->inputs()[0].is_string);
  EXPECT_TRUE(engine->outputs()[0].is_string);
  EXPECT_FALSE(engine->outputs()[1].is_string);
  const std::vector<std::string_view> texts = {"www", "other"};
  const auto context = engine->create_context();
  for (int again = 0; again < 2; ++again) {
    const std::vector<Tensor> outputs = context->run(std::vector{strings_tensor({2}, texts)});
    EXPECT_EQ(texts_of(outputs[0]), (std::vector<std::string>{"www", "a", "b", "other", "a", "b"}));
    EXPECT_EQ(outputs[1].to_int64s(), (std::vector<int64_t>{3, 3}));
    EXPECT_EQ(outputs[2].to_doubles(), (std::vector<double>{1, 0}));
  }
  const std::vector<std::string_view> long_one = {"seventeen letters"};
  EXPECT_NE(error_of([&] { context->run(std::vector{strings_tensor({1}, long_one)}); }).find("17"),
            std::string::npos);
}

TEST(StringsInEngines, HaveARangeOfBytesWhereNothingIsSaid) {
  NullObserver observer;
  Builder builder(open_backend({.threads = 1}), observer);
  const OptimizationProfile complete = complete_profile(strings_network(builder).inputs(), {});
  EXPECT_EQ(complete.shapes.at("x"), (ShapeRange{{1, 1}, {1, 32}, {1, 256}}));
}

}  // namespace
}  // namespace lathe
