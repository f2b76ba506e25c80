/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which callbacks a vtable must have. kinds.c has a table of rules for each kind;
 * callbacks.c applies them.
 */
#ifndef LLS_PLUGIN_CALLBACKS_H
#define LLS_PLUGIN_CALLBACKS_H

#include "core/base/error.h"

#include <llmserve/cache.h>
#include <llmserve/drafter.h>
#include <llmserve/predictor.h>
#include <llmserve/scheduler.h>

struct lls_callback {
  const char *name;
  size_t offset; /* offset of the pointer in the vtable */
};

/* If `given` is present, `needed` must be, too. */
struct lls_callback_pair {
  struct lls_callback given, needed;
};

struct lls_vtable_rules {
  const char *name;            /* "struct lls_scheduler_vtable" */
  size_t version_1_size, size; /* smallest and largest size of a plugin's vtable */
  size_t n_required, n_pairs;
  const struct lls_callback *required;   /* (n_required) */
  const struct lls_callback_pair *pairs; /* (n_pairs) */
};

#define LLS_CALLBACK(STRUCT, MEMBER)                                                     \
  {                                                                                      \
#MEMBER, offsetof(STRUCT, MEMBER)                                                    \
  }
#define LLS_CALLBACK_PAIR(STRUCT, A, B)                                                  \
  {                                                                                      \
    LLS_CALLBACK(STRUCT, A), LLS_CALLBACK(STRUCT, B)                                     \
  }
/* Size of a struct up to and including MEMBER. */
#define LLS_SIZE_UP_TO(STRUCT, MEMBER)                                                   \
  (offsetof(STRUCT, MEMBER) + sizeof(((STRUCT *)0)->MEMBER))

extern const struct lls_vtable_rules lls_scheduler_rules;
extern const struct lls_vtable_rules lls_cache_rules;
extern const struct lls_vtable_rules lls_predictor_rules;
extern const struct lls_vtable_rules lls_drafter_rules;

/* Checks whether this core can read a plugin's struct. `found` is its api_version and
 * size, with which every such struct begins. */
int lls_struct_check(const char *name, size_t version_1_size, size_t size,
                     const uint32_t found[2], struct lls_error *err);

/* Checks the abilities of a cache manager. A vtable as it was before groups has a
 * function in their place. */
int lls_caps_check(const struct lls_cache_caps *, struct lls_error *err);

/* Copies a plugin's vtable into a zeroed `full` of rules->size bytes, so that callbacks
 * which an older plugin lacks are NULL, and checks it. */
int lls_vtable_read(const struct lls_vtable_rules *, const void *vtable, void *full,
                    struct lls_error *err);

#endif
