// SPDX-License-Identifier: Apache-2.0
//
// The one place where C++ errors become Python's: an object of lathe.Error or a class derived from it, made
// by lathe._errors.
#include "module.h"

namespace lathe_python {
namespace {

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const api::Error& error) {
    const char* kinds[] = {"InputError", "InternalError", "DeviceError", "Cancelled"};
    const api::ErrorFields& f = error.fields();
    const nb::object type = nb::module_::import_("lathe._errors").attr(kinds[static_cast<int>(error.kind())]);
    const nb::object value = type(f.what.c_str(), f.where.c_str(), f.why.c_str(), f.hint.c_str(),
                                  f.node.c_str(), f.op_type.c_str(), static_cast<int>(error.code()));
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator(translate, nullptr);
}

}  // namespace lathe_python
