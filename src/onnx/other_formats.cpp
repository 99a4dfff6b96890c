// SPDX-License-Identifier: Apache-2.0
#include "onnx/other_formats.h"

#include <algorithm>
#include <array>

namespace lathe::onnx {

namespace {

using namespace std::string_view_literals;

struct Format {
  size_t offset;
  std::string_view magic;
  std::string_view what;
};

constexpr std::array kFormats = {
    Format{4, "ORTM"sv,
           "this is a model in ONNX Runtime's own format (.ort), which only its version of ONNX Runtime "
           "reads; take the .onnx file that it was made from"},
    Format{0, "PK\x03\x04"sv,
           "this is a ZIP archive, as PyTorch (.pt, .pth, .pt2) and Keras (.keras) write them; export the "
           "model with torch.onnx.export(model, inputs, 'model.onnx', dynamo=True), or "
           "model.export('model.onnx', format='onnx') in Keras"},
    Format{0, "\x80\x02"sv,
           "this is a pickled object, as PyTorch (.pt, .pth) writes them; load it there and export it with "
           "torch.onnx.export(model, inputs, 'model.onnx', dynamo=True)"},
    Format{0, "\x89HDF\r\n"sv,
           "this is an HDF5 file, as Keras (.h5) writes them; export the model with "
           "model.export('model.onnx', format='onnx'), or with tf2onnx"},
    Format{4, "TFL3"sv,
           "this is a TensorFlow Lite model; convert it with: python -m tf2onnx.convert --tflite "
           "model.tflite --output model.onnx"},
    Format{0, "GGUF"sv,
           "this is a GGUF file of llama.cpp, which has weights and no graph; export the original model to "
           "ONNX (optimum-cli export onnx)"},
    Format{0, "\x1f\x8b"sv, "this file is compressed (gzip); decompress it first"},
    Format{0,
           "\xfd"
           "7zXZ"sv,
           "this file is compressed (xz); decompress it first"},
    Format{0, "version https://git-lfs"sv,
           "this is a pointer of Git LFS instead of the model; fetch the model with: git lfs pull"},
    Format{0, "<?xml"sv,
           "this is an XML file, as OpenVINO (.xml) writes them; take the ONNX model that it was made from"},
    Format{0, "<!DOCTYPE"sv, "this is a web page; the download gave a page instead of the model"},
    Format{0, "<html"sv, "this is a web page; the download gave a page instead of the model"},
};

bool is_text(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) {
    const auto c = std::to_integer<unsigned char>(b);
    return c >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

// Files that begin with JSON, or with one of ONNX's two text forms.
std::string_view text_format(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  text.remove_prefix(first);
  if (text.starts_with("<") && text.find("ir_version") != std::string_view::npos)
    return "this is an ONNX model as text (.onnxtxt); convert it with: python -c \"import onnx; "
           "onnx.save(onnx.parser.parse_model(open('model.onnxtxt').read()), 'model.onnx')\"";
  if (text.starts_with("ir_version:"))
    return "this is an ONNX model as text of protobuf (.textproto); convert it with: python -c \"import "
           "onnx; "
           "onnx.save(onnx.load('model.textproto', format='textproto'), 'model.onnx')\"";
  if (text.starts_with("{") && text.find("irVersion") != std::string_view::npos)
    return "this is an ONNX model as JSON; convert it with: python -c \"import onnx; "
           "onnx.save(onnx.load('model.json', format='json'), 'model.onnx')\"";
  return {};
}

}  // namespace

std::string_view how_to_convert(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 512));
  for (const Format& f : kFormats)
    if (text.size() > f.offset && text.substr(f.offset).starts_with(f.magic)) return f.what;
  // Weights of safetensors: a length of eight bytes, then JSON.
  if (text.size() > 9 && text.substr(8).starts_with("{\"") && text[7] == 0)
    return "this is a file of weights (.safetensors), which has no graph; export the model that it belongs "
           "to";
  return is_text(bytes.first(text.size())) ? text_format(text) : std::string_view();
}

}  // namespace lathe::onnx
