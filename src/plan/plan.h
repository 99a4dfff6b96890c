// SPDX-License-Identifier: Apache-2.0
//
// A plan: the content of an engine file, in memory or mapped. Portable graph and weights, and per target what
// was chosen, where it lies and what was packed. docs/engine-format.md describes the bytes.
//
// Byte blocks (weights, packed weights) are content-addressed: the same bytes are stored once. A mapped plan
// reads blocks in place; nothing is copied at load.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/program.h"
#include "plan/optimization_profile.h"
#include "plan/packed_blocks.h"

namespace lathe {

// Where the model came from. Part of the file, so no times and no paths.
struct ModelMetadata {
  std::string name, producer, producer_version, domain, doc_string;
  int64_t ir_version = 0, opset_version = 0, model_version = 0;
};

// What one optimization profile got on one target.
struct PlanVariant {
  std::shared_ptr<const Graph> graph;  // final
  std::vector<Choice> choices;
  MemoryPlan memory;
  SymbolRanges ranges;
  std::shared_ptr<PackedBlocks> blobs;
  double measured_ms = 0;  // the whole engine at the opt shapes, when it was built; 0: not timed

  BatchSplit split;
  std::string tuning;  // what the tuner tried, as text for reports (tune/tuning_record.h); "": not known

  // What the tuner expects of the whole engine: the sum over its layers, for as many parts as one of the
  // threads gets.
  double predicted_ms(int threads) const;
  ProgramSpec spec() const { return {graph, choices, memory, ranges, blobs, split}; }
};

struct PlanSection {
  Target target;
  std::string settings;               // what the section was built with, for people: "level 3, fp32"
  bool timed = false;                 // false: first tactics, untimed (level 0, retarget)
  std::vector<PlanVariant> variants;  // one per optimization profile
};

class ContainerReader;
class FileWriter;

// Where a plan's custom operators get their code from, and what to say when it is not there.
struct PluginCodeSource {
  std::shared_ptr<PluginSource> source;
  std::string hint;
};

enum class ProfilingVerbosity { None, LayerNamesOnly, Detailed };

class Plan {
 public:
  // The file is mapped and its structure checked; block hashes are checked when a section or the portable
  // graph is used. One Input error names the file and what is wrong with it. Custom operators get their code
  // from `plugins` when a graph is used; libraries that the file carries are offered to it.
  static std::shared_ptr<const Plan> read(const std::filesystem::path& path,
                                          std::shared_ptr<PluginSource> plugins = nullptr);
  static std::shared_ptr<const Plan> from_bytes(std::vector<std::byte> bytes, std::string source,
                                                std::shared_ptr<PluginSource> plugins = nullptr);

  ModelMetadata model;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<OptimizationProfile> profiles;  // complete
  ProfilingVerbosity verbosity = ProfilingVerbosity::LayerNamesOnly;
  std::string lathe_version;
  // Plugin libraries inside the file, by their file name. An engine is data: they are run only for who trusts
  // it.
  std::map<std::string, std::vector<std::byte>, std::less<>> plugin_libraries;

  size_t section_count() const { return sections_.size(); }
  const Target& target(size_t section) const;
  std::string settings(size_t section) const;
  // Parses and checks a section on first use (thread-safe).
  std::shared_ptr<const PlanSection> section(size_t index) const;
  // The graph as imported, with its weights.
  std::shared_ptr<const Graph> portable_graph() const;

  // The section for this target, or why there is none.
  struct Fit {
    int section = -1;
    std::string reason;
  };
  Fit find_section(const Target& target) const;

  // For builders: a plan in memory.
  Plan();
  ~Plan();
  void set_portable_graph(std::shared_ptr<const Graph> graph);
  // Replaces the section with the same target key, or adds one.
  void set_section(std::shared_ptr<const PlanSection> section);
  // A plan with the same content whose sections can be changed.
  std::shared_ptr<Plan> clone() const;
  std::shared_ptr<Plan> clone_without_sections() const;
  // The same without weights of more than 16 elements: what is left says which layers there are and how they
  // run. Only a refit makes an engine of it.
  std::shared_ptr<const Plan> stripped() const;
  bool is_stripped = false;
  // The file has packed weights, too, so that nothing is packed at load; else it has each weight once.
  bool fast_load = false;

  // Same content, same bytes. The old file stays when writing fails.
  void write(const std::filesystem::path& path) const;
  std::vector<std::byte> to_bytes() const;
  // The same bytes in order, in pieces.
  void write_to(FileWriter& file) const;
  // How large the file is or would be.
  size_t serialized_bytes() const;
  // The file that this plan was read from, "" when it is only in memory.
  std::string source() const;
  // Bytes of the file that this plan was read from, 0 when it is only in memory.
  size_t file_bytes() const { return file_bytes_; }

 private:
  class LazySection;
  static std::shared_ptr<const Plan> open(std::shared_ptr<const ContainerReader> file,
                                          std::shared_ptr<PluginSource> plugins);
  void check_tensors(const Graph& graph, const SymbolRanges& ranges, const std::string& who,
                     bool is_section) const;
  void check_fits(const PlanSection& section) const;
  void offer_libraries();
  PluginCodeSource code_of_plugins() const;

  std::vector<std::shared_ptr<LazySection>> sections_;
  std::shared_ptr<const ContainerReader> file_;  // null: only in memory
  // Parsed on first use; shared by clones.
  struct LazyGraph;
  std::shared_ptr<LazyGraph> portable_;
  size_t file_bytes_ = 0;
  std::shared_ptr<PluginSource> plugins_;
  // What serialized_bytes() found; 0: not asked yet.
  std::shared_ptr<std::atomic<size_t>> written_bytes_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace lathe
