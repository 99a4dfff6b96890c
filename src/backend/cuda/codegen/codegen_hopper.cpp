// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/codegen/codegen_hopper.h"

#include <algorithm>

#include "backend/cuda/device/device.h"
#include "lathe_device_text/hopper.h"
#include "lathe_device_text/stages.h"

namespace lathe::cuda {
namespace {

// A product of a warpgroup as a device function: d (64 x n) += a times b. An instruction lists its
// accumulators one by one, so that there is a function for each n.
struct WarpgroupProduct {
  std::string name;
  int n = 8;
  std::string_view shape;  // of the instruction, behind its n: "k16.f32.f16.f16"
  std::string_view
      modifiers;  // of the instruction, at its end: signs of the operands, then 1 for those whose
                  // rows are K
  bool a_in_registers = false;
  bool integers = false;
};

std::string device_function(const WarpgroupProduct& p) {
  const int sums = p.n / 2, lefts = p.a_in_registers ? 4 : 1;
  const auto operand = [](int i) { return (i ? ", %" : "%") + std::to_string(i); };
  std::string d, outputs;
  for (int i = 0; i < sums; ++i) {
    d += operand(i);
    outputs +=
        std::string(i ? ", " : "") + (p.integers ? "\"+r\"" : "\"+f\"") + "(d[" + std::to_string(i) + "])";
  }
  std::string a, inputs;
  for (int i = 0; i < lefts; ++i) {
    a += std::string(i ? ", %" : "%") + std::to_string(sums + i);
    inputs += p.a_in_registers ? "\"r\"(a[" + std::to_string(i) + "]), " : "\"l\"(a), ";
  }
  if (p.a_in_registers) a = "{" + a + "}";
  return "DEV void " + p.name + "(" + (p.integers ? "int" : "float") + " (&d)[" + std::to_string(sums) +
         "], " + (p.a_in_registers ? "const u32 (&a)[4]" : "u64 a") + ", u64 b) {\n  asm volatile(\n" +
         R"(      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n)" +
         std::to_string(p.n) + std::string(p.shape) + " {" + d + "}, " + a + ", %" +
         std::to_string(sums + lefts) + ", p" + std::string(p.modifiers) + R"(;\n}")" +
         "\n      : " + outputs + "\n      : " + inputs + "\"l\"(b));\n}\n";
}

std::string_view half_shape(DType type) {
  return type == DType::BFloat16 ? "k16.f32.bf16.bf16" : "k16.f32.f16.f16";
}

}  // namespace

std::string multiplied_name(DType type) {
  if (type == DType::Float8E4M3FN) return "e4m3";
  return type == DType::UInt8 ? "u8" : type == DType::BFloat16 ? "bf16" : "f16";
}

std::string hopper_primitives() {
  return std::string(device_text::hopper::kHopper);
}

std::string hopper_primitives(DType type, int n) {
  WarpgroupProduct product{.name = "multiply_tile_" + multiplied_name(type),
                           .n = n,
                           .shape = half_shape(type),
                           .modifiers = ", 1, 1, 0, 0"};
  if (type == DType::UInt8) {
    product.shape = "k32.s32.u8.s8";
    product.modifiers = "";
    product.integers = true;
  }
  if (type == DType::Float8E4M3FN) {
    product.shape = "k32.f32.e4m3.e4m3";
    product.modifiers = ", 1, 1";
  }
  return hopper_primitives() + device_function(product);
}

std::string hopper_rows_primitive(DType type, int n) {
  return device_function({.name = "multiply_rows_" + multiplied_name(type),
                          .n = n,
                          .shape = half_shape(type),
                          .modifiers = ", 1, 1, 1",
                          .a_in_registers = true});
}

std::string_view hopper_send_primitive() {
  return device_text::hopper::kSend;
}

std::string hopper_kept_primitive(DType type, int n) {
  return device_function({.name = "multiply_kept_" + multiplied_name(type),
                          .n = n,
                          .shape = half_shape(type),
                          .modifiers = ", 1, 1, 0",
                          .a_in_registers = true});
}

std::string_view cluster_sums() {
  return device_text::hopper::kCluster;
}

int64_t HopperTile::bytes_of_stages(const DeviceProperties& gpu, int kept) const {
  return gpu.shared_bytes_each(resident) - 1024 - 256 - kept;
}

int HopperTile::stages(const DeviceProperties& gpu, int kept, int bytes_of_one) const {
  return static_cast<int>(std::min<int64_t>(8, bytes_of_stages(gpu, kept) / bytes_of_one));
}

bool HopperTile::registers_fit(const DeviceProperties& gpu, int others, int more_warps) const {
  const int registers = (bn / 2 + others + 7) / 8 * 8;
  return registers <= 232 &&
         registers * 32 * (4 * groups + more_warps) * resident <= gpu.registers_per_multiprocessor;
}

void add_hopper_stages(KernelBuilder& b, const HopperTile& tile, const HopperStages& s, bool results) {
  b.hardware(hopper_primitives(s.type, tile.bn));
  b.waits_itself();
  b.kernel().resident = tile.resident;
  b.kernel().shared_bytes = 1024 + s.barriers_at + 8 * (2 * s.stages + s.more_barriers);
  const int a_rows = s.a_rows > 0 ? s.a_rows : tile.rows();
  b.constants({{"GROUPS", tile.groups},
               {"TEAMS", s.teams},
               {"BN", tile.bn},
               {"STAGES", s.stages},
               {"BARRIERS", s.barriers_at},
               {"KSTEP", s.step},
               {"ROW_BYTES", tile.row_bytes},
               {"A_ROWS", a_rows},
               {"A_PITCH", s.a_pitch > 0 ? s.a_pitch : a_rows * tile.row_bytes},
               {"B_TILES", s.b_tiles},
               {"KEPT", s.kept_at},
               {"V", s.width}});
  b.global(std::string("typedef ") + (s.type == DType::UInt8 ? "int" : "float") +
           " Sum;\n#define MULTIPLY multiply_tile_" + multiplied_name(s.type));
  b.global(device_text::stages::kStages);
  if (results) b.global(device_text::stages::kResults);
}

}  // namespace lathe::cuda
