/* SPDX-License-Identifier: Apache-2.0 */
/* See adapter_use.h. */
#include "core/api/adapter_use.h"

#include <errno.h>
#include <stdlib.h>

#include "core/api/work.h"
#include "core/lora/lora_set.h"

/* Work that loads the adapter of a generation that was read. */
struct loading {
  struct lls_work work;
  struct lls_generation *generation; /* NULL once it was started */
  int rc;
  struct lls_error why;
};

void lls_adapters_fail(struct lls_api *api, int rc, const struct lls_error *why,
                       struct lls_api_error *error)
{
  bool busy = rc == -EBUSY || rc == -ENOMEM;
  lls_api_fail(error,
               busy            ? 503
               : rc == -ENOENT ? 404
                               : 400,
               busy ? "adapter_busy" : "adapter_unusable", "model", "%s",
               lls_error_text(why, rc));
  if (busy)
    error->retry_after = lls_api_retry_after(api);
}

bool lls_adapters_may_change(const struct lls_api *api, struct lls_api_error *error)
{
  if (api->config.adapters != NULL && api->config.changes_adapters)
    return true;
  lls_api_fail(error, 403, "adapters_are_fixed", NULL,
               "requests change no adapters here: set [lora] runtime = true, or name the "
               "adapter in [lora] and reload");
  return false;
}

static void run(struct lls_work *work)
{
  struct loading *l = (struct loading *)work;
  struct lls_generation *generation = l->generation;
  l->rc = lls_lora_set_load(work->config.adapters, generation->params.adapter,
                            &generation->lora, &l->why);
}

static void refuse(struct loading *l, struct lls_http_exchange *exchange)
{
  struct lls_api *api = l->work.api;
  struct lls_api_error error;
  lls_adapters_fail(api, l->rc, &l->why, &error);
  if (exchange == NULL) {
    lls_offline_fail(l->generation->offline, &error);
    return;
  }
  api->stats.refused++;
  lls_api_log_refusal(api, exchange, &error);
  lls_api_error_reply(exchange, &error);
}

/* A client's answer may go on in the background, once it has begun. */
static void start(struct lls_api *api, struct lls_generation *generation,
                  struct lls_http_exchange *exchange)
{
  const struct lls_dialect_memory *memory = generation->dialect->memory;
  if (lls_generation_start(api, generation, exchange) && exchange != NULL &&
      memory != NULL && memory->detaches(generation))
    memory->detach(generation);
}

static void answer(struct lls_work *work, struct lls_http_exchange *exchange)
{
  struct loading *l = (struct loading *)work;
  struct lls_generation *generation = l->generation;
  if (l->rc < 0) {
    refuse(l, exchange);
    return;
  }
  l->generation = NULL;
  start(work->api, generation, exchange);
}

static void destroy(struct lls_work *work)
{
  struct loading *l = (struct loading *)work;
  if (l->generation != NULL)
    lls_generation_drop(work->api, l->generation);
  free(l);
}

/* Finds the adapter and the scale of a request that sets none by `lora`. */
static void choose(struct lls_lora_set *set, struct lls_api_params *params)
{
  if (set == NULL || params->chooses_adapter)
    return;
  if (params->adapter != NULL)
    params->adapter_scale = params->adapter->scale;
  else
    params->adapter = lls_lora_set_shared(set, &params->adapter_scale);
}

void lls_adapters_start(struct lls_api *api, struct lls_generation *generation,
                        struct lls_http_exchange *exchange)
{
  LLS_API_ON_MAIN(api);
  choose(api->config.adapters, &generation->params);
  struct lls_adapter *adapter = generation->params.adapter;
  if (adapter != NULL)
    generation->lora = lls_lora_set_use(api->config.adapters, adapter);
  if (adapter == NULL || generation->lora != NULL) {
    start(api, generation, exchange);
    return;
  }
  struct loading *l = calloc(1, sizeof *l);
  if (l == NULL) {
    struct loading none = {.work.api = api, .generation = generation, .rc = -ENOMEM};
    refuse(&none, exchange);
    lls_generation_drop(api, generation);
    return;
  }
  l->work = (struct lls_work){.run = run, .answer = answer, .destroy = destroy};
  l->generation = generation;
  lls_work_begin(api, exchange, &l->work, true);
}
