/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversations: a name for the end of a chain of stored responses (response_table.h).
 * A response that belongs to a conversation continues its `head`, and becomes the head;
 * items that a client adds become a row without output. So limits, lifetime and checks of
 * responses are those of conversations. All functions run on [store].
 *
 *   conversation --head--> response --previous--> added items --previous--> response
 */
#ifndef LLS_BATCH_CONVERSATION_TABLE_H
#define LLS_BATCH_CONVERSATION_TABLE_H

#include "core/batch/response_table.h"

/* A conversation of a tenant; all members are borrowed. */
struct lls_conversation {
  const char *tenant, *id;
};

/* Return OpenAI's object of a conversation, a new reference; or NULL with err, and
 * *status -ENOENT if the tenant has none of this id. metadata: JSON text. */
json_t *lls_conversation_create(struct lls_store *store, const char *tenant,
                                const char *metadata, int *status, struct lls_error *err);
json_t *lls_conversation_find(struct lls_store *store, const struct lls_conversation *of,
                              int *status, struct lls_error *err);
json_t *lls_conversation_update(struct lls_store *store,
                                const struct lls_conversation *of, const char *metadata,
                                int *status, struct lls_error *err);

/* Deletes the conversation; its responses stay. Returns 0 or -ENOENT. */
int lls_conversation_delete(struct lls_store *store, const struct lls_conversation *of,
                            struct lls_error *err);

/* Returns the items from the first one on, without removed ones; see
 * lls_responses_items. */
json_t *lls_conversation_items(struct lls_store *store, const struct lls_conversation *of,
                               int *status, struct lls_error *err);
/* Adds items, a JSON array with their ids. */
int lls_conversation_add(struct lls_store *store, const struct lls_conversation *of,
                         const char *items, const struct lls_response_room *room,
                         struct lls_error *err);
/* Removes an item from the conversation, not from its response. */
int lls_conversation_remove(struct lls_store *store, const struct lls_conversation *of,
                            const char *item, struct lls_error *err);

#endif
