// SPDX-License-Identifier: Apache-2.0
//
// GroupNorm: a block for each group finds its mean, then the squares about it, then the result; the second
// and third walk find the group in L2. Where there are fewer groups than multiprocessors, and they are large,
// several blocks share one: a kernel leaves the mean and the squares of each part, and the next one puts them
// together (n (mean - m)^2 is what the squares of a part about its own mean lack) and writes its part.
//
// Bytes: the input read two times, from memory the first time, and the result written.
#include "backend/cuda/codegen/own_tactic.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kGroupRunner = "GroupNorm";
constexpr int64_t kThreads = 512;
constexpr int64_t kMostParts = 32;      // every thread adds up all of them
constexpr int64_t kLeastOfPart = 2048;  // elements: four for each thread

struct Groups {
  explicit Groups(const LayerQuery& query)
      : op(std::get<GroupNorm>(query.layer().op)), x(input_shape(query, 0)) {
    count = op.groups == 0 ? x[1] : Dim(op.groups);
    channels = op.groups == 0 ? Dim(1)
                              : (x[1].is_constant() ? Dim(x[1].value() / op.groups) : floor_div(x[1], count));
    plane = product(x, 2, x.size());
  }
  Dim all() const { return x[0] * count; }           // of all images
  Dim elements() const { return channels * plane; }  // of each

  const GroupNorm& op;
  const Shape& x;
  Dim count, channels, plane;
};

// Into how many parts groups may go.
std::vector<int64_t> splits(const LayerQuery& query, const Device& device) {
  const Groups groups(query);
  const SymbolValues opt = query.opt_values();
  const int64_t blocks = std::max<int64_t>(1, upper_extent(groups.all(), opt)),
                room = std::min(2 * int64_t{device.properties.multiprocessors} / blocks,
                                upper_extent(groups.elements(), opt) / kLeastOfPart);
  int64_t most = 1;
  while (2 * most <= std::min(room, kMostParts)) most *= 2;
  std::vector<int64_t> parts = {1};
  for (const int64_t p : {most / 2, most})
    if (p > 1) parts.push_back(p);
  return parts;
}

std::vector<Tactic> list_group_norm(const LayerQuery& query, const Device& device) {
  if (!std::holds_alternative<GroupNorm>(query.layer().op)) return {};
  std::vector<Format> formats = {kLinear};
  if (input_shape(query, 0).size() >= 3) formats.push_back(kChannelsLast);
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query))
    for (const Format& format : formats) {
      Tactic t = typed_tactic(query, kGroupRunner, "cuda_group_norm", {type, format}, {type, format});
      for (size_t i = 1; i < 3; ++i) {
        const Value& value = query.graph.value(query.layer().inputs[i]);
        t.inputs[i] = {value.is_constant() ? value.dtype : type, kLinear};
        if (!is_kernel_float(t.inputs[i].dtype))
          t.support = Support::no("scale and bias must be 16 or 32 bit floats");
      }
      if (!is_kernel_float(type)) t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
      if (!t.support.ok) {
        tactics.push_back(std::move(t));
        continue;
      }
      for (const int64_t parts : splits(query, device))
        tactics.push_back(parts == 1 ? t
                                     : with_variant(t, "cuda_group_norm_split" + std::to_string(parts),
                                                    {{"parts", parts}}));
    }
  return tactics;
}

class GroupNormWriter {
 public:
  GroupNormWriter(const LayerQuery& query, const Tactic& tactic)
      : query_(query),
        tactic_(tactic),
        groups_(query),
        parts_(tactic.params.get_int("parts", 1)),
        last_(tactic.inputs[0].format == kChannelsLast),
        width_(Tail(query, tactic)
                   .vector(vector_width(
                       full_vector(tactic.inputs[0].dtype),
                       {last_ ? groups_.channels : groups_.plane, last_ ? groups_.x[1] : groups_.plane}))) {}

  LayerSource source() const {
    if (parts_ == 1) return {{whole()}};
    LayerSource layer{{part(), together()}};
    layer.scratch_bytes = groups_.all() * Dim(parts_ * 8);
    return layer;
  }

 private:
  KernelBuilder start(std::string_view name, bool finishes) const {
    KernelBuilder b = start_kernel(query_, tactic_, std::string(name), tactic_.outputs[0].dtype);
    if (finishes) Tail(query_, tactic_).emit(b, width_);
    const std::string channels = b.number(groups_.channels), count = b.number(groups_.count),
                      plane = b.number(groups_.plane), all = b.number(groups_.x[1]);
    b.kernel().threads = kThreads;
    b.kernel().grid = {groups_.all(), Dim(parts_), 1};
    b.line("const idx image = blockIdx.x / " + count + ", channel = blockIdx.x % " + count + " * " +
           channels + ";");
    // Element i of the group.
    b.line(last_ ? "const idx start = image * " + all + " * " + plane +
                       " + channel;\nconst auto place = [&](idx i) { return start + i / " + channels + " * " +
                       all + " + i % " + channels + "; };"
                 : "const idx start = (image * " + all + " + channel) * " + plane +
                       ";\nconst auto place = [&](idx i) { return start + i; };");
    const std::string n = b.number(groups_.elements()), step = std::to_string(parts_ * width_);
    b.line(
        "const idx chunk = (" + n + " + " + step + " - 1) / " + step + " * " + std::to_string(width_) +
        ";\n// The part's first element, and how many it has.\nconst auto first_of = [&](int part) { return "
        "min(part * chunk, (idx)" +
        n +
        "); };\nconst auto count_of = [&](int part) { return (float)(first_of(part + 1) - "
        "first_of(part)); };\nconst idx first = first_of(blockIdx.y), end = first_of(blockIdx.y + 1);");
    return b;
  }
  // Up to what is done with x[j].
  std::string walk(KernelBuilder& b) const {
    const std::string width = std::to_string(width_);
    return "for (idx i = first + threadIdx.x * " + width + "; i < end; i += " + std::to_string(kThreads) +
           " * " + width + ") {\nfloat x[" + width + "];\nload(" + b.input(0, tactic_.inputs[0].dtype) +
           " + place(i), x);\n#pragma unroll\nfor (int j = 0; j < " + width + "; ++j) ";
  }
  // `mean` and `square`, the sum of squares about it, of the block's part.
  void emit_sums(KernelBuilder& b) const {
    const std::string reduce = "block_reduce<" + std::to_string(kThreads) + ">";
    b.line(
        "__shared__ float buffer[16];\nconst float own = fmaxf(1.f, count_of(blockIdx.y));\nfloat mean = 0, "
        "square = 0;");
    b.line(walk(b) + "mean += x[j];\n}\nmean = " + reduce + "(mean, buffer, SumOp{}) / own;");
    b.line(walk(b) + "square += (x[j] - mean) * (x[j] - mean);\n}\nsquare = " + reduce +
           "(square, buffer, SumOp{});");
  }
  void emit_result(KernelBuilder& b) const {
    const std::string channels = b.number(groups_.channels), plane = b.number(groups_.plane);
    b.line("const float factor = 1.f / sqrtf(square / (float)" + b.number(groups_.elements()) + " + " +
           float_literal(groups_.op.epsilon) + ");");
    b.line(walk(b) + "{\nconst idx c = channel + " + (last_ ? "(i + j) % " + channels : "i / " + plane) +
           ";\nx[j] = (x[j] - mean) * factor * widen(" + b.input(1, tactic_.inputs[1].dtype) +
           "[c]) + widen(" + b.input(2, tactic_.inputs[2].dtype) + "[c]);\n}\nfinish" +
           std::to_string(width_) + "(place(i), x);\n}");
  }

  KernelSource whole() const {
    KernelBuilder b = start("group_norm", true);
    emit_sums(b);
    emit_result(b);
    return b.finish();
  }
  std::string record(KernelBuilder& b) const {
    return b.scratch(0, "float") + " + (size_t)blockIdx.x * " + std::to_string(2 * parts_);
  }
  KernelSource part() const {
    KernelBuilder b = start("group_norm_part", false);
    emit_sums(b);
    b.line("float* const parts = " + record(b) +
           ";\nif (threadIdx.x == 0) { parts[2 * blockIdx.y] = mean; parts[2 * blockIdx.y + 1] = square; }");
    return b.finish();
  }
  KernelSource together() const {
    KernelBuilder b = start("group_norm_together", true);
    const std::string loop = "#pragma unroll\nfor (int p = 0; p < " + std::to_string(parts_) + "; ++p) ";
    b.line("const float* const parts = " + record(b) + ";\nfloat mean = 0, square = 0;\n" + loop +
           "mean += parts[2 * p] * count_of(p);\nmean /= (float)" + b.number(groups_.elements()) + ";\n" +
           loop +
           "{\nconst float off = parts[2 * p] - mean;\nsquare += parts[2 * p + 1] + count_of(p) * off * "
           "off;\n}");
    emit_result(b);
    return b.finish();
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  Groups groups_;
  int64_t parts_;
  bool last_;
  int width_;
};

LayerSource generate_group_norm(const LayerQuery& query, const Tactic& tactic, const Device&) {
  return GroupNormWriter(query, tactic).source();
}

}  // namespace

GeneratedFamily group_norm_family() {
  return {kGroupRunner, list_group_norm, generate_group_norm};
}

}  // namespace lathe::cuda
