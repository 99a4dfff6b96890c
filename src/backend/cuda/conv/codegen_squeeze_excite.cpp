// SPDX-License-Identifier: Apache-2.0
//
// SqueezeExcite in one kernel, where four layers would be: a cluster of eight blocks for each image
// (channels-last). Each block sums up its part of the pixels; it adds up the means of its part of the
// channels from all blocks' shared memory, multiplies them with its part of the first weights, adds up all
// blocks' sums for the middle layer, computes the gates of its channels, collects all gates, and multiplies
// its pixels, which come from the L2 now. All sums are added in a fixed order.
//
// Bytes: the image is read twice, the second time from the L2, and written once; weights once per image, and
// they are on their way before the kernel in front has ended. Four meetings of the cluster take a
// microsecond.
//
// With a batch of one, eight multiprocessors take longer for the image than three kernels of the whole
// machine: sums of parts of the pixels, the gates (a block for each image, weights in shared memory before
// the sums are there), and the multiplication.
#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"
#include "ir/symbol_extents.h"
#include "lathe_device_text/squeeze_excite.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kSqueezeExciteRunner = "SqueezeExcite";
constexpr int64_t kBlocks = 8;
// A block takes no more of a multiprocessor than leaves the next kernel a place.
int64_t most_shared_bytes(const DeviceProperties& gpu) {
  return std::min<int64_t>(200 << 10, gpu.shared_bytes_per_block);
}

struct SqueezeExciteSizes {
  int64_t channels = 0, middle = 0;
  Dim images, pixels = 1;

  int64_t part() const {
    return (channels + 8 * kBlocks - 1) / (8 * kBlocks) * 8;
  }  // of the channels, for a block
  int64_t padded_middle() const { return (middle + 3) / 4 * 4; }
};

std::optional<SqueezeExciteSizes> sizes_of(const LayerQuery& query) {
  const Shape& x = input_shape(query, 0);
  const Shape& w = input_shape(query, 1);
  if (!x[1].is_constant() || !w[0].is_constant()) return std::nullopt;
  return SqueezeExciteSizes{
      .channels = x[1].value(), .middle = w[0].value(), .images = x[0], .pixels = product(x, 2, x.size())};
}

// Floats in shared memory, and weights behind them when they fit.
int64_t float_count(const SqueezeExciteSizes& s, int threads, int v) {
  const int64_t lanes = std::max<int64_t>(1, threads / (s.channels / v));
  return (lanes * s.channels + 3) / 4 * 4 + (2 * kBlocks + 2) * s.part() + 2 * s.padded_middle();
}
int64_t weight_bytes(const SqueezeExciteSizes& s, DType type) {
  return 2 * s.part() * s.middle * dtype_size(type);
}

std::vector<Tactic> list_squeeze_excite(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  // Only where blocks form clusters.
  if (!std::holds_alternative<SqueezeExcite>(node.op) || !device.properties.has_clusters()) return {};
  // Where there are few images three kernels are expected to be faster.
  const bool few = upper_extent(input_shape(query, 0)[0], query.opt_values()) < 8;
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query))
    for (const int threads : {512, 256}) {
      Tactic t = typed_tactic(query, kSqueezeExciteRunner, "cuda_squeeze_excite", {type, kChannelsLast},
                              {type, kChannelsLast});
      for (size_t i = 1; i < node.op_input_count(); ++i) {
        t.inputs[i] = {};
        if (node.inputs[i] != kNoValue && !query.graph.value(node.inputs[i]).is_constant())
          t.support = Support::no("weights or biases are computed at run time");
      }
      const auto sizes = sizes_of(query);
      if (!is_kernel_float(type)) t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
      if (!sizes)
        t.support = Support::no("channels are known only at run time");
      else if (t.support.ok && 4 * float_count(*sizes, threads, 1) > most_shared_bytes(device.properties))
        t.support = Support::no("more channels than shared memory holds");
      const std::string number = std::to_string(threads);
      const Tactic one = with_variant(t, "cuda_squeeze_excite_" + number, {{"threads", threads}});
      const Tactic steps =
          with_variant(t, "cuda_squeeze_excite_steps_" + number, {{"steps", 1}, {"threads", threads}});
      tactics.push_back(few ? steps : one);
      tactics.push_back(few ? one : steps);
    }
  return tactics;
}
std::vector<std::byte> floats_as(DType type, const std::vector<double>& values) {
  const Tensor t = Tensor::from_doubles(type, {static_cast<int64_t>(values.size())}, values);
  return {t.bytes().begin(), t.bytes().end()};
}

// [block][middle][part of the channels], then [block][part of the channels][middle].
std::vector<std::byte> pack_weights(const Tensor& first, const Tensor& second, const SqueezeExciteSizes& s,
                                    DType type) {
  const std::vector<double> w1 = first.to_doubles(), w2 = second.to_doubles();
  const int64_t half = kBlocks * s.part() * s.middle;
  std::vector<double> packed(static_cast<size_t>(2 * half), 0.0);
  for (int64_t c = 0; c < s.channels; ++c)
    for (int64_t u = 0; u < s.middle; ++u) {
      const int64_t block = c / s.part(), own = c % s.part();
      packed[static_cast<size_t>((block * s.middle + u) * s.part() + own)] =
          w1[static_cast<size_t>(u * s.channels + c)];
      packed[static_cast<size_t>(half + (block * s.part() + own) * s.middle + u)] =
          w2[static_cast<size_t>(c * s.middle + u)];
    }
  return floats_as(type, packed);
}

// FP32, zeros where there is none: the middle layer's, then the gates'.
std::vector<std::byte> pack_biases(const Tensor& first, const Tensor& second, const SqueezeExciteSizes& s) {
  std::vector<double> packed(static_cast<size_t>(s.middle + s.channels), 0.0);
  if (first) {
    const std::vector<double> b = first.to_doubles();
    std::copy(b.begin(), b.end(), packed.begin());
  }
  if (second) {
    const std::vector<double> b = second.to_doubles();
    std::copy(b.begin(), b.end(), packed.begin() + s.middle);
  }
  return floats_as(DType::Float32, packed);
}

// [middle][channels] twice, channels padded to eight.
int64_t pitch_of(const SqueezeExciteSizes& s) {
  return (s.channels + 7) / 8 * 8;
}
std::vector<std::byte> pack_matrices(const Tensor& first, const Tensor& second, const SqueezeExciteSizes& s,
                                     DType type) {
  const std::vector<double> w1 = first.to_doubles(), w2 = second.to_doubles();
  const int64_t pitch = pitch_of(s);
  std::vector<double> packed(static_cast<size_t>(2 * s.middle * pitch), 0.0);
  for (int64_t u = 0; u < s.middle; ++u)
    for (int64_t c = 0; c < s.channels; ++c) {
      packed[static_cast<size_t>(u * pitch + c)] = w1[static_cast<size_t>(u * s.channels + c)];
      packed[static_cast<size_t>((s.middle + u) * pitch + c)] = w2[static_cast<size_t>(c * s.middle + u)];
    }
  return floats_as(type, packed);
}

// What the device text of squeeze_excite.cuh wants; `staged`: weights have room in shared memory.
void set_constants(KernelBuilder& b, const SqueezeExciteSizes& s, DType type, int threads, int v,
                   int64_t parts, bool staged) {
  const int64_t columns = std::min<int64_t>(s.channels / v, threads);
  b.global("typedef " + std::string(storage_name(type)) + " T;");
  b.constants({{"THREADS", threads},
               {"C", s.channels},
               {"PITCH", pitch_of(s)},
               {"MIDDLE", s.middle},
               {"MP", s.padded_middle()},
               {"PART", s.part()},
               {"V", v},
               {"G", columns},
               {"LANES", std::max<int64_t>(1, threads / (s.channels / v))},
               {"PARTS", parts},
               {"STAGED", staged}});
}

void define_functions(KernelBuilder& b, const SqueezeExcite& op) {
  b.global(unary_function(op.squeeze, "squeeze") + unary_function(op.excite, "excite"));
}

Tensor constant_input(const LayerQuery& query, size_t i) {
  const Node& node = query.layer();
  return node.has_op_input(i) ? query.graph.value(node.inputs[i]).constant : Tensor();
}

PackedBlock bias_block(const LayerQuery& query, const SqueezeExciteSizes& s) {
  return {dtype_bytes(DType::Float32, s.middle + s.channels),
          [first = constant_input(query, 2), second = constant_input(query, 4), s] {
            return pack_biases(first, second, s);
          }};
}

LayerSource generate_steps(const LayerQuery& query, const Tactic& tactic, const SqueezeExciteSizes& s,
                           int threads, const DeviceProperties& gpu) {
  const auto& op = std::get<SqueezeExcite>(query.layer().op);
  const DType type = tactic.inputs[0].dtype;
  const Tail tail(query, tactic);
  const int v = tail.vector(vector_width(full_vector(type), {Dim(s.channels)}));
  // As many parts as one block adds up soon.
  const int64_t parts = std::clamp<int64_t>(8192 / s.channels / 4 * 4, 4, 32);
  const Dim gates_at = s.images * Dim(parts * s.channels * 4);
  const std::string name(storage_name(type));
  LayerSource source{.scratch_bytes = gates_at + s.images * Dim(s.channels * 4)};
  {
    KernelBuilder b = start_kernel(query, tactic, "excite_sums", type);
    set_constants(b, s, type, threads, v, parts, false);
    b.global(device_text::squeeze_excite::kSums);
    b.global(device_text::squeeze_excite::kStoreSums);
    b.kernel().threads = threads;
    b.kernel().grid = {s.images, Dim(parts), 1};
    b.kernel().shared_bytes =
        static_cast<int>(4 * s.channels * std::max<int64_t>(1, threads / (s.channels / v)));
    b.line("store_sums(" + b.input(0, type) + ", " + b.scratch(0, "float") + ", " + b.number(s.pixels) +
           ");");
    source.kernels.push_back(b.finish());
  }
  {
    KernelBuilder b = start_kernel(query, tactic, "excite_gates", type);
    const int64_t floats = pitch_of(s) + s.padded_middle(),
                  weights = 2 * s.middle * pitch_of(s) * dtype_size(type);
    const bool staged = 4 * floats + weights <= gpu.shared_bytes_per_block;
    set_constants(b, s, type, 512, v, parts, staged);
    define_functions(b, op);
    b.global(device_text::squeeze_excite::kGates);
    b.kernel().threads = 512;
    b.kernel().grid = {s.images, 1, 1};
    b.kernel().shared_bytes = static_cast<int>(4 * floats + (staged ? weights : 0));
    b.waits_itself();
    b.line("store_gates(" + b.packed("v", name) + ", " + b.packed("b", "float") + ", " +
           b.scratch(0, "float") + ", " + b.scratch(gates_at, "float") + ", " + b.number(s.pixels) + ");");
    source.kernels.push_back(b.finish());
  }
  {
    KernelBuilder b = start_kernel(query, tactic, "excite_scale", type);
    const Dim count = element_count(output_shape(query));
    set_constants(b, s, type, 256, v, parts, false);
    b.global(device_text::squeeze_excite::kScale);
    b.kernel().threads = 256;
    b.kernel().grid[0] = ceil_div(count, Dim(256 * v));
    tail.emit_apply(b, v, {});
    b.line("scale_pixels(" + b.input(0, type) + ", " + b.scratch(gates_at, "float") + ", " +
           b.output(0, type) + ", " + b.number(s.pixels) + ", " + b.number(count) + ", tail);");
    source.kernels.push_back(b.finish());
  }
  source.blocks["v"] = {dtype_bytes(type, 2 * s.middle * pitch_of(s)),
                        [first = constant_input(query, 1), second = constant_input(query, 3), s, type] {
                          return pack_matrices(first, second, s, type);
                        }};
  source.blocks["b"] = bias_block(query, s);
  return source;
}

LayerSource generate_squeeze_excite(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  const auto& op = std::get<SqueezeExcite>(query.layer().op);
  const SqueezeExciteSizes s = *sizes_of(query);
  const DType type = tactic.inputs[0].dtype;
  const int threads = tactic.params.get_int("threads");
  if (tactic.params.get("steps", 0) != 0) return generate_steps(query, tactic, s, threads, device.properties);
  const Tail tail(query, tactic);
  const int v = tail.vector(vector_width(full_vector(type), {Dim(s.channels)}));
  const int64_t bytes = 4 * float_count(s, threads, v);
  const bool staged = bytes + weight_bytes(s, type) <= most_shared_bytes(device.properties) / 2;
  KernelBuilder b = start_kernel(query, tactic, "squeeze_excite", type);
  b.hardware(hopper_primitives());
  b.kernel().threads = threads;
  b.kernel().grid = {s.images, 1, kBlocks};
  b.kernel().cluster = kBlocks;
  b.kernel().shared_bytes = static_cast<int>(bytes + (staged ? weight_bytes(s, type) : 0));
  b.waits_itself();
  set_constants(b, s, type, threads, v, 1, staged);
  define_functions(b, op);
  b.global(cluster_sums());
  b.global(device_text::squeeze_excite::kSums);
  b.global(device_text::squeeze_excite::kCluster);
  tail.emit_apply(b, v, {});
  b.line("scale_image(" + b.input(0, type) + ", " + b.packed("w", storage_name(type)) + ", " +
         b.packed("b", "float") + ", " + b.output(0, type) + ", " + b.number(s.pixels) + ", tail);");
  LayerSource source{.kernels = {b.finish()}};
  source.blocks["w"] = {dtype_bytes(type, 2 * kBlocks * s.part() * s.middle),
                        [first = constant_input(query, 1), second = constant_input(query, 3), s, type] {
                          return pack_weights(first, second, s, type);
                        }};
  source.blocks["b"] = bias_block(query, s);
  return source;
}

}  // namespace

GeneratedFamily squeeze_excite_family() {
  return {kSqueezeExciteRunner, list_squeeze_excite, generate_squeeze_excite, packs_alike};
}

}  // namespace lathe::cuda
