// SPDX-License-Identifier: Apache-2.0

#include "reference/random_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/text.h"
#include "ops/build.h"
#include "ops/interpreter.h"
#include "reference/random_input.h"

namespace lathe {
namespace {

TEST(RandomGraph, IsValidFiniteAndReadsBackFromText) {
  std::set<std::string_view> kinds;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = random_graph(seed);
    verify_graph(graph);
    ASSERT_FALSE(graph.outputs().empty()) << "seed " << seed;
    for (NodeId id : graph.order()) kinds.insert(op_name(graph.node(id).op));
    const std::vector<Tensor> inputs = random_inputs(graph, {{"batch", 2}}, seed);
    for (const Tensor& output : interpret(graph, inputs)) {
      for (double value : output.to_doubles()) ASSERT_TRUE(std::isfinite(value)) << "seed " << seed;
    }
    const std::string text = to_text(graph, {.inline_constants = true});
    ASSERT_EQ(to_text(parse_graph(text), {.inline_constants = true}), text) << "seed " << seed;
  }
  EXPECT_GE(kinds.size(), 14u);  // the generator reaches all of its operators
}

TEST(RandomGraph, SameSeedSameGraph) {
  EXPECT_EQ(to_text(random_graph(7)), to_text(random_graph(7)));
  EXPECT_NE(to_text(random_graph(7)), to_text(random_graph(8)));
}

TEST(RandomGraph, BatchesAreIndependent) {
  // The first item of a batch of three is what it is alone.
  for (uint64_t seed = 100; seed < 110; ++seed) {
    const Graph graph = random_graph(seed);
    const std::vector<Tensor> three = random_inputs(graph, {{"batch", 3}}, seed);
    std::vector<Tensor> one;
    for (const Tensor& tensor : three) {
      Extents extents = tensor.extents();
      extents[0] = 1;
      const auto data = tensor.data<float>();
      one.push_back(Tensor::from<float>(extents, {data.begin(), data.begin() + element_count(extents)}));
    }
    const auto all = interpret(graph, three), first = interpret(graph, one);
    for (size_t i = 0; i < all.size(); ++i) {
      for (int64_t j = 0; j < first[i].size(); ++j) {
        ASSERT_EQ(all[i].data<float>()[j], first[i].data<float>()[j]) << "seed " << seed;
      }
    }
  }
}

TEST(RandomGraph, AgreementIsRelativeOrAbsolute) {
  const Tensor big = Tensor::from<float>({2}, {1000, 2000}),
               near = Tensor::from<float>({2}, {1000.01f, 2000});
  EXPECT_TRUE(agrees(near, big));
  EXPECT_FALSE(agrees(Tensor::from<float>({2}, {1001, 2000}), big));
  EXPECT_TRUE(agrees(Tensor::from<float>({1}, {5e-5f}), Tensor::from<float>({1}, {0})));
  EXPECT_FALSE(agrees(Tensor::from<float>({1}, {std::nanf("")}), Tensor::from<float>({1}, {0})));
}

}  // namespace
}  // namespace lathe
