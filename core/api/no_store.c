/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses the requests about files and batches in a build without SQLite; see
 * store_front.h. */
#include <errno.h>
#include <string.h>

#include "core/api/response_memory.h"
#include "core/api/store_front.h"

static void refuse(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  (void)context;
  lls_api_fail(&error, 400, "no_state", NULL,
               "files, batches and stored responses need SQLite, which this llmserve was "
               "built without "
               "(Debian: libsqlite3-dev)");
  lls_api_error_reply(exchange, &error);
}

#define REFUSE(HANDLER)                                                                  \
  void HANDLER(void *context, struct lls_http_exchange *exchange)                        \
  {                                                                                      \
    refuse(context, exchange);                                                           \
  }

REFUSE(lls_handle_files)
REFUSE(lls_handle_file)
REFUSE(lls_handle_file_create)
REFUSE(lls_handle_file_delete)
REFUSE(lls_handle_batches)
REFUSE(lls_handle_batch)
REFUSE(lls_handle_batch_create)
REFUSE(lls_handle_batch_cancel)

REFUSE(lls_handle_response)
REFUSE(lls_handle_response_delete)
REFUSE(lls_handle_response_cancel)

bool lls_response_memory_is_on(const struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  return false;
}

/* Never called: a build without SQLite has no response memory. */
void lls_response_memory_ask(struct lls_api *api, struct lls_http_exchange *exchange,
                             const char *id, lls_items_found *found, void *context)
{
  struct lls_api_error error;
  LLS_API_ON_MAIN(api);
  lls_api_fail(&error, 404, "not_found", NULL, "there is no response '%.80s'", id);
  found(api, context, exchange, NULL, &error);
}

void lls_response_memory_put(struct lls_generation *generation, const char *text,
                             void (*put)(struct lls_generation *generation, bool stored,
                                         void *context),
                             void *context)
{
  LLS_API_ON_MAIN(generation->api);
  (void)text;
  put(generation, false, context);
}

int lls_store_front_open(struct lls_api *api, const char *folder, struct lls_error *err)
{
  LLS_API_ON_MAIN(api);
  return lls_fail(
      err, -ENOTSUP,
      "[server] state: %s cannot be used: llmserve was built without SQLite (Debian: "
      "libsqlite3-dev)",
      folder);
}

bool lls_upload_on_head(struct lls_api *api, struct lls_http_exchange *exchange)
{
  LLS_API_ON_MAIN(api);
  (void)exchange;
  return false;
}

void lls_store_front_feed(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
}

void lls_store_front_tick(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
}

void lls_store_front_drain(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
}

void lls_store_front_close(struct lls_api *api, void (*closed)(struct lls_api *api))
{
  LLS_API_ON_MAIN(api);
  closed(api);
}

void lls_store_front_free(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
}

bool lls_store_front_count(const struct lls_api *api, struct lls_store_counts *out)
{
  LLS_API_ON_MAIN(api);
  (void)out;
  return false;
}
