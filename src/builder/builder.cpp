// SPDX-License-Identifier: Apache-2.0
#include "builder/builder.h"

#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/interrupted.h"
#include "base/out_of_memory.h"
#include "base/stopwatch.h"
#include "base/version.h"
#include "builder/batch_items.h"
#include "builder/engine_timer.h"
#include "builder/fallbacks.h"
#include "builder/layer_precisions.h"
#include "builder/pipeline.h"
#include "builder/precision.h"
#include "builder/shape_inputs.h"
#include "onnx/import.h"
#include "onnx/model.h"
#include "tune/quantized_layers.h"

namespace lathe {
namespace {

std::string settings_text(const BuildOptions& options, const std::vector<DType>& types) {
  std::string text = "level " + std::to_string(std::clamp(options.optimization_level, 0, 5)) + ", fp32";
  for (const DType t : types) text += "+" + std::string(dtype_info(t).trt_arg);
  // What is not as it is by default.
  const BuildOptions usual;
  const auto note = [&](bool is_other, const std::string& what) { text += is_other ? ", " + what : ""; };
  note(options.strongly_typed, "strongly typed");
  note(!options.layer_precisions.empty() && options.precision_constraints != PrecisionConstraints::None,
       "types of single layers");
  note(!options.winograd, "no Winograd");
  note(options.keep_nan, "NaN kept");
  note(options.batch_part != usual.batch_part, "batches in parts of " + std::to_string(options.batch_part));
  note(options.max_tactics != usual.max_tactics, std::to_string(options.max_tactics) + " tactics a layer");
  note(options.avg_timing != usual.avg_timing, std::to_string(options.avg_timing) + " runs a time");
  note(options.workspace_limit_bytes != usual.workspace_limit_bytes,
       "workspace " + std::to_string(options.workspace_limit_bytes) + " bytes");
  for (const std::string& runner : options.disabled_runners) note(true, "without " + runner);
  for (const std::string& pass : options.passes.disabled) note(true, "without pass " + pass);
  return text;
}

bool may_write(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  return access(file.c_str(), W_OK) == 0 && access(folder.c_str(), W_OK) == 0;
}

// The cache of one build: the caller's, a file's, or a fresh one.
class CacheOfBuild {
 public:
  CacheOfBuild(const BuildOptions& options, Observer& observer) : options_(options), observer_(observer) {
    const bool timed = options.optimization_level > 0;
    if (!timed || options.timing_cache_mode == TimingCacheMode::Disabled) return;
    if (options.timing_cache) {
      cache_ = options.timing_cache;
    } else if (options.timing_cache_mode == TimingCacheMode::Global) {
      file_ = true;
      load();
    } else {
      observer_.log(Severity::Info,
                    "Local timing cache in use. Profiling results in this builder pass will not be stored.");
    }
  }

  TimingCache& cache() { return *cache_; }

  void finish() {
    if (file_) save();
    observer_.log(Severity::Verbose, "Deleting timing cache: " + std::to_string(cache_->size()) +
                                         " entries, served " + std::to_string(cache_->hits()) +
                                         " hits since creation.");
  }

 private:
  // Caches may be shared for reading: who may not write one, or has nothing new for it, builds all the same.
  void save() {
    const std::string path = options_.timing_cache_file.string();
    try {
      cache_->save(options_.timing_cache_file);
      observer_.log(Severity::Info, "Saved " + std::to_string(cache_->to_text().size()) +
                                        " bytes of timing cache to " + path);
    } catch (const Error& error) {
      const size_t fresh = cache_->size() - loaded_entries_;
      if (!loaded_ || (fresh > 0 && may_write(options_.timing_cache_file))) throw;
      observer_.log(Severity::Warning,
                    "The timing cache was only read: " + std::string(error.what()) + ". " +
                        (fresh == 0 ? "This build measured nothing new."
                                    : std::to_string(fresh) + " new entries of this build are lost."));
    }
  }
  void load() {
    const std::string path = options_.timing_cache_file.string();
    loaded_ = cache_->load(options_.timing_cache_file);
    loaded_entries_ = cache_->size();
    if (!loaded_)
      observer_.log(Severity::Warning, "Could not read timing cache from: " + path +
                                           ". A new timing cache will be generated and written.");
    else
      observer_.log(Severity::Info, "Loaded " + std::to_string(cache_->to_text().size()) +
                                        " bytes of timing cache from " + path);
  }

  const BuildOptions& options_;
  Observer& observer_;
  std::shared_ptr<TimingCache> cache_ = std::make_shared<TimingCache>();
  bool file_ = false, loaded_ = false;
  size_t loaded_entries_ = 0;
};

ModelMetadata metadata_of(const ModelParsed& info, const std::string& graph_name) {
  return {.name = graph_name,
          .producer = info.producer,
          .producer_version = info.producer_version,
          .domain = info.domain,
          .doc_string = info.doc_string,
          .ir_version = info.ir_version,
          .opset_version = info.opset_version,
          .model_version = info.model_version};
}

Network network_of(ImportedModel&& model, const Stopwatch& watch) {
  Network network;
  network.model = metadata_of(model.info, model.graph.name());
  network.graph = std::make_shared<Graph>(std::move(model.graph));
  network.strings = std::move(model.strings);
  network.parse_seconds = watch.seconds();
  return network;
}

// The initializers of these names with other data: their types and dims are the model's.
std::map<std::string, Tensor, std::less<>> constants_of(std::span<const std::byte> model,
                                                        const std::map<std::string, GivenWeights>& weights) {
  std::map<std::string, Tensor, std::less<>> constants;
  if (weights.empty()) return constants;
  const onnx::ModelProto proto = onnx::parse_model(model);
  for (const auto& [name, given] : weights) {
    const auto found = std::ranges::find(proto.graph.initializers, name, &onnx::TensorProto::name);
    if (found == proto.graph.initializers.end())
      throw_input_error("weights were given for '" + name +
                        "', and the model has no initializer of that name");
    onnx::TensorProto tensor = *found;
    tensor.external = false;
    tensor.raw_data = given.bytes;
    constants[name] = onnx::TensorSource(given.owner, {}).load(tensor);
  }
  return constants;
}

std::string names_of(const std::vector<DType>& types) {
  std::string names;
  for (const DType t : types) names += (names.empty() ? "" : "/") + std::string(dtype_info(t).trt_arg);
  return names;
}

// Where times of single layers may mislead, the tuned engine races those that are built without timing: with
// the same types, and with none.
BuiltVariant build_checked(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
                           const BuildOptions& options, const Pipeline& pipeline) {
  BuildOptions untimed = options;
  untimed.optimization_level = 0;
  NullObserver quiet;
  const Pipeline silent = pipeline.with(quiet);
  std::vector<RivalEngine> rivals;
  rivals.push_back({"tuned", build_variant(portable, ranges, types, options, pipeline)});
  rivals.push_back({"untimed", build_variant(portable, ranges, types, untimed, silent)});
  if (!types.empty())
    rivals.push_back({"untimed in fp32", build_variant(portable, ranges, {}, untimed, silent)});
  BuiltVariant result = fastest_engine(std::move(rivals), pipeline);
  result.timed = true;
  if (!types.empty())
    pipeline.observer.log(
        Severity::Info,
        uses_type(result.variant, types)
            ? "Precision: " + precision_shares(result.variant) + "."
            : "The precision flags changed nothing: no layer is faster in " + names_of(types) + ".");
  return result;
}

// With types allowed, the engine without them is built as well, and the faster one is kept.
BuiltVariant build_fastest(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
                           const BuildOptions& options, const Pipeline& pipeline) {
  const TuningTraits traits = pipeline.backend.tuning_traits();
  const bool timed = options.optimization_level > 0;
  if (traits.check_whole_engines && timed) return build_checked(portable, ranges, types, options, pipeline);
  if (traits.narrow_types_win && !timed && !types.empty()) {
    BuiltVariant typed = build_variant(portable, ranges, types, options, pipeline);
    pipeline.observer.log(Severity::Info, "Precision: " + precision_shares(typed.variant) + ".");
    return typed;
  }
  BuiltVariant plain = build_variant(portable, ranges, {}, options, pipeline);
  if (types.empty()) {
    if (plain.timed) time_engines({&plain}, pipeline);
    return plain;
  }
  BuiltVariant typed = build_variant(portable, ranges, types, options, pipeline);
  const std::string names = names_of(types);
  if (!uses_type(typed.variant, types)) {
    pipeline.observer.log(Severity::Info,
                          "The precision flags changed nothing: no layer is faster in " + names + ".");
    if (plain.timed) time_engines({&plain}, pipeline);
    return plain;
  }
  BuiltVariant best = std::move(typed);
  if (best.timed) {
    std::vector<RivalEngine> rivals;
    rivals.push_back({"in fp32", std::move(plain)});
    rivals.push_back({"with " + names + " allowed", std::move(best)});
    best = fastest_engine(std::move(rivals), pipeline);
    if (!uses_type(best.variant, types)) return best;
  }
  pipeline.observer.log(Severity::Info, "Precision: " + precision_shares(best.variant) + ".");
  return best;
}

// The runners of products and convolutions that read bytes of their grids, and what those are.
struct ByteProducts {
  std::set<std::string> runners;
  std::string kind;
};
ByteProducts byte_products(const PlanVariant& variant) {
  ByteProducts products;
  const Graph& graph = *variant.graph;
  for (size_t i = 0; i < variant.choices.size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    const Tactic& tactic = variant.choices[i].tactic;
    if (is_product(node) && is_on_grid(graph, node.inputs[0]) &&
        tactic.inputs[0].dtype == graph.value(node.inputs[0]).quantization->dtype) {
      products.runners.insert(tactic.runner);
      products.kind = bytes_of_grid(*graph.value(node.inputs[0]).quantization);
    }
  }
  return products;
}

// Times of layers say where integers win; the engine that computes its products in floats is timed as a
// whole, too, so that a model with quantised tensors is never slower than it would be without.
BuiltVariant build_no_slower_than_floats(const Graph& portable, const SymbolRanges& ranges,
                                         const std::vector<DType>& types, const BuildOptions& options,
                                         const Pipeline& pipeline) {
  BuiltVariant built = build_fastest(portable, ranges, types, options, pipeline);
  const auto [runners, kind] = byte_products(built.variant);
  if (!built.timed || runners.empty()) return built;
  BuildOptions in_floats = options;
  in_floats.disabled_runners.insert(runners.begin(), runners.end());
  NullObserver quiet;
  const Pipeline quietly = pipeline.with(quiet);
  const std::vector<DType> kept = uses_type(built.variant, types) ? types : std::vector<DType>{};
  std::vector<RivalEngine> rivals;
  rivals.push_back({"products in " + kind, std::move(built)});
  rivals.push_back({"products in floats", build_variant(portable, ranges, kept, in_floats, quietly)});
  return fastest_engine(std::move(rivals), pipeline, kind + " or floats");
}

// One item at a time keeps the least between two layers; a part for each thread reads weights once per
// thread.
std::vector<BatchSplit> possible_splits(const Graph& portable, const SymbolRanges& ranges,
                                        const BuildOptions& options, const Pipeline& pipeline) {
  if (options.batch_part == 0 || pipeline.backend.one_thread() == nullptr) return {};
  BatchItems items = find_batch_items(portable);
  if (items.symbol.empty() && !items.batch.empty() && ranges.at(items.batch).max > 1) {
    // Attention, for one, is written with batch and heads in one dim, which its fusion takes apart again.
    NullObserver quiet;
    const Pipeline quietly = pipeline.with(quiet);
    items = find_batch_items(optimize(portable, ranges, {}, options, quietly, {items.batch, 1}));
  }
  if (items.symbol.empty()) {
    pipeline.observer.log(Severity::Verbose, "The batch stays whole: " + items.reason + ".");
    return {};
  }
  const SymbolRange range = ranges.at(items.symbol);
  if (options.batch_part > 0) return {{items.symbol, std::min(options.batch_part, range.max)}};
  if (range.opt <= 1) return {};
  const int64_t threads = pipeline.backend.target().threads, share = (range.opt + threads - 1) / threads;
  std::vector<BatchSplit> splits = {{items.symbol, 1}};
  if (share > 1 && threads > 1) splits.push_back({items.symbol, share});
  return splits;
}

// The network may compute its batch in parts; whether that is faster is measured.
BuiltVariant build_profile(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
                           const BuildOptions& options, const Pipeline& pipeline) {
  const std::vector<BatchSplit> splits = possible_splits(portable, ranges, options, pipeline);
  if (!splits.empty() && options.batch_part > 0) {
    BuiltVariant parts = build_variant(portable, ranges, types, options, pipeline, splits[0]);
    if (parts.timed) time_engines({&parts}, pipeline);
    return parts;
  }
  BuiltVariant whole = build_no_slower_than_floats(portable, ranges, types, options, pipeline);
  if (splits.empty() || !whole.timed) return whole;
  const std::vector<DType> kept = uses_type(whole.variant, types) ? types : std::vector<DType>{};
  std::vector<RivalEngine> rivals;
  rivals.push_back({"the whole batch at once", std::move(whole)});
  for (const BatchSplit& split : splits) {
    const std::string items = split.part == 1 ? "an item" : std::to_string(split.part) + " items";
    rivals.push_back({items + " at a time on each thread",
                      build_variant(portable, ranges, kept, options, pipeline, split)});
  }
  return fastest_engine(std::move(rivals), pipeline, "whole batch or parts");
}

int64_t weight_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (size_t v = 0; v < graph.value_count(); ++v)
    bytes += static_cast<int64_t>(graph.value(static_cast<ValueId>(v)).constant.bytes().size());
  return bytes;
}

void set_formats(std::vector<TensorInfo>& infos, const std::map<std::string, Format, std::less<>>& formats) {
  for (TensorInfo& info : infos)
    if (const auto it = formats.find(info.name); it != formats.end()) info.format = it->second;
}

std::map<std::string, Format, std::less<>> formats_of(const Plan& plan) {
  std::map<std::string, Format, std::less<>> formats;
  for (const auto* infos : {&plan.inputs, &plan.outputs})
    for (const TensorInfo& info : *infos)
      if (!info.format.is_linear()) formats[info.name] = info.format;
  return formats;
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return {file->bytes().begin(), file->bytes().end()};
}

std::string size_text(const std::filesystem::path& path) {
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(path, unknown);
  return unknown ? "of unknown size" : "of " + std::to_string(bytes) + " bytes";
}

}  // namespace

Builder::Builder(std::shared_ptr<const Backend> backend, Observer& observer, std::shared_ptr<ThreadPool> pool)
    : backend_(std::move(backend)), observer_(observer), pool_(std::move(pool)) {
  // Passes work on the host, with all of it where layers run elsewhere.
  if (!pool_) pool_ = std::make_shared<ThreadPool>(backend_->is_host() ? backend_->target().threads : 0);
}

Builder::~Builder() = default;

Network Builder::parse_onnx(const std::filesystem::path& path,
                            const std::map<std::string, Extents, std::less<>>& shapes) {
  const Stopwatch watch;
  return with_memory_for([&] { return "reading the model '" + path.string() + "' " + size_text(path); },
                         [&] {
                           bool fixed = false;
                           ImportedModel model =
                               import_for_shapes(path, observer_, shapes, fixed, import_options());
                           Network network = network_of(std::move(model), watch);
                           network.has_fixed_shapes = fixed;
                           return network;
                         });
}

Network Builder::parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& directory,
                            const std::map<std::string, GivenWeights>& weights) {
  const Stopwatch watch;
  ImportOptions options = import_options();
  options.constant_inputs = constants_of(bytes, weights);
  return network_of(import_onnx(bytes, directory, observer_, nullptr, options), watch);
}

ImportOptions Builder::import_options() const {
  return {.input_shapes = input_shapes_,
          .input_lengths = input_lengths_,
          .plugins = plugins_.get(),
          .plugins_first = plugins_first_};
}

// Of the engine that was kept, not of its rivals.
void Builder::report_memory(const BuiltVariant& built) {
  for (const std::string& line : built.layer_memory) observer_.log(Severity::Verbose, line);
  const bool on_host = backend_->is_host();
  const std::string bytes = std::to_string(built.memory.weight_bytes) + " bytes", none = "0 bytes";
  observer_.log(Severity::Info, "Total Host Persistent Memory: " + (on_host ? bytes : none));
  observer_.log(Severity::Info, "Total Device Persistent Memory: " + (on_host ? none : bytes));
  observer_.on(built.memory);
}

std::shared_ptr<const Engine> Builder::build_section(std::shared_ptr<Plan> plan,
                                                     const BuildOptions& options) {
  if (plan->is_stripped)
    throw_input_error("the engine was stripped of its weights, which tuning needs: refit it first",
                      ErrorCode::InvalidState);
  const auto portable = plan->portable_graph();
  const auto what_for = [&] {
    return "building an engine with " + std::to_string(weight_bytes(*portable)) +
           " bytes of weights, which takes up to three times as much and the layers' results";
  };
  return with_memory_for(what_for, [&] { return build_section(std::move(plan), *portable, options); });
}

std::shared_ptr<const Engine> Builder::build_section(std::shared_ptr<Plan> plan, const Graph& portable,
                                                     const BuildOptions& options) {
  const Stopwatch watch;
  observer_.log(Severity::Info, "Detected " + std::to_string(plan->inputs.size()) + " inputs and " +
                                    std::to_string(plan->outputs.size()) + " output network tensors.");
  std::vector<DType> types = allowed_types(portable, options, *backend_, observer_);
  const std::vector<DType> widened = widened_types(portable, *backend_, observer_, types);
  CacheOfBuild cache(options, observer_);
  const Pipeline pipeline{
      *backend_,    *pool_,  cache.cache(),     observer_,
      options.stop, widened, formats_of(*plan), demanded_types(portable, options, *backend_, observer_)};

  auto section = std::make_shared<PlanSection>();
  section->target = backend_->target();
  section->settings = settings_text(options, types);
  section->timed = true;
  std::vector<std::shared_ptr<const Program>> programs;
  try {
    for (const OptimizationProfile& profile : plan->profiles) {
      BuiltVariant built =
          build_profile(portable, symbol_ranges(plan->inputs, profile), types, options, pipeline);
      report_fallbacks(built.variant, built.timed, options, observer_);
      section->timed &= built.timed;
      report_memory(built);
      section->variants.push_back(std::move(built.variant));
      programs.push_back(std::move(built.program));
    }
  } catch (const Interrupted&) {  // the next build goes on with what this one has measured
    cache.finish();
    throw;
  }
  cache.finish();
  plan->set_section(section);
  const auto fit = plan->find_section(backend_->target());
  auto engine =
      Engine::assemble(std::move(plan), backend_, static_cast<size_t>(fit.section), std::move(programs));
  observer_.on(EngineGenerated{watch.seconds()});
  return engine;
}

std::shared_ptr<const Engine> Builder::build(const Network& given, const BuildOptions& options) {
  Network network = given;
  mark_shape_inputs(network, options.profiles);
  auto plan = std::make_shared<Plan>();
  plan->model = network.model;
  plan->inputs = network.inputs();
  plan->outputs = network.outputs();
  set_formats(plan->inputs, network.formats);
  set_formats(plan->outputs, network.formats);
  plan->verbosity = options.verbosity;
  plan->fast_load = options.fast_load;
  for (const std::filesystem::path& library : options.plugin_libraries)
    plan->plugin_libraries[library.filename().string()] = read_bytes(library);
  plan->set_portable_graph(network.graph);
  std::vector<OptimizationProfile> profiles = options.profiles;
  if (profiles.empty()) profiles.emplace_back();
  for (const OptimizationProfile& profile : profiles)
    plan->profiles.push_back(complete_profile(plan->inputs, profile));
  return build_section(std::move(plan), options);
}

std::shared_ptr<const Engine> Builder::retarget(const Plan& plan) {
  return build_section(plan.clone(), {.optimization_level = 0, .verbosity = plan.verbosity});
}

std::shared_ptr<const Engine> Builder::retune(const Plan& plan, const BuildOptions& options) {
  return build_section(plan.clone(), options);
}

}  // namespace lathe
