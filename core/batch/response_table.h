/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored responses: a row for each, with OpenAI's object and the input items, both as
 * JSON. A conversation is a chain of rows, each of which names the previous one. All
 * functions run on [store].
 */
#ifndef LLS_BATCH_RESPONSE_TABLE_H
#define LLS_BATCH_RESPONSE_TABLE_H

#include <jansson.h>

#include "core/batch/store.h"

#define LLS_CONVERSATION_ID 128 /* bytes of the id of a conversation, or of its head */

/* All members are borrowed. */
struct lls_stored_response {
  const char *id, *tenant;
  const char *previous; /* id of the response that it continues; NULL: none */
  /* id of the conversation that it belongs to, whose last response it then continues
   * instead, and becomes; NULL: none */
  const char *conversation;
  const char *object; /* JSON */
  const char *input;  /* JSON, an array of items */
};

struct lls_response_room {
  int64_t bytes;        /* limit for all responses together */
  int64_t tenant_bytes; /* limit for the responses of this tenant; 0: none of its own */
};

/* Stores a response; once it returns 0 the response survives a crash. If responses
 * exceed a limit, the oldest ones of the tenant, or of the tenant that has most, are
 * deleted. */
int lls_responses_put(struct lls_store *store, const struct lls_stored_response *response,
                      const struct lls_response_room *room, struct lls_error *err);

/* Replaces the object of a stored response; `previous` and `input` stay. Does nothing if
 * it was deleted. */
int lls_responses_replace(struct lls_store *store,
                          const struct lls_stored_response *response,
                          struct lls_error *err);

/* Returns a new reference, or NULL with err; *status is -ENOENT if the tenant has no
 * such response. *elsewhere (may be NULL): another process that is alive generates it. */
json_t *lls_responses_find(struct lls_store *store, const char *tenant, const char *id,
                           bool *elsewhere, int *status, struct lls_error *err);
/* Returns the items of the conversation from the first one on: the input of this
 * response after all earlier items, and on request its output. *status is -ENOENT also
 * if an earlier response is gone, -EFBIG if there are more items than a request may
 * have, -EBUSY if the response is not complete yet. */
json_t *lls_responses_items(struct lls_store *store, const char *tenant, const char *id,
                            bool with_output, int *status, struct lls_error *err);

/* Returns 0 or -ENOENT. Responses that continue the deleted one cannot be continued any
 * more. */
int lls_responses_delete(struct lls_store *store, const char *tenant, const char *id,
                         struct lls_error *err);

/* Deletes expired responses that no other response continues. */
int lls_responses_expire(struct lls_store *store, struct lls_error *err);

#endif
