// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/select/suppress.h"

#include "lathe_device_text/suppress.h"

namespace lathe::cuda {

void emit_suppression(KernelBuilder& b, const Suppression& s) {
  b.kernel().threads = kSuppressThreads;
  b.line(filled_in(device_text::suppress::kSuppression, {{"KEPT_NUMBERS", s.kept_numbers},
                                                         {"KEPT_BOXES", s.kept_boxes},
                                                         {"THREADS", std::to_string(kSuppressThreads)},
                                                         {"RANKS", s.ranks},
                                                         {"PLACE", s.place},
                                                         {"IS_CANDIDATE", s.is_candidate},
                                                         {"BOX", s.box},
                                                         {"HIDES", s.hides},
                                                         {"MOST", s.most},
                                                         {"ADMIT", s.admit},
                                                         {"DONE", s.admitted}}));
}

void add_boxes(KernelBuilder& b, BoxKind kind) {
  b.hardware(rounded_products());
  if (kind == BoxKind::Pixels) return b.global(device_text::suppress::kPixelBoxes);
  b.global(device_text::suppress::kBoxes);
  b.global(kind == BoxKind::Centers ? device_text::suppress::kCenters : device_text::suppress::kCorners);
}

}  // namespace lathe::cuda
