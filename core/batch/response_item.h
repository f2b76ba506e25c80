/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items of stored responses by their ids. An item of an answer has its response's id
 * within its own, so that no index is needed:
 *
 *   response resp_REPLICA-HEX     item msg_REPLICA-HEX02: the third item of its output
 *
 * HEX are 32 digits; a server that is the only one has no REPLICA and no '-'.
 */
#ifndef LLS_BATCH_RESPONSE_ITEM_H
#define LLS_BATCH_RESPONSE_ITEM_H

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/batch/store.h"

#define LLS_RESPONSE_ITEM_BYTES 96 /* room for an item's id */

#define LLS_RESPONSE_PREFIX "resp_"

/* Writes the id of item `index` of a response; prefix: its kind, such as "msg". */
static inline void lls_response_item_id(char id[LLS_RESPONSE_ITEM_BYTES],
                                        const char *prefix, const char *response,
                                        size_t index)
{
  const char *name = response;
  if (strncmp(name, LLS_RESPONSE_PREFIX, strlen(LLS_RESPONSE_PREFIX)) == 0)
    name += strlen(LLS_RESPONSE_PREFIX);
  snprintf(id, LLS_RESPONSE_ITEM_BYTES, "%s_%s%02zx", prefix, name, index);
}

/* [store] Returns an object with the items of this tenant that `ids` names, an array of
 * strings, by their ids; or NULL with err. *status is -ENOENT if there is no such item,
 * -EFBIG if they have more bytes than a request may have. */
json_t *lls_response_items_named(struct lls_store *store, const char *tenant,
                                 const json_t *ids, int *status, struct lls_error *err);

#endif
