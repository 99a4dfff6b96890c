// SPDX-License-Identifier: Apache-2.0
//
// All tactics of a few layers at every instruction set that this machine has. oneDNN takes one level per
// process, so each level runs in a process of its own (a death test that exits with 0).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "backend/cpu/check/tactic_check.h"
#include "backend/cpu/device/machine.h"
#include "base/error.h"
#include "ir/edit.h"
#include "ops/build.h"

namespace lathe::cpu {
namespace {

Tensor wave(const Extents& extents) {
  std::vector<float> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 0.05f * static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  return Tensor::from<float>(extents, values);
}

int failures_at(const std::string& isa, Op op, const Shape& x, const std::vector<Extents>& constants,
                const std::string& epilogue) {
  Graph graph;
  GraphEditor editor(graph);
  std::vector<ValueId> inputs = {editor.add_input("x", DType::Float32, x)};
  for (const Extents& extents : constants) inputs.push_back(editor.add_constant("c", wave(extents)));
  const ValueId y = append_node(editor, "layer", std::move(op), inputs, {})[0];
  const NodeId node = graph.value(y).producer;
  if (!epilogue.empty()) editor.set_epilogue(node, PointwiseProgram::parse(epilogue, 1), {});
  editor.set_allowed_types(node, {DType::BFloat16});
  const auto result = check_tactics(graph, node, {.isa_cap = isa});
  for (const std::string& failure : result.failures)
    std::fprintf(stderr, "%s: %s\n", isa.c_str(), failure.c_str());
  return static_cast<int>(result.failures.size()) + (result.ran.empty() ? 1 : 0);
}

int failures_at(const std::string& isa) {
  const Conv padded{.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  Conv depthwise = padded;
  depthwise.groups = 40;
  const DepthwiseBlock block{.kernel = {3, 3}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
  return failures_at(isa, padded, {1, 32, 14, 14}, {{48, 32, 3, 3}, {48}}, "Relu(0)") +
         failures_at(isa, padded, {2, 20, 9, 9}, {{13, 20, 3, 3}, {13}}, "HardSwish(0)") +
         failures_at(isa, depthwise, {1, 40, 14, 14}, {{40, 1, 3, 3}, {40}}, "Clip[0,6](0)") +
         failures_at(isa, block, {1, 16, 14, 14},
                     {{40, 16, 1, 1}, {40}, {40, 1, 3, 3}, {40}, {24, 40, 1, 1}, {24}}, "Relu(0)") +
         failures_at(isa, MatMul{}, {3, 40, 64}, {{64, 200}}, "GeluErf(0)") +
         failures_at(isa, MatMul{}, {1, 64}, {{64, 300}}, "") +
         failures_at(isa, MatMul{}, {70, 96}, {{96, 128}}, "GeluErf(0)") +
         failures_at(isa, Pool{.kind = PoolKind::Max, .kernel = {3, 3}, .strides = {2, 2}}, {1, 40, 20, 20},
                     {}, "") +
         failures_at(isa, Softmax{}, {4, 50}, {}, "") + failures_at(isa, LayerNorm{}, {4, 50}, {}, "");
}

class EveryIsa : public testing::TestWithParam<std::string> {};

TEST_P(EveryIsa, AllTacticsAreRight) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process, in which nobody used oneDNN yet
  const std::string isa = GetParam();
  EXPECT_EXIT(std::_Exit(std::min(failures_at(isa), 100)), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryIsa, testing::Values("avx2", "avx512", "avx512_bf16", "amx"),
                         [](const auto& info) { return info.param; });

TEST(Machine, CapTakesFeaturesAwayButNeverAddsOne) {
  using enum CpuFeature;
  const CpuInfo info{.features = {Avx2, Avx512, Vnni, Bf16}};
  EXPECT_EQ(make_machine(info, {}, 2).isa(), Isa::Avx512Bf16);
  EXPECT_EQ(make_machine(info, Isa::Avx2, 2).features, CpuFeatures{Avx2});
  EXPECT_FALSE(make_machine(info, Isa::Avx512, 2).has(Bf16));
  EXPECT_TRUE(make_machine(info, Isa::Avx512, 2).has(Vnni));
  EXPECT_EQ(make_machine(info, Isa::Amx, 2).features, info.features);
}

// Neither needs the other: Zen 6 has FP16 and no tiles, the first CPUs with tiles have no FP16 products in
// them.
TEST(Machine, FeaturesAreNoOrder) {
  using enum CpuFeature;
  const Machine no_tiles = make_machine({.features = {Avx2, Avx512, Vnni, Bf16, Fp16}}, {}, 2);
  EXPECT_TRUE(no_tiles.has(Fp16));
  EXPECT_EQ(no_tiles.isa(), Isa::Avx512Bf16);
  EXPECT_EQ(no_tiles.amx, nullptr);
  const Machine tiles = make_machine({.features = {Avx2, Avx512, Vnni, Bf16, AmxBf16}}, {}, 2);
  EXPECT_FALSE(tiles.has(Fp16) || tiles.has(AmxFp16) || tiles.has(AmxInt8));
  EXPECT_EQ(tiles.isa(), Isa::Amx);
  EXPECT_NE(tiles.amx, nullptr);
  // Tiles of integers alone are no reason to run products of BF16 in them.
  const Machine integers = make_machine({.features = {Avx2, Avx512, Vnni, Bf16, AmxInt8}}, {}, 2);
  EXPECT_EQ(integers.amx, nullptr);
  EXPECT_EQ(integers.isa(), Isa::Avx512Bf16);
}

TEST(Machine, EveryLevelHasANumberForScripts) {
  const CpuInfo info{.features = features_within(Isa::Amx)};
  std::vector<std::string> numbers;
  for (const Isa isa : {Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Amx})
    for (const auto& [name, value] : describe_device(info, make_machine(info, isa, 1)))
      if (name == "Compute Capability") numbers.push_back(value);
  EXPECT_EQ(numbers, (std::vector<std::string>{"3.0", "4.0", "4.1", "4.2"}));
}

TEST(Machine, Zen5DividesQuickly) {
  CpuInfo info{.vendor = "AuthenticAMD", .family = 26, .features = features_within(Isa::Avx512)};
  EXPECT_TRUE(make_machine(info, {}, 2).divides_quickly);
  info.family = 25;
  EXPECT_FALSE(make_machine(info, {}, 2).divides_quickly);
  info.vendor = "GenuineIntel";
  info.family = 26;
  EXPECT_FALSE(make_machine(info, {}, 2).divides_quickly);
}

TEST(Machine, AnOldCpuGetsAClearError) {
  CpuInfo info;
  info.brand = "Some old CPU";
  try {
    make_machine(info, {}, 1);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_NE(std::string(error.what()).find("Some old CPU"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("AVX2"), std::string::npos);
  }
}

TEST(Machine, ThisOneIsDescribed) {
  const CpuInfo info = read_cpu_info();
  EXPECT_FALSE(info.vendor.empty());
  EXPECT_GT(info.l1_bytes, 0);
  const Machine machine = make_machine(info, {}, 2);
  const Machine capped = make_machine(info, Isa::Avx2, 2);
  if (machine.has(CpuFeature::Avx512)) {
    EXPECT_NE(describe_target(info, machine).key, describe_target(info, capped).key);
  }
  // The end is a hash of the kernels' sources.
  const std::string key = describe_target(info, machine).key, word = ":kernels-";
  const size_t at = key.rfind(word) + word.size();
  EXPECT_EQ(key.size() - at, 12u) << key;
  EXPECT_EQ(key.find_first_not_of("0123456789abcdef", at), std::string::npos) << key;
}

}  // namespace
}  // namespace lathe::cpu
