// SPDX-License-Identifier: Apache-2.0
//
// The slots of Grown values (memory/slots.h), and what a run of layers wants of them. Where the memory lies
// is the backend's business.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backend/program.h"
#include "backend/result_memory.h"

namespace lathe {

// Memory that grows, and keeps what lies in it.
class GrownMemory {
 public:
  explicit GrownMemory(int slots)
      : sizes_(static_cast<size_t>(slots), 0), addresses_(static_cast<size_t>(slots), nullptr) {}
  virtual ~GrownMemory() = default;

  // At least so many bytes, never none. Throws System when there is no memory.
  std::byte* reserve(int slot, size_t bytes);
  // By slot; null for one that was never reserved. Changes with every call of reserve().
  std::span<std::byte* const> addresses() const { return addresses_; }
  size_t bytes() const;

 protected:
  // Gives the slot memory of so many bytes, more than it has, with what lay in the old one, and says where.
  virtual std::byte* enlarge(size_t slot, size_t bytes) = 0;

 private:
  std::vector<size_t> sizes_;
  std::vector<std::byte*> addresses_;
};

// The results of a run of layers that lie in slots.
class GrownResults {
 public:
  // Does the step find this result's size while it runs? Then it asks for the memory when it knows; other
  // results need theirs before the steps run.
  using FindsSize = std::function<bool(size_t step, ValueId result)>;

  GrownResults() = default;
  // Of `steps` layers from `first` on. A view of a slot is as large as its base says, which is an operand of
  // the layer that writes it.
  GrownResults(const ProgramSpec& spec, size_t first, size_t steps, const SymbolValues& symbols,
               const FindsSize& finds_size);

  // What must be there before the steps run.
  void reserve(GrownMemory& memory) const;
  // The slot that a step takes for an output when it knows the size; -1: none.
  int taken_slot(size_t step, size_t output) const;
  bool takes_any() const { return !taken_.empty(); }

 private:
  struct Need {
    int slot = -1;
    size_t bytes = 0;
  };
  struct Taken {
    size_t step = 0, output = 0;
    int slot = -1;
  };
  std::vector<Need> needs_;
  std::vector<Taken> taken_;
};

// Where one step finds the memory of its results.
class TakenResults final : public ResultMemory {
 public:
  TakenResults(GrownMemory& memory, const GrownResults& results, size_t step)
      : memory_(memory), results_(results), step_(step) {}
  std::byte* take(size_t output, size_t bytes) override {
    const int slot = results_.taken_slot(step_, output);
    return slot < 0 ? nullptr : memory_.reserve(slot, bytes);
  }

 private:
  GrownMemory& memory_;
  const GrownResults& results_;
  size_t step_;
};

}  // namespace lathe
