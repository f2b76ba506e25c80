/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses the requests about stored responses in a build without SQLite; see
 * response_memory.h and store/no_store.c. */
#include "core/api/responses/detached.h"
#include "core/api/responses/response_memory.h"
#include "core/api/store/store_front.h"

#define REFUSE(HANDLER)                                                                  \
  void HANDLER(void *context, struct lls_http_exchange *exchange)                        \
  {                                                                                      \
    (void)context;                                                                       \
    lls_store_refuse(exchange);                                                          \
  }

REFUSE(lls_handle_response)
REFUSE(lls_handle_response_delete)
REFUSE(lls_handle_response_cancel)
REFUSE(lls_handle_conversation_create)
REFUSE(lls_handle_conversation)
REFUSE(lls_handle_conversation_post)
REFUSE(lls_handle_conversation_delete)

bool lls_response_memory_is_on(const struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  return false;
}

int lls_response_memory_check(const struct lls_api *api,
                              const struct lls_generation *generation,
                              struct lls_api_error *error)
{
  LLS_API_ON_MAIN(api);
  (void)generation;
  (void)error;
  return 0;
}

/* Never called: a build without SQLite has no response memory. */
void lls_response_memory_ask(struct lls_api *api, struct lls_http_exchange *exchange,
                             const json_t *body, lls_past_found *found, void *context)
{
  struct lls_api_error error;
  LLS_API_ON_MAIN(api);
  (void)body;
  lls_api_fail(&error, 404, "not_found", NULL, "this server stores no responses");
  found(api, context, exchange, NULL, &error);
}

/* Never called, either: without a store no response runs in the background. */
void lls_background_take(struct lls_generation *generation)
{
  LLS_API_ON_MAIN(generation->api);
}

void lls_background_tick(struct lls_api *api, int64_t now_ns)
{
  LLS_API_ON_MAIN(api);
  (void)now_ns;
}

void lls_background_free(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
}

void lls_response_memory_put(struct lls_generation *generation, const char *text,
                             lls_answer_stored *put, void *context)
{
  LLS_API_ON_MAIN(generation->api);
  (void)text;
  put(generation, false, context);
}
