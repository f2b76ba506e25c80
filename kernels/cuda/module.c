/* SPDX-License-Identifier: Apache-2.0 */
/* The exported symbol of device_cuda.so; core/device/devices.c opens it. */
#include "config.h"

#include "core/device/devices.h"
#include "kernels/cuda/device.h"

LLS_DEVICE_MODULE = {
    .size = sizeof(struct lls_device_module),
    .ops_size = sizeof(struct lls_device_ops),
    .options_size = sizeof(struct lls_device_options),
    .version = PACKAGE_VERSION,
    .name = "cuda",
    .create = lls_cuda_create,
};
