// SPDX-License-Identifier: Apache-2.0
//
// ScatterElements and ScatterND: a copy of the data (none where the result lies in its memory), in which
// updates replace, or are combined with, what their addresses name. Duplicates give what one update after the
// other would give, in every run the same bytes:
//   - without a reduction the last update of an address wins. Each update says so to the address (an integer
//     maximum of update numbers, in scratch memory), and then writes if it was the last: two passes over the
//     addresses and one over the updates. A single address needs none of this.
//   - with a reduction the updates are sorted by address, in a stable order, and one thread adds up those of
//     an element: floats in FP32, rounded once. The sort costs three kernels for each byte of an address
//     (one in all for up to 4,096 updates); many updates of one element are added one after the other.
//     Atomic additions of floats would need one kernel, but give other sums in each run.
// An address outside of the data is passed over, and no memory outside is written.
#include "backend/cuda/codegen/element_kernel.h"
#include "backend/cuda/codegen/line_sort.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kScatterRunner = "Scatter";

ScatterReduction reduction_of(const Op& op) {
  if (const auto* elements = std::get_if<ScatterElements>(&op)) return elements->reduction;
  return std::get<ScatterND>(op).reduction;
}

std::vector<Tactic> list_scatter(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const bool elements = std::holds_alternative<ScatterElements>(node.op);
  if (!elements && !std::holds_alternative<ScatterND>(node.op)) return {};
  Tactic t = linear_tactic(query, kScatterRunner, elements ? "cuda_scatter_elements" : "cuda_scatter_nd");
  if (const Support s = stored(t); !s.ok) t.support = s;
  if (const Support s = computed(t.inputs[0].dtype); !s.ok && reduction_of(node.op) != ScatterReduction::None)
    t.support = s;
  if (!node.epilogue.empty()) t.support = Support::no("a scatter applies no epilogue");
  if (t.inputs[2].dtype != t.inputs[0].dtype) t.support = Support::no("updates have another type than data");
  const bool again = node.inputs[0] == node.inputs[1] || node.inputs[0] == node.inputs[2];
  if (!again && !query.graph.value(node.inputs[0]).is_constant()) t.in_place_inputs = {0};
  return {t};
}

class ScatterWriter {
 public:
  ScatterWriter(const LayerQuery& query, const Tactic& tactic)
      : query_(query), tactic_(tactic), type_(tactic.outputs[0].dtype) {
    const Shape &x = input_shape(query, 0), &indices = input_shape(query, 1);
    if (const auto* op = std::get_if<ScatterElements>(&query.layer().op)) {
      axis_ = axis_of(op->axis, x.size());
      updates_ = element_count(indices);
      slots_ = element_count(x);
    } else {
      length_ = static_cast<size_t>(indices.back().value());
      updates_ = product(indices, 0, indices.size() - 1);
      slots_ = product(x, 0, length_);
      block_ = product(x, length_, x.size());
    }
    vector_ = vector_width(full_vector(type_), {block_});
  }

  LayerSource write() const {
    if (reduction_of(query_.layer().op) != ScatterReduction::None) return combined();
    // One address is no duplicate.
    if (updates_.is_constant(1)) return {{copy(false), replace(false)}};
    return {.kernels = {copy(true), claim(), replace(true)},
            .scratch_bytes = slots_ * Dim(4),
            .numbered = updates_};
  }

 private:
  KernelBuilder start(const std::string& entry) const {
    KernelBuilder b = start_kernel(query_, tactic_, entry, type_);
    add_counting(b);
    return b;
  }

  // slot_of(i): which element or block of the data update i is for; -1 when that is outside.
  void slots(KernelBuilder& b) const {
    const Shape &x = input_shape(query_, 0), &indices = input_shape(query_, 1);
    const std::string index = b.input(1, tactic_.inputs[1].dtype);
    std::string text = "const auto slot_of = [&](idx i) -> idx {\nidx slot = 0;\n";
    const auto add = [&](const std::string& from, const Dim& extent, const std::string& stride) {
      const std::string e = b.number(extent);
      text += "{\nlong long k = widen(" + index + "[" + from + "]);\nif (k < 0) k += " + e +
              ";\nif (k < 0 || k >= " + e + ") return -1;\nslot += (idx)k * " + stride + ";\n}\n";
    };
    if (axis_) {
      const std::vector<Dim> strides = storage_strides(x, kLinear);
      add("i", x[*axis_], b.number(strides[*axis_]));
      text += "idx r = i;\n";
      for (size_t d = x.size(); d-- > 0;) {
        const std::string e = b.number(indices[d]);
        if (d != *axis_) text += "slot += r % " + e + " * " + b.number(strides[d]) + ";\n";
        text += "r /= " + e + ";\n";
      }
    } else {
      for (size_t k = 0; k < length_; ++k)
        add("i * " + std::to_string(length_) + " + " + std::to_string(k), x[k],
            b.number(product(x, k + 1, length_)));
    }
    b.line(text + "return slot;\n};");
  }

  // The data; with `owners`, the slots that updates name belong to nobody.
  KernelSource copy(bool owners) const {
    KernelBuilder b = start("scatter_copy");
    const Dim total = element_count(output_shape(query_));
    const int v = vector_width(full_vector(type_), {total});
    const std::string vs = std::to_string(v), from = b.input(0, tactic_.inputs[0].dtype),
                      to = b.output(0, type_);
    const Dim blocks = ceil_div(total, Dim(256 * v));
    b.kernel().grid[0] = owners ? max(blocks, ceil_div(updates_, Dim(256))) : blocks;
    b.line("const idx i = (idx)blockIdx.x * 256 + threadIdx.x;\nif (i < " + b.number(total) + " / " + vs +
           " && (const void*)" + from + " != (const void*)" + to + ") {\n" +
           std::string(compute_name(type_)) + " v[" + vs + "];\nload(" + from + " + i * " + vs +
           ", v);\nstore(" + to + " + i * " + vs + ", v);\n}");
    if (owners) {
      slots(b);
      b.line("if (i < " + b.number(updates_) + ") {\nconst idx slot = slot_of(i);\nif (slot >= 0) " +
             b.scratch(0, "int") + "[slot] = -1;\n}");
    }
    return b.finish();
  }

  KernelSource claim() const {
    KernelBuilder b = start("scatter_claim");
    slots(b);
    b.kernel().grid[0] = ceil_div(updates_, Dim(256));
    b.line("const idx i = (idx)blockIdx.x * 256 + threadIdx.x;\nif (i >= " + b.number(updates_) +
           ") return;\nconst idx slot = slot_of(i);\nif (slot >= 0) atomic_max(" + b.scratch(0, "int") +
           " + slot, (int)i);");
    return b.finish();
  }

  // A thread has a vector of the updates: e is its first element, i its update, `inside` where it lies there.
  void begin_updates(KernelBuilder& b) const {
    const Dim total = updates_ * block_;
    b.kernel().grid[0] = ceil_div(total, Dim(256 * vector_));
    b.line("const idx e = ((idx)blockIdx.x * 256 + threadIdx.x) * " + std::to_string(vector_) +
           ";\nif (e >= " + b.number(total) + ") return;\nconst idx i = e / " + b.number(block_) +
           ", inside = e % " + b.number(block_) + ";");
  }

  KernelSource replace(bool owners) const {
    KernelBuilder b = start("scatter_replace");
    slots(b);
    begin_updates(b);
    b.line(std::string("const idx slot = slot_of(i);\nif (slot < 0") +
           (owners ? " || " + b.scratch(0, "int") + "[slot] != (int)i" : "") + ") return;\n" +
           std::string(compute_name(type_)) + " v[" + std::to_string(vector_) + "];\nload(" +
           b.input(2, tactic_.inputs[2].dtype) + " + e, v);\nstore(" + b.output(0, type_) + " + slot * " +
           b.number(block_) + " + inside, v);");
    return b.finish();
  }

  LayerSource combined() const {
    LayerSource layer{.kernels = {copy(false)}, .numbered = updates_};
    const int64_t slots_most = upper_bound(slots_, query_.ranges);
    int bits = 1;
    while (bits < 63 && slots_most >> bits != 0) ++bits;
    LineSort sort{.length = updates_, .most = upper_bound(updates_, query_.ranges), .bits = bits};
    sort.start = [&](const std::string& entry) { return start_kernel(query_, tactic_, entry, type_); };
    // Outside is behind everything.
    sort.key = [&](KernelBuilder& b) {
      slots(b);
      const std::string type = key_type(bits);
      b.line("const auto slot_key = [&](idx i) { const idx slot = slot_of(i); return slot < 0 ? (" + type +
             ")" + b.number(slots_) + " : (" + type + ")slot; };");
      return std::string("slot_key(i)");
    };
    Dim bytes = 0;
    const Dim places = append_sort(layer.kernels, sort, bytes);
    layer.kernels.push_back(add_up(places));
    layer.scratch_bytes = bytes;
    return layer;
  }

  // The first update of a slot, in sorted order, takes care of all of them.
  KernelSource add_up(const Dim& places) const {
    KernelBuilder b = start("scatter_add_up");
    slots(b);
    begin_updates(b);
    const std::string vs = std::to_string(vector_), number(compute_name(type_)), block = b.number(block_),
                      each = "#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) ";
    b.line("const u32* places = " + b.scratch(places, "u32") +
           ";\nconst idx slot = slot_of((idx)places[i]);\nif (slot < 0 || (i > 0 && slot_of((idx)places[i - "
           "1]) == slot)) return;\n" +
           number + " v[" + vs + "], u[" + vs + "];\nload(" + b.output(0, type_) + " + slot * " + block +
           " + inside, v);\nfor (idx p = i; p < " + b.number(updates_) +
           " && slot_of((idx)places[p]) == slot; ++p) {\nload(" + b.input(2, tactic_.inputs[2].dtype) +
           " + (idx)places[p] * " + block + " + inside, u);\n" + each + "v[j] = " + step() + ";\n}\nstore(" +
           b.output(0, type_) + " + slot * " + block + " + inside, v);");
    return b.finish();
  }

  // NaN wins, as in the order of ONNX.
  std::string step() const {
    const bool real = is_float(type_);
    switch (reduction_of(query_.layer().op)) {
      case ScatterReduction::Add:
        return real ? "v[j] + u[j]" : "(long long)((unsigned long long)v[j] + (unsigned long long)u[j])";
      case ScatterReduction::Mul:
        return real ? "v[j] * u[j]" : "(long long)((unsigned long long)v[j] * (unsigned long long)u[j])";
      case ScatterReduction::Min:
        return "u[j] < v[j] || u[j] != u[j] ? u[j] : v[j]";
      case ScatterReduction::Max:
        return "u[j] > v[j] || u[j] != u[j] ? u[j] : v[j]";
      case ScatterReduction::None:
        break;
    }
    return "u[j]";
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  DType type_;
  std::optional<size_t> axis_;  // of ScatterElements
  size_t length_ = 0;           // of ScatterND's addresses
  Dim updates_, slots_, block_ = 1;
  int vector_ = 1;
};

LayerSource generate_scatter(const LayerQuery& query, const Tactic& tactic, const Device&) {
  return ScatterWriter(query, tactic).write();
}

}  // namespace

GeneratedFamily scatter_family() {
  return {kScatterRunner, list_scatter, generate_scatter};
}

}  // namespace lathe::cuda
