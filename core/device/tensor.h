/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a tensor of a model, of any type that a file can have. */
#ifndef LLS_DEVICE_TENSOR_H
#define LLS_DEVICE_TENSOR_H

#include "core/device/device.h"

/* Reads row `row` as f32: out (columns). A view without data yields its random
 * elements. */
void lls_tensor_read_row(const struct lls_tensor_view *, size_t row, float *out);

#endif
