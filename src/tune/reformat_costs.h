// SPDX-License-Identifier: Apache-2.0
//
// What it costs to turn a value from one type and format into another, and by which tactic. Each (shape,
// from, to) is asked once; measured through the timing cache, or estimated when nothing is timed.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tune/measure.h"
#include "tune/workspace.h"

namespace lathe {

class ReformatCosts {
 public:
  ReformatCosts(const Graph& graph, const SymbolRanges& ranges, const Backend& backend,
                const TuneOptions& options, const Effort& effort, Measurer& measurer,
                WorkspaceLimit& workspace);

  struct Answer {
    double ms = 0;  // kImpossible: the backend has no such reformat
    std::optional<Tactic> tactic;
  };
  // 0 without a tactic when from == to.
  const Answer& find(ValueId value, const TensorType& from, const TensorType& to);
  // Those of these conversions that were not asked yet will be: what takes the processor may begin.
  struct Conversion {
    ValueId value = kNoValue;
    TensorType from, to;
  };
  void expect(const std::vector<Conversion>& conversions);
  // A plain copy, for values that cannot be a view where one is needed.
  const Answer& find_copy(ValueId value, const TensorType& type);

 private:
  const Answer& find_or_ask(ValueId value, const TensorType& from, const TensorType& to);
  Answer ask(const Value& value, const TensorType& from, const TensorType& to);
  std::vector<Tactic> tactics_for(const LayerQuery& query, const TensorType& from, const TensorType& to);

  const Graph& graph_;
  const SymbolRanges& ranges_;
  const Backend& backend_;
  const TuneOptions& options_;
  const Effort& effort_;
  Measurer& measurer_;
  WorkspaceLimit& workspace_;
  std::map<std::string, Answer> answers_;  // by shape and types
  std::list<Graph> expected_;              // of the conversions that are prepared ahead
  std::unique_ptr<BackgroundWork> ahead_;  // ends before the graphs go
  const Answer none_;
};

// A graph of one Reformat node, as backends are asked about it.
Graph reformat_graph(const std::string& name, const Value& value, const TensorType& from,
                     const TensorType& to);

}  // namespace lathe
