/* SPDX-License-Identifier: Apache-2.0 */
/* Holds back refusals during shutdown; see held_refusals.h. */
#include "core/api/held_refusals.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utlist.h>

#include "core/api/api_internal.h"

/* Less than the silence after which proxies give a server up, commonly 60 s. */
#define MOST_SECONDS 30

struct lls_held_refusal {
  struct lls_held_refusal *prev, *next;
  struct lls_api *api;
  struct lls_http_exchange *exchange;
  int64_t until_ns;
  struct lls_api_error error;
};

/* Returns the seconds of the preference "wait" among those of the header, 0 if there is
 * none or it is not a number. */
static long wanted_seconds(const struct lls_http_exchange *exchange)
{
  const char *at = lls_http_request_header(&exchange->request, "prefer");
  for (; at != NULL; at = strpbrk(at, ",;")) {
    at += strspn(at, ",; \t");
    if (strncasecmp(at, "wait=", 5) != 0)
      continue;
    long seconds = strtol(at + 5, NULL, 10);
    return seconds < 0 ? 0 : seconds < MOST_SECONDS ? seconds : MOST_SECONDS;
  }
  return 0;
}

static void forget(struct lls_held_refusal *held)
{
  DL_DELETE(held->api->held_refusals.list, held);
  held->api->held_refusals.n--;
  free(held);
}

static void on_gone(void *owner)
{
  forget(owner);
}

static void answer(struct lls_held_refusal *held)
{
  struct lls_http_exchange *exchange = held->exchange;
  struct lls_api_error error = held->error;
  exchange->on_gone = NULL;
  forget(held);
  lls_api_error_reply(exchange, &error);
}

void lls_held_refusals_add(struct lls_api *api, struct lls_http_exchange *exchange,
                           const struct lls_api_error *error)
{
  struct lls_held_refusals *all = &api->held_refusals;
  LLS_API_ON_MAIN(api);
  bool may = error->status == 503 && api->draining && api->has_timer && !all->ended;
  long seconds = may ? wanted_seconds(exchange) : 0;
  struct lls_held_refusal *held = NULL;
  if (seconds > 0 && all->n < LLS_HELD_REFUSALS_MAX)
    held = calloc(1, sizeof *held);
  if (held == NULL) {
    lls_api_error_reply(exchange, error);
    return;
  }
  held->api = api;
  held->exchange = exchange;
  held->until_ns = (int64_t)uv_hrtime() + seconds * LLS_NS_PER_S;
  held->error = *error;
  exchange->owner = held;
  exchange->on_gone = on_gone;
  DL_APPEND(all->list, held);
  all->n++;
}

void lls_held_refusals_tick(struct lls_api *api, int64_t now_ns)
{
  struct lls_held_refusal *held, *next;
  LLS_API_ON_MAIN(api);
  DL_FOREACH_SAFE (api->held_refusals.list, held, next) {
    if (now_ns >= held->until_ns)
      answer(held);
  }
}

void lls_held_refusals_end(struct lls_api *api)
{
  LLS_API_ON_MAIN(api);
  api->held_refusals.ended = true;
  while (api->held_refusals.list != NULL)
    answer(api->held_refusals.list);
}
