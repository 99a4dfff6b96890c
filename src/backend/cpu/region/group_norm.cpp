// SPDX-License-Identifier: Apache-2.0
//
// GroupNorm and InstanceNormalization on FP32, BF16 and FP16 in linear format, where a group's planes are
// neighbours in memory. Groups are shared out over the team.
//
// Bytes: each element read once and written once from where it lies; two more readings from the cache, if it
// holds a group.
#include "backend/cpu/region/row_kernels.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kGroupNormRunner = "GroupNorm";

class PreparedGroupNorm final : public PreparedLayer {
 public:
  float epsilon = 0;
  int64_t groups = 0, per_image = 1, channels = 1,
          plane = 1;  // groups of all images; of one; channels of a group
  DType type = DType::Float32, scale_type = DType::Float32, bias_type = DType::Float32;
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  int64_t group_elements() const { return channels * plane; }
  int64_t member_floats() const { return round_up(group_elements(), 16) + 2 * round_up(channels, 16); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(member_floats()) * 4 * static_cast<size_t>(threads);
  }
  int members(int available) const override {
    return members_for(0.25 * static_cast<double>(groups * group_elements()), std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const RowsTable& table = rows_table(isa);
    const PointwiseTable& convert = pointwise_table(isa);
    float* buffer = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    float* scales = buffer + round_up(group_elements(), 16);
    const Worker::Range part = worker.slice(groups);
    for (int64_t g = part.begin; g < part.end; ++g) {
      const int64_t at = g * group_elements(), channel = g % per_image * channels;
      const float* x = widen(convert, type, element(args.inputs[0], at, type), group_elements(), buffer);
      float* y = type == DType::Float32 ? static_cast<float*>(args.outputs[0]) + at : buffer;
      const float* scale =
          widen(convert, scale_type, element(args.inputs[1], channel, scale_type), channels, scales);
      const float* bias = widen(convert, bias_type, element(args.inputs[2], channel, bias_type), channels,
                                scales + round_up(channels, 16));
      table.group_norm(x, y, channels, plane, scale, bias, epsilon);
      epilogue->apply(args, y, group_elements(), at, 1, group_elements(), group_elements());
    }
  }

 private:
  static const std::byte* element(const void* base, int64_t index, DType dtype) {
    return static_cast<const std::byte*>(base) + dtype_bytes(dtype, index);
  }
};

class GroupNormKernel final : public LayerKernel {
 public:
  GroupNormKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : name_(query.layer().name),
        op_(std::get<GroupNorm>(query.layer().op)),
        tactic_(tactic),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedGroupNorm>();
    const Extents& x = context.inputs[0];
    p->epsilon = op_.epsilon;
    p->per_image = std::max<int64_t>(1, op_.groups == 0 ? x[1] : op_.groups);
    if (x[1] % p->per_image != 0)
      throw_input_error(name_ + " (GroupNorm): " + std::to_string(x[1]) + " channels do not divide into " +
                        std::to_string(op_.groups) + " groups");
    p->channels = x[1] / p->per_image;
    p->groups = x[0] * p->per_image;
    for (size_t d = 2; d < x.size(); ++d) p->plane *= x[d];
    p->type = tactic_.inputs[0].dtype;
    p->scale_type = tactic_.inputs[1].dtype;
    p->bias_type = tactic_.inputs[2].dtype;
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  std::string name_;
  GroupNorm op_;
  Tactic tactic_;
  Isa isa_;
  Epilogue epilogue_;
};

std::vector<Tactic> list_group_norm(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<GroupNorm>(query.layer().op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    Tactic t = typed_tactic(query, kGroupNormRunner, "group_norm_" + std::string(isa_suffix(machine)),
                            {type, kLinear}, {type, kLinear});
    if (!is_vector_float(type))
      t.support = no_vector_kernel(type);
    else if (!is_vector_float(t.inputs[1].dtype) || !is_vector_float(t.inputs[2].dtype))
      t.support = Support::no("scale and bias must be 16 or 32 bit floats");
    if (!reads_twice(query, 0)) t.in_place_inputs = {0};
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_group_norm(const LayerQuery& query, const Tactic& tactic,
                                             const Machine& machine, const PackContext&) {
  return std::make_unique<GroupNormKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily group_norm_tactics() {
  return {kGroupNormRunner, list_group_norm, make_group_norm};
}

}  // namespace lathe::cpu
