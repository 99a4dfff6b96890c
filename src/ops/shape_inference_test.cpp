// SPDX-License-Identifier: Apache-2.0
#include "ops/shape_inference.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/build.h"

namespace lathe {
namespace {

std::string inferred(const std::string& body) {
  Graph graph = parse_graph("graph \"g\" {\n" + body + "}\n");
  infer_shapes(graph);
  verify_graph(graph);
  return to_text(graph);
}

void expect_line(const std::string& text, const std::string& line) {
  EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
}

TEST(ShapeInference, ReplacesTheNameOfADimThatIsKnownNow) {
  const std::string text = inferred(R"(
  input %x: float32[n, 8]
  const %target: int64[2] = [4, -1]
  %a: float32[a.dim0<=8*n, a.dim1<=8*n] = Reshape "a" (%x, %target)
  %b: float32[a.dim1<=8*n, 1, a.dim0<=8*n] = Reshape "b" (%a) {shape=[a.dim1<=8*n, 1, a.dim0<=8*n]}
  %s: int64[1] contents [3*(a.dim1<=8*n)] = ShapeTensor "s" () {dims=[3*(a.dim1<=8*n)]}
  output %b
  output %s
)");
  expect_line(text, "%a: float32[4, 2*n] =");
  expect_line(text, "%b: float32[2*n, 1, 4] = Reshape \"b\" (%a) {shape=[2*n, 1, 4]}");
  expect_line(text, "ShapeTensor \"s\" () {dims=[6*n]}");
}

TEST(ShapeInference, ReplacesTheNameInBodies) {
  const std::string text = inferred(R"(
  input %x: float32[8]
  input %c: bool[]
  const %target: int64[2] = [2, 4]
  %a: float32[a.dim0<=8, a.dim1<=8] = Reshape "a" (%x, %target)
  %y: float32[y.output0.dim0<=2147483647] = If "y" (%c, %a, %target) {then_branch=graph "" {
    input %a: float32[a.dim0<=8, a.dim1<=8]
    input %t: int64[2]
    %z: float32[(a.dim0<=8)*(a.dim1<=8)] = Reshape "z" (%a) {shape=[(a.dim0<=8)*(a.dim1<=8)]}
    output %z
  }, else_branch=graph "" {
    input %a: float32[a.dim0<=8, a.dim1<=8]
    input %t: int64[2]
    %w: float32[w.dim0<=8, w.dim1<=8] = Reshape "w" (%a, %t)
    %z: float32[(w.dim0<=8)*(w.dim1<=8)] = Reshape "z" (%w) {shape=[(w.dim0<=8)*(w.dim1<=8)]}
    output %z
  }}
  output %y
)");
  EXPECT_EQ(text.find("<="), std::string::npos) << text;
  expect_line(text, "%y: float32[8] = If");
}

// What the node before defined may be 1, though the other operand has 5.
TEST(ShapeInference, KeepsNamesThatOthersDefine) {
  const std::string text = inferred(R"(
  input %x: float32[8]
  input %z: float32[5]
  input %t: int64[1]
  %a: float32[a.dim0<=8] = Reshape "a" (%x, %t)
  %y: float32[a.dim0<=8] = Pointwise "y" (%a, %z) {code=Add}
  output %a
  output %y
)");
  expect_line(text, "%a: float32[a.dim0<=8] =");
  expect_line(text, "%y: float32[5] =");
}

TEST(ShapeInference, KeepsTheNameWhereARewriteRenamedTheNode) {
  const std::string text = inferred(R"(
  input %x: float32[4]
  %a: int64[1, a.count<=9] = NonZero "a + b" (%x)
  %y: int64[a.count<=9] = Reshape "y" (%a) {shape=[a.count<=9]}
  output %y
)");
  expect_line(text, "%a: int64[1, a.count<=4] =");
  expect_line(text, "%y: int64[a.count<=4] = Reshape \"y\" (%a) {shape=[a.count<=4]}");
}

}  // namespace
}  // namespace lathe
