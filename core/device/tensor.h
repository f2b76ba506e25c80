/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a tensor of a model, in whatever type its file has it. */
#ifndef LLS_DEVICE_TENSOR_H
#define LLS_DEVICE_TENSOR_H

#include "core/device/device.h"

/* Row `row` as f32: out (columns). A view without data gives its random numbers. */
void lls_tensor_read_row(const struct lls_tensor_view *, size_t row, float *out);

#endif
