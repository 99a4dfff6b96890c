/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds an engine from an ONNX model in C, runs it on zeros and saves it: run_model model.onnx model.engine
 *
 * Every dynamic dim is taken as 1. */
#include <stdio.h>
#include <stdlib.h>

#include "lathe/c_api.h"

static int failed(lathe_error* error) {
  if (error == NULL) return 0;
  fprintf(stderr, "%s\n", lathe_error_message(error));
  lathe_error_free(error);
  return 1;
}

static void print_warnings(void* user, int severity, const char* text) {
  (void)user;
  if (severity <= 2) fprintf(stderr, "%s\n", text);
}

/* Memory of zeros for an input or output at its shape, or NULL. */
static void* bind(lathe_context* context, const lathe_tensor_info* info, int is_input) {
  int64_t dims[LATHE_MAX_RANK];
  size_t bytes = 0, elements = 1, i;
  void* memory;
  for (i = 0; i < info->rank; ++i) {
    dims[i] = info->dims[i] < 0 ? 1 : info->dims[i];
    elements *= (size_t)dims[i];
  }
  if (is_input) {
    memory = calloc(elements + 1, 8); /* no element has more bytes */
    if (failed(lathe_context_bind_input(context, info->name, info->type, dims, info->rank, memory)))
      return NULL;
    return memory;
  }
  if (failed(lathe_context_tensor_bytes(context, info->name, &bytes))) return NULL;
  memory = calloc(bytes + 1, 1);
  return failed(lathe_context_bind_output(context, info->name, info->type, memory, bytes)) ? NULL : memory;
}

static int run(const lathe_engine* engine, lathe_context* context) {
  const size_t inputs = lathe_engine_input_count(engine), all = inputs + lathe_engine_output_count(engine);
  void** memory = calloc(all, sizeof(void*));
  int64_t dims[LATHE_MAX_RANK];
  size_t i, d, rank;
  int status = 0;
  lathe_tensor_info info;
  info.struct_size = sizeof(info);
  for (i = 0; i < all && status == 0; ++i) {
    status = failed(i < inputs ? lathe_engine_input(engine, i, &info)
                               : lathe_engine_output(engine, i - inputs, &info));
    if (status == 0) status = (memory[i] = bind(context, &info, i < inputs)) == NULL;
  }
  if (status == 0) status = failed(lathe_context_execute(context));
  for (i = inputs; i < all && status == 0; ++i) {
    status = failed(lathe_engine_output(engine, i - inputs, &info)) ||
             failed(lathe_context_tensor_shape(context, info.name, dims, &rank));
    if (status != 0) break;
    printf("%s:", info.name);
    for (d = 0; d < rank; ++d) printf(" %lld", (long long)dims[d]);
    if (info.type == 1) printf(", first element %g", *(float*)memory[i]);
    printf("\n");
  }
  for (i = 0; i < all; ++i) free(memory[i]);
  free(memory);
  return status;
}

int main(int argc, char** argv) {
  lathe_options options;
  lathe_engine *engine = NULL, *loaded = NULL;
  lathe_context* context = NULL;
  int status;
  if (argc != 3) {
    fprintf(stderr, "usage: run_model model.onnx model.engine\n");
    return 1;
  }
  lathe_options_init(&options);
  options.log = print_warnings;
  options.optimization_level = 0;
  status = failed(lathe_build(argv[1], &options, &engine)) || failed(lathe_engine_save(engine, argv[2])) ||
           failed(lathe_engine_load(argv[2], &options, &loaded)) ||
           failed(lathe_context_create(loaded, &context)) || run(loaded, context);
  lathe_context_free(context);
  lathe_engine_free(loaded);
  lathe_engine_free(engine);
  return status;
}
