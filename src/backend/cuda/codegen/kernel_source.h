// SPDX-License-Identifier: Apache-2.0
//
// A generated CUDA kernel as data: source text, the operands and numbers that it takes, and its launch
// geometry.
//
// The text of device code stands in files x.cuh, whose pieces are constants of lathe_device_text/x.h. A
// generator writes constants, names and the kernel's own expressions (operands, strides, the layer's tail)
// around them.
//
// Constant dims become literals in the source; symbolic dims become 64-bit parameters, and grids are dims, so
// that one binary serves every shape of a profile. Sources include nothing: NVRTC needs no headers, and the
// emulator of the tests can stand in for the few primitives of the hardware.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/integer_operands.h"
#include "backend/tactic.h"
#include "ir/dim.h"
#include "ir/op_compute.h"

namespace lathe::cuda {

// Memory as the copy engine sees it (a tensor map): elements of 16 bits, or bytes, in dims, the innermost
// first and contiguous, of which one copy brings a box into shared memory, rows of 128 or 64 bytes swizzled.
// What lies outside reads as zero.
struct TensorView {
  DType type = DType::Float16;
  std::vector<Dim> extents, strides;  // strides in elements; strides[0] is 1
  std::vector<int> box;
  // Channels, columns, rows and images as windows of a convolution read them: a box is channels of so many
  // pixels, one after the other as the windows' corners move: from `first` in steps of `steps` to `last`, in
  // columns, then rows, then images.
  struct Windows {
    std::array<Dim, 2> first, last;  // coordinates of the first and the last window's corner: column, row
    std::array<int, 2> steps = {1, 1};
  };
  std::optional<Windows> windows = {};
};

struct KernelArg {
  enum class Kind : uint8_t {
    Input,    // address of the node's input `index`
    Output,   // address of the node's output `index`
    Scratch,  // address of the layer's scratch memory + `value` bytes
    Packed,   // address of the packed block `block`
    Number,   // `value`, as int64
    Late,     // late_bits() of the launch's LaunchOrder, as uint32
  };
  Kind kind = Kind::Number;
  size_t index = 0;
  Dim value;
  std::string block;
  std::optional<TensorView> view = {};  // the kernel takes a tensor map of that memory instead of its address
};

// How a kernel runs beside the one in front of it. A group of kernels of which none reads what another writes
// has a first one, which leads: it lets the next one start only when all before the group is complete. The
// others follow: they start without waiting, and end after the one in front, so that who waits for the last
// one of a group has waited for all.
//
// Each place is a form of the kernel of its own, compiled apart: a number that a kernel is given arrives
// 0.3 us after its start, which is when it has to let the next one start.
enum class LaunchPlace : uint8_t { Waits, Leads, Follows };

struct LaunchOrder {
  LaunchPlace place = LaunchPlace::Waits;
  // Of one that follows: it waits before it reads operands of its epilogue and writes results, because those
  // belong to the kernels in front; or it waits before it reads these inputs, each a bit.
  bool waits_late = false;
  uint32_t late_inputs = 0;
  static constexpr size_t kMostLateInputs = 24;

  uint32_t late_bits() const { return (waits_late ? 1u : 0u) | late_inputs << 1; }
  bool operator==(const LaunchOrder&) const = default;
};

// What a kernel can do about those beside it.
struct LaunchOverlap {
  bool takes_order = false;     // it may follow and be followed
  bool may_wait_late = false;   // it can begin without the epilogue's operands and the results' memory
  bool waits_by_input = false;  // it can begin without any of its inputs, until it reads it
};

// One launch. Every kernel lets the next one start early and waits for the one before it (programmatic
// dependent launch), so that launching and loading of weights overlap with the end of that one. Nothing is
// launched when a grid dim is 0.
struct KernelSource {
  std::string entry;   // name of the __global__ function
  std::string source;  // complete
  size_t hardware_bytes =
      0;  // of it, at the front: what stands for the hardware, which the emulator replaces
  std::vector<KernelArg> args;
  std::array<Dim, 3> grid = {1, 1, 1};
  int threads = 256;
  int shared_bytes = 0;  // dynamic
  int resident = 0;      // blocks that a multiprocessor must be able to hold at once; 0: as it comes
  int cluster = 1;       // blocks along grid[2] that run together and read each other's shared memory
  LaunchOverlap overlap = {};

  // The source of its form for a place, if it takes an order.
  std::string source_for(LaunchPlace place) const;
};

// A block that the kernels take as Packed: made from constants at build.
struct PackedBlock {
  int64_t bytes = 0;
  std::function<std::vector<std::byte>()> make;
};

// What a layer is made of with one tactic: launches in order, and memory that they share.
struct LayerSource {
  std::vector<KernelSource> kernels;
  Dim scratch_bytes = 0;
  std::map<std::string, PackedBlock> blocks = {};  // by name
  // Sizes that only running the layer finds (the number of NonZero's columns): names of symbols. The kernels
  // leave the values at the front of scratch memory, 8 bytes each.
  std::vector<std::string> found = {};
  // What the kernels number in 32 bits, whatever the index type: a run with 2^31 or more is refused.
  Dim numbered = 0;
  bool is_independent = false;  // none of the kernels reads what another one writes
};

// load_early(p, w): 16 bytes into four words, which the compiler leaves in front of products that follow
// __syncwarp().
std::string_view early_loads();
// multiply_u8 and multiply_e4m3, for b.hardware().
std::string_view byte_products();
// rounded_product(a, b) of floats and doubles, which no addition takes unrounded.
std::string_view rounded_products();

// "float", "f16", ... as the prelude names storage types; empty: no kernel stores it.
std::string_view storage_name(DType dtype);
// A float of 8 bits or less: moved and converted, and not computed with.
bool is_small_float(DType dtype);
// float for floating point, double for float64; long long for integers and bool, unsigned for uint64.
std::string_view compute_name(DType dtype);
std::string float_literal(double value);
std::string double_literal(double value);
// What is stored for a number of the grid, which lies on it but for rounding: for integers a float whose low
// bits are the byte, for floats of 8 bits the quotient by the scale, which the store rounds and saturates.
std::string number_as_quantum(const std::string& number, const ByteGrid& grid);

// The text with each name replaced, in order.
std::string filled_in(std::string_view text,
                      const std::vector<std::pair<std::string_view, std::string>>& names);

// Collects arguments and text of one kernel.
class KernelBuilder {
 public:
  explicit KernelBuilder(std::string entry) { kernel_.entry = std::move(entry); }

  // Expressions of pointers, typed as stored.
  std::string input(size_t i, DType dtype);
  std::string output(size_t i, DType dtype);
  std::string scratch(const Dim& bytes, std::string_view type);
  std::string packed(std::string_view block, std::string_view type);
  // Tensor maps of an input, of scratch memory from `bytes` on, and of a packed block.
  std::string input_map(size_t i, TensorView view);
  std::string scratch_map(const Dim& bytes, TensorView view);
  std::string packed_map(std::string_view block, TensorView view);
  // An expression of type idx.
  std::string number(const Dim& dim);

  void line(std::string_view text) { (body_ += text) += '\n'; }
  // More primitives of the hardware, behind those of primitives.cuh.
  void hardware(std::string_view text) { hardware_ += text; }
  // An input that is bytes of a grid: what is loaded are the numbers.
  void set_input_grid(size_t i, const ByteGrid& grid);
  // An output that is bytes of a grid: what is stored is number_as_quantum().
  void set_output_grid(size_t i, const ByteGrid& grid);
  // What input(i, dtype) points to.
  std::string input_type(size_t i, DType dtype) const { return stored_type("in" + std::to_string(i), dtype); }
  std::string output_type(size_t i, DType dtype) const {
    return stored_type("out" + std::to_string(i), dtype);
  }
  // Device functions before the kernel.
  void global(std::string_view text) { (globals_ += text) += '\n'; }
  // Names of whole numbers that device text uses, in front of it.
  void constants(const std::vector<std::pair<std::string_view, int64_t>>& values);
  // Index type: 64 bits when an operand may have 2^31 elements or more.
  void set_wide(bool wide) { wide_ = wide; }
  // Results in 16 bits do not need the last bits of exp and division.
  void set_fast_math(bool fast) { fast_ = fast; }
  // How the kernel makes floats of 8 bits of numbers (small_floats.cuh).
  void set_cast(const Cast& cast) { cast_ = cast; }
  // The kernel reads or writes operands of that type in its own way.
  void uses(DType dtype) { types_.insert(dtype); }
  // The kernel calls wait_for_previous_kernel() itself, after what does not depend on other kernels.
  void waits_itself() { waits_itself_ = true; }
  // The kernel may follow others and be followed (LaunchOrder). If it waits itself, it calls
  // wait_for_operands() in place of wait_for_previous_kernel(). If it may wait late, it calls
  // wait_for_results() before it reads operands of its epilogue and writes results (is_late: it does wait),
  // and if it waits by input, wait_for_input(i) before it reads input i.
  void overlaps(const LaunchOverlap& overlap) { kernel_.overlap = overlap; }
  KernelSource& kernel() { return kernel_; }
  // The whole source.
  KernelSource finish();

 private:
  std::string argument(KernelArg arg, const std::string& name, const std::string& type);
  std::string map_argument(KernelArg arg, TensorView view);
  std::string stored_type(const std::string& operand, DType dtype) const;

  KernelSource kernel_;
  std::vector<std::string> parameters_, casts_;
  std::map<std::string, std::string, std::less<>> known_;  // what was asked for -> its name
  std::map<std::string, std::string, std::less<>> grids_;  // operand -> its type, where it is bytes of a grid
  std::string hardware_, globals_, body_;
  std::set<DType> types_;  // of operands
  Cast cast_;
  bool wide_ = false, fast_ = false, waits_itself_ = false;
};

}  // namespace lathe::cuda
