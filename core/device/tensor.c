/* SPDX-License-Identifier: Apache-2.0 */
/* See tensor.h. */
#include "core/device/tensor.h"
#include "core/device/coded.h"
#include "core/device/numbers.h"
#include "core/device/quantised.h"

#include <string.h>

#include "core/base/check.h"

/*
 * Random elements of standard deviation 0.02 for load_format = dummy: uniform in +-0.02
 * sqrt(3), by splitmix64 of (seed, index), so that they do not depend on the threads.
 */
static float random_weight(uint64_t seed, uint64_t index)
{
  uint64_t z = seed + UINT64_C(0x9E3779B97F4A7C15) * (index + 1);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  z ^= z >> 31;
  return ((float)(z >> 40) * 0x1p-23f - 1.0f) * 0.0346410162f;
}

static uint16_t half_at(const char *data, size_t i)
{
  uint16_t half; /* a file's tensors need not be aligned */
  memcpy(&half, data + i * sizeof half, sizeof half);
  return half;
}

void lls_tensor_read_row(const struct lls_tensor_view *view, size_t row, float *out)
{
  size_t n = view->columns;
  LLS_CHECK(row < view->rows);
  if (view->data == NULL) {
    for (size_t i = 0; i < n; i++)
      out[i] = random_weight(view->seed, row * view->row_stride + i);
    return;
  }
  if (view->dtype == LLS_CODED) {
    lls_coded_read(view->data, view->first_row + row, view->first_column, n, out);
    return;
  }
  const char *data =
      (const char *)view->data + lls_dtype_row_bytes(view->dtype, row * view->row_stride);
  switch (view->dtype) {
  case LLS_F32:
    memcpy(out, data, n * sizeof *out);
    break;
  case LLS_F16:
    for (size_t i = 0; i < n; i++)
      out[i] = lls_f16_to_f32(half_at(data, i));
    break;
  case LLS_BF16:
    for (size_t i = 0; i < n; i++)
      out[i] = lls_bf16_to_f32(half_at(data, i));
    break;
  case LLS_I8:
    for (size_t i = 0; i < n; i++)
      out[i] = ((const int8_t *)data)[i];
    break;
  default:
    lls_quantised_read(view->dtype, data, n, out);
  }
}
