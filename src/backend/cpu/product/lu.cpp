// SPDX-License-Identifier: Apache-2.0
//
// Det and Inverse of each matrix of a batch, of FP32 and FP64, by elimination in double (lu.inc).
//
// Small matrices go eight at a time, one per lane, because a pivot and a division per column are what they
// wait for; large ones and single ones row by row. Threads share the batch. Bytes: x and the result once; the
// matrices at work stay in L1 (eight of 12 x 12) or L2.
#include <algorithm>

#include "backend/cpu/product/lu_table.h"
#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kLuRunner = "LU";
constexpr int64_t kLargestInLanes = 32;  // eight of them: 64 KB

class PreparedLu final : public PreparedLayer {
 public:
  bool inverts = false, is_double = false;
  int64_t n = 0, count = 0;
  Isa isa = Isa::Avx2;
  int threads = 1;

  size_t scratch_bytes() const override { return static_cast<size_t>(member_doubles() * threads) * 8; }
  int members(int available) const override {
    const auto side = static_cast<double>(n);
    const double each = side * side * (2 + side * (inverts ? 1.0 : 0.3));
    return members_for(each * static_cast<double>(count) / (in_lanes() ? 2 : 1),
                       std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    double* own = reinterpret_cast<double*>(args.scratch) + worker.index * member_doubles();
    const int64_t together = in_lanes() ? kLuLanes : 1;
    const Worker::Range part = worker.slice((count + together - 1) / together);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t first = i * together, some = std::min(together, count - first);
      is_double ? work<double>(args, first, some, own) : work<float>(args, first, some, own);
    }
  }

 private:
  bool in_lanes() const { return n <= kLargestInLanes && count > 1; }
  int64_t matrix_doubles() const { return round_up(n * n * (in_lanes() ? kLuLanes : 1), 8); }
  int64_t member_doubles() const { return (inverts ? 2 : 1) * matrix_doubles() + kLuLanes; }

  template <class T>
  void work(const LayerArgs& args, int64_t first, int64_t some, double* m) const {
    const LuTable& table = isa == Isa::Avx2 ? lu_table_avx2() : lu_table_avx512();
    const int64_t lanes = in_lanes() ? kLuLanes : 1, size = n * n;
    const T* x = static_cast<const T*>(args.inputs[0]) + first * size;
    T* y = static_cast<T*>(args.outputs[0]) + first * (inverts ? size : 1);
    double* result = m + matrix_doubles();
    if (some < lanes) std::fill_n(m, size * lanes, 0.0);
    for (int64_t l = 0; l < some; ++l)
      for (int64_t e = 0; e < size; ++e) m[e * lanes + l] = static_cast<double>(x[l * size + e]);
    if (!inverts) {
      if (lanes == 1)
        *result = table.determinant(m, n);
      else
        table.determinants(m, n, result);
      for (int64_t l = 0; l < some; ++l) y[l] = static_cast<T>(result[l]);
      return;
    }
    (lanes == 1 ? table.inverse : table.inverses)(m, result, n);
    for (int64_t l = 0; l < some; ++l)
      for (int64_t e = 0; e < size; ++e) y[l * size + e] = static_cast<T>(result[e * lanes + l]);
  }
};

class LuKernel final : public LayerKernel {
 public:
  LuKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : inverts_(std::holds_alternative<Inverse>(query.layer().op)),
        is_double_(tactic.inputs[0].dtype == DType::Float64),
        isa_(machine.isa()) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedLu>();
    const Extents& x = context.inputs[0];
    p->inverts = inverts_;
    p->is_double = is_double_;
    p->n = x.back();
    p->count = element_count(Extents(x.begin(), x.end() - 2));
    p->isa = isa_;
    p->threads = context.threads;
    return p;
  }

 private:
  bool inverts_, is_double_;
  Isa isa_;
};

std::vector<Tactic> list_lu(const LayerQuery& query, const Machine& machine) {
  const Op& op = query.layer().op;
  if (!std::holds_alternative<Det>(op) && !std::holds_alternative<Inverse>(op)) return {};
  Tactic t = linear_tactic(query, kLuRunner, "lu_" + std::string(isa_suffix(machine)));
  const DType type = t.inputs[0].dtype;
  if (!query.layer().epilogue.empty())
    t.support = Support::no("an elimination applies no epilogue");
  else if ((type != DType::Float32 && type != DType::Float64) || t.outputs[0].dtype != type)
    t.support =
        Support::no("matrices of " + std::string(dtype_name(type)) + " instead of 32 or 64 bit floats");
  else if (query.graph.value(query.layer().inputs[0]).is_constant())
    t.support = Support::no("the operand is a constant");
  return {t};
}

std::unique_ptr<LayerKernel> make_lu(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                     const PackContext&) {
  return std::make_unique<LuKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily lu_tactics() {
  return {kLuRunner, list_lu, make_lu};
}

}  // namespace lathe::cpu
