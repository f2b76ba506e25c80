/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters whose matrices a device has in its memory; resident_adapters.c */
#ifndef LLS_ENGINE_RESIDENT_ADAPTERS_H
#define LLS_ENGINE_RESIDENT_ADAPTERS_H

#include <stddef.h>
#include <stdint.h>

struct lls_engine;
struct lls_error;
struct lls_lora;

/* A copy of an adapter's matrices. */
struct lls_resident_adapter {
  struct lls_resident_adapter *prev, *next; /* utlist, by address */
  unsigned char digest[32];
  char *matrices; /* in the activations' type */
  size_t at;      /* where in the arena; PINNED: in host memory of its own */
  size_t bytes;
  uint64_t used;   /* the last step that used it */
  size_t places[]; /* (layers, LLS_LORA_TARGETS) bytes from `matrices` to a part's a */
};

struct lls_resident_adapters {
  char *arena; /* device memory; NULL: the device reads the host's */
  size_t bytes;
  struct lls_resident_adapter *list;
  uint64_t step;
};

/* Allocates the arena, if the device needs one. Returns 0 or -ENOMEM. */
int lls_residents_init(struct lls_engine *);
void lls_residents_free(struct lls_engine *);

/* Begins a step: finds the step's adapters, and copies to the device those that it lacks,
 * in place of those that were not used for longest. Returns 0, -ENOMEM, or the device's
 * error. */
int lls_residents_bring(struct lls_engine *);

#endif
