// SPDX-License-Identifier: Apache-2.0
//
// TreeEnsemble: a block for each row (codegen_trees.cpp).
//
// The generator writes in front:
//   THREADS               of a block
//   TREES, TARGETS        of the ensemble
//   FEATURES              of a row
//   PARTS                 into which the trees go whose weights a thread adds up
//   SUMS_AT               where the parts' sums lie in shared memory
//   AGGREGATE             0 Sum, 1 Average, 2 Min, 3 Max
//   Real                  float, or double for rows of float64
//   FROM, NODES, ROOTS, BEGINS, LEAF_TARGETS, WEIGHTS   the rows and the tables
//   THRESHOLD             of node[] at `at`

//# kCompare
DEV bool goes_to_first(u32 mode, Real x, Real threshold) {
  if (x != x && (mode & 8)) return true;
  switch (mode & 7) {
    case 0:
      return x <= threshold;
    case 1:
      return x < threshold;
    case 2:
      return x >= threshold;
    case 3:
      return x > threshold;
    case 4:
      return x == threshold;
    default:
      return x != threshold;
  }
}
DEV double joined(double a, double b) {
  return AGGREGATE == 2 ? (b < a ? b : a) : AGGREGATE == 3 ? (a < b ? b : a) : a + b;
}

//# kBody
const idx row = blockIdx.x;
int* leaves = (int*)shared_memory();
double* sums = (double*)(shared_memory() + SUMS_AT);
int* counts = (int*)(sums + PARTS * TARGETS);
const auto* x = FROM + row * FEATURES;
for (int tree = threadIdx.x; tree < TREES; tree += THREADS) {
  int at = ROOTS[tree];
  while (at >= 0) {
    u32 node[4];
    load_words(NODES + at, node);
    at = goes_to_first(node[0] & 15, widen(x[node[0] >> 4]), THRESHOLD) ? (int)node[2] : (int)node[3];
  }
  leaves[tree] = -1 - at;
}
__syncthreads();
for (int i = threadIdx.x; i < PARTS * TARGETS; i += THREADS) {
  const int part = i / TARGETS, target = i % TARGETS;
  double sum = 0;
  int count = 0;
  for (int tree = TREES * part / PARTS; tree < TREES * (part + 1) / PARTS; ++tree)
    for (int w = BEGINS[leaves[tree]]; w < BEGINS[leaves[tree] + 1]; ++w)
      if (LEAF_TARGETS[w] == target) {
        sum = count ? joined(sum, (double)WEIGHTS[w]) : (double)WEIGHTS[w];
        ++count;
      }
  sums[i] = sum;
  counts[i] = count;
}
__syncthreads();
for (int target = threadIdx.x; target < TARGETS; target += THREADS) {
  double sum = 0;
  bool any = false;
  for (int part = 0; part < PARTS; ++part)
    if (counts[part * TARGETS + target]) {
      sum = any ? joined(sum, sums[part * TARGETS + target]) : sums[part * TARGETS + target];
      any = true;
    }
  if (AGGREGATE == 1) sum /= TREES;
  Real v[1] = {(Real)sum};
  finish1(row * TARGETS + target, v);
}
