/* SPDX-License-Identifier: Apache-2.0 */
/* The table of builtin.h: a device that is to be part of the programs has its row here.
 */
#include "kernels/builtin.h"

#include "kernels/cpu/device.h"
#include "kernels/sim/sim.h"

const struct lls_devices lls_builtin_devices = {
    .cpu = &lls_cpu_device,
    .empty = &lls_empty_device,
};
