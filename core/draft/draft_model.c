/* SPDX-License-Identifier: Apache-2.0 */
/* See draft_model.h. */
#include "core/draft/draft_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/least.h"
#include "core/draft/draft_internal.h"

const char *lls_draft_model_why_not(const struct lls_engine *engine)
{
  const struct lls_engine_caps *caps = lls_engine_caps(engine);
  if (lls_engine_config(engine)->encoder)
    return "it is an encoder, which writes no text";
  if (caps->n_groups != 1 || caps->groups[0]->kind == LLS_GROUP_STATE ||
      caps->groups[0]->kind == LLS_GROUP_CHUNK)
    return "its layers keep states, or their caches are not alike: a draft model's "
           "layers keep keys and values of one size";
  return NULL;
}

/* ---- a pass -------------------------------------------------------------------- */

void lls_draft_pass_begin(struct lls_draft_model *m)
{
  m->n = m->n_rows = m->n_draws = 0;
}

/* How the guess after those made so far is drawn. */
static struct lls_sampling next_draw(const struct lls_draft_ask *a)
{
  struct lls_sampling s = a->sampling;
  uint32_t n = s.n_history + a->n, last = s.penalty_last_n;
  uint32_t before = last > 0 && n > last ? n - last : 0; /* penalties reach back so far */
  s.index += a->n;
  s.history += before;
  s.n_history = n - before;
  s.n_prompt = s.n_prompt > before ? s.n_prompt - before : 0;
  s.want_logprob = true;
  return s;
}

void lls_draft_pass_add(struct lls_draft_model *m, struct lls_draft_ask *a,
                        struct lls_draft_sequence *s, uint32_t rows, const void *hidden)
{
  struct lls_draft_turn *t = &m->turns[m->n];
  *t = (struct lls_draft_turn){.ask = a, .sequence = s, .sampling = next_draw(a)};
  t->list = (struct lls_group_list){.entries = s->entries, .n_entries = s->n_blocks};
  t->table = (struct lls_block_table){.n_groups = 1, .lists = &t->list};
  m->batch[m->n++] = (struct lls_engine_sequence){
      .tokens = a->tokens + s->first + s->computed,
      .hidden = hidden,
      .n_tokens = rows,
      .context = s->computed,
      .table = &t->table,
      .sampling = s->first + s->computed + rows == a->n_tokens + a->n && a->n < a->max
                      ? &t->sampling
                      : NULL,
  };
  m->n_rows += rows;
  m->n_draws += m->batch[m->n - 1].sampling != NULL;
}

/* Notes that the pass has computed its rows, and takes the guesses. */
static void take(struct lls_draft_model *m, const struct lls_engine_result *result)
{
  for (uint32_t i = 0; i < m->n; i++) {
    struct lls_draft_ask *a = m->turns[i].ask;
    struct lls_draft_sequence *s = m->turns[i].sequence;
    const struct lls_sampled *drawn = result->sampled[i];
    s->computed += m->batch[i].n_tokens;
    if (drawn == NULL || drawn->token < 0 || (uint32_t)drawn->token >= a->vocabulary)
      continue;
    a->tokens[a->n_tokens + a->n] = drawn->token;
    a->odds[a->n] = expf(drawn->logprob);
    s->guesses[s->n_guesses++] = drawn->token;
    a->n++;
  }
}

void lls_draft_pass_compute(struct lls_draft_model *m)
{
  struct lls_engine_batch batch = {
      .n_sequences = m->n, .sequences = m->batch, .own_hidden = m->own};
  struct lls_engine_result result = {0};
  int64_t began_ns = lls_draft_now(m);
  int rc = lls_engine_submit(m->options.engine, &batch, &m->failure);
  if (rc == 0)
    rc = lls_engine_wait(m->options.engine, &result, &m->failure);
  m->failed = rc < 0;
  if (rc < 0)
    return;
  if (!m->is_heads || m->n_draws > 0) /* without the head a pass takes a part of it */
    lls_pass_time_add(&m->time, m->n_rows, lls_draft_now(m) - began_ns);
  take(m, &result);
}

/* ---- making one ---------------------------------------------------------------- */

/* Makes passes of a text of zeros, of few rows and of more, so that the first estimates
 * are not those of a cold start. */
static void warm_up(struct lls_draft_model *m)
{
  static const uint32_t rows[] = {1, 1, 1, 16, 1, 16};
  int32_t tokens[LLS_MAX_DRAFTS] = {0};
  for (size_t i = 0; i < sizeof rows / sizeof *rows && !m->failed; i++) {
    uint32_t n = lls_least_u32(rows[i], lls_least_u32(m->max_rows, m->max_context - 1));
    struct lls_draft_ask a = {.tokens = tokens, .n_tokens = n + 1};
    struct lls_draft_sequence *s = lls_draft_cache_find(&m->cache, 0, i);
    lls_draft_pass_begin(m);
    if (!lls_draft_cache_reserve(&m->cache, s, n, 0))
      continue;
    lls_draft_pass_add(m, &a, s, n, NULL);
    lls_draft_pass_compute(m);
    if (i == 0)
      m->time = (struct lls_pass_time){0};
  }
  lls_draft_cache_drop(&m->cache, 0);
  lls_draft_pass_begin(m);
}

int lls_draft_model_create(const struct lls_draft_model_options *o,
                           struct lls_draft_model **out)
{
  const struct lls_engine_caps *caps = lls_engine_caps(o->engine);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(o->engine);
  struct lls_draft_model *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->options = *o;
  m->max_rows = caps->max_step_tokens;
  m->max_sequences = caps->max_sequences;
  m->max_context = caps->max_context;
  m->vocabulary = lls_engine_config(o->engine)->vocab;
  m->is_heads = lls_engine_config(o->engine)->joins;
  if (m->is_heads)
    m->hidden = malloc(m->max_sequences * lls_engine_hidden_bytes(o->engine));
  m->turns = calloc(m->max_sequences, sizeof *m->turns);
  m->batch = calloc(m->max_sequences, sizeof *m->batch);
  uint32_t units = lls_form_units(pool, LLS_FORM_KV);
  int rc = lls_draft_cache_init(&m->cache, o->slots, pool->device_units / units, units,
                                pool->block_tokens);
  bool lacks = m->is_heads && m->hidden == NULL;
  if (rc < 0 || lacks || m->turns == NULL || m->batch == NULL) {
    lls_draft_model_destroy(m);
    return -ENOMEM;
  }
  warm_up(m);
  *out = m;
  return 0;
}

void lls_draft_model_destroy(struct lls_draft_model *m)
{
  if (m == NULL)
    return;
  lls_draft_cache_free(&m->cache);
  free(m->turns);
  free(m->batch);
  free(m->hidden);
  free(m);
}

/* ---- a run --------------------------------------------------------------------- */

/* Returns true if the draft model can compute the request's text. It has no rows for
 * tokens beyond its vocabulary, which the model's may exceed. */
static bool can_read(const struct lls_draft_model *m, const struct lls_draft_ask *a,
                     const struct lls_draft_sequence *s)
{
  if (a->n_tokens + a->max > m->max_context)
    return false;
  for (uint32_t i = s->computed; i < a->n_tokens; i++)
    if (a->tokens[i] < 0 || (uint32_t)a->tokens[i] >= m->vocabulary)
      return false;
  return true;
}

uint32_t lls_draft_pass_room(const struct lls_draft_model *m, int64_t end_ns)
{
  if (end_ns == LLS_NEVER)
    return m->max_rows;
  int64_t left_ns = end_ns - lls_draft_now(m);
  return left_ns > 0 ? lls_pass_time_rows(&m->time, left_ns, m->max_rows) : 0;
}

/* Adds the requests whose next guess takes few rows, or those that are behind by more.
 * Room is reserved for a whole text with its first part, since texts of which no other
 * part fits would fill the cache. */
static void add_first(struct lls_draft_model *m, struct lls_draft_ask *asks, uint32_t n,
                      uint32_t room, bool behind)
{
  for (uint32_t i = 0; i < n && m->n < m->max_sequences && m->n_rows < room; i++) {
    struct lls_draft_ask *a = &asks[i];
    struct lls_draft_sequence *s = &m->cache.sequences[a->slot];
    uint32_t wanted = a->n_tokens - s->computed;
    if ((wanted > LLS_MAX_DRAFTS + 1) != behind)
      continue;
    if (!can_read(m, a, s)) { /* nor any longer text of the request */
      lls_draft_cache_drop(&m->cache, a->slot);
      continue;
    }
    uint32_t rows = lls_least_u32(wanted, room - m->n_rows);
    if (lls_draft_cache_reserve(&m->cache, s, a->n_tokens, m->run))
      lls_draft_pass_add(m, a, s, rows, NULL);
  }
}

/* Adds the requests that want another guess, after that of the pass before. */
static void add_next(struct lls_draft_model *m)
{
  uint32_t before = m->n;
  lls_draft_pass_begin(m);
  for (uint32_t i = 0; i < before; i++) {
    struct lls_draft_ask *a = m->turns[i].ask;
    struct lls_draft_sequence *s = m->turns[i].sequence;
    bool goes_on = s->computed == a->n_tokens + a->n - 1 && a->n > 0 && a->n < a->max;
    if (goes_on && lls_draft_cache_extend(&m->cache, s, s->computed + 1, m->run))
      lls_draft_pass_add(m, a, s, 1, NULL);
  }
}

/* Drops biases of tokens that the draft model does not have. */
static void cut_biases(const struct lls_draft_model *m, struct lls_sampling *s)
{
  for (uint32_t i = 0; i < s->n_bias; i++)
    if ((uint32_t)s->bias[i].token >= m->vocabulary)
      s->n_bias = 0;
}

/* Finds each request's sequence, and what of it is still right. */
static void settle(struct lls_draft_model *m, struct lls_draft_ask *asks, uint32_t n)
{
  m->run++;
  for (uint32_t i = 0; i < n; i++) {
    struct lls_draft_ask *a = &asks[i];
    struct lls_draft_sequence *s = lls_draft_cache_find(&m->cache, a->slot, a->request);
    lls_draft_cache_settle(s, a->tokens, a->n_tokens);
    s->used = m->run;
    cut_biases(m, &a->sampling);
    a->n = 0;
  }
}

int64_t lls_draft_model_run(struct lls_draft_model *m, struct lls_draft_ask *asks,
                            uint32_t n, int64_t budget_ns)
{
  int64_t began_ns = lls_draft_now(m);
  int64_t end_ns = budget_ns > 0 ? began_ns + budget_ns : LLS_NEVER;
  if (m->failed || n == 0)
    return 0;
  settle(m, asks, n);
  uint32_t room = lls_draft_pass_room(m, end_ns);
  if (room == 0)
    lls_pass_time_doubt(&m->time);
  lls_draft_pass_begin(m);
  add_first(m, asks, n, room, false);
  add_first(m, asks, n, room, true);
  while (m->n > 0 && !m->failed) {
    lls_draft_pass_compute(m);
    add_next(m);
    if (m->n > 0 && lls_draft_pass_room(m, end_ns) < m->n_rows)
      break;
  }
  return lls_draft_now(m) - began_ns;
}

int64_t lls_draft_model_pass_ns(const struct lls_draft_model *m, uint32_t rows)
{
  return lls_pass_time_of(&m->time, rows);
}

uint32_t lls_draft_model_behind(struct lls_draft_model *m, uint32_t slot,
                                uint64_t request, const int32_t *tokens,
                                uint32_t n_tokens)
{
  if (m->is_heads) /* they have read all that the model has computed */
    return 1;
  struct lls_draft_sequence *s = lls_draft_cache_find(&m->cache, slot, request);
  lls_draft_cache_settle(s, tokens, n_tokens);
  return n_tokens - s->computed;
}

void lls_draft_model_forget(struct lls_draft_model *m, uint32_t slot)
{
  lls_draft_cache_drop(&m->cache, slot);
}

const char *lls_draft_model_failure(struct lls_draft_model *m)
{
  if (!m->failed || m->told)
    return NULL;
  m->told = true;
  return m->failure.text;
}
