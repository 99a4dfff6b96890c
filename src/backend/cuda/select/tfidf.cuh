// SPDX-License-Identifier: Apache-2.0
//
// TfIdfVectorizer (codegen_tfidf.cpp). Bodies of kernels.
//
// The generator writes in front:
//   ROWS, ITEMS, COLUMNS, DISTANCES   of x and of the result; distances between the items of an n-gram
//   COUNTS                of n-grams, in scratch memory: (ROWS, COLUMNS)
// of the walk
//   FROM, EDGES, NODE_COLUMNS   x and the tree's tables
//   PLACES                of the hash table of edges, a power of two
//   FROM_FACTOR, HASH_FACTOR, MAX_GRAM   of the hash function, and items of the longest n-gram
// of the weights
//   MODE                  0 TF, 1 IDF, 2 TFIDF
//   WEIGHT(i)             of a column

//# kClear
const idx at = (idx)blockIdx.x * 256 + threadIdx.x;
if (at < ROWS * COLUMNS) COUNTS[at] = 0;

//# kWalk
// A thread counts the n-grams of all lengths that begin at an item and go on at a distance.
const idx at = (idx)blockIdx.x * 256 + threadIdx.x;
if (at >= ROWS * DISTANCES * ITEMS) return;
const idx start = at % ITEMS, distance = at / ITEMS % DISTANCES + 1, row = at / ITEMS / DISTANCES;
int node = 0;
for (idx i = 0; i < MAX_GRAM && start + i * distance < ITEMS; ++i) {
  const long long item = widen(FROM[row * ITEMS + start + i * distance]);
  u64 place = (((u64)item + (u64)node * FROM_FACTOR) * HASH_FACTOR >> 32) & (PLACES - 1);
  int next = 0;
  for (;; place = (place + 1) & (PLACES - 1)) {
    u32 edge[4];  // item, from, to
    load_words(EDGES + place, edge);
    if (edge[3] == 0) return;
    if ((long long)((u64)edge[1] << 32 | edge[0]) == item && (int)edge[2] == node) {
      next = (int)edge[3];
      break;
    }
  }
  node = next;
  const int column = NODE_COLUMNS[node];
  // Single items have no distance: they count once.
  if (column >= 0 && !(i == 0 && distance > 1)) atomic_add(COUNTS + row * COLUMNS + column, 1u);
}

//# kWeigh
const idx at = (idx)blockIdx.x * 256 + threadIdx.x;
if (at >= ROWS * COLUMNS) return;
const u32 count = COUNTS[at];
float v[1] = {(float)count};
if (MODE == 1) v[0] = count > 0 ? WEIGHT(at % COLUMNS) : 0.f;
if (MODE == 2) v[0] *= WEIGHT(at % COLUMNS);
finish1(at, v);
