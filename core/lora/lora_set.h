/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adapters of a server by name. The set lists any number of them and keeps at most
 * max_loaded in memory; another one is loaded when a request needs it, in place of the
 * adapter that was not used for longest and that no request is using. A request keeps a
 * reference to its adapter, so removing a name only ends its use by later requests.
 *
 * Threads: [main] and threads of the pool use a set at the same time. A mutex guards the
 * list and is held for a few moves; loading has a mutex of its own, so that two requests
 * do not load one adapter twice.
 */
#ifndef LLS_LORA_LORA_SET_H
#define LLS_LORA_LORA_SET_H

#include <stddef.h>
#include <stdint.h>

#include "core/lora/lora.h"

struct lls_lora_set;

/* A listed adapter; the members do not change, and live as long as a reference. */
struct lls_adapter {
  char *name, *path;
  float scale;       /* of its changes, for requests that set none */
  uint32_t number;   /* from 1 on, never used twice */
  bool configured;   /* by the file; else by a request */
  int64_t created_s; /* Unix time */
};

struct lls_lora_bounds {
  uint32_t max_loaded; /* adapters in memory, 1.. */
  size_t memory;       /* bytes of them; 0: no bound */
};

/* The model's configuration is copied. Returns NULL without memory. */
struct lls_lora_set *lls_lora_set_create(const struct lls_model_config *,
                                         const struct lls_lora_bounds *);
void lls_lora_set_destroy(struct lls_lora_set *); /* NULL is allowed */

/* [any thread] Loads an adapter for this set's model without listing it. */
int lls_lora_set_try(const struct lls_lora_set *, const char *path, struct lls_lora **out,
                     struct lls_error *err);
/* Lists an adapter: the name, path, scale, and whether it is configured are copied.
 * `loaded` (may be NULL) is its content, which the set takes over even
 * if it fails. Returns -EEXIST if the name is taken, or -ENOMEM. */
int lls_lora_set_add(struct lls_lora_set *, const struct lls_adapter *,
                     struct lls_lora *loaded);
/* Returns -ENOENT if the name is not listed. */
int lls_lora_set_remove(struct lls_lora_set *, const char *name);
/* Removes the names of all adapters whose content is not in memory. */
void lls_lora_set_remove_unloaded(struct lls_lora_set *);

/* Returns a reference to a listed adapter, or NULL. */
struct lls_adapter *lls_lora_set_find(struct lls_lora_set *, const char *name);
/* Returns a reference to the adapter at this place of the list, from 0, or NULL. */
struct lls_adapter *lls_lora_set_at(struct lls_lora_set *, uint32_t place);
/* Sets the adapter of requests that choose none, with its scale; NULL: none. Its removal
 * from the list ends it. */
void lls_lora_set_share(struct lls_lora_set *, struct lls_adapter *, float scale);
/* Returns a reference to this adapter, or NULL, and sets *scale. */
struct lls_adapter *lls_lora_set_shared(struct lls_lora_set *, float *scale);
void lls_adapter_unref(struct lls_adapter *); /* NULL is allowed */

/* Returns a reference to the adapter's content, or NULL if that is not in memory. */
struct lls_lora *lls_lora_set_use(struct lls_lora_set *, struct lls_adapter *);
/* [any thread] Does so after loading it, if need be. Returns -EBUSY if all adapters that
 * may be in memory are in use, and lls_lora_load's errors. */
int lls_lora_set_load(struct lls_lora_set *, struct lls_adapter *, struct lls_lora **out,
                      struct lls_error *err);

/* Calls back for each listed adapter, in the order of their numbers. `users`: requests
 * that use it. */
void lls_lora_set_each(struct lls_lora_set *,
                       void (*visit)(void *context, const struct lls_adapter *,
                                     bool loaded, uint32_t users),
                       void *context);
const struct lls_lora_bounds *lls_lora_set_bounds(const struct lls_lora_set *);

#endif
