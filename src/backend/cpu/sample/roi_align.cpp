// SPDX-License-Identifier: Apache-2.0
//
// RoiAlign on FP32, BF16 and FP16, from linear, channels-last and blocked images, as the mean of points.
//
// Which points a bin has is the operator's own definition (ops/roi_points.h). Interpolation is separable:
// what the points of a bin read is added up along each dim first, so that a pixel which several points read
// is read once (16 reads instead of 64 for 4 x 4 points in 3 x 3 pixels). Where channels lie together, a bin
// is a weighted sum of vectors; linear images are brought into that form first, the box's pixels of 16
// channels at a time, by transposition in registers. Operations: a multiply-add for each pixel of a bin and
// channel; bytes: those pixels, once from L2 or memory and then from L1 (linear: 64 bytes for each pixel of
// the box), and the result. Boxes overlap, so that the image comes from L2 or L3 mostly. The largest of the
// weighted pixels, which the operator has as another mode and few models ask for, is found in plain loops.
#include <cmath>
#include <limits>

#include "backend/cpu/sample/sample.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/transpose_tile.h"
#include "base/error.h"
#include "ir/elements.h"
#include "ops/roi_points.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRoiAlignRunner = "RoiAlign";
constexpr int64_t kRoiChannels = 16;  // channels of a linear image
constexpr size_t kTaps = 256;         // of one sum

// The pixels that a bin reads along one dim, each once, with their weights.
struct RoiLine {
  std::vector<int32_t> pixels;
  std::vector<double> weights;
  std::vector<size_t> ends;  // of each bin's
  double points = 0;         // of a bin

  size_t begin(size_t bin) const { return bin == 0 ? 0 : ends[bin - 1]; }
};

void add_pixel(RoiLine& line, size_t first, int64_t pixel, double weight) {
  // Points go forwards or backwards: a pixel comes again among the last two or never.
  for (size_t i = line.pixels.size(); i > first && i + 3 > line.pixels.size(); --i) {
    if (line.pixels[i - 1] != pixel) continue;
    line.weights[i - 1] += weight;
    return;
  }
  line.pixels.push_back(static_cast<int32_t>(pixel));
  line.weights.push_back(weight);
}

// Throws Input, with the layer's name, unless box `number` is in an image.
int64_t image_of(const LayerArgs& args, int64_t number, int64_t images, const std::string& name) {
  const int64_t image = static_cast<const int64_t*>(args.inputs[2])[number];
  try {
    return checked_roi_image(static_cast<double>(image), number, images);
  } catch (Error& error) {
    error.add_context(name + " (RoiAlign)");
    throw;
  }
}

bool read_corners(const LayerArgs& args, DType type, int64_t number, double* corners) {
  load_doubles(type, static_cast<const std::byte*>(args.inputs[1]), 4 * number, 4, corners);
  return std::all_of(corners, corners + 4, [](double v) { return std::isfinite(v); });
}

// What a member keeps of the box that it is at.
struct RoiBox {
  int64_t number = -1;  // none yet
  bool has_place = false;
  RoiLine rows, columns;
  std::vector<int64_t> offsets;
  std::vector<float> weights;
  RoiPoints points;
  // Linear images: which rows and columns the box reads, and where they are in the patch.
  std::vector<int32_t> patch_rows, row_at, column_at;
  int64_t first_column = 0, patch_columns = 0;
};

class PreparedRoiAlign final : public PreparedLayer {
 public:
  std::string name;
  RoiAlign op;
  TensorType in, out;
  DType box_type = DType::Float32;
  int64_t images = 0, channels = 0, height = 0, width = 0, rois = 0;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  size_t scratch_bytes() const override {
    return static_cast<size_t>(member_floats() * threads) * sizeof(float);
  }
  int members(int available) const override {
    const double results = static_cast<double>(rois * channels) * static_cast<double>(bins());
    return members_for(1.5 * results, std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    RoiBox box;
    const Worker::Range part = worker.slice(rois * groups());
    for (int64_t i = part.begin; i < part.end; ++i) {
      if (box.number != i / groups()) find_box(args, i / groups(), box);
      run_group(args, box, i % groups(), own);
    }
  }

 private:
  int64_t bins() const { return op.output_height * op.output_width; }
  PixelLayout layout() const { return pixel_layout(in.format, channels); }
  // Channels that are computed together: 16 of a linear image, else a plane's.
  int64_t together() const { return in.format.is_linear() ? kRoiChannels : layout().inner; }
  int64_t groups() const { return (channels + together() - 1) / together(); }
  int64_t tile_floats() const { return round_up(bins() * together(), 16); }
  int64_t patch_floats() const {
    if (!in.format.is_linear()) return 0;
    const int64_t rows = op.sampling_ratio > 0 ? op.output_height * 2 * op.sampling_ratio : height;
    return std::min(rows, height) * width * kRoiChannels;
  }
  int64_t wide_floats() const {
    return in.format.is_linear() && in.dtype != DType::Float32 ? round_up(kRoiChannels * width, 16) : 0;
  }
  // The result of a group, with channels last and as it is stored; a patch, and its row in FP32.
  int64_t member_floats() const { return 2 * tile_floats() + patch_floats() + wide_floats(); }

  void find_box(const LayerArgs& args, int64_t number, RoiBox& box) const {
    box.number = number;
    image_of(args, number, images, name);
    double corners[4];
    box.has_place = read_corners(args, box_type, number, corners);
    if (!box.has_place) return;
    find_line(corners[1], corners[3], op.output_height, height, box.points, box.rows);
    find_line(corners[0], corners[2], op.output_width, width, box.points, box.columns);
    if (in.format.is_linear()) find_patch(box);
  }
  void find_line(double low, double high, int64_t count, int64_t extent, RoiPoints& points,
                 RoiLine& line) const {
    line.pixels.clear();
    line.weights.clear();
    line.ends.clear();
    for (int64_t i = 0; i < count; ++i) {
      const size_t first = line.pixels.size();
      find_roi_points(op, low, high, i, count, extent, points);
      for (const RoiPair& pair : points.pairs) {
        add_pixel(line, first, pair.low, 1 - pair.fraction);
        add_pixel(line, first, pair.high, pair.fraction);
      }
      line.ends.push_back(line.pixels.size());
      line.points = points.count;
    }
  }
  // Columns are taken from the first to the last one: they are copied by vectors.
  void find_patch(RoiBox& box) const {
    box.row_at.assign(static_cast<size_t>(height), -1);
    box.patch_rows.clear();
    for (const int32_t row : box.rows.pixels) {
      if (box.row_at[static_cast<size_t>(row)] >= 0) continue;
      box.row_at[static_cast<size_t>(row)] = static_cast<int32_t>(box.patch_rows.size());
      box.patch_rows.push_back(row);
    }
    const auto& columns = box.columns.pixels;
    box.patch_columns = 0;
    if (columns.empty()) return;
    const auto [least, most] = std::minmax_element(columns.begin(), columns.end());
    box.first_column = *least;
    box.patch_columns = *most - *least + 1;
  }

  void run_group(const LayerArgs& args, RoiBox& box, int64_t group, float* own) const {
    float *tile = own, *turned = own + tile_floats();
    const int64_t n = together(), used = std::min(n, channels - group * n);
    if (!box.has_place) {  // padding channels stay zero
      for (int64_t i = 0; i < bins() * n; ++i)
        tile[i] = i % n < used ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    } else {
      sum_bins(args, box, group, tile, turned + tile_floats());
    }
    const int64_t first = box.number * channels + group * n;
    if (out.format.is_linear()) {
      for (int64_t c = 0; c < used; ++c)
        for (int64_t b = 0; b < bins(); ++b) turned[c * bins() + b] = tile[b * n + c];
      epilogue->apply(args, turned, used * bins(), first * bins(), 1, used * bins(), used * bins());
    } else {
      const int64_t place = (box.number * groups() + group) * bins() * n;
      epilogue->apply(args, tile, bins() * n, place, 1, bins() * n, bins() * n);
    }
  }
  void sum_bins(const LayerArgs& args, RoiBox& box, int64_t group, float* tile, float* patch) const {
    const bool linear = in.format.is_linear();
    const int64_t n = together(), image = static_cast<const int64_t*>(args.inputs[2])[box.number];
    const auto* x = static_cast<const std::byte*>(args.inputs[0]);
    if (linear) {
      copy_patch(x, box, image * channels + group * n, std::min(n, channels - group * n), patch);
      x = reinterpret_cast<const std::byte*>(patch);
    } else {
      x += dtype_bytes(in.dtype, (image * groups() + group) * height * width * n);
    }
    const auto place = [&](int32_t row, int32_t column) {
      return linear
                 ? (box.row_at[static_cast<size_t>(row)] * box.patch_columns + column - box.first_column) * n
                 : (row * width + column) * n;
    };
    const Stored stored = linear ? Stored::F32 : stored_as(in.dtype);
    const SampleTable& table = sample_table(isa);
    const double scale = 1 / std::max(box.rows.points * box.columns.points, 1.0);
    for (size_t b = 0; b < static_cast<size_t>(bins()); ++b) {
      const size_t down = b / box.columns.ends.size(), across = b % box.columns.ends.size();
      float* sum = tile + static_cast<int64_t>(b) * n;
      bool add = false;
      const auto flush = [&] {
        table.pixels(x, stored, box.offsets.data(), box.weights.data(),
                     static_cast<int64_t>(box.offsets.size()), add, sum, n);
        add = true;
        box.offsets.clear();
        box.weights.clear();
      };
      for (size_t r = box.rows.begin(down); r < box.rows.ends[down]; ++r)
        for (size_t c = box.columns.begin(across); c < box.columns.ends[across]; ++c) {
          box.offsets.push_back(place(box.rows.pixels[r], box.columns.pixels[c]));
          box.weights.push_back(static_cast<float>(box.rows.weights[r] * box.columns.weights[c] * scale));
          if (box.offsets.size() == kTaps) flush();
        }
      flush();
    }
  }
  // The box's pixels of `count` planes from `plane` on, as [row][column][16].
  void copy_patch(const std::byte* x, const RoiBox& box, int64_t plane, int64_t count, float* patch) const {
    const int64_t pixels = height * width, columns = box.patch_columns;
    float* wide = patch + patch_floats();
    for (const int32_t row : box.patch_rows) {
      const int64_t first = plane * pixels + row * width + box.first_column;
      const float* from = reinterpret_cast<const float*>(x) + first;
      int64_t stride = pixels;
      if (in.dtype != DType::Float32) {
        const PointwiseTable& convert = pointwise_table(isa);
        const auto* halves = reinterpret_cast<const uint16_t*>(x) + first;
        for (int64_t c = 0; c < count; ++c)
          (in.dtype == DType::BFloat16 ? convert.load_bf16 : convert.load_f16)(halves + c * pixels,
                                                                               wide + c * columns, columns);
        from = wide;
        stride = columns;
      }
      transpose_4byte_avx2(from, stride, patch, kRoiChannels, count, columns);
      patch += columns * kRoiChannels;
    }
  }
};

class PreparedRoiMax final : public PreparedLayer {
 public:
  std::string name;
  RoiAlign op;
  DType type = DType::Float32, box_type = DType::Float32;
  int64_t images = 0, channels = 0, height = 0, width = 0, rois = 0;

  int members(int available) const override {
    return members_for(40.0 * static_cast<double>(rois * channels * op.output_height * op.output_width),
                       available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    std::vector<RoiPoints> rows(static_cast<size_t>(op.output_height)),
        columns(static_cast<size_t>(op.output_width));
    const Worker::Range part = worker.slice(rois * channels);
    int64_t image = 0, last = -1;
    bool has_place = false;
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t number = i / channels;
      if (number != last) {
        double corners[4];
        last = number;
        image = image_of(args, number, images, name);
        has_place = read_corners(args, box_type, number, corners);
        if (has_place) {
          find_points(corners[1], corners[3], height, rows);
          find_points(corners[0], corners[2], width, columns);
        }
      }
      with_codec(type, [&]<class Codec>() {
        const int64_t first = (image * channels + i % channels) * height * width;
        auto* to = static_cast<std::byte*>(args.outputs[0]);
        int64_t at = i * op.output_height * op.output_width;
        for (const RoiPoints& r : rows)
          for (const RoiPoints& c : columns) {
            const double value =
                has_place ? largest<Codec>(static_cast<const std::byte*>(args.inputs[0]), first, r, c)
                          : std::numeric_limits<double>::quiet_NaN();
            Codec::put(to, at++, static_cast<typename Codec::Wide>(value));
          }
      });
    }
  }

 private:
  void find_points(double low, double high, int64_t extent, std::vector<RoiPoints>& points) const {
    const auto bins = static_cast<int64_t>(points.size());
    for (int64_t i = 0; i < bins; ++i)
      find_roi_points(op, low, high, i, bins, extent, points[static_cast<size_t>(i)]);
  }
  template <class Codec>
  double largest(const std::byte* x, int64_t first, const RoiPoints& rows, const RoiPoints& columns) const {
    const double points = rows.count * columns.count;
    if (points < 1) return 0;
    const double all = static_cast<double>(rows.pairs.size()) * static_cast<double>(columns.pairs.size());
    double top = points > all ? 0.0 : -std::numeric_limits<double>::infinity();
    for (const RoiPair& r : rows.pairs)
      for (const RoiPair& c : columns.pairs)
        for (int corner = 0; corner < 4; ++corner) {
          const bool below = corner / 2 != 0, right = corner % 2 != 0;
          const int64_t at = first + (below ? r.high : r.low) * width + (right ? c.high : c.low);
          const double part = (below ? r.fraction : 1 - r.fraction) * (right ? c.fraction : 1 - c.fraction) *
                              static_cast<double>(Codec::get(x, at));
          top = top < part ? part : top;
        }
    return top;
  }
};

class RoiAlignKernel final : public LayerKernel {
 public:
  RoiAlignKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        op_(std::get<RoiAlign>(query.layer().op)),
        tactic_(tactic),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    if (op_.max) {
      auto p = std::make_unique<PreparedRoiMax>();
      set_extents(*p, context);
      p->type = tactic_.inputs[0].dtype;
      return p;
    }
    auto p = std::make_unique<PreparedRoiAlign>();
    set_extents(*p, context);
    p->in = tactic_.inputs[0];
    p->out = tactic_.outputs[0];
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  template <class Prepared>
  void set_extents(Prepared& p, const ShapeContext& context) const {
    const Extents& x = context.inputs[0];
    p.name = name_;
    p.op = op_;
    p.box_type = tactic_.inputs[1].dtype;
    p.images = x[0];
    p.channels = x[1];
    p.height = x[2];
    p.width = x[3];
    p.rois = context.outputs[0][0];
    if (element_count(context.outputs[0]) > 0 && x[2] * x[3] == 0)
      throw_input_error(name_ + " (RoiAlign): x of " + to_string(x) + " has no pixels to sample");
  }
  std::string name_;
  RoiAlign op_;
  Tactic tactic_;
  Isa isa_;
  Epilogue epilogue_;
};

std::vector<Tactic> list_roi_align(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<RoiAlign>(&query.layer().op);
  if (!op) return {};
  const Format blocked{Format::Kind::ChannelBlocked, vector_block(machine)};
  std::vector<std::pair<Format, Format>> formats = {{kLinear, kLinear}};
  if (!op->max)
    formats = {{kChannelsLast, kLinear},
               {kChannelsLast, kChannelsLast},
               {blocked, kLinear},
               {blocked, blocked},
               {kLinear, kLinear}};
  const std::string name = op->max ? "roi_align_max" : "roi_align_" + std::string(isa_suffix(machine));
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query))
    for (const auto& [in, out] : formats) {
      Tactic t = typed_tactic(query, kRoiAlignRunner, name, {type, in}, {type, out});
      if (!is_vector_float(type))
        t.support = no_vector_kernel(type);
      else if (query.graph.value(query.layer().inputs[0]).is_constant())
        t.support = Support::no("the image is a constant");
      else if (op->max && !query.layer().epilogue.empty())
        t.support = Support::no("a selection applies no epilogue");
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_roi_align(const LayerQuery& query, const Tactic& tactic,
                                            const Machine& machine, const PackContext&) {
  return std::make_unique<RoiAlignKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily roi_align_tactics() {
  return {kRoiAlignRunner, list_roi_align, make_roi_align};
}

}  // namespace lathe::cpu
