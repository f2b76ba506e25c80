/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where models of a hub are kept and fetched from: the environment variables of
 * huggingface_hub, so that its cache and its token are this program's too.
 */
#ifndef LLS_HUB_PLACES_H
#define LLS_HUB_PLACES_H

#include <limits.h>
#include <stdbool.h>

#include "core/base/error.h"
#include "core/hub/hub_name.h"

#define LLS_HUB_TOKEN    512
#define LLS_HUB_ENDPOINT 512

struct lls_hub_places {
  char cache[PATH_MAX - 512]; /* HF_HUB_CACHE, or hub in HF_HOME; room for names below */
  char endpoint[LLS_HUB_ENDPOINT]; /* HF_ENDPOINT without a slash at its end */
  char token[LLS_HUB_TOKEN];       /* "": none */
  bool offline;                    /* HF_HUB_OFFLINE */
};

/* [any] Reads the environment, and the file of the token if there is one. */
int lls_hub_places_read(struct lls_hub_places *, struct lls_error *err);

/* [any] Writes the path of a model's folder in the cache, or of its locks. */
void lls_hub_folder(const struct lls_hub_places *, const struct lls_hub_name *,
                    char path[PATH_MAX]);
void lls_hub_locks(const struct lls_hub_places *, const struct lls_hub_name *,
                   char path[PATH_MAX]);

#endif
