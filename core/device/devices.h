/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the device that computes. Every device comes as a struct lls_device_module. The
 * CPU device is part of the program, which passes it as its struct lls_devices; all
 * others are in files, device_NAME.so in the folders of plugins, so that one build runs
 * on machines with and without a GPU. Such a file must be of the same build as the
 * program, which is checked when it is opened: its interface has no other version.
 */
#ifndef LLS_DEVICE_DEVICES_H
#define LLS_DEVICE_DEVICES_H

#include "core/device/device.h"

struct lls_device_module {
  uint32_t size, ops_size, options_size; /* sizes of these structs */
  const char *version, *name;
  int (*create)(const struct lls_device_options *, struct lls_device **out,
                struct lls_error *err);
};

#define LLS_DEVICE_MODULE_SYMBOL "lls_device_module"
#define LLS_DEVICE_MODULE                                                                \
  extern const struct lls_device_module lls_device_module;                               \
  __attribute__((visibility("default"))) const struct lls_device_module lls_device_module

/* The devices that are part of a program. The core names none of them: a main function
 * passes the table of kernels/builtin.h. */
struct lls_devices {
  const struct lls_device_module *cpu;
  /* A simulated device with more memory than any model wants: it takes shapes and sizes
   * and reads no number, which shows whether parts go together. */
  const struct lls_device_module *empty;
};

enum lls_device_choice {
  LLS_DEVICE_AUTO,
  LLS_DEVICE_CPU,
  LLS_DEVICE_CUDA
}; /* [engine] */

/*
 * [main] Creates a device. AUTO: a usable GPU, or else the CPU, with the reason in
 * why_not. CUDA: a GPU, or an error. An opened module stays open.
 */
int lls_device_create(enum lls_device_choice, const struct lls_devices *builtin,
                      const struct lls_device_options *, struct lls_device **out,
                      struct lls_error *why_not, struct lls_error *err);

#endif
