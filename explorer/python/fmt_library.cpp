// SPDX-License-Identifier: Apache-2.0
//
// fmt's compiled part, made from its own headers. The core's archives call fmt as a library, and Debian has
// that library only as a shared object, which machines that get the wheel need not have. format-inl.h defines
// the plain functions when FMT_HEADER_ONLY is not set; what format.h declares as `extern template` is
// instantiated here.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
}  // namespace detail
FMT_END_NAMESPACE
