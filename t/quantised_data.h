/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised weights with their reference values: rows of GGUF's types
 * (t/data/quantised, from tools/quantised_vectors.py) and matrices of quantised folders
 * (t/data/quantised/folders, from tools/quantised_folders.py and quantised_writers.py).
 */
#ifndef LLS_T_QUANTISED_DATA_H
#define LLS_T_QUANTISED_DATA_H

#include "t/tap.h"

#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "core/model/safetensors.h"

#include <string.h>

#define VECTOR_ROWS    2
#define VECTOR_COLUMNS 256
#define VECTOR_NUMBERS (VECTOR_ROWS * VECTOR_COLUMNS)
#define MATRIX_ROWS    16
#define MATRIX_COLUMNS 64
#define WRITTEN_ROWS   32 /* of tools/quantised_writers.py */

static const enum lls_dtype vector_types[] = {
    LLS_Q4_0,   LLS_Q4_1,    LLS_Q5_0,  LLS_Q5_1,    LLS_Q8_0,   LLS_Q4_K,
    LLS_Q5_K,   LLS_Q6_K,    LLS_MXFP4, LLS_Q2_K,    LLS_Q3_K,   LLS_IQ4_NL,
    LLS_IQ4_XS, LLS_IQ3_XXS, LLS_IQ3_S, LLS_IQ2_XXS, LLS_IQ2_XS, LLS_IQ2_S,
    LLS_IQ1_S,  LLS_IQ1_M,   LLS_TQ1_0, LLS_TQ2_0};
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

/* Returns where a block has its scale in f16. */
static inline size_t step_at(enum lls_dtype type)
{
  switch (type) {
  case LLS_Q6_K:
    return 208;
  case LLS_Q3_K:
    return 108;
  case LLS_Q2_K:
    return 80;
  case LLS_TQ1_0:
    return 52;
  case LLS_TQ2_0:
    return 64;
  default:
    return 0;
  }
}

/* Sets a block's scale, and offset. */
static inline void set_step(enum lls_dtype type, uint8_t *block, float step)
{
  uint16_t half = lls_f32_to_f16(step);
  if (type == LLS_MXFP4) {
    block[0] = (uint8_t)(118 + block[0] % 8);
    return;
  }
  for (int i = 0; i < 4 && type == LLS_IQ1_M; i++)
    block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (half >> 4 * i & 15) << 4);
  if (type == LLS_IQ1_M)
    return;
  memcpy(block + step_at(type), &half, sizeof half);
  if (lls_dtype_has_offset(type))
    memcpy(block + step_at(type) + 2, &half, sizeof half);
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
  struct lls_tensor_view view, expected;
  struct lls_error err = {0};
  size_t rows = lls_safetensors_view(st, "expected", WRITTEN_ROWS, MATRIX_COLUMNS,
                                     &expected, NULL) == 0
                    ? WRITTEN_ROWS
                    : MATRIX_ROWS;
  if (lls_safetensors_view(st, name, rows, MATRIX_COLUMNS, &view, &err) != 0)
    fail_msg("%s", err.text);
  return view;
}

#endif
