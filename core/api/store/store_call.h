/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's request to the store (core/batch): executed on [store], then answered on
 * [main] unless the client has disconnected.
 */
#ifndef LLS_API_STORE_CALL_H
#define LLS_API_STORE_CALL_H

#include "core/api/api_internal.h"
#include "core/batch/batch_table.h"

/* Room for an id or word of a path or query; a longer one counts as absent. */
#define LLS_STORE_WORD 80

struct lls_store_call {
  struct lls_store_job job;
  struct lls_api *api;
  struct lls_http_exchange *exchange; /* [main] NULL: the client has disconnected */
  /* [store] Executes the request: sets answer, or status and error. Reads the members
   * below. */
  void (*ask)(struct lls_store_call *call, struct lls_store *store);
  /* [main] Called before the answer is sent; may be NULL. */
  void (*after)(struct lls_store_call *call);
  void *more; /* private data of ask and after */
  char tenant[LLS_TENANT_BYTES];
  char id[LLS_STORE_WORD], seen[LLS_STORE_WORD], purpose[LLS_STORE_WORD];
  const char *param; /* the parameter that has the id, if it is not in the path */
  bool oldest_first;
  int64_t limit;
  struct lls_batch_request request;
  json_t *answer; /* [store] */
  char *text;     /* [main] the answer as JSON */
  int status;     /* negative errno */
  struct lls_error error;
};

/* [main] Returns the store; or NULL after answering the client with the configuration
 * key that would enable it. */
struct lls_store *lls_store_of(struct lls_api *api, struct lls_http_exchange *exchange);

/* [main] Creates a call. Returns NULL if out of memory, after answering the client. */
struct lls_store_call *lls_store_call_new(struct lls_api *api,
                                          struct lls_http_exchange *exchange);
/* Posts the call to the store, which owns it from here on. */
void lls_store_call_post(struct lls_store_call *call);

/* Reads after, limit, order and purpose. Returns 0; or -1 after answering the client
 * and freeing the call. */
int lls_store_call_read_query(struct lls_store_call *call, int64_t limit, int64_t most);

/* [store] Returns a list object with up to call->limit items of `data`, which is taken
 * over. */
json_t *lls_store_list(const struct lls_store_call *call, json_t *data);

/* [store] Returns a list object with the page of `items` that the query asked for; they
 * are in their order, the oldest first. */
json_t *lls_store_page(const struct lls_store_call *call, json_t *items);

/* [any] Reads a body's metadata, strings by short names: sets *out to a new reference, or
 * NULL without any. Returns 0, or -1 with *error set. */
int lls_store_metadata(json_t *body, json_t **out, struct lls_api_error *error);

/* Converts a status of the store to an error for a client. param: the parameter that
 * named the missing object. */
void lls_store_error(int status, const struct lls_error *why, const char *param,
                     struct lls_api_error *error);

#endif
