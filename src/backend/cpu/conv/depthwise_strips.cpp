// SPDX-License-Identifier: Apache-2.0
//
// A few output rows at a time (a strip) go through all parts, so that the tensors between the parts, six
// times as wide as those around them, stay in L1 and L2. Within a strip, 32 channels at a time are expanded
// and filtered; expanded rows that the next strip wants again stay in a ring. The projection then takes all
// channels of the strip in one go.
//
// Members of the team share the output rows: neighbours expand the rows twice that both their windows want.
// Where there are few rows and many channels (7x7 pixels, 960 channels) that would be half of the rows, and
// each member would read all weights; there members share the channels instead, each adds to projection's
// sums of its own, and these are added up at the end.
#include "backend/cpu/conv/depthwise_strips.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cpu/conv/depthwise_fp16_table.h"
#include "backend/cpu/tile/tile_panels.h"
#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {

int64_t PreparedStrips::chunk() const {
  return tile_matmul_table(type).panel;
}
int64_t PreparedStrips::chunk_width(int64_t c) const {
  return std::min(chunk(), round_up(channels - c * chunk(), chunk() / 2));
}
int64_t PreparedStrips::rows_for(int64_t strip) const {
  return std::min(y.input, (strip - 1) * y.stride + (y.kernel - 1) * y.dilation + 1);
}
int64_t PreparedStrips::ring_bytes(int64_t strip, int64_t element_bytes) const {
  if (expands) return share_chunks_ * rows_for(strip) * x.input * chunk() * element_bytes;
  return gathers_some() ? round_up(DenseRows::floats(y, x, depthwise_table(isa).vector) * 4, 64) : 0;
}
int64_t PreparedStrips::strip_bytes(int64_t strip) const {
  return projects ? round_up(dtype_bytes(type, strip * x.output * stride_), 64) : 0;
}

void PreparedStrips::plan() {
  const int count = members(threads);
  shares_ = by_channels && count > 1 ? static_cast<int>(std::min<int64_t>(count, chunks())) : 1;
  share_chunks_ = (chunks() + shares_ - 1) / shares_;
  // Pixels of a multiple of 1 KB fall into the same few cache sets.
  stride_ = share_chunks_ * chunk();
  if (dtype_bytes(type, stride_) % 1024 == 0) stride_ += chunk();
  // As many rows as leave half of L2 to the weights and to what streams through; or thin strips, of which the
  // expanded rows of a chunk stay in L1 until they are filtered.
  const int64_t element_bytes = fp16_expansion ? 2 : 4;
  const auto fits = [&](int64_t strip) {
    return thin ? rows_for(strip) * x.input * chunk() * element_bytes <= kThinBytes
                : ring_bytes(strip, element_bytes) + strip_bytes(strip) <= l2_bytes / 2;
  };
  strip_rows_ = 1;
  while (strip_rows_ < y.output && fits(strip_rows_ + 1)) ++strip_rows_;
  ring_rows_ = rows_for(strip_rows_);
  sums_bytes_ = adds_up() ? round_up(batch * y.output * x.output * out_channels * 4, 64) : 0;
  ring_bytes_ = ring_bytes(strip_rows_, 4) + (fp16_expansion ? 2 * chunk() : 0);
  groups_bytes_ = amx ? groups_bytes() : 0;
  member_bytes_ = sums_bytes_ + ring_bytes_ + strip_bytes(strip_rows_) + groups_bytes_;
}

int PreparedStrips::members(int available) const {
  const double pixels = static_cast<double>(batch * y.output * x.output), all = static_cast<double>(channels);
  const double expanded = expands ? static_cast<double>(batch * y.input * x.input * in_channels) : 0;
  const double projected = projects ? pixels * static_cast<double>(out_channels) : 0;
  const double taps = pixels * static_cast<double>(y.kernel * x.kernel);
  const double speed = type == DType::Float32 ? 90 : 180;
  const int wanted = members_for(all * (2 * (expanded + projected) / speed + 0.025 * taps), available);
  // Those who add sums up meet, which only all can.
  return by_channels && projects && wanted > 1 ? available : wanted;
}

PreparedStrips::Piece PreparedStrips::piece(const LayerArgs& args, int member) const {
  std::byte* memory = args.scratch + member * member_bytes_;
  return {.chunks = {0, chunks()},
          .ring = memory + sums_bytes_,
          .largest = reinterpret_cast<uint16_t*>(memory + sums_bytes_ + ring_bytes_ - 2 * chunk()),
          .strip = memory + sums_bytes_ + ring_bytes_,
          .sums = adds_up() ? reinterpret_cast<float*>(memory) : nullptr,
          .groups = memory + member_bytes_ - groups_bytes_};
}

void PreparedStrips::run(const LayerArgs& args, const Worker& worker) const {
  Piece own = piece(args, worker.index);
  if (adds_up()) {
    std::memset(own.sums, 0, static_cast<size_t>(sums_bytes_));
    worker.barrier();  // the sums of a member that comes late are added up, too
    worker.share(shares_, [&](const Worker& part) { run_channels(args, own, part); });
    add_up(args, worker);
    return worker.barrier();
  }
  if (shares_ > 1 && worker.count > 1) return run_channels(args, own, worker);
  if (shares_ > 1) return worker.share(shares_, [&](const Worker& part) { run_channels(args, own, part); });
  const Worker::Range rows = worker.slice(batch * y.output, 1, (kLeastPixels + x.output - 1) / x.output);
  for (int64_t i = rows.begin, n = 0; i < rows.end; i += n) {
    const int64_t row = i % y.output;
    n = std::min(rows.end - i, y.output - row);
    run_rows(args, own, i / y.output, row, row + n, worker.follows && i == rows.begin);
  }
}

void PreparedStrips::run_channels(const LayerArgs& args, Piece& own, const Worker& worker) const {
  const Worker::Range part = worker.slice(chunks(), 1, kLeastChunks);
  own.chunks = {part.begin, part.end};
  for (int64_t image = 0; image < batch && part.begin < part.end; ++image)
    run_rows(args, own, image, 0, y.output, false);
}

// The input rows inside the data that the windows of output rows [begin, end) want.
PreparedStrips::Range PreparedStrips::input_rows(int64_t begin, int64_t end) const {
  const int64_t first = begin * y.stride - y.pad_begin;
  const int64_t last = (end - 1) * y.stride - y.pad_begin + (y.kernel - 1) * y.dilation + 1;
  const int64_t from = std::clamp<int64_t>(first, 0, y.input);
  return {from, std::clamp(last, from, y.input)};
}

bool PreparedStrips::overflows(
    const Piece& p) const {  // numbers that are not negative are ordered as their bits
  return std::any_of(p.largest, p.largest + chunk(), [&](uint16_t x) { return x > fp16_limit; });
}

std::byte* PreparedStrips::ring_row(const Piece& p, int64_t c, int64_t row) const {
  const int64_t first = (c - p.chunks.begin) * ring_rows_ * x.input * chunk();
  return p.ring + (first + row % ring_rows_ * x.input * ring_width(p, c)) * (p.fp16 ? 2 : 4);
}

void PreparedStrips::fill_strip(const LayerArgs& args, const Piece& p, int64_t image, int64_t row,
                                int64_t count, const Range& fresh) const {
  for (int64_t c = p.chunks.begin; c < p.chunks.end; ++c) {
    if (expands && fresh.size() > 0)
      amx ? expand_amx(args, p, image, c, fresh) : expand(args, p, image, c, fresh);
    depthwise(args, p, image, c, row, count);
  }
}

void PreparedStrips::run_rows(const LayerArgs& args, const Piece& of, int64_t image, int64_t begin,
                              int64_t end, bool follows) const {
  Piece p = of;
  // The window leaves lanes beyond the channels alone; the projection multiplies them by zero.
  if (projects && !expands && channels % (chunk() / 2) != 0)
    std::memset(p.strip, 0, static_cast<size_t>(strip_bytes(strip_rows_)));
  // Rows before it are in the ring, or not wanted any more.
  int64_t ready = follows && begin > 0 ? input_rows(begin - 1, begin).end : 0;
  if (fp16_expansion) {
    if (ready == 0) std::fill_n(p.largest, chunk(), uint16_t{0});
    p.fp16 = !overflows(p);
  }
  for (int64_t row = begin; row < end; row += strip_rows_) {
    const int64_t count = std::min(strip_rows_, end - row);
    const Range wanted = input_rows(row, row + count);
    const Range fresh{std::max(ready, wanted.begin), wanted.end};
    fill_strip(args, p, image, row, count, fresh);
    if (p.fp16 && overflows(p)) {
      p.fp16 = false;
      fill_strip(args, p, image, row, count, wanted);
    }
    ready = std::max(ready, wanted.end);
    if (projects) amx ? project_amx(args, p, image, row, count) : project(args, p, image, row, count);
  }
}

void PreparedStrips::expand(const LayerArgs& args, const Piece& p, int64_t image, int64_t c,
                            const Range& rows) const {
  const MatMulTileTable& table = tile_matmul_table(type);
  const int64_t width = chunk_width(c), pixel_bytes = dtype_bytes(type, in_channels);
  const bool more = c + 1 < p.chunks.end;
  MatMulTile t;
  t.columns = width;
  t.steps = t.a_stride = pixel_bytes / 4;
  t.b = weights.expand + pixel_bytes * chunk() * c;
  t.bias = weights.expand_bias + c * chunk();
  t.out_stride = width;
  t.tail = expand_tail;
  for (int64_t row = rows.begin, n = 0; row < rows.end; row += n) {
    n = std::min(rows.end - row, ring_rows_ - row % ring_rows_);  // the ring ends
    const int64_t pixels = n * x.input, tiles = (pixels + table.tile_rows - 1) / table.tile_rows;
    const auto* from =
        static_cast<const std::byte*>(args.inputs[0]) + (image * y.input + row) * x.input * pixel_bytes;
    auto* out = reinterpret_cast<float*>(ring_row(p, c, row));
    // Each tile fetches its share of the next chunk's weights.
    const int64_t panel_bytes = pixel_bytes * chunk(), share = round_up(panel_bytes / tiles, 64);
    t.ahead_bytes = more ? (4 * chunk() + tiles - 1) / tiles : 0;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t r = pixels * i / tiles;
      t.rows = pixels * (i + 1) / tiles - r;
      t.ahead = more ? t.b + panel_bytes + i * share : t.b;
      t.a = from + r * pixel_bytes;
      t.out = out + r * width;
      table.run(t);
    }
  }
}

void PreparedStrips::depthwise(const LayerArgs& args, const Piece& p, int64_t image, int64_t c, int64_t row,
                               int64_t count) const {
  const DepthwiseTable& table = p.fp16 ? depthwise_fp16_table().window : depthwise_table(isa);
  const int64_t lanes = table.vector, taps = y.kernel * x.kernel, vectors = (channels + lanes - 1) / lanes;
  const int64_t width = expands ? ring_width(p, c) : in_channels, first = p.chunks.begin * chunk();
  const InputRows rows{.pitch = x.input * width, .ring = expands ? ring_rows_ : 0};
  DepthwiseRows d;
  const DType in_type = p.fp16 ? DType::Float16 : expands ? DType::Float32 : type;
  const std::byte* packed = p.fp16 ? weights.depthwise_fp16 : weights.depthwise;
  d.stored = stored_as(in_type);
  d.pixel_stride = width;
  set_columns(d, x);
  d.tail = projects ? depthwise_tail : tail.tail;
  d.out_stored = stored_as(type);
  d.out_stride = projects ? stride_ : channels;
  d.out_row_stride = x.output * d.out_stride;
  std::optional<DenseRows> dense;
  if (gathers_some()) dense.emplace(table, y, x, reinterpret_cast<float*>(p.ring));
  for (int64_t v = c * chunk() / lanes; v < std::min(vectors, (c + 1) * chunk() / lanes); ++v) {
    const int64_t channel = v * lanes;
    d.channels = expands && projects ? lanes : std::min(lanes, channels - channel);
    d.bias = packed + (vectors * taps + v) * lanes * table.lane_bytes;
    if (p.fp16) d.scale = packed + (vectors * (taps + 1) + v) * lanes * table.lane_bytes;
    if (expands)
      d.in = ring_row(p, c, 0) + dtype_bytes(in_type, channel - c * chunk());
    else
      d.in = static_cast<const std::byte*>(args.inputs[0]) +
             dtype_bytes(type, image * y.input * x.input * width + channel);
    d.out = projects ? p.strip + dtype_bytes(type, channel - first)
                     : static_cast<std::byte*>(args.outputs[0]) +
                           dtype_bytes(type, (image * y.output + row) * x.output * channels + channel);
    const std::byte* taps_of = packed + v * taps * lanes * table.lane_bytes;
    if (dense && (d.channels < lanes || gathers_whole()))
      dense->run(d, window_rows, taps_of, row, row + count);
    else
      run_depthwise(table, d, rows, y, window_rows, taps_of, row, row + count);
  }
}

// What the projection adds: to sums what they are so far.
const std::byte* PreparedStrips::operand_of_projection(const LayerArgs& args, const Piece& p) const {
  if (p.sums) return reinterpret_cast<const std::byte*>(p.sums);
  return tail.operand >= 0 ? static_cast<const std::byte*>(args.inputs[static_cast<size_t>(tail.operand)])
                           : nullptr;
}

void PreparedStrips::project(const LayerArgs& args, const Piece& p, int64_t image, int64_t row,
                             int64_t count) const {
  const MatMulTileTable& table = tile_matmul_table(type);
  const int64_t pixels = count * x.output, tiles = (pixels + table.tile_rows - 1) / table.tile_rows;
  const int64_t all = round_up(channels, chunk() / 2), first = p.chunks.begin * chunk();
  const int64_t at = (image * y.output + row) * x.output * out_channels;
  const std::byte* operand = operand_of_projection(args, p);
  MatMulTile t;
  t.steps = dtype_bytes(type, std::min(all, p.chunks.end * chunk()) - first) / 4;
  t.a_stride = dtype_bytes(type, stride_) / 4;
  t.out_stride = t.operand_stride = out_channels;
  if (!p.sums) t.tail = tail.tail;
  t.stored = p.sums ? Stored::F32 : stored_as(type);
  for (int64_t column = 0; column < out_channels; column += table.panel) {
    t.columns = std::min(table.panel, out_channels - column);
    const int64_t wide = round_up(t.columns, table.panel / 2);
    t.b = weights.project + dtype_bytes(type, all * column + first * wide);
    t.bias = p.sums ? nullptr : weights.project_bias + column;
    const bool more = column + table.panel < out_channels;
    const int64_t panel_bytes = dtype_bytes(type, all * table.panel),
                  share = round_up(t.steps * 4 * wide / tiles, 64);
    t.ahead_bytes = more ? (4 * table.panel + tiles - 1) / tiles : 0;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t r = pixels * i / tiles, to = at + r * out_channels + column;
      t.rows = pixels * (i + 1) / tiles - r;
      t.ahead = more ? t.b + panel_bytes + i * share : t.b;
      t.a = p.strip + r * t.a_stride * 4;
      t.operand = operand ? operand + dtype_bytes(p.sums ? DType::Float32 : type, to) : nullptr;
      t.out = p.sums ? reinterpret_cast<std::byte*>(p.sums + to)
                     : static_cast<std::byte*>(args.outputs[0]) + dtype_bytes(type, to);
      table.run(t);
    }
  }
}

void PreparedStrips::add_up(const LayerArgs& args, const Worker& worker) const {
  const Worker::Range part = worker.slice(batch * y.output * x.output);
  const int64_t pixels = part.end - part.begin, begin = part.begin * out_channels;
  if (pixels == 0) return;
  float* sum = piece(args, 0).sums + begin;
  for (int member = 1; member < worker.count; ++member) {
    const float* other = piece(args, member).sums + begin;
    for (int64_t k = 0; k < pixels * out_channels; ++k) sum[k] += other[k];
  }
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < out_channels; ++c) sum[p * out_channels + c] += weights.plain_bias[c];
  epilogue->apply(args, sum, out_channels, begin, pixels, out_channels, out_channels);
}

}  // namespace lathe::cpu
