/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/load_lora_adapter and /v1/unload_lora_adapter, in vLLM's shapes: a sentence in
 * plain text if it succeeds. A load reads the adapter's files on a thread. Clients need
 * an admin key (access.c), and [lora] runtime has to allow it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/adapter_use.h"
#include "core/api/work.h"
#include "core/lora/lora_set.h"

#define NAME_BYTES 128

struct change {
  struct lls_work work;
  bool loads;
  char *name, *path;
  bool in_place;         /* load_inplace: replace an adapter of this name */
  struct lls_lora *lora; /* loads: the content */
  int rc;
  struct lls_error why;
  struct lls_api_error error; /* with status: the body is wrong */
};

static char *text_of(const json_t *body, const char *key, struct lls_api_error *error)
{
  const char *text = json_string_value(json_object_get(body, key));
  if (text == NULL || text[0] == '\0')
    lls_api_fail(error, 400, NULL, key, "'%s' must be a string that is not empty", key);
  return text != NULL && text[0] != '\0' ? strdup(text) : NULL;
}

/* Refuses a name that the model has, or that could not stand in a path or a log. */
static void check_name(const struct lls_api_config *config, struct change *c)
{
  if (strcmp(c->name, config->model_name) == 0)
    lls_api_fail(&c->error, 400, NULL, "lora_name", "the model itself is called \"%s\"",
                 config->model_name);
  for (const unsigned char *at = (unsigned char *)c->name; *at != '\0'; at++)
    if (*at < ' ' || at - (unsigned char *)c->name >= NAME_BYTES)
      lls_api_fail(&c->error, 400, NULL, "lora_name",
                   "'lora_name' must have at most %d bytes, and no control characters",
                   NAME_BYTES);
}

static void read_body(struct change *c)
{
  json_t *body = lls_api_body(&c->work.body, &c->error);
  if (body == NULL)
    return;
  c->name = text_of(body, "lora_name", &c->error);
  if (c->name != NULL && c->loads)
    c->path = text_of(body, "lora_path", &c->error);
  const json_t *in_place = json_object_get(body, "load_inplace");
  if (in_place != NULL && !json_is_boolean(in_place) && !json_is_null(in_place))
    lls_api_fail(&c->error, 400, NULL, "load_inplace",
                 "'load_inplace' must be true or false");
  c->in_place = json_is_true(in_place);
  json_decref(body);
  if (c->name != NULL && c->error.status == 0)
    check_name(&c->work.config, c);
}

static void run(struct lls_work *work)
{
  struct change *c = (struct change *)work;
  struct lls_lora_set *set = work->config.adapters;
  read_body(c);
  if (c->error.status != 0 || !c->loads)
    return;
  struct lls_adapter *there = lls_lora_set_find(set, c->name);
  bool taken = there != NULL && !c->in_place;
  lls_adapter_unref(there);
  if (taken)
    lls_api_fail(&c->error, 400, "adapter_exists", "lora_name",
                 "the lora adapter '%s' has already been loaded; set 'load_inplace' to "
                 "true to replace it",
                 c->name);
  else
    c->rc = lls_lora_set_try(set, c->path, &c->lora, &c->why);
}

/* [main] Changes the list. */
static void apply(struct change *c)
{
  struct lls_lora_set *set = c->work.api->config.adapters;
  if (c->rc < 0) {
    lls_adapters_fail(c->work.api, c->rc, &c->why, &c->error);
    return;
  }
  if (!c->loads) {
    if (lls_lora_set_remove(set, c->name) < 0)
      lls_api_fail(&c->error, 404, "adapter_not_found", "lora_name",
                   "the lora adapter '%s' cannot be found", c->name);
    return;
  }
  if (c->in_place)
    lls_lora_set_remove(set, c->name);
  const struct lls_adapter as = {.name = c->name, .path = c->path, .scale = 1};
  int rc = lls_lora_set_add(set, &as, c->lora);
  c->lora = NULL;
  if (rc < 0)
    lls_api_fail(&c->error, rc == -EEXIST ? 400 : 503, NULL, "lora_name",
                 rc == -EEXIST ? "the lora adapter '%s' has already been loaded"
                               : "out of memory for '%s'",
                 c->name);
}

static void answer(struct lls_work *work, struct lls_http_exchange *exchange)
{
  struct change *c = (struct change *)work;
  struct lls_text text = {0};
  if (c->error.status == 0)
    apply(c);
  if (c->error.status != 0) {
    lls_api_error_reply(exchange, &c->error);
    return;
  }
  lls_log(work->api->config.log, LLS_LOG_INFO, "lora", "%s \"%s\"%s%s",
          c->loads ? "loaded" : "unloaded", c->name, c->loads ? " from " : "",
          c->loads ? c->path : "");
  lls_text_printf(&text, "Success: LoRA adapter '%s' %s successfully.", c->name,
                  c->loads ? "added" : "removed");
  lls_http_reply(exchange, 200, "text/plain; charset=utf-8",
                 text.data != NULL ? text.data : "", text.length);
  lls_text_free(&text);
}

static void destroy(struct lls_work *work)
{
  struct change *c = (struct change *)work;
  lls_lora_unref(c->lora);
  free(c->name);
  free(c->path);
  free(c);
}

static void begin(struct lls_api *api, struct lls_http_exchange *exchange, bool loads)
{
  struct lls_api_error error = {0};
  struct change *c = NULL;
  LLS_API_ON_MAIN(api);
  if (lls_adapters_may_change(api, &error) && (c = calloc(1, sizeof *c)) == NULL)
    lls_api_fail(&error, 503, NULL, NULL, "out of memory");
  if (c == NULL) {
    lls_api_error_reply(exchange, &error);
    return;
  }
  c->work = (struct lls_work){.run = run, .answer = answer, .destroy = destroy};
  c->loads = loads;
  lls_work_begin(api, exchange, &c->work, loads);
}

void lls_handle_load_adapter(void *context, struct lls_http_exchange *exchange)
{
  begin(context, exchange, true);
}

void lls_handle_unload_adapter(void *context, struct lls_http_exchange *exchange)
{
  begin(context, exchange, false);
}
