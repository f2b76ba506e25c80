/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test kit's own scheduler, which moves requests: to the host and back concurrently
 * with steps, to other instances, and off the device. It calls cache managers and
 * predictors in ways that shipped schedulers use only now and then.
 */
#ifndef CHECK_MOVER_H
#define CHECK_MOVER_H

#include "core/plugin/loader.h"

extern const struct lls_plugin_module mover_module;

#endif
