// SPDX-License-Identifier: Apache-2.0
//
// Strides of operands along a result's storage order.
#include "backend/cpu/vector/operand_strides.h"

#include "base/error.h"

namespace lathe::cpu {
namespace {

int64_t block_count(int64_t channels, int64_t block) {
  return (channels + block - 1) / block;
}

// Distances of an operand's logical dims in memory, right-aligned to `rank` dims; channel_block: distance of
// two blocks.
struct LogicalStrides {
  Extents extents;  // with leading ones
  Extents strides;
  int64_t channel_block = 0;
};

LogicalStrides logical_strides(const Extents& extents, const Format& format, size_t rank) {
  check(extents.size() <= rank, "operand has more dims than the result");
  LogicalStrides out;
  out.extents.assign(rank - extents.size(), 1);
  out.extents.insert(out.extents.end(), extents.begin(), extents.end());
  out.strides.assign(rank, 0);
  const auto& e = out.extents;
  int64_t stride = 1;
  switch (format.kind) {
    case Format::Kind::Linear:
      for (size_t d = rank; d-- > 0; stride *= e[d]) out.strides[d] = stride;
      break;
    case Format::Kind::ChannelsLast:
      check(rank >= 2, "channels-last needs a channel dim");
      out.strides[1] = 1;
      stride = stored_channels(e[1], format);
      for (size_t d = rank; d-- > 2; stride *= e[d]) out.strides[d] = stride;
      out.strides[0] = stride;
      break;
    case Format::Kind::ChannelBlocked:
      check(rank >= 2, "a blocked format needs a channel dim");
      out.strides[1] = 1;
      stride = format.block;
      for (size_t d = rank; d-- > 2; stride *= e[d]) out.strides[d] = stride;
      out.channel_block = stride;
      out.strides[0] = stride * block_count(e[1], format.block);
      break;
  }
  return out;
}

}  // namespace

StorageWalk storage_walk(const Extents& extents, const Format& format) {
  if (format.is_linear() || extents.size() < 2) return {extents};
  Extents walk = {extents[0]};
  const bool blocked = format.kind == Format::Kind::ChannelBlocked;
  if (blocked) walk.push_back(block_count(extents[1], format.block));
  walk.insert(walk.end(), extents.begin() + 2, extents.end());
  walk.push_back(blocked ? format.block : stored_channels(extents[1], format));
  return {walk};
}

Extents operand_strides(const Extents& operand, const Format& operand_format, const Extents& result,
                        const Format& result_format) {
  const StorageWalk walk = storage_walk(result, result_format);
  if (element_count(operand) == 1) return Extents(walk.extents.size(), 0);
  LogicalStrides s = logical_strides(operand, operand_format, result.size());
  for (size_t d = 0; d < result.size(); ++d) {
    check(s.extents[d] == result[d] || s.extents[d] == 1, "operand does not broadcast to the result");
    if (s.extents[d] == 1) s.strides[d] = 0;
  }
  if (result_format.is_linear() || result.size() < 2) {
    check(operand_format.is_linear() || result.size() < 2, "operand format differs from the result's");
    return s.strides;
  }
  Extents out = {s.strides[0]};
  if (result_format.kind == Format::Kind::ChannelBlocked) {
    if (operand_format.is_linear()) {
      check(s.strides[1] == 0 || result[1] % result_format.block == 0,
            "a linear operand does not fill the blocks of the result");
      out.push_back(s.strides[1] * result_format.block);
    } else {
      check(operand_format == result_format, "operand format differs from the result's");
      out.push_back(s.extents[1] == 1 ? 0 : s.channel_block);
    }
  } else {
    check(operand_format.is_linear() || operand_format == result_format,
          "operand format differs from the result's");
  }
  out.insert(out.end(), s.strides.begin() + 2, s.strides.end());
  out.push_back(s.strides[1]);
  return out;
}

Tensor constant_operand(const Tensor& constant, const Extents& result, const Format& format,
                        Extents& extents_out, Format& format_out) {
  Tensor values = constant;
  if (constant.dtype() != DType::Float32)
    values = Tensor::from_doubles(DType::Float32, constant.extents(), constant.to_doubles());
  const size_t rank = result.size();
  Extents e(rank - constant.extents().size(), 1);
  e.insert(e.end(), constant.extents().begin(), constant.extents().end());
  extents_out = e;
  format_out = kLinear;
  if (format.kind != Format::Kind::ChannelBlocked || rank < 2 || e[1] == 1) return values;
  format_out = format;
  const int64_t block = format.block, blocks = block_count(e[1], block);
  int64_t spatial = 1;
  for (size_t d = 2; d < rank; ++d) spatial *= e[d];
  Tensor out = Tensor::allocate(DType::Float32, {e[0] * blocks * spatial * block});
  const auto from = values.data<float>();
  const auto to = out.mutable_data<float>();
  for (int64_t n = 0; n < e[0]; ++n)
    for (int64_t c = 0; c < e[1]; ++c)
      for (int64_t i = 0; i < spatial; ++i)
        to[static_cast<size_t>(((n * blocks + c / block) * spatial + i) * block + c % block)] =
            from[static_cast<size_t>((n * e[1] + c) * spatial + i)];
  return out;
}

}  // namespace lathe::cpu
