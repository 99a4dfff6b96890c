// SPDX-License-Identifier: Apache-2.0
//
// Every tactic that is offered for the layers of bench/problems runs on the CPUs that tests/devices/
// describes, whatever this one is. oneDNN's are left out: the library lists what it has for the CPU that it
// runs on.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "backend/cpu/device/machine.h"
#include "base/error.h"
#include "base/file.h"
#include "bench/problem.h"
#include "ir/edit.h"
#include "ir/text.h"

namespace lathe::cpu {
namespace {

Machine described(const std::string& name) {
  const std::string path = "tests/devices/" + name + ".json";
  return make_machine(cpu_info_from_json(read_file(path), path), std::nullopt, 8);
}

// The layers of the recipes, and those that vary them, each in its other types, too.
const std::vector<bench::Problem>& problems() {
  static const std::vector<bench::Problem> all = [] {
    std::vector<bench::Problem> read;
    for (const char* list : {"recipes.txt", "kernels_cpu.txt"}) {
      std::ifstream file(std::string("bench/problems/") + list);
      for (std::string line; std::getline(file, line);) {
        std::istringstream words(line.substr(0, line.find('#')));
        for (std::string word; words >> word;) {
          read.push_back(bench::parse_problem(word));
          GraphEditor(read.back().graph).set_allowed_types(read.back().node, {DType::BFloat16});
        }
      }
    }
    return read;
  }();
  return all;
}

// What the instructions in a name stand for. The longest that a name contains counts: "amx_fp16" has no
// vector arithmetic to it.
CpuFeatures needed_for(const std::string& name) {
  using enum CpuFeature;
  if (name.find("amx_fp16") != std::string::npos) return {Avx2, Avx512, Bf16, AmxBf16, Fp16};
  if (name.find("amx_bf16") != std::string::npos) return {Avx2, Avx512, Bf16, AmxBf16};
  if (name.find("avx512_bf16") != std::string::npos) return {Avx2, Avx512, Bf16};
  if (name.find("avx512") != std::string::npos) return {Avx2, Avx512};
  return {Avx2};
}

std::set<std::string> offered_on(const Machine& machine) {
  std::set<std::string> names;
  const SymbolRanges ranges;
  for (const bench::Problem& problem : problems())
    for (const TacticFamily& family : tactic_families()) {
      if (family.runner.starts_with("Onednn")) continue;
      std::map<std::string, std::string> name_of, params_of;
      for (const Tactic& t : family.list({problem.graph, problem.node, ranges}, machine)) {
        if (!t.support.ok) continue;
        names.insert(t.name);
        const CpuFeatures needed = needed_for(t.name);
        EXPECT_EQ(needed & machine.features, needed) << problem.text << ": " << t.name;
        EXPECT_EQ(t.params.get("amx", 0) != 0, t.name.find("amx") != std::string::npos) << t.name;
        std::string types, params;
        for (const auto* list : {&t.inputs, &t.outputs})
          for (const TensorType& type : *list) types += " " + to_string(type);
        for (const auto& [name, value] : t.params.entries())
          params += " " + name + "=" + std::to_string(value);
        EXPECT_TRUE(name_of.emplace(types + params, t.name).second) << t.name << params << " is listed twice";
        EXPECT_TRUE(params_of.emplace(types + " " + t.name, params).second)
            << t.name << " has also other parameters";
      }
    }
  return names;
}

TEST(DescribedCpus, EveryTacticHasItsInstructions) {
  const auto avx2 = offered_on(described("avx2_zen3")), avx512 = offered_on(described("avx512_cascade_lake")),
             zen4 = offered_on(described("zen4")), zen5 = offered_on(described("zen5")),
             amx = offered_on(described("amx_sapphire_rapids"));
  EXPECT_TRUE(avx2.contains("gemm_f32_avx2"));
  EXPECT_TRUE(avx512.contains("winograd_4x3_avx512"));
  EXPECT_TRUE(zen4.contains("tile_matmul_avx512_bf16"));
  EXPECT_EQ(zen4, zen5);
  EXPECT_TRUE(amx.contains("tile_matmul_amx_bf16_rows"));
  EXPECT_TRUE(amx.contains("depthwise_block_amx_fp16_by_rows"));
  EXPECT_LT(avx2.size(), avx512.size());
  EXPECT_LT(avx512.size(), zen4.size());
  EXPECT_LT(zen4.size(), amx.size());
}

// The tactic that level 0 takes, or nothing where no family expects a time and the order of the list stands.
std::string least_expected(const std::string& text, const Machine& machine) {
  const bench::Problem problem = bench::parse_problem(text);
  const SymbolRanges ranges;
  std::optional<Tactic> least;
  for (const TacticFamily& family : tactic_families())
    for (const Tactic& t : family.list({problem.graph, problem.node, ranges}, machine)) {
      if (!t.support.ok || t.last_resort) continue;
      EXPECT_EQ(t.expected_us > 0, !machine.has(CpuFeature::Avx512)) << t.name << ": all say it, or none";
      if (t.expected_us > 0 && (!least || t.expected_us < least->expected_us)) least = t;
    }
  return least ? least->name : "";
}

TEST(DescribedCpus, ProductsAreExpectedWhereTheyWereMeasured) {
  const Machine machine = described("avx2_zen3");
  for (const char* many : {"matmul:m128n3072k768,gelu", "matmul:m16n3072k768", "matmul:m197n768k3072,add"})
    EXPECT_EQ(least_expected(many, machine), "gemm_f32_avx2") << many;
  EXPECT_TRUE(least_expected("matmul:m1n3072k768", machine).starts_with("onednn_matmul"));
  EXPECT_EQ(least_expected("matmul:m128n3072k768,gelu", described("zen5")), "");
}

TEST(DescribedCpus, TilesWithoutFp16OfferNoBlocksInFp16) {
  Machine machine = described("amx_sapphire_rapids");
  machine.features = CpuFeatures{CpuFeature::Avx2, CpuFeature::Avx512, CpuFeature::Bf16, CpuFeature::AmxBf16};
  const auto names = offered_on(machine);
  EXPECT_TRUE(names.contains("depthwise_block_amx_bf16_by_rows"));
  EXPECT_FALSE(names.contains("depthwise_block_amx_fp16_by_rows"));
}

TEST(DescribedCpus, AProductWithAVectorIsNoMatrixProduct) {
  const Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[n, 64]
  const %w: float32[64] = splat 0.5
  %y: float32[n] = MatMul "product" (%x, %w)
  output %y
})");
  const SymbolRanges ranges = {{"n", {1, 4, 8}}};
  for (const char* cpu : {"avx2_zen3", "avx512_cascade_lake", "zen4", "zen5", "amx_sapphire_rapids"}) {
    const Machine machine = described(cpu);
    for (const TacticFamily& family : tactic_families()) {
      if (family.runner.starts_with("Onednn")) continue;
      for (const Tactic& t : family.list({graph, graph.order()[0], ranges}, machine)) {
        if (!t.name.starts_with("tile_matmul")) continue;
        EXPECT_FALSE(t.support.ok) << cpu << ": " << t.name;
        const char* why = machine.has(CpuFeature::Bf16) ? "an operand is a vector" : "";
        EXPECT_NE(t.support.reason.find(why), std::string::npos)
            << cpu << ": " << t.name << ": " << t.support.reason;
      }
    }
  }
}

TEST(DescribedCpus, AFileThatIsNoneIsAnError) {
  const auto error_of = [](std::string_view text) -> std::string {
    try {
      cpu_info_from_json(text, "cpu.json");
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(error_of(R"({"vendor": "x"})").find("cpu.json: not the description of a CPU: "),
            std::string::npos);
  std::string text = read_file("tests/devices/zen4.json");
  text.replace(text.find("avx512_vnni"), 6, "sse");
  EXPECT_EQ(error_of(text), "cpu.json: unknown feature 'sse_vnni' of a CPU");
}

}  // namespace
}  // namespace lathe::cpu
