/* SPDX-License-Identifier: Apache-2.0 */
/* See work.h. All functions run on [main] except on_thread. */
#include "core/api/work.h"

#include "core/api/access.h"

#include <malloc.h>
#include <utlist.h>

bool lls_work_idle(const struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  return api->works == NULL && api->n_working == 0 && api->n_errands == 0;
}

void lls_api_check_idle(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  if (api->http_closed && lls_work_idle(api))
    api->nothing_left(api);
  else if (api->draining && api->generations == NULL && lls_work_idle(api) &&
           api->config.on_idle != NULL)
    api->config.on_idle(api->config.on_idle_context);
}

static void end(struct lls_work *work)
{
  struct lls_http_exchange *exchange = work->exchange;
  struct lls_text body = work->body;
  lls_http_release(work->api->http, work->held);
  if (exchange != NULL)
    exchange->on_gone = NULL;
  if (exchange != NULL || work->offline)
    work->answer(work, exchange);
  work->destroy(work);
  lls_text_free(&body);
}

static void run(struct lls_work *work)
{
  work->run(work);
  lls_text_free(&work->body);
}

static void start_waiting(struct lls_api *api);

/* Returns freed memory to the system: a large body becomes many small pieces, which
 * malloc would keep for this thread after they are freed. */
static void give_memory_back(void)
{
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

static void on_thread(uv_work_t *job)
{
  struct lls_work *work = job->data;
  bool large = work->body.length >= LLS_WORK_TRIM;
  run(work);
  if (large)
    give_memory_back();
}

static void on_run(uv_work_t *job, int status)
{
  (void)status; /* work given to the pool is never cancelled */
  struct lls_work *work = job->data;
  struct lls_api *api = work->api;
  LLS_API_ON_MAIN(api);
  LLS_CHECK(work->running && api->n_working > 0);
  DL_DELETE(api->works, work);
  end(work);
  api->n_working--;
  start_waiting(api);
  lls_api_check_idle(api);
}

/* ---- the order of work ----------------------------------------------------------- */

static bool is_heavy(const struct lls_work *work)
{
  return work->bytes >= LLS_WORK_HEAVY;
}

/* Returns the first waiting work; work with a large body only if this leaves a thread for
 * small ones. */
static struct lls_work *next_of(const struct lls_api *api)
{
  struct lls_work *work;
  unsigned n_heavy = 0;
  DL_FOREACH (api->works, work) {
    n_heavy += work->running && is_heavy(work);
  }
  DL_FOREACH (api->works, work) {
    if (!work->running && (!is_heavy(work) || n_heavy < LLS_WORK_AT_ONCE - 1))
      return work;
  }
  return NULL;
}

/* Moves all waiting work of the client behind the work of other clients, in its order. */
static void send_back(struct lls_api *api, uint32_t client)
{
  struct lls_work *work, *next, *back = NULL;
  DL_FOREACH_SAFE (api->works, work, next) {
    if (work->running || work->client != client)
      continue;
    DL_DELETE(api->works, work);
    DL_APPEND(back, work);
  }
  DL_CONCAT(api->works, back);
}

static void start_waiting(struct lls_api *api)
{
  while (api->n_working < LLS_WORK_AT_ONCE) {
    struct lls_work *work = next_of(api);
    if (work == NULL)
      return;
    LLS_CHECK(work->exchange != NULL || work->offline);
    api->n_working++;
    work->running = true;
    work->job.data = work;
    send_back(api, work->client);
    uv_queue_work(api->config.uv, &work->job, on_thread, on_run);
  }
}

/* Returns a number for the client: a hash of its tenant, or of its address if it has
 * none; 0 for work without an exchange. */
static uint32_t client_of(const struct lls_api *api, struct lls_http_exchange *exchange)
{
  if (exchange == NULL)
    return 0;
  const char *name = lls_access_account(api, exchange);
  if (name[0] == '\0')
    name = lls_http_peer(exchange);
  uint32_t hash = 2166136261u; /* FNV-1a; clients with equal hashes share their turns */
  for (; *name != '\0'; name++)
    hash = (hash ^ (uint8_t)*name) * 16777619u;
  return hash;
}

static void on_gone(void *owner)
{
  struct lls_work *work = owner;
  struct lls_api *api = work->api;
  LLS_API_ON_MAIN(api);
  LLS_CHECK(work->exchange != NULL);
  work->exchange = NULL;
  if (work->running)
    return;
  DL_DELETE(api->works, work);
  end(work);
  lls_api_check_idle(api);
}

void lls_work_begin(struct lls_api *api, struct lls_http_exchange *exchange,
                    struct lls_work *work, bool large)
{
  LLS_API_ON_MAIN(api);
  work->api = api;
  work->exchange = exchange;
  work->config = api->config;
  work->offline = exchange == NULL;
  work->client = large ? client_of(api, exchange) : 0;
  if (exchange != NULL)
    work->held = lls_http_take_body(exchange, &work->body);
  /* work that begins again has parsed its body already */
  if (work->body.length > work->bytes)
    work->bytes = work->body.length;
  if (!large) {
    run(work);
    end(work);
    return;
  }
  if (exchange != NULL) {
    exchange->owner = work;
    exchange->on_gone = on_gone;
  }
  DL_APPEND(api->works, work);
  start_waiting(api);
}
