/* SPDX-License-Identifier: Apache-2.0 */
/* See waits.h. */
#include "core/api/admin/waits.h"

#include <stdlib.h>
#include <utlist.h>

#include "core/api/api_error.h"
#include "core/base/check.h"

struct lls_wait {
  uint64_t number;
  struct lls_http_exchange *exchange;
  struct lls_wait **list;
  struct lls_wait *prev, *next;
};

static void on_gone(void *owner)
{
  struct lls_wait *wait = owner;
  DL_DELETE(*wait->list, wait);
  free(wait);
}

bool lls_wait_add(struct lls_wait **list, struct lls_http_exchange *exchange,
                  uint64_t number)
{
  struct lls_wait *wait = calloc(1, sizeof *wait);
  if (wait == NULL) {
    struct lls_api_error error;
    lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
    lls_api_error_reply(exchange, &error);
    return false;
  }
  *wait = (struct lls_wait){.number = number, .exchange = exchange, .list = list};
  exchange->owner = wait;
  exchange->on_gone = on_gone;
  DL_APPEND(*list, wait);
  return true;
}

struct lls_http_exchange *lls_wait_take(struct lls_wait **list, uint64_t number)
{
  struct lls_wait *wait;
  DL_FOREACH (*list, wait)
    if (wait->number <= number)
      break;
  if (wait == NULL)
    return NULL;
  struct lls_http_exchange *exchange = wait->exchange;
  LLS_CHECK(exchange->owner == wait && exchange->on_gone == on_gone);
  exchange->on_gone = NULL;
  on_gone(wait);
  return exchange;
}
