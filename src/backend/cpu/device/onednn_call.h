// SPDX-License-Identifier: Apache-2.0
//
// One oneDNN primitive with its arguments, ready to run on a part of a layer. Arguments know which operand of
// the layer they are and at which offset, so that one LayerArgs serves all parts; a memory object is touched
// only when the address changed since the last run, because oneDNN then clears the padding of blocked
// tensors.
#pragma once

#include <dnnl.hpp>
#include <vector>

#include "backend/cpu/kernel.h"
#include "base/error.h"

namespace lathe::cpu {

const dnnl::engine& onednn_engine();
dnnl::memory::data_type onednn_type(DType dtype);
dnnl::memory::desc onednn_desc(const TensorType& type, const Extents& extents);
// desc.dims() in oneDNN 2.x, desc.get_dims() in 3.x.
template <class Desc>
dnnl::memory::dims onednn_dims(const Desc& desc) {
  if constexpr (requires { desc.get_dims(); })
    return desc.get_dims();
  else
    return desc.dims();
}
// "brgconv_1x1_avx512_core" from oneDNN's "brgconv_1x1:avx512_core".
std::string onednn_impl_name(const char* impl_info);
// oneDNN's unoptimised fallbacks: our own reference is no worse, so no tactic is made of them.
bool is_onednn_reference(const char* impl_info);
// post_ops::append_eltwise with a scale in oneDNN 2.x and without in 3.x.
void onednn_append_eltwise(dnnl::post_ops& list, dnnl::algorithm algorithm, float alpha, float beta);
[[noreturn]] void throw_no_onednn_memory();
// oneDNN 2.6 crashes where it gets no memory for the code that it generates: whether there is enough is asked
// before each of its calls that may generate some. Throws System.
void require_onednn_memory();
template <class Call>
auto with_onednn_memory(const Call& call) {
  require_onednn_memory();
  try {
    return call();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw_no_onednn_memory();
    throw;
  }
}
// Around a kernel that is made or prepared: what oneDNN refuses there, sizes that its integers cannot count
// among them, is an Input error that says so.
template <class Call>
auto with_onednn_errors(const Call& call) {
  try {
    return call();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw_no_onednn_memory();
    throw_input_error(std::string("oneDNN refuses it: ") + error.what());
  }
}

// The bytes of `source` (a dense tensor of `from`) in layout `to`.
std::vector<std::byte> onednn_reorder(const dnnl::memory::desc& from, const void* source,
                                      const dnnl::memory::desc& to);

class OnednnCall {
 public:
  explicit OnednnCall(dnnl::primitive primitive);

  void add_input(int argument, const dnnl::memory::desc& desc, size_t input, int64_t offset_bytes);
  void add_output(int argument, const dnnl::memory::desc& desc, size_t output, int64_t offset_bytes);
  void add_scratch(int argument, const dnnl::memory::desc& desc);
  void add_constant(int argument, const dnnl::memory::desc& desc, const void* data);

  // On one thread. The object belongs to that thread while it runs.
  void run(const LayerArgs& args, std::byte* scratch) const;

 private:
  enum class From : uint8_t { Input, Output, Scratch, Constant };
  struct Operand {
    dnnl::memory memory;
    From from = From::Input;
    size_t index = 0;
    int64_t offset = 0;
    mutable void* address = nullptr;  // what the memory object points to now
  };
  void add(int argument, const dnnl::memory::desc& desc, From from, size_t index, int64_t offset,
           void* address);

  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<Operand> operands_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace lathe::cpu
