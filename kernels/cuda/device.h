/* SPDX-License-Identifier: Apache-2.0 */
/* Making and describing the CUDA device; device.c. */
#ifndef LLS_CUDA_DEVICE_H
#define LLS_CUDA_DEVICE_H

#include "core/device/device.h"

/* [main] Returns -ENODEV if there is no GPU or no driver, with the reason. */
int lls_cuda_create(const struct lls_device_options *, struct lls_device **out,
                    struct lls_error *err);
void lls_cuda_destroy(struct lls_device *);
void lls_cuda_describe(struct lls_device *, char *text, size_t size);
void lls_cuda_identify(struct lls_device *, char *text, size_t size);

#endif
