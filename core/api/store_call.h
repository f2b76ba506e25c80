/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question of a client to the store (core/batch): asked on [store], answered on [main],
 * unless the client is gone by then.
 */
#ifndef LLS_API_STORE_CALL_H
#define LLS_API_STORE_CALL_H

#include "core/api/api_internal.h"
#include "core/batch/batch_table.h"

/* Bytes of an id or such in a path or query; what is longer is none. */
#define LLS_STORE_WORD 80

struct lls_store_call {
  struct lls_store_job job;
  struct lls_api *api;
  struct lls_http_exchange *exchange; /* [main] NULL: gone */
  /* [store] Sets answer, or status and error; uses what follows. */
  void (*ask)(struct lls_store_call *call, struct lls_store *store);
  /* [main] Before the answer; may be NULL. */
  void (*after)(struct lls_store_call *call);
  void *more; /* of ask and after */
  char tenant[LLS_TENANT_BYTES];
  char id[LLS_STORE_WORD], seen[LLS_STORE_WORD], purpose[LLS_STORE_WORD];
  const char *param; /* that names what is asked for, if it is not an id in the path */
  bool oldest_first;
  int64_t limit;
  struct lls_batch_request request;
  json_t *answer; /* [store] */
  char *text;     /* [main] the answer as JSON */
  int status;     /* negative errno */
  struct lls_error error;
};

/* The store, or NULL: the client has been told which key it wants. [main] */
struct lls_store *lls_store_of(struct lls_api *api, struct lls_http_exchange *exchange);

/* NULL: the client has been answered. [main] */
struct lls_store_call *lls_store_call_new(struct lls_api *api,
                                          struct lls_http_exchange *exchange);
/* The call is the store's from here on. */
void lls_store_call_post(struct lls_store_call *call);

/* The value of a parameter of the query, "" if there is none or it is too long. */
void lls_query_word(const char *query, const char *name, char out[LLS_STORE_WORD]);

/* Reads after, limit, order and purpose; 0, or -1: the client has been answered, and the
 * call freed. */
int lls_store_call_read_query(struct lls_store_call *call, int64_t limit, int64_t most);

/* [store] A list's answer of up to call->limit of `data`, which is taken over. */
json_t *lls_store_list(const struct lls_store_call *call, json_t *data);

/* Makes of a status of the store an error for a client; param: which one named what there
 * is not. */
void lls_store_error(int status, const struct lls_error *why, const char *param,
                     struct lls_api_error *error);

#endif
