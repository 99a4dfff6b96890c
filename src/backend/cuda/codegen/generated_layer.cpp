// SPDX-License-Identifier: Apache-2.0
//
// Compiles the kernels of a generated layer, evaluates numbers and grids at concrete extents, and launches.
#include "backend/cuda/codegen/generated_layer.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::cuda {

GeneratedLaunch::GeneratedLaunch(const KernelSource& source, const GpuKernel& kernel,
                                 const SymbolValues& symbols)
    : source_(source), kernel_(kernel) {
  for (size_t d = 0; d < 3; ++d) {
    const int64_t blocks = upper_extent(source.grid[d], symbols);
    check(blocks >= 0 && blocks <= (d == 0 ? 0x7fffffff : 65535), "a grid is too large for the device");
    shape_.grid[d] = static_cast<unsigned>(blocks);
  }
  shape_.block[0] = static_cast<unsigned>(source.threads);
  shape_.early = true;
  shape_.shared_bytes = static_cast<unsigned>(source.shared_bytes);
  shape_.cluster[2] = static_cast<unsigned>(source.cluster);
  for (const KernelArg& arg : source.args) numbers_.push_back(upper_extent(arg.value, symbols));
  for (size_t i = 0; i < source.args.size(); ++i) {
    if (!source.args[i].view) continue;
    const TensorView& from = *source.args[i].view;
    View& view = views_[i];
    const int64_t bytes = dtype_size(from.type);
    view.type = bytes == 1                     ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                : from.type == DType::BFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                               : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    for (size_t d = 0; d < from.extents.size(); ++d) {
      view.extents.push_back(static_cast<cuuint64_t>(upper_extent(from.extents[d], symbols)));
      if (d > 0)
        view.strides.push_back(static_cast<cuuint64_t>(bytes * upper_extent(from.strides[d], symbols)));
    }
    for (const int extent : from.box) view.box.push_back(static_cast<cuuint32_t>(extent));
    if (from.box[0] * bytes == 64) view.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    view.steps.assign(from.extents.size(), 1);
    view.windows = from.windows.has_value();
    for (size_t d = 0; d < 2 && view.windows; ++d) {
      const int64_t pixels = upper_extent(from.extents[d + 1], symbols);
      view.lower.push_back(static_cast<int>(from.windows->first[d].evaluate(symbols)));
      view.upper.push_back(static_cast<int>(from.windows->last[d].evaluate(symbols) - (pixels - 1)));
      view.steps[d + 1] = static_cast<cuuint32_t>(from.windows->steps[d]);
    }
  }
}

CUtensorMap GeneratedLaunch::tensor_map(const View& view, const void* address) const {
  CUtensorMap map;
  const auto rank = static_cast<cuuint32_t>(view.extents.size());
  void* const data = const_cast<void*>(address);
  const Driver& driver = kernel_.driver();
  const CUresult result =
      view.windows
          ? driver.cuTensorMapEncodeIm2col(
                &map, view.type, rank, data, view.extents.data(), view.strides.data(), view.lower.data(),
                view.upper.data(), view.box[0], view.box[1], view.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                view.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
          : driver.cuTensorMapEncodeTiled(
                &map, view.type, rank, data, view.extents.data(), view.strides.data(), view.box.data(),
                view.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, view.swizzle,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  driver.require(result, "describing an operand of kernel '" + source_.entry + "' to the copy engine");
  return map;
}

void GeneratedLaunch::enqueue(const LayerArgs& args, const std::map<std::string, DeviceMemory>& blocks,
                              CUstream stream, LaunchOrder order) const {
  visit(args, blocks, order, [&](const GpuKernel& kernel, const LaunchShape& shape, void** parameters) {
    kernel.launch(shape, parameters, stream);
  });
}

void GeneratedLaunch::visit(const LayerArgs& args, const std::map<std::string, DeviceMemory>& blocks,
                            LaunchOrder order, const LaunchVisitor& visitor) const {
  uint32_t late = order.late_bits();
  if (is_empty()) return;
  std::vector<const void*> addresses(source_.args.size());
  std::vector<void*> parameters(source_.args.size());
  std::vector<CUtensorMap> maps;
  maps.reserve(views_.size());
  for (size_t i = 0; i < source_.args.size(); ++i) {
    const KernelArg& arg = source_.args[i];
    parameters[i] = &addresses[i];
    switch (arg.kind) {
      case KernelArg::Kind::Input:
        addresses[i] = args.inputs[arg.index];
        break;
      case KernelArg::Kind::Output:
        addresses[i] = args.outputs[arg.index];
        break;
      case KernelArg::Kind::Scratch:
        addresses[i] = args.scratch + numbers_[i];
        break;
      case KernelArg::Kind::Packed:
        addresses[i] = blocks.at(arg.block).data();
        break;
      case KernelArg::Kind::Number:
        parameters[i] = const_cast<int64_t*>(&numbers_[i]);
        break;
      case KernelArg::Kind::Late:
        parameters[i] = &late;
        break;
    }
    if (const auto view = views_.find(i); view != views_.end())
      parameters[i] = &maps.emplace_back(tensor_map(view->second, addresses[i]));
  }
  const GpuKernel& form = order.place == LaunchPlace::Waits   ? kernel_
                          : order.place == LaunchPlace::Leads ? *forms_[0]
                                                              : *forms_[1];
  visitor(form, shape_, parameters.data());
}

namespace {

// What is the same for all extents.
struct Compiled {
  LayerSource source;
  std::vector<GpuKernel> kernels;
  // Their forms for other places in the order of launches; empty: none.
  std::vector<GpuKernel> leading, following;
  std::map<std::string, DeviceMemory> blocks;
};

class PreparedGenerated final : public PreparedLayer {
 public:
  PreparedGenerated(std::shared_ptr<const Compiled> compiled, const SymbolValues& symbols)
      : compiled_(std::move(compiled)),
        scratch_bytes_(static_cast<size_t>(upper_extent(compiled_->source.scratch_bytes, symbols))) {
    const int64_t numbered = upper_extent(compiled_->source.numbered, symbols);
    if (numbered >= int64_t{1} << 31)
      throw_input_error("the layer's kernels number " + std::to_string(numbered) +
                        " elements, and can number 2^31 - 1; split the tensor");
    for (size_t i = 0; i < compiled_->kernels.size(); ++i)
      launches_.emplace_back(compiled_->source.kernels[i], compiled_->kernels[i], symbols);
    for (size_t i = 0; i < compiled_->leading.size(); ++i)
      launches_[i].set_forms(compiled_->leading[i], compiled_->following[i]);
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  void enqueue(const LayerArgs& args, CUstream stream) const override {
    for (size_t i = 0; i < launches_.size(); ++i)
      launches_[i].enqueue(args, compiled_->blocks, stream, order_of(i, args.order));
  }
  bool visit_launches(const LayerArgs& args, const LaunchVisitor& visitor) const override {
    if (std::any_of(launches_.begin(), launches_.end(), [](const auto& l) { return l.is_empty(); }))
      return false;
    for (size_t i = 0; i < launches_.size(); ++i)
      launches_[i].visit(args, compiled_->blocks, order_of(i, args.order), visitor);
    return true;
  }
  LaunchOverlap overlap() const override {
    if (!are_ordered()) return {};
    return launches_.size() == 1 ? kernels()[0].overlap : LaunchOverlap{.takes_order = true};
  }
  void resolve(const LayerArgs& args, SymbolValues& values) const override {
    const std::vector<std::string>& names = compiled_->source.found;
    if (names.empty()) return;
    std::vector<int64_t> sizes(names.size());
    const Driver& driver = compiled_->kernels.at(0).driver();
    driver.require(driver.cuMemcpyDtoH(sizes.data(), reinterpret_cast<CUdeviceptr>(args.scratch),
                                       sizes.size() * sizeof(int64_t)),
                   "reading a size that a layer found");
    for (size_t i = 0; i < names.size(); ++i) values.emplace(names[i], sizes[i]);
  }

 private:
  const std::vector<KernelSource>& kernels() const { return compiled_->source.kernels; }
  // A kernel without blocks is not launched, and cannot lead.
  bool are_ordered() const {
    return !compiled_->leading.empty() && scratch_bytes_ == 0 &&
           std::none_of(launches_.begin(), launches_.end(), [](const auto& l) { return l.is_empty(); });
  }
  // Kernels of the layer that are independent follow its first one.
  LaunchOrder order_of(size_t kernel, const LaunchOrder& layer) const {
    if (launches_.size() == 1) return layer;
    if (!are_ordered()) return {};
    return {.place = layer.place == LaunchPlace::Follows || kernel > 0 ? LaunchPlace::Follows
                                                                       : LaunchPlace::Leads};
  }

  std::shared_ptr<const Compiled> compiled_;
  std::vector<GeneratedLaunch> launches_;
  size_t scratch_bytes_;
};

class GeneratedLayer final : public LayerKernel {
 public:
  explicit GeneratedLayer(std::shared_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedGenerated>(compiled_, context.symbols);
  }
  void make_forms(const Device& device, BlobStore& blobs) override {
    const std::vector<KernelSource>& kernels = compiled_->source.kernels;
    if (!device.properties.overlaps_launches() || (kernels.size() > 1 && !compiled_->source.is_independent) ||
        !std::all_of(kernels.begin(), kernels.end(), [](const auto& k) { return k.overlap.takes_order; }))
      return;
    for (const KernelSource& kernel : kernels) {
      const auto form = [&](LaunchPlace place) {
        return GpuKernel(device, blobs, kernel.entry, kernel.source_for(place));
      };
      compiled_->leading.push_back(form(LaunchPlace::Leads));
      compiled_->following.push_back(form(LaunchPlace::Follows));
    }
  }

 private:
  std::shared_ptr<Compiled> compiled_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_generated_layer(LayerSource source, const Device& device,
                                                  const PackContext& pack) {
  auto compiled = std::make_shared<Compiled>();
  compiled->source = std::move(source);
  for (const KernelSource& kernel : compiled->source.kernels)
    compiled->kernels.emplace_back(device, pack.blobs, kernel.entry, kernel.source);
  for (const auto& [name, block] : compiled->source.blocks)
    compiled->blocks.emplace(name, DeviceMemory(device, pack.packed(name, block.bytes, block.make)));
  return std::make_unique<GeneratedLayer>(std::move(compiled));
}

}  // namespace lathe::cuda
