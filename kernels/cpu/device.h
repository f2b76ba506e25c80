/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU device, which is the reference for every other. */
#ifndef LLS_CPU_DEVICE_H
#define LLS_CPU_DEVICE_H

#include "core/device/devices.h"

extern const struct lls_device_module lls_cpu_device;

/* [main] 0 or -errno (unknown isa: -EINVAL). */
int lls_cpu_device_create(const struct lls_device_options *, struct lls_device **out,
                          struct lls_error *err);

#endif
