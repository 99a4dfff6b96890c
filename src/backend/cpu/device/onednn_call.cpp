// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/onednn_call.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace lathe::cpu {

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);  // a handle without state
  return engine;
}

dnnl::memory::data_type onednn_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::Float32:
      return Type::f32;
    case DType::BFloat16:
      return Type::bf16;
    case DType::Float16:
      return Type::f16;
    case DType::Int8:
      return Type::s8;
    case DType::UInt8:
      return Type::u8;
    case DType::Int32:
      return Type::s32;
    default:
      return Type::undef;
  }
}

dnnl::memory::desc onednn_desc(const TensorType& type, const Extents& extents) {
  using Tag = dnnl::memory::format_tag;
  const size_t rank = extents.size();
  check(rank >= 1 && rank <= 6, "oneDNN tensors of rank 1 to 6 expected");
  constexpr Tag kLinearTags[] = {Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde, Tag::abcdef};
  Tag tag = kLinearTags[rank - 1];
  if (!type.format.is_linear() && rank >= 3 && rank <= 5) {
    constexpr Tag kLastTags[] = {Tag::acb, Tag::acdb, Tag::acdeb};
    constexpr Tag k16Tags[] = {Tag::aBc16b, Tag::aBcd16b, Tag::aBcde16b};
    constexpr Tag k8Tags[] = {Tag::aBc8b, Tag::aBcd8b, Tag::aBcde8b};
    if (type.format.kind == Format::Kind::ChannelsLast)
      tag = kLastTags[rank - 3];
    else
      tag = type.format.block == 16 ? k16Tags[rank - 3] : k8Tags[rank - 3];
  }
  const dnnl::memory::dims dims(extents.begin(), extents.end());
  if (type.format.kind == Format::Kind::ChannelsLast && type.format.block > 1) {
    const Extents strides = format_strides(extents, type.format);
    return {dims, onednn_type(type.dtype), dnnl::memory::dims(strides.begin(), strides.end())};
  }
  return {dims, onednn_type(type.dtype), tag};
}

std::string onednn_impl_name(const char* impl_info) {
  std::string name = impl_info;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

bool is_onednn_reference(const char* impl_info) {
  const std::string_view name = impl_info;
  return name.starts_with("ref") || name.starts_with("simple") ||
         name.find("gemm:ref") != std::string_view::npos;
}

namespace {

// The two signatures of append_eltwise, chosen by what compiles.
template <class PostOps>
void append_eltwise(PostOps& list, dnnl::algorithm algorithm, float alpha, float beta) {
  if constexpr (requires { list.append_eltwise(1.0f, algorithm, alpha, beta); })
    list.append_eltwise(1.0f, algorithm, alpha, beta);
  else
    list.append_eltwise(algorithm, alpha, beta);
}

}  // namespace

void onednn_append_eltwise(dnnl::post_ops& list, dnnl::algorithm algorithm, float alpha, float beta) {
  append_eltwise(list, algorithm, alpha, beta);
}

namespace {

// Code of one kernel, twice while it grows, and descriptors, for as many threads as compile at once; and what
// these allocate themselves, weights that they pack, between the question and the call.
constexpr size_t kOnednnBytes = size_t{48} << 20;

}  // namespace

void throw_no_onednn_memory() {
  throw_system_error(fmt::format("out of memory: oneDNN wants up to {} MiB to generate code for a layer",
                                 kOnednnBytes >> 20),
                     ErrorCode::FailedAllocation);
}

void require_onednn_memory() {
  void* const room =
      mmap(nullptr, kOnednnBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw_no_onednn_memory();
  munmap(room, kOnednnBytes);
}

std::vector<std::byte> onednn_reorder(const dnnl::memory::desc& from, const void* source,
                                      const dnnl::memory::desc& to) {
  std::vector<std::byte> bytes(to.get_size());
  dnnl::memory in(from, onednn_engine(), const_cast<void*>(source));
  dnnl::memory out(to, onednn_engine(), bytes.data());
  dnnl::stream stream(onednn_engine());
  const auto reorder = with_onednn_memory([&] { return dnnl::reorder(in, out); });
  reorder.execute(stream, in, out);
  stream.wait();
  return bytes;
}

OnednnCall::OnednnCall(dnnl::primitive primitive)
    : primitive_(std::move(primitive)), stream_(onednn_engine()) {}

void OnednnCall::add(int argument, const dnnl::memory::desc& desc, From from, size_t index, int64_t offset,
                     void* address) {
  Operand operand{
      .memory = dnnl::memory(desc, onednn_engine(), nullptr), .from = from, .index = index, .offset = offset};
  if (address != nullptr) {
    operand.memory.set_data_handle(address);
    operand.address = address;
  }
  arguments_.push_back({argument, operand.memory.get()});
  operands_.push_back(std::move(operand));
}

void OnednnCall::add_input(int argument, const dnnl::memory::desc& desc, size_t input, int64_t offset_bytes) {
  add(argument, desc, From::Input, input, offset_bytes, nullptr);
}

void OnednnCall::add_output(int argument, const dnnl::memory::desc& desc, size_t output,
                            int64_t offset_bytes) {
  add(argument, desc, From::Output, output, offset_bytes, nullptr);
}

void OnednnCall::add_scratch(int argument, const dnnl::memory::desc& desc) {
  if (desc.get_size() > 0) add(argument, desc, From::Scratch, 0, 0, nullptr);
}

void OnednnCall::add_constant(int argument, const dnnl::memory::desc& desc, const void* data) {
  // oneDNN reads it only, but its memory objects know no const. Constants are packed without padding left to
  // clear.
  add(argument, desc, From::Constant, 0, 0, const_cast<void*>(data));
}

void OnednnCall::run(const LayerArgs& args, std::byte* scratch) const {
  for (const Operand& operand : operands_) {
    void* address = operand.address;
    switch (operand.from) {
      case From::Input:
        address = const_cast<std::byte*>(static_cast<const std::byte*>(args.inputs[operand.index])) +
                  operand.offset;
        break;
      case From::Output:
        address = static_cast<std::byte*>(args.outputs[operand.index]) + operand.offset;
        break;
      case From::Scratch:
        address = scratch;
        break;
      case From::Constant:
        break;
    }
    if (address == operand.address) continue;
    operand.memory.set_data_handle(address);
    operand.address = address;
  }
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                                      static_cast<int>(arguments_.size()), arguments_.data());
  check(status == dnnl_success, "oneDNN failed to execute a primitive");
}

}  // namespace lathe::cpu
