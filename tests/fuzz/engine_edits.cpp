// SPDX-License-Identifier: Apache-2.0
#include "engine_edits.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "builder/builder.h"
#include "builder/pipeline.h"
#include "memory/memory_plan.h"
#include "onnx/test_model.h"
#include "plan/container.h"
#include "random.h"
#include "run_engine.h"
#include "sources.h"
#include "tune/tune.h"
#ifdef LATHE_FUZZ_CUDA
#include "backend/cuda/cuda_backend.h"
#endif

namespace fuzz {
namespace {

using namespace lathe;

struct EngineFile {
  std::string name;
  std::shared_ptr<const Backend> backend;
  std::vector<std::byte> bytes;
};

// --- the engines

Network parse(Builder& builder, const Source& source) {
  return builder.parse_onnx(onnx::as_bytes(source.onnx));
}

// Symbols from 1 to 16; some engines have a second profile.
std::vector<OptimizationProfile> profiles_of(const Network& network, bool two) {
  OptimizationProfile profile;
  for (const TensorInfo& input : network.inputs()) {
    if (is_static(input.shape)) continue;
    ShapeRange range;
    for (const Dim& d : input.shape) {
      const bool fixed = d.is_constant();
      range.min.push_back(fixed ? d.value() : 1);
      range.opt.push_back(fixed ? d.value() : 4);
      range.max.push_back(fixed ? d.value() : 16);
    }
    profile.shapes[input.name] = range;
  }
  std::vector<OptimizationProfile> all = {profile};
  if (two) {
    for (auto& [name, range] : profile.shapes) range.min = range.max = range.opt;
    all.push_back(profile);
  }
  return all;
}

void add_cpu_engines(const std::vector<Source>& models, std::vector<EngineFile>& files) {
  static NullObserver quiet;
  const auto backend = open_backend({.threads = 2});
  Builder builder(backend, quiet);
  for (size_t i = 0; i < models.size(); ++i) {
    const Network network = parse(builder, models[i]);
    BuildOptions options{.profiles = profiles_of(network, i % 4 == 3), .optimization_level = 0};
    const auto add = [&](const std::string& how) {
      files.push_back({models[i].name + how, backend, builder.build(network, options)->plan()->to_bytes()});
    };
    add("");
    // The families behind oneDNN, and a batch in parts.
    options.disabled_runners = {"OnednnConvolution", "OnednnMatMul", "OnednnPooling", "DepthwiseConvolution"};
    options.batch_part = models[i].name == "depthwise" || models[i].name == "perceptron" ? 1 : 0;
    add(" own");
  }
}

#ifdef LATHE_FUZZ_CUDA
// A section for a GPU that is only described: loaded and checked, never run.
std::vector<std::byte> cuda_engine(const Network& network, const Backend& backend, ThreadPool& pool) {
  static NullObserver quiet;
  auto plan = std::make_shared<Plan>();
  plan->model = network.model;
  plan->inputs = network.inputs();
  plan->outputs = network.outputs();
  plan->set_portable_graph(network.graph);
  PlanSection section{.target = backend.target(), .settings = "level 0", .timed = false, .variants = {}};
  TimingCache cache;
  const Pipeline pipeline{backend, pool, cache, quiet};
  for (const OptimizationProfile& profile : profiles_of(network, false)) {
    plan->profiles.push_back(complete_profile(plan->inputs, profile));
    PlanVariant v;
    v.ranges = symbol_ranges(plan->inputs, plan->profiles.back());
    const Graph graph = optimize(*network.graph, v.ranges, {DType::Float16}, {}, pipeline, {});
    TunedGraph tuned = tune_graph(graph, v.ranges, backend, {.level = 0}, cache, quiet);
    v.memory = plan_memory(tuned.graph, tuned.choices, v.ranges);
    v.graph = std::make_shared<Graph>(std::move(tuned.graph));
    v.choices = std::move(tuned.choices);
    v.blobs = std::make_shared<PackedBlocks>();
    backend.compile(v.spec());
    section.variants.push_back(std::move(v));
  }
  plan->set_section(std::make_shared<PlanSection>(std::move(section)));
  return plan->to_bytes();
}

void add_cuda_engines(const std::vector<Source>& models, std::vector<EngineFile>& files) {
  static NullObserver quiet;
  const std::string path = "tests/gpu/h200.json";
  const std::shared_ptr<const Backend> backend = cuda::create_cuda_backend(
      cuda::describe_device(cuda::DeviceProperties::from_json(read_file(path), path)));
  const auto pool = std::make_shared<ThreadPool>(2);
  Builder builder(open_backend({.threads = 2}), quiet, pool);
  for (const Source& model : models) {
    if (model.name != "convolutions" && model.name != "attention" && model.name != "depthwise" &&
        model.name != "movement")
      continue;
    files.push_back({model.name + " cuda", backend, cuda_engine(parse(builder, model), *backend, *pool)});
  }
}
#endif

// --- edits

struct Content {
  std::vector<std::pair<std::string, Json>> sections;
  std::vector<std::vector<std::byte>> blocks;
};

Content decode(const EngineFile& file) {
  const ContainerReader reader(file.bytes, file.name, nullptr);
  Content content;
  for (const std::string name : {"manifest", "graph", "target/0"})
    content.sections.emplace_back(name, parse_json(reader.section(name), name));
  for (size_t i = 0; i < reader.block_count(); ++i) {
    const auto block = reader.block(static_cast<int64_t>(i));
    content.blocks.emplace_back(block.begin(), block.end());
  }
  return content;
}

class BytesWriter final : public FileWriter {
 public:
  void write(std::span<const std::byte> bytes) override {
    result.insert(result.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> result;
};

std::vector<std::byte> encode(const Content& content) {
  ContainerWriter container;
  for (const auto& block : content.blocks) container.add_block(block);
  for (const auto& [name, json] : content.sections) container.add_section(name, dump_json(json, -1));
  BytesWriter writer;
  container.write(writer);
  return std::move(writer.result);
}

void collect(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (json.is_structured())
    for (Json& inner : json) collect(inner, all);
}

// A text is words, numbers and signs; each is changed for another one of its kind, mostly from the same text.
struct Word {
  size_t begin = 0, size = 0;
  enum class Kind { Number, Name, Sign } kind = Kind::Sign;
};
std::vector<Word> words_of(const std::string& text) {
  std::vector<Word> words;
  const auto is_name = [&](size_t i) {
    return std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '%' ||
           text[i] == '.';
  };
  for (size_t i = 0; i < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    if (!is_name(i)) {
      words.push_back({i, 1, Word::Kind::Sign});
    } else {
      bool digits = std::isdigit(static_cast<unsigned char>(text[i]));
      for (; end < text.size() && is_name(end); ++end)
        digits = digits && (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.');
      words.push_back({i, end - i, digits ? Word::Kind::Number : Word::Kind::Name});
    }
    i = end;
  }
  return words;
}

const std::vector<std::string> kNumbers = {
    "0",  "1",  "2",   "3",     "4",          "5",    "7",      "8",        "15", "16",
    "31", "64", "512", "65536", "2147483648", "N*N",  "N + 1",  "N - 3",    "-1", "9223372036854775807",
    "S",  "40", "100", "N",     "4294967297", "1000", "N*1000", "mod(N, 2)"};

void edit_text(std::string& text, Random& random) {
  const std::vector<Word> words = words_of(text);
  if (words.empty()) {
    text = random.pick(kNumbers);
    return;
  }
  const Word& word = words[static_cast<size_t>(random.below(static_cast<int64_t>(words.size())))];
  std::string other;
  if (word.kind == Word::Kind::Number && random.chance(0.6)) {
    other = random.pick(kNumbers);
  } else {
    std::vector<Word> same;
    for (const Word& w : words)
      if (w.kind == word.kind) same.push_back(w);
    const Word& from = random.pick(same);
    other = text.substr(from.begin, from.size);
  }
  text.replace(word.begin, random.chance(0.03) ? 0 : word.size, other);
}

void edit_lines(std::string& text, Random& random) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  const auto at = [&] { return random.below(static_cast<int64_t>(lines.size())); };
  if (random.chance(0.5))
    std::swap(lines[static_cast<size_t>(at())], lines[static_cast<size_t>(at())]);
  else
    lines.erase(lines.begin() + at());
  text.clear();
  for (const std::string& line : lines) text += line + "\n";
}

void edit_number(Json& json, const std::vector<Json*>& all, Random& random) {
  std::vector<Json*> numbers;
  for (Json* j : all)
    if (j->is_number() && j != &json) numbers.push_back(j);
  if (!numbers.empty() && random.chance(0.3)) {
    json = Json(*random.pick(numbers));
    return;
  }
  const auto value = json.is_number_float() ? 0 : json.get<int64_t>();
  json = random.pick<int64_t>({0, 1, -1, 2, 64, 128, 4096, value / 2, value - 64, int64_t{1} << 31,
                               int64_t{1} << 40, INT64_MAX, INT64_MIN, value ^ 64});
}

void edit_string(Json& json, const std::vector<Json*>& all, Random& random) {
  std::vector<Json*> strings;
  for (Json* j : all)
    if (j->is_string() && j->get_ref<const std::string&>().size() < 100) strings.push_back(j);
  std::string text = json;
  if (text.find('\n') != text.npos)
    random.chance(0.8) ? edit_text(text, random) : edit_lines(text, random);
  else if (!strings.empty() && random.chance(0.6))
    text = *random.pick(strings);
  else
    edit_text(text, random);
  json = text;
}

void edit_list(Json& json, Random& random) {
  if (json.empty()) {
    json.push_back(random.below(4));
    return;
  }
  const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(json.size())));
  if (random.chance(0.3))
    json.erase(at);
  else if (random.chance(0.5))
    json.push_back(Json(json[at]));
  else
    std::swap(json[at], json[static_cast<size_t>(random.below(static_cast<int64_t>(json.size())))]);
}

void edit_object(Json& json, Random& random) {
  if (json.contains("runner") && random.chance(0.7)) {  // a choice
    if (random.chance(0.5))
      json["view"] = true;
    else
      json["in_place"] = Json::array({random.below(3)});
    return;
  }
  if (json.empty()) return;
  const auto key_at = [&] {
    return std::next(json.begin(), random.below(static_cast<int64_t>(json.size()))).key();
  };
  const std::string a = key_at(), b = key_at();
  if (random.chance(0.2))
    json.erase(a);
  else
    std::swap(json[a], json[b]);
}

void edit_block(Content& content, Random& random) {
  if (content.blocks.empty()) return;
  auto& block = random.pick(content.blocks);
  if (random.chance(0.5))
    block.resize(static_cast<size_t>(random.pick<int64_t>(
        {0, 4, 64, static_cast<int64_t>(block.size() / 2), static_cast<int64_t>(block.size()) + 64})));
  else if (!block.empty())
    block[static_cast<size_t>(random.below(static_cast<int64_t>(block.size())))] ^= std::byte{0x80};
}

void edit(Content& content, Random& random) {
  if (random.chance(0.05)) return edit_block(content, random);
  const auto section = static_cast<size_t>(random.chance(0.75) ? 2 : random.below(2));
  std::vector<Json*> all;
  collect(content.sections[section].second, all);
  Json& json = *random.pick(all);
  if (random.chance(0.01))
    json = random.pick({Json(nullptr), Json(true), Json(1.5), Json("x"), Json::array(), Json::object()});
  else if (json.is_boolean())
    json = !json.get<bool>();
  else if (json.is_number())
    edit_number(json, all, random);
  else if (json.is_string())
    edit_string(json, all, random);
  else if (json.is_array())
    edit_list(json, random);
  else if (json.is_object())
    edit_object(json, random);
}

// Every fifth edit is one of the graph's text, which is one leaf among hundreds.
void edit_graph_text(Content& content, Random& random) {
  Json& variants = content.sections[2].second["variants"];
  if (!variants.is_array() || variants.empty()) return;
  Json& variant = variants[static_cast<size_t>(random.below(static_cast<int64_t>(variants.size())))];
  if (!variant.is_object() || !variant.contains("graph") || !variant["graph"].is_object()) return;
  Json& json = variant["graph"]["text"];
  if (!json.is_string()) return;
  std::string text = json;
  random.chance(0.9) ? edit_text(text, random) : edit_lines(text, random);
  json = text;
}

Outcome run_case(const std::vector<EngineFile>& files, int64_t n) {
  Random random(static_cast<uint64_t>(n));
  const EngineFile& file = random.pick(files);
  Content content = decode(file);
  const int64_t edits = random.pick<int64_t>({1, 1, 1, 2, 3});
  for (int64_t i = 0; i < edits; ++i)
    random.chance(0.2) ? edit_graph_text(content, random) : edit(content, random);
  const auto plan = Plan::from_bytes(encode(content), "edited.engine");
  if (random.chance(0.1)) plan->portable_graph();
  const auto engine = Engine::load(plan, file.backend);
  if (file.backend->is_host()) run_engine(*engine, random);
  return Outcome::Accepted;
}

}  // namespace

Case prepare_engine_edits() {
  const auto files = std::make_shared<std::vector<EngineFile>>();
  const std::vector<Source> models = source_models();
  add_cpu_engines(models, *files);
#ifdef LATHE_FUZZ_CUDA
  add_cuda_engines(models, *files);
#endif
  return [files](int64_t n) { return run_case(*files, n); };
}

}  // namespace fuzz
