// SPDX-License-Identifier: Apache-2.0
#include "ir/body.h"

#include "base/error.h"
#include "ir/op.h"
#include "ir/text.h"

namespace lathe {

Body::Body(Graph graph) : graph_(std::make_shared<const Graph>(std::move(graph))) {}

const Graph& Body::graph() const {
  check(graph_ != nullptr, "an operator has no body");
  return *graph_;
}

bool operator==(const Body& a, const Body& b) {
  if (a.graph_ == b.graph_) return true;
  return a && b && to_text(a.graph()) == to_text(b.graph());  // which has a hash of each large constant
}

std::vector<Body> bodies_of(const Op& op) {
  std::vector<Body> bodies;
  std::visit(
      [&]<class T>(const T& fields) {
        T::visit(fields, [&]<class F>(std::string_view, const F& field) {
          if constexpr (std::is_same_v<F, Body>) bodies.push_back(field);
        });
      },
      op);
  return bodies;
}

Op map_bodies(Op op, const std::function<Graph(const Graph&)>& map) {
  std::visit(
      [&]<class T>(T& fields) {
        T::visit(fields, [&]<class F>(std::string_view, F& field) {
          if constexpr (std::is_same_v<F, Body>) {
            if (field) field = Body(map(field.graph()));
          }
        });
      },
      op);
  return op;
}

}  // namespace lathe
