/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draft models ([plugins] draft_model), or a layer that was trained to guess for the
 * model (core/model/heads.h), where a drafter asks for guesses: device and engine of a
 * small model for each instance, which guesses for the drafter (core/draft). Each has
 * threads or a context of its own on its instance's cores or GPU, and never runs while
 * the instance does. With tensor parallel ranks rank 0 alone has one, which is whole.
 */
#include "core/assembly/options.h"
#include "core/base/least.h"
#include "core/draft/draft_model.h"
#include "core/model/gguf.h"
#include "core/model/heads.h"
#include "core/serve/daemon.h"

#include <errno.h>
#include <string.h>

#define ROWS 512 /* of a pass, of a prompt's parts too */

static int fail(const struct server *s, struct lls_error *err, int rc, const char *why)
{
  if (s->draft.heads && !s->draft.eagle) /* the layer has no key of its own */
    return lls_config_fail(s->config, err, rc, "model", "path",
                           "the layer that guesses (MTP), which drafter %s asks: %s",
                           s->config->policies.drafter.module->descriptor->id, why);
  return lls_config_fail(s->config, err, rc, "plugins", "draft_model", "%s", why);
}

static const char *layer_name(const struct server *s)
{
  return s->draft.eagle ? "the EAGLE-3 layer ([plugins] draft_model)"
                        : "the model's layer that guesses (MTP)";
}

/* Returns the first id that is not the same token in both; -1: there is none. */
static int64_t first_difference(const struct lls_tokenizer *a,
                                const struct lls_tokenizer *b)
{
  size_t n = lls_most_size(lls_tokenizer_size(a), lls_tokenizer_size(b));
  for (size_t i = 0; i < n; i++) {
    size_t x_length = 0, y_length = 0;
    const char *x = lls_tokenizer_string(a, (int32_t)i, &x_length);
    const char *y = lls_tokenizer_string(b, (int32_t)i, &y_length);
    bool same = x == NULL || y == NULL
                    ? x == y
                    : x_length == y_length && memcmp(x, y, x_length) == 0;
    if (!same)
      return (int64_t)i;
  }
  return -1;
}

static bool keeps_states(const struct lls_model_config *c)
{
  bool any = false;
  for (uint32_t i = 0; i < c->layers; i++)
    any |= lls_mix_state(c, i) > 0;
  return any;
}

static int check_tokens(const struct server *s, struct lls_error *err)
{
  struct lls_tokenizer *tokenizer = NULL;
  struct lls_error why = {0};
  int rc = lls_model_tokenizer(s->config->plugins.draft_model, &tokenizer, &why);
  if (rc < 0)
    return fail(s, err, rc, lls_error_text(&why, rc));
  int64_t id = first_difference(s->tokenizer, tokenizer);
  if (id >= 0) {
    rc = lls_fail(&why, -EINVAL,
                  "its tokens are not the model's, beginning with id %lld: a draft model "
                  "guesses tokens of the model, and has the same tokeniser",
                  (long long)id);
    fail(s, err, rc, why.text);
  }
  lls_tokenizer_free(tokenizer);
  return rc;
}

static bool is_named(const struct server *s)
{
  return s->config->plugins.draft_model[0] != '\0' && !s->model.encoder;
}

bool server_has_draft_model(const struct server *s)
{
  return (is_named(s) && !s->draft.eagle) || s->draft.heads;
}

/* Returns true if the drafter asks for guesses of a model. */
static bool asks(const struct lls_config *c)
{
  return lls_config_drafts(c) && c->plugins.max_drafts > 0 &&
         c->policies.drafter.module->drafter.wants != NULL;
}

/* Looks for the model's own layer that guesses, if the drafter asks for guesses. */
static int read_heads(struct server *s, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  struct lls_error why = {0};
  if (s->model.encoder || !asks(c))
    return 0;
  int rc = lls_heads_config_read(c->model.path, c->model.load_format == LLS_LOAD_DUMMY,
                                 &s->model, &s->draft.model, &why);
  s->draft.heads = rc == 0;
  if (rc == -ENOENT || rc == -ENOTSUP)
    lls_log(&s->log, rc == -ENOENT ? LLS_LOG_INFO : LLS_LOG_WARNING, "model", "%s",
            lls_error_text(&why, rc));
  return rc == 0 || rc == -ENOENT || rc == -ENOTSUP
             ? 0
             : lls_config_fail(c, err, rc, "model", "path", "%s",
                               lls_error_text(&why, rc));
}

/* Uses an EAGLE-3 layer if the drafter asks for guesses, but not beside a GGUF file,
 * where nothing has compared its guesses with those of a reference. */
static void use_eagle(struct server *s)
{
  bool is_gguf = lls_is_gguf(s->config->model.path);
  s->draft.heads = asks(s->config) && !is_gguf;
  if (is_gguf)
    lls_log(&s->log, LLS_LOG_WARNING, "model", "%s is not used: the model is a GGUF file",
            layer_name(s));
}

int server_read_draft_model(struct server *s, struct lls_error *err)
{
  struct lls_error why = {0};
  const char *path = s->config->plugins.draft_model;
  if (!is_named(s))
    return read_heads(s, err);
  int rc = lls_eagle_config_read(path, &s->model, &s->draft.model, &why);
  s->draft.eagle = rc == 0;
  if (rc == 0)
    use_eagle(s);
  if (rc != -ENOENT)
    return rc < 0 ? fail(s, err, rc, lls_error_text(&why, rc)) : 0;
  why = (struct lls_error){0};
  rc = lls_model_config_read(path, &s->draft.model, &why);
  if (rc == 0 && keeps_states(&s->draft.model))
    rc = lls_fail(&why, -ENOTSUP,
                  "layers of %s keep states; those of a draft model keep keys and values",
                  path);
  return rc < 0 ? fail(s, err, rc, lls_error_text(&why, rc)) : check_tokens(s, err);
}

static uint32_t rows_of(const struct lls_config *c)
{
  return lls_most_u32(ROWS, (uint32_t)c->engine.max_sequences);
}

/* Gives heads up where the model's engine cannot have them. */
static void check_heads(struct server *s, uint32_t i)
{
  const char *why = lls_engine_why_no_heads(s->devices[i], s->ranks != NULL);
  if (!s->draft.heads || why == NULL)
    return;
  s->draft.heads = false;
  lls_log(&s->log, LLS_LOG_WARNING, "engine", "%s is not used: %s", layer_name(s), why);
}

int server_create_draft_device(struct server *s, uint32_t i, struct lls_error *err)
{
  check_heads(s, i);
  if (!server_has_draft_model(s))
    return 0;
  struct lls_device_options o = lls_device_options_of(s->config, &s->draft.model);
  enum lls_device_choice choice =
      s->devices[i]->is_host ? LLS_DEVICE_CPU : LLS_DEVICE_CUDA;
  struct lls_error why_not = {0}, why = {0};
  o.max_rows = rows_of(s->config);
  o.numbers = s->draft.model.dtype;
  o.shares = s->channel != NULL ? s->channel->local_n : s->instances.n;
  o.index = s->instances.gpu[i];
  if (s->channel != NULL && s->config->engine.gpus[0] == '\0')
    o.index = s->channel->local_rank;
  int rc =
      lls_device_create(choice, s->builtin, &o, &s->draft.devices[i], &why_not, &why);
  return rc < 0 ? fail(s, err, rc, lls_error_text(&why, rc)) : 0;
}

static int create_engine(struct server *s, uint32_t i, struct lls_error *err)
{
  const struct lls_config *c = s->config;
  uint32_t longest = (uint32_t)c->engine.max_context;
  const bool heads = s->draft.heads, own = !heads || s->draft.eagle; /* folder */
  const struct lls_engine_options o = {
      .model_path = own ? c->plugins.draft_model : c->model.path,
      .weights = own ? LLS_WEIGHTS_AUTO : (enum lls_weight_format)c->model.weights,
      .ends_of = heads ? s->engines[i] : NULL,
      .dummy = c->model.load_format == LLS_LOAD_DUMMY,
      .cache_element = s->draft.model.dtype == LLS_F32 ? LLS_F32 : LLS_BF16,
      .max_tokens = rows_of(c),
      .max_sequences = (uint32_t)c->engine.max_sequences,
      .max_context = longest > 0 ? lls_least_u32(longest, s->draft.model.max_context) : 0,
      .block_tokens = (uint32_t)c->cache.block_tokens,
      .cache_bytes = (size_t)c->plugins.draft_cache,
      .kv_only = true,
      .no_hidden = true,
      .instances = s->instances.n,
      .weights_of = i > 0 ? s->draft.engines[0] : NULL,
  };
  int rc = lls_engine_create(&o, &s->draft.model, s->draft.devices[i],
                             &s->draft.engines[i], err);
  const char *why_not = rc == 0 ? lls_draft_model_why_not(s->draft.engines[i]) : NULL;
  return why_not != NULL ? lls_fail(err, -ENOTSUP, "%s", why_not) : rc;
}

int server_create_draft_model(struct server *s, uint32_t i, struct lls_error *err)
{
  struct lls_error why = {0};
  if (!server_has_draft_model(s))
    return 0;
  int rc = create_engine(s, i, &why);
  if (rc == -ENOMEM && s->draft.heads && s->draft.engines[0] == NULL) {
    s->draft.heads = false; /* the model serves without them */
    s->draft.devices[i]->ops->destroy(s->draft.devices[i]);
    s->draft.devices[i] = NULL;
    lls_log(&s->log, LLS_LOG_WARNING, "engine",
            "%s is not used: %s; a smaller [plugins] draft_cache may do", layer_name(s),
            lls_error_text(&why, rc));
    return 0;
  }
  if (rc < 0)
    return fail(s, err, rc, lls_error_text(&why, rc));
  const struct lls_engine *e = s->draft.engines[i];
  const struct lls_pool_shape *pool = lls_engine_pool_shape(e);
  if (i == 0)
    lls_log(&s->log, LLS_LOG_INFO, "engine",
            "draft model %s: weights %zu MiB, cache for %zu tokens in %lld MiB, context "
            "%u",
            s->draft.heads && !s->draft.eagle ? "(the model's layer that guesses)"
                                              : s->config->plugins.draft_model,
            lls_engine_weight_bytes(e) >> 20, lls_pool_tokens(pool, pool->device_units),
            (long long)(s->config->plugins.draft_cache >> 20),
            lls_engine_caps(e)->max_context);
  return 0;
}

void server_leave_room_for_draft(const struct server *s, uint32_t i,
                                 struct lls_engine_options *o)
{
  const struct lls_engine *e = s->draft.engines[i];
  if (!server_has_draft_model(s))
    return;
  /* The weights are not free any more; the cache of a CPU is, until it is used. */
  o->beside_bytes = (size_t)s->config->plugins.draft_cache;
  if (e == NULL) /* heads: the first instance's have the layer for all */
    o->heads = s->draft.engines[0] == NULL ? &s->draft.model : NULL;
  else if (s->draft.devices[i]->has_own_memory)
    o->beside_bytes += lls_engine_weight_bytes(e) + lls_engine_buffer_bytes(e);
}

void server_destroy_draft_models(struct server *s)
{
  for (uint32_t i = LLS_MAX_INSTANCES; i-- > 0;) { /* the first has the weights */
    lls_engine_destroy(s->draft.engines[i]);
    if (s->draft.devices[i] != NULL)
      s->draft.devices[i]->ops->destroy(s->draft.devices[i]);
  }
}
