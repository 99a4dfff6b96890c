// SPDX-License-Identifier: Apache-2.0
//
// The epilogue after a library's kernel, as one generated pointwise kernel; see epilogue.h.
#include "backend/cuda/codegen/epilogue.h"

#include "backend/cuda/codegen/generated_layer.h"
#include "base/error.h"

namespace lathe::cuda {
namespace {

// The computed values arrive as the kernel's scratch memory.
KernelSource epilogue_source(const LayerQuery& query, const Tactic& tactic, const TensorType& computed) {
  check(computed.format == tactic.outputs[0].format, "an epilogue does not change the format");
  const Tail tail(query, tactic);
  KernelBuilder b = start_kernel(query, tactic, "epilogue", tactic.outputs[0].dtype);
  const Dim total = element_count(output_shape(query));
  const int v = tail.vector(std::min(full_vector(tactic.outputs[0].dtype), full_vector(computed.dtype)));
  const std::string vs = std::to_string(v), n = b.number(total);
  const std::string values = b.scratch(0, storage_name(computed.dtype));
  const std::string type(compute_name(tactic.outputs[0].dtype));
  const bool ragged = v > 1 && !divides(v, total);
  tail.emit(b, v);
  if (ragged) tail.emit(b, 1);
  b.line("idx at = ((idx)blockIdx.x * 256 + threadIdx.x) * " + vs + ";\nif (at >= " + n + ") return;");
  if (ragged)
    b.line("if (at + " + vs + " > " + n + ") {\nfor (; at < " + n + "; ++at) { " + type + " v[1]; load(" +
           values + " + at, v); finish1(at, v); }\nreturn;\n}");
  b.line(type + " v[" + vs + "];\nload(" + values + " + at, v);\nfinish" + vs + "(at, v);");
  b.kernel().grid[0] = ceil_div(total, Dim(256 * v));
  return b.finish();
}

}  // namespace

class Epilogue::Impl {
 public:
  Impl(const LayerQuery& query, const Tactic& tactic, const TensorType& computed, const Device& device,
       const PackContext& pack)
      : source(std::make_shared<KernelSource>(epilogue_source(query, tactic, computed))),
        kernel(std::make_shared<GpuKernel>(device, pack.blobs, source->entry, source->source)) {}
  std::shared_ptr<const KernelSource> source;
  std::shared_ptr<const GpuKernel> kernel;
};

namespace {

class Prepared final : public PreparedEpilogue {
 public:
  Prepared(std::shared_ptr<const KernelSource> source, std::shared_ptr<const GpuKernel> kernel,
           const SymbolValues& symbols)
      : source_(std::move(source)), kernel_(std::move(kernel)), launch_(*source_, *kernel_, symbols) {}
  void enqueue(const LayerArgs& args, const void* values, CUstream stream) const override {
    const LayerArgs with_values{args.inputs, args.outputs,
                                const_cast<std::byte*>(static_cast<const std::byte*>(values))};
    launch_.enqueue(with_values, {}, stream);
  }

 private:
  std::shared_ptr<const KernelSource> source_;
  std::shared_ptr<const GpuKernel> kernel_;
  GeneratedLaunch launch_;
};

}  // namespace

Support Epilogue::list(const LayerQuery& query, const TensorType& output, std::vector<TensorType>& inputs) {
  return Tail::list(query, output, inputs);
}

std::vector<KernelSource> Epilogue::sources(const LayerQuery& query, const Tactic& tactic) {
  if (query.layer().epilogue.empty()) return {};
  return {epilogue_source(query, tactic, tactic.outputs[0])};
}

Epilogue::Epilogue(const LayerQuery& query, const Tactic& tactic, const TensorType& computed,
                   const Device& device, const PackContext& pack)
    : impl_(std::make_unique<Impl>(query, tactic, computed, device, pack)) {}

Epilogue::~Epilogue() = default;

std::unique_ptr<PreparedEpilogue> Epilogue::prepare(const ShapeContext& context) const {
  return std::make_unique<Prepared>(impl_->source, impl_->kernel, context.symbols);
}

}  // namespace lathe::cuda
