/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that are part of every program of ours. Main functions pass them on. */
#ifndef LLS_BUILTIN_H
#define LLS_BUILTIN_H

#include "core/device/devices.h"

extern const struct lls_devices lls_builtin_devices;

#endif
