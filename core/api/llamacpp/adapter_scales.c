/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET and POST /lora-adapters of llama.cpp: the adapters with their numbers, and the
 * scale of the one that requests get which choose none by `model` or `lora`. POST changes
 * the answers of other clients: it needs an admin key (access.c) and [lora] runtime =
 * true.
 */
#include <stdlib.h>

#include "core/api/llamacpp/llamacpp.h"
#include "core/api/adapter_use.h"
#include "core/api/params_internal.h"
#include "core/api/work.h"
#include "core/lora/lora_set.h"

static const char whole_body[] = "the body";

void lls_handle_lora_adapters(void *context, struct lls_http_exchange *exchange)
{
  const struct lls_api *api = context;
  struct lls_lora_set *set = api->config.adapters;
  json_t *list = json_array();
  float scale = 0;
  struct lls_adapter *a, *shared = set != NULL ? lls_lora_set_shared(set, &scale) : NULL;
  for (uint32_t i = 0; set != NULL && (a = lls_lora_set_at(set, i)) != NULL; i++) {
    lls_json_add(&list,
                 json_pack("{s:I, s:s, s:s, s:f}", "id", (json_int_t)i, "path", a->path,
                           "name", a->name, "scale", a == shared ? (double)scale : 0.0));
    lls_adapter_unref(a);
  }
  lls_adapter_unref(shared);
  lls_api_reply_json(exchange, 200, list);
}

/* ---- POST -------------------------------------------------------------------------- */

struct scaling {
  struct lls_work work;
  struct lls_scaled_adapter chosen;
  struct lls_api_error error;
};

static void run(struct lls_work *work)
{
  struct scaling *s = (struct scaling *)work;
  json_t *body = lls_api_value(&work->body, &s->error);
  if (body != NULL)
    lls_params_adapter(body, whole_body, work->config.adapters, &s->chosen, &s->error);
  json_decref(body);
}

static void answer(struct lls_work *work, struct lls_http_exchange *exchange)
{
  struct scaling *s = (struct scaling *)work;
  const struct lls_api_config *config = &work->api->config;
  const struct lls_adapter *a = s->chosen.adapter;
  if (s->error.status != 0) {
    lls_api_error_reply(exchange, &s->error);
    return;
  }
  lls_lora_set_share(config->adapters, s->chosen.adapter, s->chosen.scale);
  lls_log(config->log, LLS_LOG_INFO, "lora", "requests that choose no adapter have %s",
          a != NULL ? a->name : "none");
  lls_api_reply_json(exchange, 200, json_pack("{s:b}", "success", 1));
}

static void destroy(struct lls_work *work)
{
  struct scaling *s = (struct scaling *)work;
  lls_adapter_unref(s->chosen.adapter);
  free(s);
}

void lls_handle_scale_adapters(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_api_error error = {0};
  LLS_API_ON_MAIN(api);
  struct scaling *s = lls_adapters_may_change(api, &error) ? calloc(1, sizeof *s) : NULL;
  if (s == NULL && error.status == 0)
    lls_api_fail(&error, 503, NULL, NULL, "out of memory");
  if (s == NULL) {
    lls_api_error_reply(exchange, &error);
    return;
  }
  s->work = (struct lls_work){.run = run, .answer = answer, .destroy = destroy};
  lls_work_begin(api, exchange, &s->work, false);
}
