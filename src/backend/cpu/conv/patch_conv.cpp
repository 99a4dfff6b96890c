// SPDX-License-Identifier: Apache-2.0
//
// Convolution as a product of the filters with patches of the image, in linear format: filters and biases of
// run time (modulated and conditional convolutions, correlation of two images), any groups, any number of
// dims, 16-bit types. No weights are packed, so that nothing is lost when each run brings others. Constant
// filters compete where a result is a sum of few products, between layers that want linear format.
//
// What each tap reads for a panel of output positions is a row of the panel (patches.h); filters are rows of
// the left operand as the model has them. A member takes a few panels of a group and goes through the taps in
// chunks, so that a chunk of patches stays in L2 while all filters pass over it. Operations: 2 * channels *
// taps for each result at the rate of products, and a copy of channels * taps elements for each position,
// which all filters share. Reached (Zen 5, two threads): 64 filters of 64 channels, 3x3, 32x32 in 0.18 ms.
#include <algorithm>

#include "backend/cpu/conv/prepared_patches.h"
#include "backend/cpu/tile/choose_gemm.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kPatchConvRunner = "PatchConvolution";
constexpr int64_t kPatchChunk = 512;    // of channels times taps
constexpr int64_t kPanelsTogether = 4;  // whose patches of a chunk take 256 KB
constexpr int64_t kPartsForEachThread = 4;
// Products for each result. With constant filters, whose kernels take other formats, a convolution of more
// takes so long that they win although operands are reformatted; it is a last resort here.
constexpr int64_t kFewProducts = 256;

const PatchTable& patch_table(Isa isa) {
  return isa == Isa::Avx2 ? patch_table_avx2() : patch_table_avx512();
}

class PreparedPatchProduct final : public PreparedPatches {
 public:
  using PreparedPatches::PreparedPatches;

 private:
  // Which runs a member's memory holds.
  struct Found {
    int64_t block = -1, tap = -1;
  };
  // Some filters of a group at a block of positions.
  struct Unit {
    int64_t image = 0;  // counted over groups, too
    int64_t block = 0, first = 0, count = 0;
    int64_t filter = 0, filters = 0;
    float *panels = nullptr, *results = nullptr;
    PatchRun* runs = nullptr;
    PatchRuns* found = nullptr;
  };

  int64_t width() const { return gemm_table(isa).panel; }
  int64_t panels_of_image() const { return (patches.positions() + width() - 1) / width(); }
  // As few as give each thread some parts.
  int64_t panels_together() const {
    return std::clamp<int64_t>(batch * groups * panels_of_image() / (kPartsForEachThread * threads), 1,
                               kPanelsTogether);
  }
  int64_t blocks() const { return (panels_of_image() + panels_together() - 1) / panels_together(); }
  // Where there are fewer blocks than threads, members share the filters of a block and each packs it.
  int64_t filter_parts() const {
    const int64_t tiles = (filters + gemm_table(isa).tile_rows - 1) / gemm_table(isa).tile_rows;
    const int64_t units = std::max<int64_t>(1, batch * groups * blocks());
    return std::clamp<int64_t>(threads / units, 1, std::max<int64_t>(1, tiles));
  }
  int64_t filters_of_part() const { return (filters + filter_parts() - 1) / filter_parts(); }
  int64_t block_width() const { return panels_together() * width(); }
  int64_t taps_together() const { return std::min(patches.taps(), kPatchChunk); }
  int64_t channels_together() const {
    return std::clamp<int64_t>(kPatchChunk / patches.taps(), 1, std::max<int64_t>(1, channels));
  }
  int64_t chunk_rows() const { return channels_together() * taps_together(); }
  int64_t run_places() const { return panels_together() * taps_together() * patches.most_runs(width()); }
  int64_t member_floats() const override {
    const int64_t places = run_places() * static_cast<int64_t>(sizeof(PatchRun)) +
                           panels_together() * taps_together() * static_cast<int64_t>(sizeof(PatchRuns));
    return round_up((chunk_rows() + filters_of_part()) * block_width() + places / 4, 16);
  }

  void run_units(const LayerArgs& args, const Operands& operands, const Worker& worker) const override {
    Unit unit;
    unit.panels = operands.own + worker.index * member_floats();
    unit.results = unit.panels + chunk_rows() * block_width();
    unit.runs = reinterpret_cast<PatchRun*>(unit.results + filters_of_part() * block_width());
    unit.found = reinterpret_cast<PatchRuns*>(unit.runs + run_places());
    Found found;
    const int64_t parts = filter_parts();
    const Worker::Range range = worker.slice(batch * blocks() * groups * parts);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t part = i % parts, group = i / parts % groups, block = i / parts / groups;
      unit.image = block / blocks() * groups + group;
      unit.block = block % blocks();
      unit.first = unit.block * block_width();
      unit.count = std::min(block_width(), patches.positions() - unit.first);
      unit.filter = filters * part / parts;
      unit.filters = filters * (part + 1) / parts - unit.filter;
      run_unit(args, operands, unit, found);
    }
  }
  void run_unit(const LayerArgs& args, const Operands& operands, const Unit& unit, Found& found) const {
    fill_bias(args, unit);
    for (int64_t channel = 0; channel < channels || channel == 0; channel += channels_together())
      for (int64_t tap = 0; tap < patches.taps(); tap += taps_together()) {
        const int64_t n = std::min(channels_together(), channels - channel);
        const int64_t taps = std::min(taps_together(), patches.taps() - tap);
        pack(operands, unit, found, channel, n, tap, taps);
        multiply(args, operands, unit, channel * patches.taps() + tap, n * taps);
      }
    if (!epilogue->is_identity())
      return epilogue->apply(args, unit.results, block_width(), output_at(unit), unit.filters,
                             patches.positions(), unit.count);
    if (const int64_t whole = unit.count / width() * width(); whole < unit.count)
      epilogue->apply(args, unit.results + whole, block_width(), output_at(unit) + whole, unit.filters,
                      patches.positions(), unit.count - whole);
  }
  int64_t output_at(const Unit& unit) const {
    return (unit.image % groups * filters + unit.filter + unit.image / groups * groups * filters) *
               patches.positions() +
           unit.first;
  }
  // A panel of results: in the output, where they are done when the product is.
  std::pair<float*, int64_t> results_of(const LayerArgs& args, const Unit& unit, int64_t panel) const {
    if (epilogue->is_identity() && (panel + 1) * width() <= unit.count)
      return {static_cast<float*>(args.outputs[0]) + output_at(unit) + panel * width(), patches.positions()};
    return {unit.results + panel * width(), block_width()};
  }
  int64_t panels_in(const Unit& unit) const { return (unit.count + width() - 1) / width(); }

  void fill_bias(const LayerArgs& args, const Unit& unit) const {
    if (bias_type == DType::Undefined) return;
    for (int64_t r = 0; r < unit.filters; ++r) {
      const float bias = bias_of(args, unit.image % groups * filters + unit.filter + r);
      for (int64_t p = 0; p < panels_in(unit); ++p) {
        const auto [to, stride] = results_of(args, unit, p);
        std::fill_n(to + r * stride, width(), bias);
      }
    }
  }
  void find(const Unit& unit, Found& found, int64_t tap, int64_t taps) const {
    if (found.block == unit.block && found.tap == tap) return;
    const int64_t places = taps_together() * patches.most_runs(width());
    for (int64_t p = 0; p < panels_in(unit); ++p)
      patches.find(unit.first + p * width(), width(), tap, taps, unit.runs + p * places,
                   unit.found + p * taps_together());
    found = {unit.block, tap};
  }
  void pack(const Operands& operands, const Unit& unit, Found& found, int64_t channel, int64_t n, int64_t tap,
            int64_t taps) const {
    find(unit, found, tap, taps);
    const float* planes = operands.image + (unit.image * channels + channel) * patches.pixels();
    for (int64_t p = 0; p < panels_in(unit); ++p)
      for (int64_t t = 0; t < taps; ++t)
        patch_table(isa).copy(planes, patches.pixels(), n, unit.found[p * taps_together() + t],
                              unit.panels + (p * chunk_rows() + t) * width(), taps * width());
  }
  void multiply(const LayerArgs& args, const Operands& operands, const Unit& unit, int64_t first,
                int64_t count) const {
    const GemmTable& table = gemm_table(isa);
    const int64_t tiles = (unit.filters + table.tile_rows - 1) / table.tile_rows;
    const bool goes_on = first > 0 || bias_type != DType::Undefined;
    const float* rows =
        operands.weights + (unit.image % groups * filters + unit.filter) * weight_stride() + first;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t r = unit.filters * t / tiles, height = unit.filters * (t + 1) / tiles - r;
      for (int64_t p = 0; p < panels_in(unit); ++p) {
        const auto [to, stride] = results_of(args, unit, p);
        float* c = to + r * stride;
        table.multiply(height, rows + r * weight_stride(), weight_stride(),
                       unit.panels + p * chunk_rows() * width(), count, c, stride, goes_on ? c : nullptr,
                       stride);
      }
    }
  }
};

// One filter for each group, depthwise convolutions among them: patches that one filter passes over need not
// be packed. Panels end where rows of the output end, so that a tap reads one run for each.
class PreparedPatchSum final : public PreparedPatches {
 public:
  using PreparedPatches::PreparedPatches;

 private:
  int64_t width() const { return gemm_table(isa).panel; }
  int64_t panels_of_row() const { return (patches.columns() + width() - 1) / width(); }
  int64_t panels_of_image() const { return patches.positions() / patches.columns() * panels_of_row(); }
  int64_t bundles() const { return (groups + kSumsTogether - 1) / kSumsTogether; }
  int64_t panels_together() const {
    return std::clamp<int64_t>(batch * bundles() * panels_of_image() / (kPartsForEachThread * threads), 1,
                               kPanelsTogether);
  }
  int64_t blocks() const { return (panels_of_image() + panels_together() - 1) / panels_together(); }
  int64_t runs_of_panel() const { return patches.taps() * patches.most_runs(width()); }
  int64_t result_floats() const { return kSumsTogether * panels_together() * width(); }
  int64_t member_floats() const override {
    const int64_t bytes = panels_together() * (runs_of_panel() * static_cast<int64_t>(sizeof(PatchRun)) +
                                               patches.taps() * static_cast<int64_t>(sizeof(PatchRuns)));
    return round_up(result_floats() + bytes / 4, 16);
  }
  // The first position of a panel; of the one behind the last: their number.
  int64_t position_of(int64_t panel) const {
    return panel / panels_of_row() * patches.columns() + panel % panels_of_row() * width();
  }

  void run_units(const LayerArgs& args, const Operands& operands, const Worker& worker) const override {
    float* results = operands.own + worker.index * member_floats();
    auto* runs = reinterpret_cast<PatchRun*>(results + result_floats());
    auto* found = reinterpret_cast<PatchRuns*>(runs + panels_together() * runs_of_panel());
    int64_t found_block = -1;
    const Worker::Range range = worker.slice(batch * blocks() * bundles());
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t image = i / bundles() / blocks(), block = i / bundles() % blocks();
      const int64_t first = block * panels_together();
      const int64_t panels = std::min(panels_together(), panels_of_image() - first);
      for (int64_t p = 0; p < panels && found_block != block; ++p)
        patches.find(position_of(first + p), position_of(first + p + 1) - position_of(first + p), 0,
                     patches.taps(), runs + p * runs_of_panel(), found + p * patches.taps());
      found_block = block;
      run_bundle(args, operands, image, i % bundles() * kSumsTogether, first, panels, found, results);
    }
  }
  void run_bundle(const LayerArgs& args, const Operands& operands, int64_t image, int64_t group,
                  int64_t first, int64_t panels, const PatchRuns* found, float* results) const {
    const int64_t begin = position_of(first), count = position_of(first + panels) - begin;
    const int64_t at = (image * groups + group) * patches.positions() + begin;
    const bool direct = epilogue->is_identity();
    float start[kSumsTogether];
    PatchSum sum{.x = operands.image + (image * groups + group) * channels * patches.pixels(),
                 .plane = patches.pixels(),
                 .channels = channels,
                 .taps = patches.taps(),
                 .found = found,
                 .weights = operands.weights + group * weight_stride(),
                 .weight_stride = weight_stride(),
                 .groups = std::min(kSumsTogether, groups - group),
                 .start = start,
                 .result_stride = direct ? patches.positions() : count};
    for (int64_t g = 0; g < sum.groups; ++g) start[g] = bias_of(args, group + g);
    float* to = direct ? static_cast<float*>(args.outputs[0]) + at : results;
    for (int64_t p = 0; p < panels; ++p, sum.found += patches.taps()) {
      const int64_t position = position_of(first + p);
      sum.columns = position_of(first + p + 1) - position;
      patch_table(isa).sum(sum, to + position - begin);
    }
    if (!direct) epilogue->apply(args, results, count, at, sum.groups, patches.positions(), count);
  }
};

class PatchConvKernel final : public LayerKernel {
 public:
  PatchConvKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                  const PackContext& pack)
      : op_(std::get<Conv>(query.layer().op)),
        tactic_(tactic),
        has_bias_(query.layer().has_op_input(2)),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {
    const Value& w = query.graph.value(query.layer().inputs[1]);
    if (!w.is_constant()) return;
    const int64_t filters = w.constant.extents()[0], k = w.constant.size() / std::max<int64_t>(1, filters);
    const int64_t bytes = dtype_bytes(DType::Float32, filters * packed_stride(k));
    packed_ = pack.packed("weights", bytes, [&] {
      std::vector<std::byte> block(static_cast<size_t>(bytes));
      const std::vector<double> values = w.constant.to_doubles();
      auto* rows = reinterpret_cast<float*>(block.data());
      for (size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        rows[at / k * packed_stride(k) + at % k] = static_cast<float>(values[i]);
      }
      return block;
    });
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents &x = context.inputs[0], &y = context.outputs[0];
    const WindowSpec window{op_.kernel,     op_.strides,  op_.dilations,
                            op_.pads_begin, op_.pads_end, op_.auto_pad};
    std::vector<WindowAxis> axes = resolve_window(window, Extents(x.begin() + 2, x.end()));
    std::unique_ptr<PreparedPatches> p;
    if (y[1] == op_.groups && element_count(op_.kernel) <= kPatchChunk)
      p = std::make_unique<PreparedPatchSum>(std::move(axes));
    else
      p = std::make_unique<PreparedPatchProduct>(std::move(axes));
    p->batch = x[0];
    p->groups = op_.groups;
    p->channels = x[1] / op_.groups;
    p->filters = y[1] / op_.groups;
    p->type = tactic_.inputs[0].dtype;
    p->weight_type = tactic_.inputs[1].dtype;
    if (has_bias_) p->bias_type = tactic_.inputs[2].dtype;
    if (!packed_.empty()) p->packed = reinterpret_cast<const float*>(packed_.data());
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  Conv op_;
  Tactic tactic_;
  bool has_bias_;
  Isa isa_;
  Epilogue epilogue_;
  std::span<const std::byte> packed_;
};

Support supports_patch_conv(const LayerQuery& query, DType type, const std::vector<TensorType>& inputs) {
  const Node& node = query.layer();
  const Value& w = query.graph.value(node.inputs[1]);
  if (const Support s = operands_in_vectors(query, type, inputs); !s.ok) return s;
  if (const Value& x = query.graph.value(node.inputs[0]); x.is_constant() && x.dtype != type)
    return Support::no("the image is a constant of another type");
  if (w.is_constant() && w.constant.size() == 0) return Support::no("the weights are empty");
  if (w.shape.size() > Patches::kMostAxes + 2) return Support::no("more than eight spatial dims");
  return {};
}

int64_t products_of_result(const LayerQuery& query) {
  const Extents weights = upper_extents(query.graph.value(query.layer().inputs[1]).shape, query.opt_values());
  return element_count(Extents(weights.begin() + 1, weights.end()));
}

std::vector<Tactic> list_patch_conv(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Conv>(node.op)) return {};
  const auto is_constant = [&](size_t i) {
    return !node.has_op_input(i) || query.graph.value(node.inputs[i]).is_constant();
  };
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    const TensorType linear{type, kLinear};
    Tactic t = typed_tactic(query, kPatchConvRunner, "conv_patches_" + std::string(isa_suffix(machine)),
                            linear, linear);
    if (const Support s = supports_patch_conv(query, type, t.inputs); !s.ok) t.support = s;
    t.last_resort = is_constant(1) && is_constant(2) && products_of_result(query) > kFewProducts;
    if (is_constant(1)) t.inputs[1] = {};
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_patch_conv(const LayerQuery& query, const Tactic& tactic,
                                             const Machine& machine, const PackContext& pack) {
  return std::make_unique<PatchConvKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily patch_conv_tactics() {
  return {kPatchConvRunner, list_patch_conv, make_patch_conv};
}

}  // namespace lathe::cpu
