/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters whose matrices a device has in its memory; resident_adapters.c */
#ifndef LLS_ENGINE_RESIDENT_ADAPTERS_H
#define LLS_ENGINE_RESIDENT_ADAPTERS_H

#include <stddef.h>
#include <stdint.h>

struct lls_engine;
struct lls_engine_batch;
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

/* Finds the adapters of a batch, and copies to the device those that it lacks, in place
 * of those that were not used for longest. No step runs meanwhile. Returns 0 or the
 * device's error; -ENOMEM with *lacking the index of a sequence whose adapter found no
 * memory. */
int lls_residents_bring(struct lls_engine *, const struct lls_engine_batch *,
                        uint32_t *lacking);
/* Finds the copies of the adapters of a step that is laid out. */
void lls_residents_lay_out(struct lls_engine *);

#endif
