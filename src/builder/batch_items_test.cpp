// SPDX-License-Identifier: Apache-2.0
#include "builder/batch_items.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace lathe {
namespace {

// A graph of these lines, where %x is float32[n, 4, 6] and the output is %y.
BatchItems items_of(const std::string& lines) {
  const std::string text = "graph \"g\" {\n  input %x: float32[n, 4, 6]\n" + lines + "\n  output %y\n}";
  return find_batch_items(parse_graph(text));
}

TEST(BatchItems, OperatorsThatKeepItemsApart) {
  for (const char* lines : {
           "%y: float32[n, 4, 6] = Pointwise \"relu\" (%x) {code=Relu}",
           "const %c: float32[1, 4, 6] = splat 1\n%y: float32[n, 4, 6] = Pointwise \"add\" (%x, %c) "
           "{code=Add}",
           "const %c: float32[6] = splat 1\n%y: float32[n, 4, 6] = Pointwise \"add\" (%c, %x) {code=Add}",
           "const %w: float32[6, 3] = splat 1\n%y: float32[n, 4, 3] = MatMul \"m\" (%x, %w)",
           "%y: float32[n, 4, 4] = MatMul \"m\" (%x, %x) {transpose_b=true}",
           "%y: float32[n, 24] = Reshape \"r\" (%x) {shape=[n, 24]}",
           "%y: float32[n, 6, 4] = Transpose \"t\" (%x) {perm=[0, 2, 1]}",
           "%y: float32[n, 8, 6] = Concat \"c\" (%x, %x) {axis=1}",
           "%y: float32[n, 4] = Reduce \"r\" (%x) {kind=Mean, axes=[-1], keepdims=false}",
           "%y: float32[n, 4, 6] = Softmax \"s\" (%x) {axis=-1}",
           "const %c: float32[6] = splat 1\n%y: float32[n, 4, 6] = LayerNorm \"l\" (%x, %c) {axis=-1}",
           // Somewhere else in between: rows of all items, times several matrices; heads in front.
           "%r: float32[4*n, 6] = Reshape \"r\" (%x) {shape=[4*n, 6]}\nconst %w: float32[3, 6, 8] = splat 1\n"
           "%m: float32[3, 4*n, 8] = MatMul \"m\" (%r, %w)\n"
           "%s: float32[3, 4*n, 8] = Softmax \"s\" (%m) {axis=-1}\n"
           "%a: float32[1, 4*n, 8], %b: float32[2, 4*n, 8] = Split \"p\" (%s) {axis=0, sizes=[1, 2]}\n"
           "%y: float32[n, 32] = Reshape \"z\" (%a) {shape=[n, 32]}",
           "%t: float32[4, n, 6] = Transpose \"t\" (%x) {perm=[1, 0, 2]}\n"
           "%r: float32[4, n, 6] = Pointwise \"relu\" (%t) {code=Relu}\n"
           "%y: float32[n, 4, 6] = Transpose \"u\" (%r) {perm=[1, 0, 2]}",
       }) {
    const BatchItems items = items_of(lines);
    EXPECT_EQ(items.symbol, "n") << lines << "\n" << items.reason;
  }
}

TEST(BatchItems, SizesThatARunFinds) {
  const BatchItems items = items_of(
      "%p: int64[3, p.count<=24*n] = NonZero \"p\" (%x)\n%y: float32[n, 4, 6] = Pointwise \"relu\" (%x) "
      "{code=Relu}");
  EXPECT_EQ(items.symbol, "");
  EXPECT_EQ(items.reason, "'p' finds a size when it runs");
}

TEST(BatchItems, OperatorsThatMixItems) {
  for (const char* lines : {
           // As many as the batch has, by assumption; a part of the batch has fewer.
           "%y: float32[n, 4, 6] = Expand \"e\" (%x) {shape=[m, 4, 6]}",
           "%y: float32[n, 4, 6] = Softmax \"s\" (%x) {axis=0}",
           "%y: float32[n, 4, 6] = Softmax \"s\" (%x) {axis=-3}",
           "%t: float32[1, 4, 6] = Reduce \"r\" (%x) {kind=Mean, axes=[0]}\n"
           "%y: float32[n, 4, 6] = Pointwise \"sub\" (%x, %t) {code=Sub}",
           "%r: float32[4*n, 6] = Reshape \"r\" (%x) {shape=[4*n, 6]}\n"
           "%s: float32[4*n, 6] = Softmax \"s\" (%r) {axis=0}\n"
           "%y: float32[n, 24] = Reshape \"b\" (%s) {shape=[n, 24]}",
           "%t: float32[4, n, 6] = Transpose \"t\" (%x) {perm=[1, 0, 2]}\n"
           "%y: float32[n, 24] = Reshape \"r\" (%t) {shape=[n, 24]}",
           "%t: float32[4, n, 6] = Transpose \"t\" (%x) {perm=[1, 0, 2]}\n"
           "%s: float32[4, n, 6] = LayerNorm \"l\" (%t) {axis=1}\n"
           "%y: float32[n, 4, 6] = Transpose \"u\" (%s) {perm=[1, 0, 2]}",
           "%t: float32[4, n, 6] = Transpose \"t\" (%x) {perm=[1, 0, 2]}\n"
           "%m: float32[4, 6, 6] = MatMul \"m\" (%t, %t) {transpose_a=true}\n"
           "%y: float32[n, 4, 6] = MatMul \"p\" (%x, %m)",
           "%d: int64[1] = ShapeTensor \"d\" () {dims=[n]}\n%f: float32[1] = Cast \"f\" (%d) {to=float32}\n"
           "%y: float32[n, 4, 6] = Pointwise \"div\" (%x, %f) {code=Div}",
           "%y: float32[n, 4, 6] = LayerNorm \"l\" (%x) {axis=0}",
       }) {
    const BatchItems items = items_of(lines);
    EXPECT_EQ(items.symbol, "") << lines;
    EXPECT_NE(items.reason, "") << lines;
  }
}

TEST(BatchItems, NamesTheFirstOperatorThatMixes) {
  EXPECT_EQ(items_of("%y: float32[n, 4, 6] = Softmax \"over the batch\" (%x) {axis=0}").reason,
            "'over the batch' mixes items of the batch");
  EXPECT_EQ(items_of("%y: float32[4] = Reduce \"sum\" (%x) {kind=Sum, axes=[0, 2], keepdims=false}").reason,
            "the first dim of the first output is no dynamic dim of an input");
}

// A table of embeddings is looked up for each item; a value without a batch may be copied for each.
TEST(BatchItems, SharedValues) {
  const Graph graph = parse_graph(R"(graph "g" {
  input %ids: int64[n, 5]
  const %table: float32[100, 8] = splat 1
  const %row: float32[1, 8] = splat 1
  %e: float32[n, 5, 8] = Gather "lookup" (%table, %ids) {axis=0}
  %t: float32[n, 8] = Reduce "sum" (%e) {kind=Sum, axes=[1], keepdims=false}
  %c: float32[n, 8] = Expand "copies" (%row) {shape=[n, 8]}
  %y: float32[n, 8] = Pointwise "add" (%t, %c) {code=Add}
  output %y
})");
  const BatchItems items = find_batch_items(graph);
  EXPECT_EQ(items.symbol, "n") << items.reason;
}

}  // namespace
}  // namespace lathe
