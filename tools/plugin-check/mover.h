/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler of the kit's own that moves requests about: beside the steps to the host
 * and back, to other instances, off the device. A cache manager and a predictor meet
 * through it what shipped schedulers ask of them now and then.
 */
#ifndef CHECK_MOVER_H
#define CHECK_MOVER_H

#include "core/plugin/loader.h"

extern const struct lls_plugin_module mover_module;

#endif
