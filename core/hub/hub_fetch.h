/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches a model from a hub into the cache. Only the daemon does so, before it serves:
 * libcurl is linked into no other program. */
#ifndef LLS_HUB_FETCH_H
#define LLS_HUB_FETCH_H

#include <stdint.h>

#include "core/hub/hub_places.h"

/* Receives the reports of a download, on the calling thread; progress is called often.
 */
struct lls_hub_watch {
  void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
  void (*say)(void *context, const char *sentence);
  void *context;
};

/*
 * [any] Asks the hub for the files of the model and fetches those that are needed and
 * not in the cache. A file that was begun is continued; each is checked by its hash. On
 * success lls_hub_find finds the model. Returns 0;
 * -ECANCELED if a signal ended it, with the signal's number in *signal; another negative
 * errno with a sentence.
 */
int lls_hub_fetch(const struct lls_hub_places *, const struct lls_hub_name *,
                  const struct lls_hub_watch *, int *signal, struct lls_error *err);

#endif
