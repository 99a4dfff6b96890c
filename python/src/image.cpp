// SPDX-License-Identifier: Apache-2.0
//
// Pictures as arrays.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "lathe/image.h"
#include "module.h"

namespace lathe_python {

void bind_image(nb::module_& m) {
  m.def(
      "image",
      [](const std::string& path, const std::string& preprocess, const api::Dims& shape,
         const std::string& dtype) {
        if (dtype != "float32" && dtype != "uint8")
          throw api::Error(api::ErrorKind::Input,
                           api::ErrorFields{.what = "pictures have no element type '" + dtype + "'",
                                            .hint = "take float32 or uint8"});
        const bool is_float = dtype == "float32";
        auto* tensor = new api::HostTensor(api::load_image(
            path, {preprocess, is_float ? api::DataType::Float : api::DataType::UInt8, shape}));
        const nb::capsule owner(tensor, [](void* p) noexcept { delete static_cast<api::HostTensor*>(p); });
        std::vector<size_t> extents(shape.begin(), shape.end());
        return nb::cast(nb::ndarray<nb::numpy>(tensor->bytes.data(), extents.size(), extents.data(), owner,
                                               nullptr,
                                               is_float ? nb::dtype<float>() : nb::dtype<uint8_t>()));
      },
      nb::arg("path"), nb::arg("preprocess") = "imagenet", nb::arg("shape") = api::Dims{1, 3, 224, 224},
      nb::arg("dtype") = "float32",
      "A JPEG, PNG or BMP file as an input of this shape: [batch,] channels, height, width or [batch,] "
      "height, "
      "width, channels.\n\n"
      "preprocess: 'imagenet': the middle of the picture, scaled so that 7/8 of its short side are seen, (x "
      "/ 255 - "
      "mean) / deviation; 'unit', 'signed', 'pixels': stretched to the input, as 0..1, -1..1 or 0..255. "
      "uint8 takes "
      "'pixels'.");
}

}  // namespace lathe_python
