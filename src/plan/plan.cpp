// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/version.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "plan/container.h"
#include "plan/plan_json.h"

namespace lathe {
namespace {

constexpr std::string_view kManifest = "manifest", kGraph = "graph";
std::string section_name(size_t index) {
  return "target/" + std::to_string(index);
}

// Integers stay: they say where to go, and are few. So does what the text form writes out.
bool is_stripped_off(const Tensor& tensor) {
  const DType type = tensor.dtype();
  const bool is_index = type == DType::Int32 || type == DType::Int64 || type == DType::Bool;
  return !is_index && tensor.size() > kMaxInlineElements;
}

Graph without_weights(const Graph& graph) {
  Graph result = graph;
  GraphEditor editor(result);
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const Tensor& tensor = graph.value(id).constant;
    if (!graph.value(id).is_constant() || !is_stripped_off(tensor)) continue;
    editor.set_constant(id, Tensor::without_bytes(tensor.dtype(), tensor.extents()));
    editor.set_quantization(id, graph.value(id).quantization);
  }
  return result;
}

class VectorWriter final : public FileWriter {
 public:
  void write(std::span<const std::byte> bytes) override {
    result.insert(result.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> result;
};

class CountingWriter final : public FileWriter {
 public:
  void write(std::span<const std::byte> bytes) override { result += bytes.size(); }
  size_t result = 0;
};

}  // namespace

double PlanVariant::predicted_ms(int threads) const {
  double sum = 0;
  for (const Choice& c : choices) sum += c.time_ms;
  if (!split.on()) return sum;
  const int64_t parts = (ranges.at(split.symbol).opt + split.part - 1) / split.part;
  const int64_t rounds = (parts + threads - 1) / threads;
  return sum * static_cast<double>(parts < threads ? parts : rounds);
}

// A section that is in memory, or parsed from the file on first use.
class Plan::LazySection {
 public:
  explicit LazySection(std::shared_ptr<const PlanSection> section)
      : info({section->target, section->settings, section->timed}), section_(std::move(section)) {}
  LazySection(SectionInfo info, const Plan& plan, std::shared_ptr<const ContainerReader> file,
              std::string name)
      : info(std::move(info)),
        form_{.profiles = plan.profiles.size(),
              .stripped = plan.is_stripped,
              .plugins = plan.code_of_plugins()},
        file_(std::move(file)),
        name_(std::move(name)) {}

  std::shared_ptr<const PlanSection> get() {
    const std::lock_guard lock(mutex_);
    if (!section_)
      section_ = std::make_shared<PlanSection>(section_from_json(file_->section(name_), info, form_, *file_));
    return section_;
  }

  const SectionInfo info;

 private:
  std::mutex mutex_;
  std::shared_ptr<const PlanSection> section_;
  SectionForm form_;
  std::shared_ptr<const ContainerReader> file_;
  std::string name_;
};

struct Plan::LazyGraph {
  std::mutex mutex;
  std::shared_ptr<const Graph> graph;
};

Plan::Plan() : lathe_version(version()), portable_(std::make_shared<LazyGraph>()) {}
Plan::~Plan() = default;

std::shared_ptr<const Plan> Plan::read(const std::filesystem::path& path,
                                       std::shared_ptr<PluginSource> plugins) {
  auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  return open(std::make_shared<ContainerReader>(bytes, path.string(), std::move(file)), std::move(plugins));
}

std::shared_ptr<const Plan> Plan::from_bytes(std::vector<std::byte> bytes, std::string source,
                                             std::shared_ptr<PluginSource> plugins) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return open(std::make_shared<ContainerReader>(*owner, std::move(source), owner), std::move(plugins));
}

std::shared_ptr<const Plan> Plan::open(std::shared_ptr<const ContainerReader> file,
                                       std::shared_ptr<PluginSource> plugins) {
  auto plan = std::make_shared<Plan>();
  plan->plugins_ = std::move(plugins);
  const auto sections = manifest_from_json(file->section(kManifest), *file, *plan);
  plan->offer_libraries();
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!file->has_section(section_name(i))) file->fail("has no section '" + section_name(i) + "'");
    plan->sections_.push_back(std::make_shared<LazySection>(sections[i], *plan, file, section_name(i)));
  }
  plan->file_bytes_ = file->file_bytes();
  plan->file_ = std::move(file);
  return plan;
}

void Plan::offer_libraries() {
  if (!plugins_) return;
  for (const auto& [name, bytes] : plugin_libraries) plugins_->load_carried(name, bytes);
}

PluginCodeSource Plan::code_of_plugins() const {
  std::string hint;
  for (const auto& [name, bytes] : plugin_libraries) hint += (hint.empty() ? "'" : ", '") + name + "'";
  if (!hint.empty())
    hint = "the file carries " + hint +
           ", which runs only when you say that you trust the file: --trustEngine on the command line, "
           "PluginRegistry::trust_engines in the API; or load the library yourself";
  return {plugins_, std::move(hint)};
}

const Target& Plan::target(size_t section) const {
  return sections_.at(section)->info.target;
}
std::string Plan::settings(size_t section) const {
  return sections_.at(section)->info.settings;
}

std::shared_ptr<const PlanSection> Plan::section(size_t index) const {
  check(index < sections_.size(), "a plan has no such section");
  auto section = sections_[index]->get();
  if (file_) check_fits(*section);
  return section;
}

// Manifest, graph and sections of a file are checked one by one when they are read; here, that they speak of
// the same tensors.
namespace {

// Equal for the shapes of a profile. A section's graph may have the value of a symbol in its place, where the
// profile leaves no choice, and no clamps that its shapes never reach; what only a run finds may have another
// bound.
bool same_in_profile(const Dim& a, const Dim& b, const SymbolRanges& ranges) {
  if (!a.data_dependent_names().empty() || !b.data_dependent_names().empty()) return true;
  for (const auto bound : {&SymbolRange::min, &SymbolRange::opt, &SymbolRange::max}) {
    SymbolValues values;
    for (const auto& [symbol, range] : ranges) values.emplace(symbol, range.*bound);
    if (a.evaluate(values) != b.evaluate(values)) return false;
  }
  return true;
}

}  // namespace

// Inputs must be the same dims: callers' memory has the extents that the manifest says. Room for outputs is
// asked of the section.
void Plan::check_tensors(const Graph& graph, const SymbolRanges& ranges, const std::string& who,
                         bool is_section) const {
  std::map<std::string, Dim, std::less<>> fixed;
  for (const auto& [symbol, range] : ranges)
    if (range.min == range.max) fixed.emplace(symbol, Dim(range.min));
  bool exact = true;
  const auto same_shape = [&](const Shape& a, const Shape& b) {
    return std::ranges::equal(a, b, [&](const Dim& x, const Dim& y) {
      return x.substitute(fixed) == y.substitute(fixed) || (!exact && same_in_profile(x, y, ranges));
    });
  };
  const auto check_all = [&](const std::vector<ValueId>& values, const std::vector<TensorInfo>& infos,
                             const std::string& what) {
    if (values.size() != infos.size())
      file_->fail("is damaged: " + who + " has " + std::to_string(values.size()) + " " + what +
                  ", the model has " + std::to_string(infos.size()));
    for (size_t i = 0; i < infos.size(); ++i) {
      const Value& value = graph.value(values[i]);
      // Callers say by name which input they give; two of one name would be one.
      if (value.name != infos[i].name)
        file_->fail("is damaged: " + who + " calls '" + value.name + "' what the model calls '" +
                    infos[i].name + "'");
      if (value.dtype != infos[i].dtype || !same_shape(value.shape, infos[i].shape))
        file_->fail("is damaged: " + who + " has another type or shape for '" + infos[i].name + "'");
      // Formats are set for the section; the portable graph has none.
      if (is_section && value.format != infos[i].format)
        file_->fail("is damaged: " + who + " has another format for '" + infos[i].name + "'");
    }
  };
  check_all(graph.inputs(), inputs, "inputs");
  exact = ranges.empty();
  check_all(graph.outputs(), outputs, "outputs");
}

void Plan::check_fits(const PlanSection& section) const {
  const std::string who = "its section for " + section.target.description;
  for (size_t i = 0; i < section.variants.size(); ++i) {
    const SymbolRanges ranges = symbol_ranges(inputs, profiles[i]);
    if (section.variants[i].ranges != ranges)
      file_->fail("is damaged: " + who + " has other ranges than optimization profile " + std::to_string(i));
    check_tensors(*section.variants[i].graph, ranges, who, true);
  }
}

std::string Plan::source() const {
  return file_ ? file_->source() : "";
}

std::shared_ptr<const Graph> Plan::portable_graph() const {
  const std::lock_guard lock(portable_->mutex);
  if (!portable_->graph) {
    check(file_ != nullptr, "a plan without a portable graph");
    auto graph = graph_from_json(file_->section(kGraph), *file_, code_of_plugins());
    check_tensors(*graph, {}, "its graph", false);
    portable_->graph = std::move(graph);
  }
  return portable_->graph;
}

Plan::Fit Plan::find_section(const Target& target) const {
  std::string made_for;
  for (size_t i = 0; i < sections_.size(); ++i) {
    const Target& t = sections_[i]->info.target;
    if (t.backend == target.backend && t.key == target.key) return {static_cast<int>(i), {}};
    made_for += (made_for.empty() ? "" : "; ") + t.description + " [" + t.key + "]";
  }
  return {-1, "the engine was made for " + (made_for.empty() ? "no target" : made_for) + ", this is " +
                  target.description + " [" + target.key + "]"};
}

void Plan::set_portable_graph(std::shared_ptr<const Graph> graph) {
  portable_ = std::make_shared<LazyGraph>();
  portable_->graph = std::move(graph);
}

void Plan::set_section(std::shared_ptr<const PlanSection> section) {
  written_bytes_ = std::make_shared<std::atomic<size_t>>(0);
  const Fit fit = find_section(section->target);
  auto lazy = std::make_shared<LazySection>(std::move(section));
  if (fit.section >= 0)
    sections_[static_cast<size_t>(fit.section)] = std::move(lazy);
  else
    sections_.push_back(std::move(lazy));
}

std::shared_ptr<Plan> Plan::clone() const {
  auto copy = std::make_shared<Plan>(*this);
  copy->file_bytes_ = 0;
  copy->written_bytes_ = std::make_shared<std::atomic<size_t>>(0);
  copy->lathe_version = version();
  return copy;
}

std::shared_ptr<Plan> Plan::clone_without_sections() const {
  auto copy = clone();
  copy->sections_.clear();
  copy->is_stripped = false;
  return copy;
}

std::shared_ptr<const Plan> Plan::stripped() const {
  auto copy = clone_without_sections();
  copy->is_stripped = true;
  copy->set_portable_graph(std::make_shared<Graph>(without_weights(*portable_graph())));
  for (size_t i = 0; i < sections_.size(); ++i) {
    auto section = std::make_shared<PlanSection>(*this->section(i));
    for (PlanVariant& variant : section->variants) {
      variant.graph = std::make_shared<Graph>(without_weights(*variant.graph));
      variant.blobs = std::make_shared<PackedBlocks>();
      variant.tuning.clear();
    }
    copy->set_section(std::move(section));
  }
  return copy;
}

void Plan::write_to(FileWriter& file) const {
  ContainerWriter container;
  const auto graph = portable_graph();
  std::string graph_text = graph_to_json(*graph, container);
  std::vector<SectionInfo> infos;
  std::vector<std::shared_ptr<const PlanSection>> sections;
  std::vector<std::string> texts;
  for (size_t i = 0; i < sections_.size(); ++i) {
    infos.push_back(sections_[i]->info);
    sections.push_back(section(i));
    texts.push_back(section_to_json(*sections.back(), container, fast_load));
  }
  container.add_section(std::string(kManifest), manifest_to_json(*this, infos, container));
  container.add_section(std::string(kGraph), std::move(graph_text));
  for (size_t i = 0; i < texts.size(); ++i) container.add_section(section_name(i), std::move(texts[i]));
  container.write(file);
}

void Plan::write(const std::filesystem::path& path) const {
  write_file_atomically(path, [&](FileWriter& file) { write_to(file); });
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(path, unknown);
  if (!unknown) *written_bytes_ = bytes;
}

std::vector<std::byte> Plan::to_bytes() const {
  VectorWriter writer;
  write_to(writer);
  return std::move(writer.result);
}

size_t Plan::serialized_bytes() const {
  if (const size_t known = *written_bytes_; known != 0) return known;
  CountingWriter writer;
  write_to(writer);
  return *written_bytes_ = writer.result;
}

}  // namespace lathe
