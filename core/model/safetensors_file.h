/* SPDX-License-Identifier: Apache-2.0 */
/* One mapped safetensors file; used by safetensors.c only. */
#ifndef LLS_MODEL_SAFETENSORS_FILE_H
#define LLS_MODEL_SAFETENSORS_FILE_H

#include <utlist.h>

#include "core/base/error.h"
#include "core/device/device.h"
#include "core/base/hash.h"

struct lls_tensor_type {
  const char *name; /* the tensor's name in headers */
  uint32_t bytes;   /* per element */
  bool is_weight;   /* the type is valid for weights, and dtype is set */
  enum lls_dtype dtype;
};

struct lls_tensor_file {
  struct lls_tensor_file *next;
  const char *folder, *path, *name; /* one allocation, after the struct */
  unsigned char *map;
  size_t bytes;
};

#define LLS_TENSOR_MAX_DIMS 8

struct lls_tensor {
  UT_hash_handle hh;
  const struct lls_tensor_file *file;
  const struct lls_tensor_type *type;
  uint32_t n_dims;
  uint64_t shape[LLS_TENSOR_MAX_DIMS];
  size_t offset, bytes; /* offset and size in the file */
  void *copy;           /* aligned copy, if the data in the file is not aligned */
  char name[];
};

/* Adds the file's tensors to *tensors (uthash by name). After an error *out may be set,
 * too; it must be closed after the tensors are freed. */
int lls_tensor_file_open(const char *folder, const char *name,
                         struct lls_tensor **tensors, struct lls_tensor_file **out,
                         struct lls_error *err);
void lls_tensor_file_close(struct lls_tensor_file *);
void lls_tensor_free(struct lls_tensor *);

/* Gets the data, aligned for its type; it belongs to the tensor. */
int lls_tensor_data(struct lls_tensor *, const void **out, struct lls_error *err);

/* Writes a shape as "[2, 3]". */
void lls_tensor_shape_text(const uint64_t *shape, uint32_t n_dims, char *text,
                           size_t size);

#endif
