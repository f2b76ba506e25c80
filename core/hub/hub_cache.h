/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model in the hub's cache, whose layout is huggingface_hub's, so that either program
 * finds what the other has fetched:
 *
 *   models--OWNER--NAME/refs/main         the commit that "main" was
 *   models--OWNER--NAME/blobs/HASH        contents of files
 *   models--OWNER--NAME/snapshots/COMMIT  a folder of links to blobs
 */
#ifndef LLS_HUB_CACHE_H
#define LLS_HUB_CACHE_H

#include "core/hub/hub_places.h"

/* [any] Finds a model whose needed files all exist: its folder, or its GGUF file.
 * Returns 0, or a negative errno with a sentence. Uses no network. */
int lls_hub_find(const struct lls_hub_places *, const struct lls_hub_name *,
                 char path[PATH_MAX], struct lls_error *err);

#endif
