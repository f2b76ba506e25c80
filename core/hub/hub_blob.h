/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file's contents in the cache: HASH.incomplete while they come, HASH once the hash
 * is right. A lock that huggingface_hub takes too, .locks/models--OWNER--NAME/HASH.lock,
 * makes one process fetch it; others wait and then find it.
 */
#ifndef LLS_HUB_BLOB_H
#define LLS_HUB_BLOB_H

#include "core/hub/hub_client.h"
#include "core/hub/hub_listing.h"

/* Returns true if the blob exists, with the right size. */
bool lls_hub_blob_exists(const struct lls_hub_client *, const struct lls_hub_listed *);

/* Returns how many bytes of a blob that does not exist have yet to come. */
uint64_t lls_hub_blob_left(const struct lls_hub_client *, const struct lls_hub_listed *);

/* Fetches a blob that does not exist. */
int lls_hub_blob_get(struct lls_hub_client *, const char *commit,
                     const struct lls_hub_listed *, struct lls_error *err);

/* Creates the folders above a file. Returns 0 or -errno. */
int lls_hub_make_folders(const char *path);

#endif
