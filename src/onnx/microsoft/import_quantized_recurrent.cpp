// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft::DynamicQuantizeLSTM: an LSTM whose weights have 8 bits. ONNX Runtime quantises what they are
// multiplied with in every step, too; here that stays float, which is nearer to the model that was quantised.
#include "onnx/importers.h"
#include "onnx/quantized.h"

namespace lathe::onnx {

namespace {

class QuantizedLstmImport {
 public:
  explicit QuantizedLstmImport(NodeImport& node) : node_(node) {}

  Values run() {
    node_.note("its weights have 8 bits; what they are multiplied with is not quantised");
    Values inputs(kWeightScale, kNoValue);
    for (size_t i = 0; i < kWeightScale; ++i) inputs[i] = node_.in_or_none(i);
    inputs[kWeight] = weights(kWeight, kWeightScale, "w");
    inputs[kRecurrence] = weights(kRecurrence, kRecurrenceScale, "r");
    return import_as(node_, "LSTM", 14, inputs);
  }

 private:
  // The inputs of LSTM, then scale and zero point of both weights.
  enum Input : size_t { kWeight = 1, kRecurrence = 2, kWeightScale = 8, kRecurrenceScale = 10 };

  // (directions, n, 4 H) to numbers (directions, 4 H, n), as LSTM has its weights.
  ValueId weights(size_t input, size_t scale, const std::string& name) {
    const Shape s = node_.shape(input);
    if (s.size() != 3 || !s[0].is_constant() || s[0].value() < 1 || s[0].value() > 2)
      node_.fail("input " + std::to_string(input) + " must be (1 or 2 directions, width, 4 hidden sizes)");
    for (const size_t i : {scale, scale + 1}) check_parameter(i, s);
    Values directions;
    for (int64_t d = 0; d < s[0].value(); ++d) {
      const std::string own = name + std::to_string(d);
      const ValueId matrix = node_.reshape(part(input, d, own), {s[1], s[2]}, own + "_matrix");
      const ValueId numbers = dequantized(node_, matrix, parameter(scale, d, own + "_scales"),
                                          parameter(scale + 1, d, own + "_zeros"), own + "_numbers", 1);
      directions.push_back(node_.reshape(node_.transpose(numbers, {1, 0}, own + "_gates"), {1, s[2], s[1]},
                                         own + "_direction"));
    }
    return directions.size() == 1 ? directions[0] : node_.add(Concat{.axis = 0}, directions, name);
  }

  // One number per direction, or one per column of each direction.
  void check_parameter(size_t input, const Shape& weights) const {
    const Shape s = node_.shape(input);
    const bool each = s.size() == 2 && s[1] == weights[2];
    if (s.empty() || s.size() > 2 || !(s[0] == weights[0]) || (s.size() == 2 && !each))
      node_.fail("input " + std::to_string(input) +
                 " must have a number per direction, or per direction and gate row");
  }

  ValueId part(size_t input, int64_t direction, const std::string& name) {
    if (node_.shape(input)[0].is_constant(1)) return node_.in(input);
    return node_.slice(node_.in(input), 0, direction, direction + 1, name + "_part");
  }
  ValueId parameter(size_t input, int64_t direction, const std::string& name) {
    const Shape s = node_.shape(input);
    const ValueId own = part(input, direction, name);
    return s.size() == 1 ? node_.reshape(own, {}, name) : node_.reshape(own, {s[1]}, name);
  }

  NodeImport& node_;
};

Values import_dynamic_lstm(NodeImport& node) {
  return QuantizedLstmImport(node).run();
}

}  // namespace

std::vector<Importer> microsoft_quantized_recurrent_importers() {
  return {{"DynamicQuantizeLSTM", 1, kLatestOpset, import_dynamic_lstm, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
