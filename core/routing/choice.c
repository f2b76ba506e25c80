/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which model a request is for: the deployment of Azure's paths, the owner of a stored
 * object that the path names, the body's "model", the query's, the header x-model, the
 * owner of a stored object that the body names, or [models] fallback; the first that is
 * given counts.
 */
#include "core/routing/routing_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/api/ollama/ollama.h"
#include "core/routing/body_members.h"

enum member { MODEL, NAME, STREAM, INPUT_FILE, PREVIOUS, CONVERSATION, MEMBERS };

/* ---- names and ids ----------------------------------------------------------------- */

static void refuse_unknown(const struct lls_routing *routing, const char *name,
                           struct lls_api_error *error)
{
  const struct lls_hosted *model;
  char names[256] = "";
  size_t used = 0;
  LL_FOREACH (routing->models, model) {
    if (!model->removed && used < sizeof names)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s\"%s\"",
                               used > 0 ? ", " : "", model->name);
  }
  lls_api_fail(error, 404, "model_not_found", "model",
               "the model \"%.100s\" does not exist here; this server has %s", name,
               names);
}

/* Returns the model with an adapter of this name: [model.NAME] has lora.ADAPTER. */
static struct lls_hosted *by_adapter(struct lls_routing *routing, const char *name)
{
  const struct lls_ini *ini = &routing->config->ini;
  for (size_t i = 0; i < ini->n; i++) {
    const char *adapter = lls_config_adapter_of(&ini->entries[i]);
    if (adapter != NULL && strcmp(adapter, name) == 0)
      return lls_hosted_find(routing, strchr(ini->entries[i].section, '.') + 1);
  }
  return NULL;
}

struct lls_hosted *lls_routing_named(struct lls_routing *routing, const char *name,
                                     struct lls_api_error *error)
{
  static const char latest[] = ":latest";
  struct lls_hosted *model = lls_hosted_find(routing, name);
  size_t length = strlen(name), end = sizeof latest - 1;
  char plain[LLS_MODEL_NAME_MAX + 1];
  if (model == NULL && length > end && length - end < sizeof plain &&
      strcmp(name + length - end, latest) == 0) {
    snprintf(plain, sizeof plain, "%.*s", (int)(length - end), name);
    model = lls_hosted_find(routing, plain);
  }
  if (model == NULL && strchr(name, ':') == NULL && length + end < sizeof plain) {
    snprintf(plain, sizeof plain, "%s%s", name, latest);
    model = lls_hosted_find(routing, plain);
  }
  if (model == NULL)
    model = by_adapter(routing, name);
  if (model == NULL)
    refuse_unknown(routing, name, error);
  return model;
}

/* Returns the model whose code an id has, like the one of resp_CODE-0123; or NULL. */
static struct lls_hosted *owner_of(struct lls_routing *routing, const char *id)
{
  struct lls_hosted *model;
  size_t before = strcspn(id, "_-");
  if (id[before] == '\0')
    return NULL;
  LL_FOREACH (routing->models, model) {
    const char *code = id + before + 1;
    size_t length = strlen(model->code);
    if (strncmp(code, model->code, length) == 0 && code[length] == '-')
      return model;
  }
  return NULL;
}

/* ---- the request ------------------------------------------------------------------- */

static bool read_deployment(const struct lls_http_exchange *exchange, char *name,
                            size_t size)
{
  static const char azure[] = "/openai/deployments/";
  const char *path = exchange->request.path;
  if (strncmp(path, azure, sizeof azure - 1) != 0)
    return false;
  path += sizeof azure - 1;
  snprintf(name, size, "%.*s", (int)strcspn(path, "/"), path);
  return true;
}

/* True if the route's '*' stands for the id of a stored object. */
static bool has_id(const struct lls_http_exchange *exchange)
{
  static const char *const kinds[] = {"/responses/", "/files/", "/batches/",
                                      "/conversations/"};
  const char *tail = exchange->request.tail;
  for (size_t i = 0; tail != NULL && i < sizeof kinds / sizeof *kinds; i++)
    if (strstr(exchange->request.path, kinds[i]) != NULL && tail[0] != '\0')
      return true;
  return false;
}

static bool is_stream(const struct lls_dialect *dialect,
                      const struct lls_body_value *stream)
{
  bool by_default = dialect == &lls_ollama_chat || dialect == &lls_ollama_generate ||
                    dialect == &lls_tgi_stream;
  return dialect != NULL && dialect->framing != NULL &&
         (stream->is_true || (by_default && !stream->is_false));
}

static struct lls_hosted *no_model(struct lls_routing *routing,
                                   struct lls_api_error *error)
{
  const char *fallback = routing->config->models.fallback;
  struct lls_hosted *model =
      fallback[0] != '\0' ? lls_hosted_find(routing, fallback) : NULL;
  if (model == NULL)
    lls_api_fail(
        error, 400, "model_missing", "model",
        "this server has several models: name one as 'model', in the body, or in "
        "the query (?model=NAME)");
  return model;
}

/* Returns the owner of an object that the body names, or NULL. */
static struct lls_hosted *by_object(struct lls_routing *routing,
                                    const struct lls_body_value *members)
{
  struct lls_hosted *model = NULL;
  for (enum member m = INPUT_FILE; m <= CONVERSATION && model == NULL; m++)
    model = owner_of(routing, members[m].text);
  return model;
}

struct lls_hosted *lls_routing_choose(struct lls_routing *routing,
                                      struct lls_http_exchange *exchange,
                                      bool *wants_stream, struct lls_api_error *error)
{
  const struct lls_text *body = &exchange->request.body;
  struct lls_body_value members[MEMBERS + 1] = {
      [MODEL].name = "model",
      [NAME].name = "name", /* Ollama's older name for it */
      [STREAM].name = "stream",
      [INPUT_FILE].name = "input_file_id",
      [PREVIOUS].name = "previous_response_id",
      [CONVERSATION].name = "conversation",
      [MEMBERS].name = ""};
  char name[LLS_BODY_VALUE_MAX];
  if (body->length > 0)
    lls_body_find(body->data, body->length, members);
  *wants_stream = is_stream(lls_dialect_of(exchange), &members[STREAM]);
  if (read_deployment(exchange, name, sizeof name))
    return lls_routing_named(routing, name, error);
  struct lls_hosted *model =
      has_id(exchange) ? owner_of(routing, exchange->request.tail) : NULL;
  if (model != NULL)
    return model;
  if (members[MODEL].text[0] != '\0')
    return lls_routing_named(routing, members[MODEL].text, error);
  const struct lls_http_route *route = exchange->route;
  if (members[NAME].text[0] != '\0' && route->handler == lls_handle_ollama_show)
    return lls_routing_named(routing, members[NAME].text, error);
  if (lls_http_query(exchange->request.query, "model", name, sizeof name))
    return lls_routing_named(routing, name, error);
  const char *header = lls_http_request_header(&exchange->request, "x-model");
  if (header != NULL)
    return lls_routing_named(routing, header, error);
  model = by_object(routing, members);
  return model != NULL ? model : no_model(routing, error);
}
