/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised weights with their reference values: rows of GGUF's types
 * (t/data/quantised, from tools/quantised_vectors.py) and matrices of quantised folders
 * (t/data/quantised/folders, from tools/quantised_folders.py).
 */
#ifndef LLS_T_QUANTISED_DATA_H
#define LLS_T_QUANTISED_DATA_H

#include "t/tap.h"

#include "core/device/quantised.h"
#include "core/model/safetensors.h"

#define VECTOR_ROWS    2
#define VECTOR_COLUMNS 256
#define VECTOR_NUMBERS (VECTOR_ROWS * VECTOR_COLUMNS)
#define MATRIX_ROWS    16
#define MATRIX_COLUMNS 64

static const enum lls_dtype vector_types[] = {LLS_Q4_0, LLS_Q4_1, LLS_Q5_0,
                                              LLS_Q5_1, LLS_Q8_0, LLS_Q4_K,
                                              LLS_Q5_K, LLS_Q6_K, LLS_MXFP4};
#define N_VECTOR_TYPES (sizeof vector_types / sizeof *vector_types)

struct vectors {
  char data[VECTOR_NUMBERS * 2]; /* blocks, unaligned */
  float expected[VECTOR_NUMBERS];
  struct lls_tensor_view view;
};

static inline void read_vectors(enum lls_dtype type, struct vectors *v)
{
  char name[64];
  snprintf(name, sizeof name, "t/data/quantised/%s", lls_dtype_name(type));
  FILE *file = fopen(source_path(name), "rb");
  assert_non_null(file);
  size_t bytes = VECTOR_ROWS * lls_dtype_row_bytes(type, VECTOR_COLUMNS);
  assert_int_equal(fread(v->data + 1, 1, bytes, file), bytes);
  assert_int_equal(fread(v->expected, sizeof(float), VECTOR_NUMBERS, file),
                   VECTOR_NUMBERS);
  assert_int_equal(fgetc(file), EOF);
  fclose(file);
  v->view = (struct lls_tensor_view){.data = v->data + 1,
                                     .dtype = type,
                                     .rows = VECTOR_ROWS,
                                     .columns = VECTOR_COLUMNS,
                                     .row_stride = VECTOR_COLUMNS};
}

static inline struct lls_safetensors *open_matrix(const char *name)
{
  struct lls_safetensors *st;
  struct lls_error err = {0};
  char path[128];
  snprintf(path, sizeof path, "t/data/quantised/folders/%s", name);
  if (lls_safetensors_open(source_path(path), &st, &err) != 0)
    fail_msg("%s", err.text);
  return st;
}

/* Returns the view of "m.weight", or of the tensors that represent it, or of
 * "expected". */
static inline struct lls_tensor_view matrix_view(struct lls_safetensors *st,
                                                 const char *name)
{
  struct lls_tensor_view view;
  struct lls_error err = {0};
  if (lls_safetensors_view(st, name, MATRIX_ROWS, MATRIX_COLUMNS, &view, &err) != 0)
    fail_msg("%s", err.text);
  return view;
}

#endif
