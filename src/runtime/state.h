// SPDX-License-Identifier: Apache-2.0
//
// State that a context keeps from run to run: outputs of one step that are inputs of the next one, in memory
// of the context.
//
// Where the program can append (backend/appending.h), an output lies in the memory of its input and a step
// writes only what is new. Where it cannot, there are two memories: a step reads the one, writes the other,
// and they change places; a Concat then copies what was there, as it does without state.
//
// A step has two halves: begin() gives the inputs' extents, and after the run advance() makes outputs
// inputs. Nothing of a run that failed is kept.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/appending.h"
#include "backend/backend.h"
#include "runtime/state_pairs.h"

namespace lathe {

class Engine;

class State {
 public:
  // `execution` stays for as long as this. Throws Input for a pair that cannot be state.
  State(const Engine& engine, int profile, std::span<const StatePair> pairs, Execution& execution);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  size_t size() const { return pairs_.size(); }
  const StatePair& names(size_t pair) const { return pairs_[pair].names; }
  size_t input(size_t pair) const { return pairs_[pair].input; }
  size_t output(size_t pair) const { return pairs_[pair].output; }
  bool has_input(size_t input) const;
  bool has_output(size_t output) const;
  // Number of the pair with this input. Throws Input for another name.
  size_t find(std::string_view input) const;

  // Values that state begins with, in linear format, now and after each reset(). Without them it begins with
  // zeros, and where it grows with as few rows as the optimization profile allows, which must be none.
  void set(size_t pair, Tensor values);
  // Begins again at the next step.
  void reset();

  // Fixes the extents of state that begins, from the symbols that the other inputs and state have. `stream`
  // carries what it begins with.
  void begin(SymbolValues known, Stream& stream);
  const Extents& extents(size_t pair) const { return pairs_[pair].extents; }
  // Throws Input where the next step would have more rows than the optimization profile allows.
  void check_room() const;
  bool is_full() const;
  bool has_stepped() const;
  // Puts the addresses of all state among `bindings`.
  void bind(std::span<void*> bindings) const;
  // After a run.
  void advance();

  // What the next step will read, in linear format.
  Tensor read(size_t pair, Stream& stream) const;
  // "past.0 -> present.0: appended in place along axis 2, room for 2048", or why not. Known when the state
  // has begun.
  std::string note(size_t pair) const;
  int64_t bytes() const;
  // Symbols of the inputs that change from step to step.
  const std::set<std::string>& changing_symbols() const { return changing_symbols_; }

 private:
  struct Pair {
    StatePair names;
    size_t input = 0, output = 0;
    std::vector<size_t> varying;    // dims in which a step may change it
    std::optional<Tensor> initial;  // what it begins with
    bool has_begun = false, has_stepped = false;
    Extents extents, capacity;
    std::unique_ptr<Buffer> memory, next;  // of the coming step's input and output; in place: one for both
    std::optional<Room> room;              // in place
    std::string why_swapped;
  };
  const TensorInfo& input_info(const Pair& pair) const;
  const Dim& dim_after(const Pair& pair, size_t d) const;
  Pair make_pair(const StatePair& names) const;
  void find_varying(Pair& pair) const;
  bool grows(const Pair& pair, size_t d) const;
  Extents first_extents(const Pair& pair, const SymbolValues& known) const;
  void begin(Pair& pair, Extents extents, Stream& stream) const;
  Extents capacity_of(const Pair& pair) const;
  void choose_memory(Pair& pair) const;
  void fill(Pair& pair, Stream& stream) const;
  std::optional<size_t> full_dim(const Pair& pair) const;

  const Engine& engine_;
  int profile_;
  Execution& execution_;
  std::vector<Pair> pairs_;
  std::vector<Append> appends_;  // what the execution was told last
  std::set<std::string> changing_symbols_;
};

}  // namespace lathe
