/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device computes. The CPU device is part of the program; others are modules,
 * device_NAME.so in the folders of plugins, so that one build serves on machines with and
 * without a GPU. A module is of the same build as the program: there is no version of its
 * interface beyond that, which is checked when it is opened.
 */
#ifndef LLS_DEVICE_DEVICES_H
#define LLS_DEVICE_DEVICES_H

#include "core/device/device.h"

struct lls_device_module {
  uint32_t size, ops_size, options_size; /* of these structs */
  const char *version, *name;
  int (*create)(const struct lls_device_options *, struct lls_device **out,
                struct lls_error *err);
};

#define LLS_DEVICE_MODULE_SYMBOL "lls_device_module"
#define LLS_DEVICE_MODULE                                                                \
  extern const struct lls_device_module lls_device_module;                               \
  __attribute__((visibility("default"))) const struct lls_device_module lls_device_module

enum lls_device_choice {
  LLS_DEVICE_AUTO,
  LLS_DEVICE_CPU,
  LLS_DEVICE_CUDA
}; /* [engine] */

/*
 * [main] AUTO: a GPU if there is one that can be used, else the CPU, and why_not says
 * what stood in the way. CUDA: or an error. A module stays open once it was.
 */
int lls_device_create(enum lls_device_choice, const struct lls_device_options *,
                      struct lls_device **out, struct lls_error *why_not,
                      struct lls_error *err);

#endif
