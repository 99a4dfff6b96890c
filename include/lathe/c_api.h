/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines from C, and from every language that calls C. The functions are those of the C++ API (builder.h,
 * runtime.h), which says more.
 *
 * A function that can fail returns an error, or NULL when all is well; lathe_error_free() frees it. Functions
 * whose name ends in _free take NULL. Structs begin with their size, so that programs and libraries of
 * different versions understand each other: fill them by the _init functions. Texts are UTF-8. An engine may
 * be used by many threads, a context by one at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lathe/plugin_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lathe_error lathe_error;
typedef struct lathe_engine lathe_engine;
typedef struct lathe_context lathe_context;

/* "0.2.0" */
const char* lathe_version(void);

typedef enum {
  LATHE_INPUT_ERROR,
  LATHE_INTERNAL_ERROR,
  LATHE_SYSTEM_ERROR,
  LATHE_CANCELLED
} lathe_error_kind_t;
lathe_error_kind_t lathe_error_kind(const lathe_error* error);
/* What failed, in the codes and numbers of TensorRT's ErrorCode, and one more; lathe/types.h says what each
 * means. */
typedef enum {
  LATHE_SUCCESS, /* of NULL */
  LATHE_UNSPECIFIED_ERROR,
  LATHE_INTERNAL,
  LATHE_INVALID_ARGUMENT,
  LATHE_INVALID_CONFIG,
  LATHE_FAILED_ALLOCATION,
  LATHE_FAILED_INITIALIZATION,
  LATHE_FAILED_EXECUTION,
  LATHE_FAILED_COMPUTATION,
  LATHE_INVALID_STATE,
  LATHE_UNSUPPORTED_STATE,
  LATHE_NOT_ON_THIS_HARDWARE
} lathe_error_code_t;
lathe_error_code_t lathe_error_code(const lathe_error* error);
/* All parts in one line, then the parts; "" where one is not known. They live as long as the error. */
const char* lathe_error_message(const lathe_error* error);
const char* lathe_error_what(const lathe_error* error);
const char* lathe_error_where(const lathe_error* error);
const char* lathe_error_why(const lathe_error* error);
const char* lathe_error_hint(const lathe_error* error);
void lathe_error_free(lathe_error* error);

enum { LATHE_MAX_RANK = 16 };

/* Extents of an input that a build accepts and is tuned for. */
typedef struct {
  const char* input;
  size_t rank;
  int64_t min[LATHE_MAX_RANK], opt[LATHE_MAX_RANK], max[LATHE_MAX_RANK];
} lathe_shape_range;

/* severity: 0 internal error, 1 error, 2 warning, 3 info, 4 verbose. On the calling thread. */
typedef void (*lathe_log_function)(void* user, int severity, const char* text);

typedef struct {
  size_t struct_size;
  const char* device; /* "cpu", the number of a GPU, or "auto"; NULL: "cpu" */
  int threads;        /* of the CPU; 0: all that this process may use */
  lathe_log_function log;
  void* log_user;
  int optimization_level; /* 0 (nothing is timed) to 5; for builds, like what follows */
  int fp16, bf16, best;   /* layers may compute in these types, too */
  const lathe_shape_range* shapes;
  size_t shape_count;
  const char* const* plugin_libraries; /* paths of libraries of custom operators (plugin_abi.h) */
  size_t plugin_library_count;
  const lathe_plugin_operator* const* plugins; /* operators of this program; they outlive the engines */
  size_t plugin_count;
  int trust_engine; /* run the libraries that an engine file carries */
} lathe_options;
void lathe_options_init(lathe_options* options);

/* `options` may be NULL: the defaults. *engine is set where there is no error. */
lathe_error* lathe_build(const char* onnx_path, const lathe_options* options, lathe_engine** engine);
lathe_error* lathe_engine_load(const char* path, const lathe_options* options, lathe_engine** engine);
lathe_error* lathe_engine_save(const lathe_engine* engine, const char* path);
void lathe_engine_free(lathe_engine* engine); /* its contexts live on */

typedef struct {
  size_t struct_size;
  const char* name; /* lives as long as the engine */
  int type;         /* ONNX's TensorProto.DataType: 1 float, 7 int64, ... */
  size_t rank;
  int64_t dims[LATHE_MAX_RANK]; /* -1: dynamic */
} lathe_tensor_info;
size_t lathe_engine_input_count(const lathe_engine* engine);
size_t lathe_engine_output_count(const lathe_engine* engine);
/* Set info->struct_size = sizeof(lathe_tensor_info) before. */
lathe_error* lathe_engine_input(const lathe_engine* engine, size_t index, lathe_tensor_info* info);
lathe_error* lathe_engine_output(const lathe_engine* engine, size_t index, lathe_tensor_info* info);

lathe_error* lathe_context_create(const lathe_engine* engine, lathe_context** context);
void lathe_context_free(lathe_context* context);
/* Memory is read and written in place, at each run, and stays the caller's. */
lathe_error* lathe_context_bind_input(lathe_context* context, const char* input, int type,
                                      const int64_t* dims, size_t rank, const void* data);
lathe_error* lathe_context_bind_output(lathe_context* context, const char* output, int type, void* data,
                                       size_t bytes);
/* At the shapes of the bound inputs; `dims` has room for LATHE_MAX_RANK. */
lathe_error* lathe_context_tensor_bytes(lathe_context* context, const char* tensor, size_t* bytes);
lathe_error* lathe_context_tensor_shape(lathe_context* context, const char* tensor, int64_t* dims,
                                        size_t* rank);
lathe_error* lathe_context_execute(lathe_context* context);

/* State: outputs that stay in memory of the context and are inputs of the next run, which is a step
 * (ExecutionContext::keep_state). Output number i is the next value of input number i; a count of 0 takes the
 * pairs that names tell, and `count` (may be null) gets how many there are. Such tensors are not bound. */
lathe_error* lathe_context_keep_state(lathe_context* context, const char* const* inputs,
                                      const char* const* outputs, size_t* count);
/* What the input begins with, now and after each reset: a copy of `data`. */
lathe_error* lathe_context_set_state(lathe_context* context, const char* input, int type, const int64_t* dims,
                                     size_t rank, const void* data);
/* What the next step reads: its extents (room for LATHE_MAX_RANK) and size, and a copy where `data` is not
 * null and has room. */
lathe_error* lathe_context_read_state(lathe_context* context, const char* input, int64_t* dims, size_t* rank,
                                      void* data, size_t* bytes);
lathe_error* lathe_context_reset_state(lathe_context* context);

#ifdef __cplusplus
}
#endif
