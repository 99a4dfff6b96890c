/* SPDX-License-Identifier: Apache-2.0
 *
 * Custom operators: what a plugin library implements, in C, so that libraries outlive compilers. plugin.h has
 * the same for C++.
 *
 * A library exports one function, lathe_plugin_library(), which lists its operators. An operator is matched
 * to the nodes of a model by its name (the node's operator type), its version and its namespace (the node's
 * attributes plugin_version and plugin_namespace, else the node's domain). create() makes an instance from a
 * node's attributes; all other functions get it, from many threads at once.
 *
 * Functions that can fail return 0 for success; else they write why into `error`, and the build or run ends
 * with that text. Structs that may grow begin with their size. Types are ONNX's TensorProto.DataType: 1
 * float, 7 int64, ... Everything that a function gets lives until it returns. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_PLUGIN_ABI_VERSION 1
#define LATHE_PLUGIN_MAX_RANK 16

#if defined(_WIN32)
#define LATHE_PLUGIN_EXPORT __declspec(dllexport)
#else
#define LATHE_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

typedef struct {
  char text[1024]; /* ends in 0 */
} lathe_plugin_error;

/* An attribute of the node: a text (type 8) of `bytes` bytes, or a tensor; a number is one of rank 0. */
typedef struct {
  size_t struct_size;
  const char* name;
  int type;
  size_t rank;
  const int64_t* dims;
  const void* data;
  size_t bytes;
} lathe_plugin_field;

/* A dim that may be symbolic: a number, "batch", "2*seq + 1". */
typedef struct lathe_plugin_dim lathe_plugin_dim;

enum {
  LATHE_PLUGIN_ADD,
  LATHE_PLUGIN_SUBTRACT,
  LATHE_PLUGIN_MULTIPLY,
  LATHE_PLUGIN_FLOOR_DIV,
  LATHE_PLUGIN_CEIL_DIV,
  LATHE_PLUGIN_MODULO,
  LATHE_PLUGIN_MIN,
  LATHE_PLUGIN_MAX
};

/* Makes dims; they live until infer() returns. */
typedef struct {
  size_t struct_size;
  void* self; /* first argument of all functions */
  const lathe_plugin_dim* (*constant)(void* self, int64_t value);
  const lathe_plugin_dim* (*operation)(void* self, int operation, const lathe_plugin_dim* a,
                                       const lathe_plugin_dim* b);
  /* A size that only a run finds, at most `upper`: run_cpu() writes it into the output's dims. */
  const lathe_plugin_dim* (*data_dependent)(void* self, const lathe_plugin_dim* upper);
  /* 1 and *value when the dim is a number, else 0. */
  int (*is_constant)(void* self, const lathe_plugin_dim* dim, int64_t* value);
} lathe_plugin_dims;

/* What is known of an operand before a run. An absent input has type 0. */
typedef struct {
  size_t struct_size;
  int type;
  size_t rank;
  const lathe_plugin_dim* dims[LATHE_PLUGIN_MAX_RANK];
  /* Inputs only: the elements of a small integer tensor where they are known (a shape), else NULL. */
  size_t content_count;
  const lathe_plugin_dim* const* contents;
} lathe_plugin_shape;

enum { LATHE_PLUGIN_LINEAR, LATHE_PLUGIN_CHANNELS_LAST };
enum { LATHE_PLUGIN_CPU, LATHE_PLUGIN_CUDA };

/* An operand at concrete extents. `dims` are logical (N, C, ...) in both formats. `data` is NULL where
 * nothing is run; CUDA: device memory. */
typedef struct {
  size_t struct_size;
  int type;
  int format;
  size_t rank;
  int64_t dims[LATHE_PLUGIN_MAX_RANK];
  void* data;
} lathe_plugin_tensor;

typedef struct {
  size_t struct_size;
  const lathe_plugin_tensor* inputs;
  size_t input_count;
  lathe_plugin_tensor* outputs; /* data-dependent dims: at their upper bound; run_cpu() sets them */
  size_t output_count;
  void* workspace;    /* of workspace_bytes(), this call's own, 64-byte aligned (CUDA: 256) */
  int64_t begin, end; /* CPU: the work items to do */
  void* stream;       /* CUDA: a CUstream; enqueue on it and do not wait */
  int64_t tactic;     /* one of tactics(); 0: it has none, or nobody chose */
} lathe_plugin_call;

/* An operand at the extents that a build was told: the smallest, those that it is tuned for, the largest. */
typedef struct {
  size_t struct_size;
  lathe_plugin_tensor min, opt, max;
} lathe_plugin_range;

typedef struct lathe_plugin_operator lathe_plugin_operator;
struct lathe_plugin_operator {
  /* sizeof(lathe_plugin_operator) of the header that the library was compiled with: one that ends behind
   * serialize() is as good as one whose other functions are NULL. */
  size_t struct_size;
  const char* name;
  const char* version;    /* "1" */
  const char* name_space; /* "" or NULL: none */
  void* user;             /* the library's own */
  unsigned flags;         /* LATHE_PLUGIN_NOT_CAPTURABLE: run_cuda() must not be recorded into a CUDA graph */

  int (*create)(const lathe_plugin_operator* op, const lathe_plugin_field* fields, size_t field_count,
                void** instance, lathe_plugin_error* error);
  void (*destroy)(void* instance); /* may be NULL */

  /* Types and shapes of the outputs, whose struct_size is set. */
  int (*infer)(void* instance, const lathe_plugin_shape* inputs, size_t input_count,
               lathe_plugin_shape* outputs, size_t output_count, const lathe_plugin_dims* dims,
               lathe_plugin_error* error);

  /* 1 when these types and formats can be run on the device (extents and data are not set), else 0. NULL:
   * what infer() accepts, linear. Offered are the model's own types, and FP16 or BF16 where a build may use
   * them. */
  int (*supports)(void* instance, int device, const lathe_plugin_tensor* inputs, size_t input_count,
                  const lathe_plugin_tensor* outputs, size_t output_count);

  /* Scratch memory of a run at these extents. NULL: none. A negative number: an error. */
  int64_t (*workspace_bytes)(void* instance, int device, const lathe_plugin_tensor* inputs,
                             size_t input_count, const lathe_plugin_tensor* outputs, size_t output_count);

  /* Into how many parts run_cpu() can be divided: it is called for ranges of them, by several threads at
   * once. NULL: 1. */
  int64_t (*work_items)(void* instance, const lathe_plugin_tensor* inputs, size_t input_count,
                        const lathe_plugin_tensor* outputs, size_t output_count);

  int (*run_cpu)(void* instance, const lathe_plugin_call* call,
                 lathe_plugin_error* error); /* NULL: CUDA only */
  int (*run_cuda)(void* instance, const lathe_plugin_call* call,
                  lathe_plugin_error* error); /* NULL: CPU only */

  /* The fields that an engine file keeps, from which create() makes the instance again: calls `add` for each.
   * NULL: the node's own. */
  int (*serialize)(void* instance, void (*add)(void* sink, const lathe_plugin_field* field), void* sink,
                   lathe_plugin_error* error);

  /* An instance of `instance` for one use: a layer of one context at the shapes that it has prepared, or the
   * tuner's timing of one tactic. Nobody else gets it, so it may keep state from run to run; destroy() ends
   * it. NULL, or *own left NULL: all uses share the instance. */
  int (*attach)(void* instance, void** own, lathe_plugin_error* error);

  /* Tells a use, behind attach(), the range of each operand. NULL: it need not know. */
  int (*configure)(void* instance, int device, const lathe_plugin_range* inputs, size_t input_count,
                   const lathe_plugin_range* outputs, size_t output_count, lathe_plugin_error* error);

  /* Ways to compute these types, formats and extents (those that are tuned for), each a number above 0:
   * writes up to `room` of them, and returns how many there are. Each is timed, and run_cpu() and run_cuda()
   * get the one that was chosen. NULL or none: there is one way. */
  size_t (*tactics)(void* instance, int device, const lathe_plugin_tensor* inputs, size_t input_count,
                    const lathe_plugin_tensor* outputs, size_t output_count, int64_t* tactics, size_t room);

  /* What decides the time of a run besides types and extents: calls `set` with a text, under which timing
   * caches keep the times. NULL, or `set` is not called: all attributes. */
  void (*timing_key)(void* instance, void (*set)(void* sink, const char* text), void* sink);
};

enum { LATHE_PLUGIN_NOT_CAPTURABLE = 1 };

typedef struct {
  size_t struct_size;
  uint32_t abi_version; /* LATHE_PLUGIN_ABI_VERSION */
  size_t operator_count;
  const lathe_plugin_operator* const* operators; /* they live as long as the library is loaded */
} lathe_plugin_library_info;

/* The one function of a plugin library. `host_abi_version`: what the program that loads it knows. NULL: the
 * library cannot work with it. */
typedef const lathe_plugin_library_info* (*lathe_plugin_library_function)(uint32_t host_abi_version);
LATHE_PLUGIN_EXPORT const lathe_plugin_library_info* lathe_plugin_library(uint32_t host_abi_version);

#ifdef __cplusplus
}
#endif
