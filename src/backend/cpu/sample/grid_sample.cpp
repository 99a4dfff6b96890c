// SPDX-License-Identifier: Apache-2.0
//
// GridSample on FP32, BF16 and FP16, in linear and channels-last format, of one to three spatial dims.
//
// A block of up to 2048 places gets its pixels and weights once, for all channels: in plain loops from the
// operator's own definition (ops/grid_taps.h), or in vectors for what most models have, linear interpolation
// of images without reflection. Then every channel is a weighted sum of pixels, which lie apart in linear
// format (about a cycle for each) and next to one another in channels-last. Channels of a linear image lie a
// power of two apart mostly, where they share cache sets: a channel does all of a block before the next.
// Bytes: the grid and the result once, the pixels around the places from L1 or L2 where neighbouring places
// read neighbouring pixels. With three channels or less finding pixels takes as long as reading them.
#include <cmath>
#include <limits>

#include "backend/cpu/sample/sample.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "base/error.h"
#include "ir/elements.h"
#include "ops/grid_taps.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kGridSampleRunner = "GridSample";
constexpr int64_t kPlacesTogether = 128;  // places whose pixels are found together
constexpr int64_t kMostPlaces = 2048;     // of a block: pixels and weights of four taps are 64 KB

class PreparedGridSample final : public PreparedLayer {
 public:
  GridSample op;
  TensorType type;
  DType grid_type = DType::Float32;
  int64_t images = 0, channels = 0, places = 0;  // places of an image
  Extents spatial;
  Isa isa = Isa::Avx2;
  int threads = 1;
  int64_t block_places = kPlacesTogether;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes() * threads); }
  int members(int available) const override {
    const double taps = static_cast<double>(count_taps()), each = type.format.is_linear() ? 0.4 : 0.1;
    return members_for(
        static_cast<double>(images * places) * (20 + each * taps * static_cast<double>(channels)),
        std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    std::byte* own = args.scratch + worker.index * member_bytes();
    Block block{.index = reinterpret_cast<int32_t*>(own)};
    block.weights = reinterpret_cast<float*>(block.index + count_taps() * block_places);
    block.values = block.weights + count_taps() * block_places;
    const int64_t blocks = (places + block_places - 1) / block_places;
    const Worker::Range part = worker.slice(images * blocks);
    for (int64_t i = part.begin; i < part.end; ++i) {
      block.image = i / blocks;
      block.first = i % blocks * block_places;
      block.count = std::min(block_places, places - block.first);
      if (uses_corners())
        find_corners(args, block);
      else
        find_taps(args, block);
      if (type.format.is_linear())
        sum_planes(args, block);
      else
        sum_pixels(args, block);
    }
  }

 private:
  struct Block {
    int32_t* index = nullptr;  // [tap][place]
    float *weights = nullptr, *values = nullptr;
    int64_t image = 0, first = 0, count = 0;
  };
  int64_t count_taps() const {
    const int64_t each = op.mode == ResizeMode::Nearest ? 1 : op.mode == ResizeMode::Linear ? 2 : 4;
    int64_t all = 1;
    for (size_t d = 0; d < spatial.size(); ++d) all *= each;
    return all;
  }
  int64_t plane() const { return element_count(spatial); }
  int64_t member_bytes() const {
    const int64_t values = std::max(block_places, round_up(channels, 16));
    return (2 * count_taps() * block_places + values) * 4;
  }
  bool uses_corners() const {
    return spatial.size() == 2 && op.mode == ResizeMode::Linear && op.padding != GridPadding::Reflection;
  }

  void find_corners(const LayerArgs& args, const Block& block) const {
    for (int64_t first = 0; first < block.count; first += kPlacesTogether)
      find_some_corners(args, block, first, std::min(kPlacesTogether, block.count - first));
  }
  void find_some_corners(const LayerArgs& args, const Block& block, int64_t first, int64_t n) const {
    double grid[2 * kPlacesTogether], ys[kPlacesTogether], xs[kPlacesTogether];
    load_doubles(grid_type, static_cast<const std::byte*>(args.inputs[1]),
                 2 * (block.image * places + block.first + first), 2 * n, grid);
    const bool clamps = op.padding == GridPadding::Border;
    const auto position = [&](double at, int64_t extent) {
      const auto count = static_cast<double>(extent);
      const double x = op.align_corners ? (at + 1) / 2 * (count - 1) : ((at + 1) * count - 1) / 2;
      if (!clamps) return x;
      return x > 0 && std::isfinite(x) ? std::min(x, count - 1)
                                       : 0.0;  // the first pixel for what is no number
    };
    for (int64_t i = 0; i < n; ++i) {
      xs[i] = position(grid[2 * i], spatial[1]);
      ys[i] = position(grid[2 * i + 1], spatial[0]);
    }
    sample_table(isa).corners(ys, xs, nullptr, n, spatial[0], spatial[1],
                              {block.index + first, block.weights + first, block_places});
  }
  void find_taps(const LayerArgs& args, const Block& block) const {
    const size_t rank = spatial.size();
    const Extents strides = row_major_strides(spatial);
    double grid[3];
    GridTaps taps[3];
    for (int64_t i = 0; i < block.count; ++i) {
      load_doubles(grid_type, static_cast<const std::byte*>(args.inputs[1]),
                   (block.image * places + block.first + i) * static_cast<int64_t>(rank),
                   static_cast<int64_t>(rank), grid);
      for (size_t d = 0; d < rank; ++d) taps[d] = grid_taps(op, grid[rank - 1 - d], spatial[d]);
      for (int64_t k = 0; k < count_taps(); ++k) {
        int64_t at = 0, rest = k;
        double weight = 1;
        for (size_t d = rank; d-- > 0; rest /= taps[d].count) {
          at += taps[d].index[rest % taps[d].count] * strides[d];
          weight *= taps[d].weight[rest % taps[d].count];
        }
        block.index[k * block_places + i] = static_cast<int32_t>(at);
        block.weights[k * block_places + i] = static_cast<float>(weight);
      }
    }
  }
  void sum_planes(const LayerArgs& args, const Block& block) const {
    const PlaceTaps taps{count_taps(), block_places, block.index, block.weights};
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t row = block.image * channels + c, to = row * places + block.first;
      const auto* x = static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type.dtype, row * plane());
      float* y = epilogue->is_identity() ? static_cast<float*>(args.outputs[0]) + to : block.values;
      sample_table(isa).places(x, stored_as(type.dtype), taps, y, block.count);
      if (!epilogue->is_identity())
        epilogue->apply(args, block.values, block_places, to, 1, block.count, block.count);
    }
  }
  void sum_pixels(const LayerArgs& args, const Block& block) const {
    const auto* x = static_cast<const std::byte*>(args.inputs[0]) +
                    dtype_bytes(type.dtype, block.image * plane() * channels);
    int64_t offsets[64];
    float weights[64];
    for (int64_t i = 0; i < block.count; ++i) {
      int64_t n = 0;
      for (int64_t k = 0; k < count_taps(); ++k) {
        weights[n] = block.weights[k * block_places + i];
        offsets[n] = block.index[k * block_places + i] * channels;
        n += weights[n] != 0 ? 1 : 0;
      }
      const int64_t to = (block.image * places + block.first + i) * channels;
      float* y = epilogue->is_identity() ? static_cast<float*>(args.outputs[0]) + to : block.values;
      sample_table(isa).pixels(x, stored_as(type.dtype), offsets, weights, n, false, y, channels);
      if (!epilogue->is_identity()) epilogue->apply(args, block.values, channels, to, 1, channels, channels);
    }
  }
};

class GridSampleKernel final : public LayerKernel {
 public:
  GridSampleKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        op_(std::get<GridSample>(query.layer().op)),
        tactic_(tactic),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedGridSample>();
    const Extents &x = context.inputs[0], &y = context.outputs[0];
    p->op = op_;
    p->type = tactic_.inputs[0];
    p->grid_type = tactic_.inputs[1].dtype;
    p->images = y[0];
    p->channels = x[1];
    p->spatial.assign(x.begin() + 2, x.end());
    p->places = element_count(Extents(y.begin() + 2, y.end()));
    const int64_t plane = element_count(p->spatial);
    if (element_count(y) > 0 && plane == 0)
      throw_input_error(name_ + " (GridSample): x of " + to_string(x) + " has no pixels to sample");
    if (plane > std::numeric_limits<int32_t>::max())
      throw_input_error(name_ + " (GridSample): an image of " + to_string(x) + " has more than 2^31 pixels");
    // Some blocks for each thread.
    const int64_t blocks = 4 * context.threads / std::max<int64_t>(1, p->images) + 1;
    p->block_places = std::clamp(round_up(p->places / blocks, kPlacesTogether), kPlacesTogether, kMostPlaces);
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  std::string name_;
  GridSample op_;
  Tactic tactic_;
  Isa isa_;
  Epilogue epilogue_;
};

std::vector<Tactic> list_grid_sample(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<GridSample>(query.layer().op)) return {};
  const Value& x = query.graph.value(query.layer().inputs[0]);
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query))
    for (const Format& format : {kLinear, kChannelsLast}) {
      Tactic t = typed_tactic(query, kGridSampleRunner, "grid_sample_" + std::string(isa_suffix(machine)),
                              {type, format}, {type, format});
      if (!is_vector_float(type))
        t.support = no_vector_kernel(type);
      else if (x.shape.size() > 5)
        t.support = Support::no("more than three spatial dims");
      else if (x.is_constant() && (x.dtype != type || !format.is_linear()))
        t.support = Support::no("a constant operand is read as it is stored");
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_grid_sample(const LayerQuery& query, const Tactic& tactic,
                                              const Machine& machine, const PackContext&) {
  return std::make_unique<GridSampleKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily grid_sample_tactics() {
  return {kGridSampleRunner, list_grid_sample, make_grid_sample};
}

}  // namespace lathe::cpu
