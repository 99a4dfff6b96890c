// SPDX-License-Identifier: Apache-2.0
//
// Suppression of overlapping boxes as device text: one block takes candidates, best first, and keeps those
// that no kept one hides.
//
// 64 candidates at a time: all threads compare them with what is kept so far and with each other; then one
// thread walks over the 64, a bit each, which is the only part that is sequential.
#pragma once

#include "backend/cuda/codegen/counting.h"

namespace lathe::cuda {

// Texts are expressions of the kernel. Candidates have numbers, which `place` gives by rank: the best first,
// and behind the last one something that is no candidate.
struct Suppression {
  std::string ranks;         // how many there are at most
  std::string place;         // int: of rank `r`
  std::string is_candidate;  // of number `p`
  std::string box;           // Box: of number `p`
  std::string hides;         // whether number `q`, box `b`, hides number `p`, box `a`
  std::string most;          // as many are kept
  // Statements of the thread that has candidate `p` of rank `r`, place `t` of the 64: may set hidden[t]. All
  // 64 have their numbers in number[].
  std::string admit = {};
  std::string admitted = {};  // the same, when all have
  // int* and Box*: where the kept ones go, in order.
  std::string kept_numbers, kept_boxes;
};

inline constexpr int kSuppressThreads = 512;

// Behind it, kept_count is how many were kept.
void emit_suppression(KernelBuilder& b, const Suppression& s);

// Adds Box, of floats with the corners in the order of ONNX or as centers, or of doubles as detectors have
// them, and overlap(a, b), whose thresholds decide as they do on the host.
enum class BoxKind : uint8_t { Corners, Centers, Pixels };
void add_boxes(KernelBuilder& b, BoxKind kind);

}  // namespace lathe::cuda
