/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses the requests about files and batches in a build without SQLite; see
 * store_front.h. */
#include <errno.h>
#include <string.h>

#include "core/api/store/shared_usage.h"
#include "core/api/store/store_front.h"

void lls_store_refuse(struct lls_http_exchange *exchange)
{
  struct lls_api_error error;
  LLS_ON_MAIN_THREAD();
  lls_api_fail(&error, 400, "no_state", NULL,
               "files, batches and stored responses need SQLite, which this llmserve was "
               "built without "
               "(Debian: libsqlite3-dev)");
  lls_api_error_reply(exchange, &error);
}

#define REFUSE(HANDLER)                                                                  \
  void HANDLER(void *context, struct lls_http_exchange *exchange)                        \
  {                                                                                      \
    (void)context;                                                                       \
    lls_store_refuse(exchange);                                                          \
  }

REFUSE(lls_handle_files)
REFUSE(lls_handle_file)
REFUSE(lls_handle_file_create)
REFUSE(lls_handle_file_delete)
REFUSE(lls_handle_batches)
REFUSE(lls_handle_batch)
REFUSE(lls_handle_batch_create)
REFUSE(lls_handle_batch_cancel)

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

void lls_shared_usage_tick(struct lls_api *api)
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
