/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that a start, a check and a reload read alike: the keys that [server] names,
 * the certificate of [tls], how many tokens of a request the cache holds; see daemon.h.
 */
#include "core/base/json_parse.h"
#include "core/serve/daemon.h"

#include <errno.h>

static int load_keys(const struct lls_config *c, const char *key, const char *path,
                     struct lls_api_keys **out, struct lls_error *err)
{
  int rc = path[0] != '\0' ? lls_api_keys_load(path, out, err) : 0;
  return rc < 0
             ? lls_config_fail(c, err, rc, "server", key, "%s", lls_error_text(err, rc))
             : 0;
}

int server_load_keys(const struct lls_config *c, struct lls_api_keyring *out,
                     struct lls_error *err)
{
  *out = (struct lls_api_keyring){0};
  int rc = load_keys(c, "api_keys", c->server.api_keys, &out->users, err);
  if (rc == 0)
    rc = load_keys(c, "admin_keys", c->server.admin_keys, &out->admins, err);
  if (rc < 0)
    lls_api_keyring_free(out);
  return rc;
}

/* Warns of a certificate that clients refuse, or will soon. */
static void look_at_certificate(const struct lls_config *c, const struct lls_tls *tls,
                                server_say say, void *context)
{
  enum { SOON = 14 }; /* days */
  int days = lls_tls_days_left(tls);
  struct lls_error text = {0};
  if (days < 0)
    lls_config_fail(c, &text, 0, "tls", "certificate",
                    "it has expired: clients refuse it");
  else if (days < SOON)
    lls_config_fail(c, &text, 0, "tls", "certificate", "it expires in %d day%s", days,
                    days == 1 ? "" : "s");
  if (text.text[0] != '\0')
    say(context, text.text);
}

int server_load_tls(const struct lls_config *c, struct lls_tls **out, server_say say,
                    void *context, struct lls_error *err)
{
  const struct lls_tls_options options = {.certificate = c->tls.certificate,
                                          .key = c->tls.key,
                                          .client_ca = c->tls.client_ca,
                                          .only_1_3 = c->tls.min_version == LLS_TLS_1_3};
  const char *blame;
  *out = NULL;
  if (c->tls.certificate[0] == '\0')
    return 0;
  int rc = lls_tls_create(&options, out, &blame, err);
  if (rc < 0)
    return lls_config_fail(c, err, rc, "tls", blame, "%s", lls_error_text(err, rc));
  look_at_certificate(c, *out, say, context);
  return 0;
}

/* Reads the variables that the configuration gives to the chat template. */
static int load_variables(struct server *s, struct lls_error *err)
{
  const char *text = s->config->model.template_variables;
  if (text[0] == '\0')
    return 0;
  s->template_variables = lls_json_parse_string(text, JSON_REJECT_DUPLICATES, NULL);
  if (json_is_object(s->template_variables))
    return 0;
  return lls_config_fail(s->config, err, -EINVAL, "model", "template_variables",
                         "must be a JSON object on one line, such as "
                         "{\"enable_thinking\": false}");
}

int server_load_template(struct server *s, struct lls_error *err)
{
  const struct lls_model_section *model = &s->config->model;
  const char *key = model->chat_template[0] != '\0' ? "chat_template" : "path";
  int rc =
      lls_model_chat_template(model->path, model->chat_template, &s->chat_template, err);
  if (rc == 0)
    rc = lls_tool_dialect_read(model->tool_format, model->reasoning_format, &s->dialect,
                               &key, err);
  return rc < 0 ? lls_config_fail(s->config, err, rc, "model", key, "%s",
                                  lls_error_text(err, rc))
                : load_variables(s, err);
}

/*
 * A step writes blocks in the pool's own type. Where full blocks become int8, all but
 * those of a step are: a step may begin and end within a block, so its blocks are two
 * more than its tokens fill. Blocks of the two sizes lie in slabs (policy/slabs.h), of
 * which one is spare to convert into, and each size may leave a hole in one.
 */
static size_t blocks_in_pool(const struct lls_config *c, const struct lls_engine *engine)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(engine);
  size_t wide = lls_form_units(pool, LLS_FORM_KV), units = pool->device_units;
  size_t step = lls_engine_caps(engine)->max_step_tokens / pool->block_tokens + 2;
  if (c->cache.pool.int8 != LLS_INT8_ALL ||
      !lls_cache_makes(&c->policies.cache.module->cache, LLS_FORM_INT8))
    return units / wide;
  size_t narrow = lls_form_units(pool, LLS_FORM_INT8);
  size_t slab = narrow / lls_common_divisor(wide, narrow) * wide, most = 8 * wide;
  size_t rest = step * wide + 3 * (slab < most ? slab : most);
  size_t blocks = units > rest ? step + (units - rest) / narrow : 0;
  return blocks > units / wide ? blocks : units / wide;
}

/* Returns the tokens of the longest sequence whose blocks of all groups are in the pool
 * at once. */
static size_t tokens_in_groups(const struct lls_engine *engine)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(engine);
  size_t low = 0, high = lls_engine_caps(engine)->max_context;
  while (low < high) {
    size_t middle = low + (high - low + 1) / 2;
    if (lls_engine_units_for(engine, middle) <= pool->device_units)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Returns the tokens that the cache holds at once, in int8 if the cache manager uses
 * it; SIZE_MAX if only the cache manager can tell, because it keeps the hidden form or
 * frees blocks. */
static size_t cache_tokens(const struct lls_config *c, const struct lls_engine *engine)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(engine);
  const struct lls_engine_caps *caps = lls_engine_caps(engine);
  const struct lls_cache_vtable *cache = &c->policies.cache.module->cache;
  bool plain = caps->n_groups == 1 && caps->groups[0]->kind != LLS_GROUP_STATE;
  size_t tokens =
      plain ? blocks_in_pool(c, engine) * pool->block_tokens : tokens_in_groups(engine);
  uint32_t window = caps->groups[0]->window;
  size_t slides = (size_t)window + caps->max_step_tokens;
  bool smaller_forms = cache->forms != NULL && (caps->forms & LLS_BIT_HIDDEN) != 0;
  bool gives_back = lls_cache_keeps(cache, LLS_GROUP_WINDOW) && window > 0 &&
                    slides + 2 * (size_t)pool->block_tokens <= tokens;
  return smaller_forms || gives_back ? SIZE_MAX : tokens;
}

uint32_t server_max_context(const struct lls_config *c, const struct lls_engine *engine)
{
  size_t tokens = cache_tokens(c, engine);
  uint32_t context = lls_engine_caps(engine)->max_context;
  return tokens < context ? (uint32_t)tokens : context;
}

/* Warns if weights are quantised a second time: that loses accuracy again and saves
 * nothing. */
static void warn_of_weights(const struct lls_config *c,
                            const struct lls_model_config *model, server_say say,
                            void *context)
{
  struct lls_error text;
  uint32_t bits = c->model.weights == LLS_WEIGHTS_INT4   ? 4
                  : c->model.weights == LLS_WEIGHTS_INT8 ? 8
                                                         : 0;
  if (model->code_bits == 0 || model->code_bits > bits)
    return;
  lls_config_fail(c, &text, 0, "model", "weights",
                  "the model is quantised to %u bits already: int%u quantises it again, "
                  "which costs accuracy and saves nothing; omit the key, or take "
                  "the model in 16 bits",
                  model->code_bits, bits);
  say(context, text.text);
}

/* Refuses CLS pooling for a decoder, whose first token does not attend to later ones. */
static int refuse_cls(const struct lls_config *c, struct lls_pooling_config *out,
                      struct lls_error *err)
{
  if (out->pooling != LLS_POOLING_CLS)
    return 0;
  if (c->model.pooling == LLS_CHOOSE_CLS)
    return lls_config_fail(c, err, -EINVAL, "model", "pooling",
                           "cls is for encoders, and the model is none: last or mean");
  out->pooling = LLS_POOLING_NONE;
  lls_fail(&out->why_none, -ENOTSUP,
           "%s/1_Pooling/config.json: cls pooling is for encoders; [model] pooling may "
           "be last or mean",
           c->model.path);
  return 0;
}

int server_read_pooling(const struct lls_config *c, const struct lls_model_config *model,
                        struct lls_pooling_config *out, struct lls_error *err)
{
  static const enum lls_pooling chosen[] = {
      [LLS_CHOOSE_NONE] = LLS_POOLING_NONE,
      [LLS_CHOOSE_LAST] = LLS_POOLING_LAST,
      [LLS_CHOOSE_MEAN] = LLS_POOLING_MEAN,
      [LLS_CHOOSE_CLS] = LLS_POOLING_CLS,
  };
  enum lls_pooling fallback = model->encoder ? LLS_POOLING_MEAN : LLS_POOLING_LAST;
  enum lls_pooling scored = model->encoder ? LLS_POOLING_CLS : LLS_POOLING_LAST;
  int rc = lls_pooling_read(c->model.path, fallback, out, err);
  if (rc < 0)
    return lls_config_fail(c, err, rc, "model", "path", "%s", lls_error_text(err, rc));
  if (c->model.pooling != LLS_CHOOSE_AUTO) {
    out->pooling = chosen[c->model.pooling];
    out->is_written = true;
  }
  if (c->model.pooling == LLS_CHOOSE_AUTO && model->labels > 0)
    out->pooling = scored; /* the row that the head reads */
  if (c->model.pooling == LLS_CHOOSE_NONE)
    lls_fail(&out->why_none, -ENOTSUP, "[model] pooling = none");
  if (model->labels > 0 && out->pooling != scored && out->pooling != LLS_POOLING_NONE)
    return lls_config_fail(
        c, err, -EINVAL, "model", "pooling",
        "a model that scores or classifies texts reads the %s token's vector: "
        "auto",
        model->encoder ? "first" : "last");
  if (out->dense && !model->dense) {
    out->pooling = LLS_POOLING_NONE;
    lls_fail(&out->why_none, -ENOTSUP,
             "%s/modules.json: Dense modules are supported behind encoders",
             c->model.path);
  }
  return model->encoder ? 0 : refuse_cls(c, out, err);
}

/* Warns of int8 with a cache manager that does not use it. The pool stays ready for it,
 * since a reload may bring a manager that does. */
static void warn_of_int8(const struct lls_config *c, server_say say, void *context)
{
  const struct lls_plugin_module *cache = c->policies.cache.module;
  struct lls_error text;
  if (c->cache.pool.int8 == LLS_INT8_OFF || lls_cache_makes(&cache->cache, LLS_FORM_INT8))
    return;
  lls_config_fail(
      c, &text, 0, "cache", "int8",
      "cache %s makes no block int8: set [plugins] cache = tiered, or omit the key",
      cache->descriptor->id);
  say(context, text.text);
}

void server_warn(const struct lls_config *c, const struct lls_model_config *model,
                 const struct lls_engine *engine, server_say say, void *context)
{
  struct lls_error text;
  uint32_t used = lls_engine_caps(engine)->max_context;
  size_t tokens = cache_tokens(c, engine);
  warn_of_weights(c, model, say, context);
  warn_of_int8(c, say, context);
  if (model->encoder && c->engine.max_step_tokens < lls_longest_text(model)) {
    lls_config_fail(
        c, &text, 0, "engine", "max_step_tokens",
        "an encoder's text is computed in one step: texts may have %u tokens, "
        "of the %u that the model takes",
        used, lls_longest_text(model));
    say(context, text.text);
  }
  if (c->engine.max_context > model->max_context) {
    lls_config_fail(c, &text, 0, "engine", "max_context",
                    "%lld is more than the %u positions of the model: the context is %u "
                    "tokens",
                    (long long)c->engine.max_context, model->max_context, used);
    say(context, text.text);
  }
  if (tokens < used) {
    lls_config_fail(c, &text, 0, "cache", "device_memory",
                    "the cache holds %zu tokens, less than the context of %u: no request "
                    "can have more than %zu of prompt and answer together",
                    tokens, used, tokens);
    say(context, text.text);
  }
}

void server_say_warning(void *context, const char *text)
{
  const struct server *s = context;
  lls_log(&s->log, LLS_LOG_WARNING, "server", "%s", text);
}

void server_log_warnings(struct server *s)
{
  server_warn(s->config, &s->model, s->engines[0], server_say_warning, s);
}
