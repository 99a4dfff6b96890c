// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/onednn.h"

#include <fmt/format.h>

#include <dnnl.hpp>
#include <mutex>
#include <optional>

#include "backend/cpu/device/machine.h"
#include "base/error.h"
#include "base/hash.h"

// OpenMP API 5.2, sections 18.2.1 and 18.2.3. Declared here because each compiler ships an omp.h of its own,
// and what counts is the runtime that oneDNN was linked to: GCC's, in Debian.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int count);
}

namespace lathe::cpu {

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::vector<Tactic> refused_tactic(const LayerQuery& query, std::string_view runner, std::string name,
                                   const std::string& reason) {
  Tactic tactic{.runner = std::string(runner), .name = std::move(name)};
  tactic.id = hash_text(tactic.name);
  tactic.inputs.resize(query.layer().inputs.size());
  tactic.outputs.resize(query.layer().outputs.size());
  tactic.support = Support::no(reason);
  return {tactic};
}

bool onednn_computes(DType source, DType result, const Machine& machine) {
  if (source == DType::Float32) return result == DType::Float32;
  return source == DType::BFloat16 && machine.has(CpuFeature::Bf16) &&
         (result == DType::BFloat16 || result == DType::Float32);
}

namespace {

dnnl_cpu_isa_t dnnl_isa(Isa isa) {
  switch (isa) {
    case Isa::Avx2:
      return dnnl_cpu_isa_avx2;
    case Isa::Avx512:
      return dnnl_cpu_isa_avx512_core_vnni;
    case Isa::Avx512Bf16:
      return dnnl_cpu_isa_avx512_core_bf16;
    case Isa::Amx:
      return dnnl_cpu_isa_avx512_core_amx;
  }
  return dnnl_cpu_isa_avx2;
}

}  // namespace

void cap_onednn_isa(Isa isa) {
  // oneDNN itself fixes the level at its first use, for the whole process: this remembers what we asked for.
  static std::mutex mutex;
  static std::optional<Isa> capped;
  const std::lock_guard lock(mutex);
  if (!capped) {
    if (dnnl_set_max_cpu_isa(dnnl_isa(isa)) != dnnl_success && dnnl_get_effective_cpu_isa() != dnnl_isa(isa))
      throw_input_error(
          fmt::format("--cpuIsa={}: oneDNN is in use already in this process with another instruction set; "
                      "choose the instruction set before anything else uses oneDNN",
                      isa_name(isa)));
    capped = isa;
    // The cache only spares identical layers of one model; programs keep their own primitives. Its default of
    // 1024 entries would hold a hundred megabytes of code after many shapes.
    dnnl_set_primitive_cache_capacity(256);
  }
  if (*capped != isa)
    throw_input_error(
        fmt::format("--cpuIsa={}: this process already uses {}, and oneDNN takes one instruction set per "
                    "process; use another process",
                    isa_name(isa), isa_name(*capped)));
}

SingleThreadedOneDnn::SingleThreadedOneDnn() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

SingleThreadedOneDnn::~SingleThreadedOneDnn() {
  if (before_ != 1) omp_set_num_threads(before_);
}

}  // namespace lathe::cpu
