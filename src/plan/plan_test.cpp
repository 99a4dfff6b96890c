// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>

#include "backend/fake_backend.h"
#include "base/error_check.h"
#include "base/file.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "memory/memory_plan.h"
#include "plan/container.h"

namespace lathe {
namespace {

constexpr const char* kModel = R"(graph "model" {
  input %x: float32[n, 1, 2, 2]
  const %w: float32[1, 1, 1, 1] = [2]
  %a: float32[n, 1, 2, 2] = Conv "conv" (%x, %w) {kernel=[1, 1], strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]}
  %b: float32[n, 1, 2, 2] = Pointwise "relu" (%a) {code=Relu}
  %c: float32[n, 4] = Reshape "flat" (%b) {shape=[n, 4]}
  %d: float32[n, 4] = Softmax "last" (%c)
  output %d
})";

// A section made by hand from first tactics, without tuner.
std::shared_ptr<Plan> make_plan(const std::string& key = "fake 1", const std::string& text = kModel) {
  FakeBackend backend(key);
  auto graph = std::make_shared<Graph>(parse_graph(text));
  auto plan = std::make_shared<Plan>();
  plan->model = {.name = "model", .producer = "test \"quoted\"", .ir_version = 8, .opset_version = 17};
  plan->inputs = input_infos(*graph);
  plan->outputs = output_infos(*graph);
  plan->profiles = {{.shapes = {{"x", {{1, 1, 2, 2}, {2, 1, 2, 2}, {8, 1, 2, 2}}}}, .values = {}}};
  plan->verbosity = ProfilingVerbosity::Detailed;
  plan->fast_load = true;
  plan->set_portable_graph(graph);

  PlanVariant variant{.graph = graph, .ranges = symbol_ranges(plan->inputs, plan->profiles[0])};
  for (const NodeId id : graph->order())
    variant.choices.push_back({backend.tactics({*graph, id, variant.ranges})[0], 0.125});
  variant.memory = plan_memory(*graph, variant.choices, variant.ranges);
  variant.blobs = std::make_shared<PackedBlocks>();
  variant.tuning = "{\"what\": \"the tuner tried\"}";
  backend.compile({graph, variant.choices, variant.memory, variant.ranges, variant.blobs});
  plan->set_section(std::make_shared<PlanSection>(
      PlanSection{.target = backend.target(), .settings = "by hand", .timed = true, .variants = {variant}}));
  return plan;
}

void use_all(const Plan& plan) {
  plan.portable_graph();
  for (size_t i = 0; i < plan.section_count(); ++i) plan.section(i);
}

TEST(Plan, ReadsBackWhatWasWritten) {
  const auto plan = make_plan();
  const auto bytes = plan->to_bytes();
  const auto read = Plan::from_bytes(bytes, "test.engine");
  EXPECT_EQ(read->model.producer, plan->model.producer);
  EXPECT_EQ(read->model.opset_version, 17);
  EXPECT_EQ(read->profiles, plan->profiles);
  EXPECT_EQ(read->inputs[0].shape, plan->inputs[0].shape);
  EXPECT_EQ(read->verbosity, ProfilingVerbosity::Detailed);
  EXPECT_EQ(read->file_bytes(), bytes.size());
  EXPECT_EQ(to_text(*read->portable_graph()), to_text(*plan->portable_graph()));
  const PlanVariant& a = plan->section(0)->variants[0];
  const PlanVariant& b = read->section(0)->variants[0];
  EXPECT_EQ(to_text(*a.graph), to_text(*b.graph));
  EXPECT_EQ(a.ranges, b.ranges);
  EXPECT_EQ(a.memory.arena_bytes, b.memory.arena_bytes);
  EXPECT_EQ(b.tuning, "{\"what\": \"the tuner tried\"}");
  ASSERT_EQ(a.choices.size(), b.choices.size());
  EXPECT_FALSE(a.choices[0].tactic.params.empty());
  for (size_t i = 0; i < a.choices.size(); ++i) {
    EXPECT_EQ(a.choices[i].tactic.name, b.choices[i].tactic.name);
    EXPECT_EQ(a.choices[i].tactic.id, b.choices[i].tactic.id);
    EXPECT_EQ(a.choices[i].tactic.params, b.choices[i].tactic.params);
    EXPECT_TRUE(a.choices[i].tactic.same_types(b.choices[i].tactic));
    EXPECT_EQ(a.choices[i].tactic.is_view, b.choices[i].tactic.is_view);
    EXPECT_EQ(a.choices[i].tactic.in_place_inputs, b.choices[i].tactic.in_place_inputs);
    EXPECT_EQ(a.choices[i].time_ms, b.choices[i].time_ms);
  }
  ASSERT_EQ(a.blobs->entries().size(), 1u);
  EXPECT_TRUE(std::ranges::equal(a.blobs->find("conv/w"), b.blobs->find("conv/w")));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.blobs->find("conv/w").data()) % 16, 0u);
  EXPECT_EQ(read->to_bytes(), bytes);
}

// The graph has a constant behind a node, as rewrites leave it; its text has constants first.
TEST(Plan, WhatWasReadIsWrittenAsItWas) {
  const auto bytes = make_plan("fake 1", R"(graph "model" {
  input %x: float32[n, 1, 2, 2]
  const %w: float32[1, 1, 1, 1] = [2]
  %a: float32[n, 1, 2, 2] = Conv "conv" (%x, %w) {kernel=[1, 1]}
  const %y: float32[1] = [3]
  %b: float32[n, 1, 2, 2] = Pointwise "add" (%a, %y) {code=Add}
  output %b
})")->to_bytes();
  EXPECT_EQ(Plan::from_bytes(bytes, "test.engine")->to_bytes(), bytes);
}

TEST(Plan, OptionalInputsMayBeAbsent) {
  const auto plan = make_plan("fake 1", R"(graph "model" {
  input %x: float32[n, 1, 2, 2]
  const %w: float32[1, 1, 1, 1] = [2]
  %a: float32[n, 1, 2, 2] = Conv "conv" (%x, %w, _, %x) {kernel=[1, 1]} epilogue 2 {Add(0,1)}
  output %a
})");
  use_all(*Plan::from_bytes(plan->to_bytes(), "test.engine"));
}

TEST(Plan, SameContentSameBytes) {
  EXPECT_EQ(make_plan()->to_bytes(), make_plan()->to_bytes());
}

TEST(Plan, SectionsPerTarget) {
  const auto plan = make_plan("fake 1")->clone();
  plan->set_section(make_plan("fake 2")->section(0));
  const auto read = Plan::from_bytes(plan->to_bytes(), "two.engine");
  EXPECT_EQ(read->section_count(), 2u);
  EXPECT_EQ(read->find_section(FakeBackend("fake 2").target()).section, 1);
  const auto fit = read->find_section(FakeBackend("other").target());
  EXPECT_EQ(fit.section, -1);
  EXPECT_EQ(fit.reason,
            "the engine was made for a fake device [fake 1]; a fake device [fake 2], this is a fake device "
            "[other]");
  plan->set_section(make_plan("fake 2")->section(0));
  EXPECT_EQ(plan->section_count(), 2u);
}

// A packed constant is in its block, not also as a constant.
TEST(Plan, PackedConstantsAreNotStoredTwice) {
  Graph graph;
  GraphEditor editor(graph);
  const ValueId x = editor.add_input("x", DType::Float32, {Dim::symbol("n"), 1, 2, 2});
  const ValueId w = editor.add_constant("w", Tensor::allocate(DType::Float32, {20000, 1, 1, 1}));
  const Shape result = {Dim::symbol("n"), 20000, 2, 2};
  const NodeId conv =
      editor.add_node("conv", Conv{}, {x, w}, {{.name = "y", .dtype = DType::Float32, .shape = result}}, {});
  editor.mark_output(graph.node(conv).outputs[0]);
  std::vector<Tensor> tensors;
  const std::string text = to_text(graph, {.inline_constants = true});
  const auto read = Plan::from_bytes(make_plan("fake 1", text)->to_bytes(), "test.engine");
  const Graph& final_graph = *read->section(0)->variants[0].graph;
  EXPECT_FALSE(final_graph.value(*final_graph.find_value("w")).constant.has_bytes());
  EXPECT_TRUE(read->portable_graph()->value(*read->portable_graph()->find_value("w")).constant.has_bytes());
  EXPECT_LT(read->file_bytes(), size_t{1} << 20);
  EXPECT_THROW(final_graph.value(*final_graph.find_value("w")).constant.data<float>(), Error);
}

TEST(Plan, ForeignFilesAreRefused) {
  const auto read = [](std::string text) {
    std::vector<std::byte> bytes(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    return error_of([&] { Plan::from_bytes(bytes, "a.engine"); });
  };
  EXPECT_EQ(read(""), "engine file 'a.engine' is empty");
  EXPECT_EQ(read("ftrt\1\2\3\4\5\6"),
            "engine file 'a.engine' is not an engine of Lathe (an engine of another program, or a model?)");
  EXPECT_EQ(read("LATHEPLN"), "engine file 'a.engine' is truncated: it has 8 bytes");
}

TEST(Plan, NewerFilesAreRefused) {
  auto bytes = make_plan()->to_bytes();
  bytes[8] = std::byte{kEngineFormat + 1};
  EXPECT_EQ(error_of([&] { Plan::from_bytes(bytes, "a.engine"); }),
            "engine file 'a.engine' was written by a newer Lathe (format 3, this build reads up to 2); build "
            "it again "
            "from its model, or use the newer Lathe");
}

TEST(Plan, EveryDamageIsOneInputError) {
  const auto good = make_plan()->to_bytes();
  std::mt19937 random(5);
  const auto expect_error = [&](std::vector<std::byte> bytes, const std::string& what) {
    try {
      use_all(*Plan::from_bytes(std::move(bytes), "a.engine"));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
      return;
    }
    ADD_FAILURE() << what << " was not noticed";
  };
  int harmless = 0;
  for (int i = 0; i < 3000; ++i) {
    auto bytes = good;
    const size_t at = random() % bytes.size();
    bytes[at] ^= std::byte(1 << random() % 8);
    // Padding between sections is not covered by a hash, and carries no meaning.
    if (good[at] == std::byte{0}) {
      try {
        use_all(*Plan::from_bytes(bytes, "a.engine"));
        ++harmless;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
      }
    } else {
      expect_error(std::move(bytes), "a flipped bit at " + std::to_string(at));
    }
  }
  EXPECT_LT(harmless, 600);
  for (size_t size = 0; size < good.size(); size += 1 + random() % 64)
    expect_error({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, "truncation");
  auto longer = good;
  longer.resize(good.size() + 100);
  expect_error(longer, "extension");
}

// Right hashes, wrong content: what a malicious writer could make.
TEST(Plan, ContentThatDoesNotFitIsRefused) {
  const auto section_with = [&](const std::function<void(PlanVariant&)>& change) {
    auto section = std::make_shared<PlanSection>(*make_plan()->section(0));
    change(section->variants[0]);
    auto plan = make_plan();
    plan->set_section(section);
    const auto bytes = plan->to_bytes();
    return error_of([&] { use_all(*Plan::from_bytes(bytes, "a.engine")); });
  };
  const auto place = [](PlanVariant& v, const char* name) -> Placement& {
    return v.memory.placements[static_cast<size_t>(*v.graph->find_value(name))];
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with("engine file 'a.engine' is damaged: ")) << text;
  };
  has(section_with([](PlanVariant& v) { v.choices.pop_back(); }), "another number of choices");
  has(section_with([](PlanVariant& v) { v.choices[1].tactic.outputs[0].format = kBlocked8; }),
      "another type for 'b'");
  has(section_with([](PlanVariant& v) { v.choices[1].tactic.in_place_inputs = {7}; }), "in-place input");
  has(section_with([](PlanVariant& v) { v.memory.arena_bytes = 16; }), "outside the arena");
  has(section_with([](PlanVariant& v) { v.memory.arena_bytes = int64_t{1} << 60; }), "absurd size");
  has(section_with([&](PlanVariant& v) { place(v, "a") = {}; }), "'a' has no place in the arena");
  has(section_with([&](PlanVariant& v) { place(v, "x").binding = 1; }), "wrong binding");
  has(section_with([&](PlanVariant& v) { place(v, "d").binding = 9; }), "'d' has a wrong binding");
  has(section_with([&](PlanVariant& v) { place(v, "c").view_offset = 4096; }),
      "'c' lies elsewhere in 'a' than its layer says");
  has(section_with([](PlanVariant& v) { v.ranges["n"] = {5, 2, 8}; }), "out of order");
  has(section_with([](PlanVariant& v) { v.ranges.clear(); }), "'x' has the unknown symbol 'n'");
  has(section_with([](PlanVariant& v) {
        v.ranges["n"].max = 9;
        v.memory.arena_bytes = 1024;
      }),
      "");
  has(section_with([&](PlanVariant& v) { place(v, "a") = {.kind = Placement::Kind::Binding, .binding = 0}; }),
      "'a' has no place in the arena");
  has(section_with([&](PlanVariant& v) {
        place(v, "a") = {.kind = Placement::Kind::View, .base = *v.graph->find_value("w")};
      }),
      "'a' has no place in the arena");
  has(section_with([](PlanVariant& v) { v.choices[0].tactic.is_view = true; }),
      "layer 'conv' cannot be a view");
  has(section_with([](PlanVariant& v) { v.choices[2].tactic.is_view = false; }),
      "'c' has no place in the arena");
  has(section_with([](PlanVariant& v) { v.choices[0].tactic.inputs[1] = {DType::Float32, kLinear}; }), "'w'");
  has(section_with([](PlanVariant& v) { v.choices[0].tactic.params.set(std::string(33, 'p'), 1); }),
      "parameter '" + std::string(32, 'p') + "' of a tactic is no whole number");
  has(section_with([](PlanVariant& v) {
        for (int i = 0; i < 200; ++i) v.choices[0].tactic.params.set(std::to_string(i), 1);
      }),
      "the parameters of a tactic are not 128 numbers at most");
  has(section_with([](PlanVariant& v) { v.split = {"n", 100}; }), "its batch is split in parts");

  has(section_with([](PlanVariant& v) { v.memory.slots = 1; }), "an absurd number of slots");
  has(section_with([&](PlanVariant& v) { place(v, "a") = {.kind = Placement::Kind::Grown, .slot = 0}; }),
      "'a' has no place in the arena");

  const auto manifest_with = [&](const std::function<void(Plan&)>& change) {
    auto plan = make_plan();
    change(*plan);
    const auto bytes = plan->to_bytes();
    return error_of([&] { use_all(*Plan::from_bytes(bytes, "a.engine")); });
  };
  has(manifest_with([](Plan& p) { p.profiles.clear(); }), "no optimization profile");
  has(manifest_with([](Plan& p) { p.profiles[0].shapes.clear(); }), "does not say what 'n' is");
  has(manifest_with([](Plan& p) { p.inputs[0].dtype = DType::Int32; }), "another type or shape for 'x'");
  has(manifest_with([](Plan& p) { p.outputs.clear(); }), "outputs, the model has 0");
  has(manifest_with([](Plan& p) { p.outputs[0].name = "x"; }), "calls 'd' what the model calls 'x'");
  const Dim n = Dim::symbol("n");
  has(manifest_with([&](Plan& p) { p.inputs[0].shape[1] = 2; }), "damaged");
  has(manifest_with([&](Plan& p) { p.outputs[0].shape[0] = min(n, Dim(7)); }),
      "another type or shape for 'd'");
}

TEST(Plan, SavingKeepsTheOldFileOnFailure) {
  const auto path =
      std::filesystem::temp_directory_path() / ("lathe_plan_test_" + std::to_string(::getpid()) + ".engine");
  make_plan()->write(path);
  const std::string before = read_file(path);
  EXPECT_THROW(make_plan()->write("/nowhere/at/all.engine"), Error);
  use_all(*Plan::read(path));
  EXPECT_EQ(read_file(path), before);
  std::filesystem::remove(path);
  EXPECT_NE(std::string([&] {
              try {
                Plan::read(path);
              } catch (const Error& e) {
                return std::string(e.what());
              }
              return std::string();
            }())
                .find(path.string()),
            std::string::npos);
}

}  // namespace
}  // namespace lathe
