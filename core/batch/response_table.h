/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses that are stored: a row each, with OpenAI's object and the items that were its
 * input, both as JSON. A conversation is a chain of rows, each of which names the one
 * before. Everything is of [store].
 */
#ifndef LLS_BATCH_RESPONSE_TABLE_H
#define LLS_BATCH_RESPONSE_TABLE_H

#include <jansson.h>

#include "core/batch/store.h"

/* All borrowed. */
struct lls_stored_response {
  const char *id, *tenant;
  const char *previous; /* id of the response that it goes on from; NULL: none */
  const char *object;   /* JSON */
  const char *input;    /* JSON, an array of items */
};

struct lls_response_room {
  int64_t bytes;        /* that all responses may take */
  int64_t tenant_bytes; /* that those of its tenant may take; 0: as all */
};

/* When it returns 0 the response outlives a crash. Where responses take more than there
 * is room for, the oldest of the tenant go, or of the tenant that has most. */
int lls_responses_put(struct lls_store *store, const struct lls_stored_response *response,
                      const struct lls_response_room *room, struct lls_error *err);

/* New references, or NULL and why: *status is -ENOENT where there is none of this tenant.
 */
json_t *lls_responses_find(struct lls_store *store, const char *tenant, const char *id,
                           int *status, struct lls_error *err);
/* The items of the conversation, the first one first: the input of this response, with
 * all that was before, and perhaps its output. -ENOENT also where one before is gone;
 * -EFBIG: they are more than a request may have. */
json_t *lls_responses_items(struct lls_store *store, const char *tenant, const char *id,
                            bool with_output, int *status, struct lls_error *err);

/* 0 or -ENOENT. Those that go on from it cannot be gone on from any more. */
int lls_responses_delete(struct lls_store *store, const char *tenant, const char *id,
                         struct lls_error *err);

/* Takes away those that have expired and that no other goes on from. */
int lls_responses_expire(struct lls_store *store, struct lls_error *err);

#endif
