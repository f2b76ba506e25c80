/* SPDX-License-Identifier: Apache-2.0 */
/* Making and freeing requests, and the table that finds them; see request.h. */
#include "core/instance/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/least.h"
#include "core/instance/lists.h"
#include "core/lora/lora.h"

/* Allocates aligned pieces of one allocation; base NULL: only measures. */
struct carver {
  char *base;
  size_t used;
};

static void *carve(struct carver *c, size_t bytes)
{
  void *piece = c->base != NULL ? c->base + c->used : NULL;
  c->used += (bytes + 15) & ~(size_t)15;
  return piece;
}

struct pieces {
  struct lls_live *live;
  int32_t *tokens, *stop_tokens, *bad_words, *held, *expected;
  struct lls_sampled *scores;
  float *pooled;
  struct lls_logit_bias *bias;
  struct lls_dry_state dry;
  struct lls_block_entry *entries;
  struct lls_key *keys;
  int32_t *drafts;
  float *draft_odds;
  struct lls_grammar_state *grammar_state;
  uint32_t *mask, *allowed;
  char *label, *tenant_name, *adapter_name, *text;
};

/* Carves DRY's arrays, and the biases with its own after the client's. */
static void carve_biases(struct carver *c, const struct lls_submission *s,
                         uint32_t vocabulary, uint32_t max_length, struct pieces *p)
{
  const struct lls_dry_breakers *b = &s->dry_breakers;
  bool has_dry = s->dry.multiplier > 0;
  size_t n = has_dry ? max_length : 0, words = lls_mask_words(vocabulary);
  size_t n_dry = n < vocabulary ? n : vocabulary;
  p->bias = carve(c, (s->sampling.n_bias + n_dry) * sizeof *p->bias);
  p->dry.matches = carve(c, n * sizeof *p->dry.matches);
  p->dry.longest = carve(c, has_dry ? vocabulary * sizeof *p->dry.longest : 0);
  p->dry.breakers.tokens =
      carve(c, b->tokens != NULL ? words * sizeof *p->dry.breakers.tokens : 0);
  p->dry.breakers.sequences =
      carve(c, b->n_sequences * sizeof *p->dry.breakers.sequences);
}

/* Returns how many of the expected tokens are kept: none where nothing guesses, and no
 * more than the text can have. */
static uint32_t expected_of(const struct lls_submission *s,
                            const struct lls_live_context *context, uint32_t max_length)
{
  return context->max_drafts > 0 ? lls_least_u32(s->n_expected, max_length) : 0;
}

static struct pieces carve_all(struct carver *c, const struct lls_submission *s,
                               const struct lls_live_context *context,
                               uint32_t max_length, uint32_t n_eos_tokens,
                               uint32_t n_entries)
{
  size_t n_stop_tokens = (size_t)s->n_stop_tokens + n_eos_tokens;
  size_t n_ends = s->grammar != NULL ? lls_grammar_vocabulary(s->grammar)->n_ends : 0;
  size_t n_held = s->grammar != NULL ? n_stop_tokens + n_ends : 0;
  size_t words = lls_mask_words(context->vocabulary);
  size_t n_allowed = lls_lists_have_base(s) ? words : 0;
  size_t n_mask = lls_lists_have_mask(s, n_stop_tokens, context->vocabulary) ? words : 0;
  size_t n_scores = s->score_prompt ? s->n_tokens : 0;
  size_t n_pooled = s->pooling != LLS_POOLING_NONE ? context->vector_columns : 0;
  size_t n_keys = context->key_tokens > 0 ? max_length / context->key_tokens : 0;
  struct pieces p = {0};
  p.live = carve(c, sizeof *p.live);
  p.tokens = carve(c, max_length * sizeof *p.tokens);
  p.stop_tokens = carve(c, n_stop_tokens * sizeof *p.stop_tokens);
  p.allowed = carve(c, n_allowed * sizeof *p.allowed);
  p.bad_words = carve(c, s->n_bad_words * sizeof *p.bad_words);
  p.held = carve(c, n_held * sizeof *p.held);
  p.expected = carve(c, expected_of(s, context, max_length) * sizeof *p.expected);
  p.scores = carve(c, n_scores * sizeof *p.scores);
  p.pooled = carve(c, n_pooled * sizeof *p.pooled);
  carve_biases(c, s, context->vocabulary, max_length, &p);
  p.entries = carve(c, n_entries * sizeof *p.entries);
  p.keys = carve(c, n_keys * sizeof *p.keys);
  p.drafts = carve(c, context->max_drafts * sizeof *p.drafts);
  p.draft_odds = carve(c, context->max_drafts * sizeof *p.draft_odds);
  p.grammar_state = carve(c, s->grammar != NULL ? lls_grammar_state_bytes() : 0);
  p.mask = carve(c, n_mask * sizeof *p.mask);
  p.label = carve(c, s->label != NULL ? strlen(s->label) + 1 : 1);
  p.tenant_name = carve(c, s->tenant_name != NULL ? strlen(s->tenant_name) + 1 : 1);
  p.adapter_name = carve(c, s->adapter_name != NULL ? strlen(s->adapter_name) + 1 : 1);
  p.text = carve(c, s->text != NULL ? s->text_bytes + 1 : 0);
  return p;
}

static void copy(void *to, const void *from, size_t bytes)
{
  if (bytes > 0)
    memcpy(to, from, bytes);
}

static void fill_view(struct lls_live *live, const struct lls_submission *s,
                      const struct pieces *p, int64_t now_ns)
{
  struct lls_request *v = &live->view;
  v->request_class = s->request_class;
  v->state = LLS_WAITING;
  v->priority = s->priority;
  v->tenant = s->tenant;
  v->prompt_tokens = s->n_tokens;
  v->arrival_ns = v->queue_enter_ns = v->last_token_ns = now_ns;
  v->first_scheduled_ns = LLS_NEVER;
  v->slo = s->slo;
  v->prediction.made_ns = LLS_NEVER;
  v->tokens = live->tokens;
  v->keys = live->keys.all;
  v->drafts = live->drafts;
  v->draft_odds = live->draft_odds;
  v->label = live->label;
  v->tenant_name = p->tenant_name;
  v->adapter = s->adapter;
  v->adapter_name = p->adapter_name;
  v->user = live->user;
}

/* Returns the root of keys of an adapter's blocks: the same tokens give other keys and
 * values with it, and with each scale of it. */
static struct lls_key adapted_root(const struct lls_live_context *context,
                                   const struct lls_key *root,
                                   const struct lls_submission *s)
{
  const struct lls_lora *lora = s->lora;
  char all[sizeof *root + sizeof lora->digest + sizeof s->lora_scale];
  size_t bytes = sizeof *root + sizeof lora->digest;
  memcpy(all, root, sizeof *root);
  memcpy(all + sizeof *root, lora->digest, sizeof lora->digest);
  memcpy(all + bytes, &s->lora_scale, sizeof s->lora_scale);
  if (s->lora_scale != 1)
    bytes += sizeof s->lora_scale;
  return lls_siphash(&context->secret, all, bytes);
}

static void begin_keys(struct lls_live *live, const struct lls_submission *s,
                       const struct lls_live_context *context, const struct pieces *p)
{
  live->keys = (struct lls_keys){
      .secret = context->secret,
      .root = s->salt_bytes > 0 ? lls_siphash(&context->secret, s->salt, s->salt_bytes)
                                : s->salted,
      .all = context->key_tokens > 0 ? p->keys : NULL,
      .block_tokens = context->key_tokens};
  if (s->lora != NULL)
    live->keys.root = adapted_root(context, &live->keys.root, s);
}

static void begin_grammar(struct lls_live *live, struct lls_grammar *grammar,
                          const struct pieces *p)
{
  if (grammar == NULL)
    return;
  live->constraint.grammar = lls_grammar_ref(grammar);
  live->constraint.state = p->grammar_state;
  lls_grammar_state_init(p->grammar_state, grammar);
}

static void set_dry(struct lls_live *live, const struct lls_submission *s,
                    const struct lls_live_context *context, const struct pieces *p)
{
  const struct lls_dry_breakers *b = &s->dry_breakers;
  size_t words = lls_mask_words(context->vocabulary);
  live->dry = p->dry;
  live->dry.dry = s->dry;
  live->dry.breakers.n_sequences = b->n_sequences;
  copy(p->dry.breakers.sequences, b->sequences, b->n_sequences * sizeof *b->sequences);
  if (b->tokens == NULL)
    live->dry.breakers.tokens = NULL;
  else
    copy(p->dry.breakers.tokens, b->tokens, words * sizeof *b->tokens);
}

/* Copies the submission's lists (lists.c). */
static void set_lists(struct lls_live *live, const struct lls_submission *s,
                      const struct lls_live_context *context, const struct pieces *p)
{
  uint32_t vocabulary = context->vocabulary;
  live->n_bad_words = s->n_bad_words;
  live->bad_words = p->bad_words;
  live->held = p->held;
  copy(p->bad_words, s->bad_words, s->n_bad_words * sizeof *p->bad_words);
  if (lls_lists_have_mask(s, live->n_stop_tokens, vocabulary))
    live->constraint.mask = p->mask;
  if (!lls_lists_have_base(s))
    return;
  live->allowed = p->allowed;
  lls_lists_fill_base(s, vocabulary, p->allowed);
}

/* Returns the entries of a K and a V list with one entry for each block, or a longer X
 * list. */
static uint32_t entries_of(uint32_t max_length, uint32_t block_tokens)
{
  return block_tokens > 0 ? 2 * (max_length / block_tokens + 2) : 0;
}

struct lls_live *lls_live_create(const struct lls_submission *s,
                                 const struct lls_live_context *context, uint64_t id,
                                 uint32_t slot, uint32_t max_new_tokens, int64_t now_ns)
{
  uint32_t n_eos_tokens = s->ignore_eos ? 0 : context->n_eos_tokens;
  uint32_t max_length = s->n_tokens + max_new_tokens;
  uint32_t n_groups = context->n_groups > 0 ? context->n_groups : 1;
  uint32_t n_entries = n_groups * entries_of(max_length, context->block_tokens);
  struct carver measure = {0};
  carve_all(&measure, s, context, max_length, n_eos_tokens, n_entries);
  struct carver c = {.base = calloc(1, measure.used)};
  if (c.base == NULL)
    return NULL;
  struct pieces p = carve_all(&c, s, context, max_length, n_eos_tokens, n_entries);
  struct lls_live *live = p.live;

  copy(p.tokens, s->tokens, s->n_tokens * sizeof *p.tokens);
  live->view.expected = p.expected;
  live->view.n_expected = expected_of(s, context, max_length);
  copy(p.expected, s->expected, live->view.n_expected * sizeof *p.expected);
  copy(p.stop_tokens, s->stop_tokens, s->n_stop_tokens * sizeof *p.stop_tokens);
  copy(p.stop_tokens + s->n_stop_tokens, context->eos_tokens,
       n_eos_tokens * sizeof *p.stop_tokens);
  copy(p.bias, s->sampling.bias, s->sampling.n_bias * sizeof *p.bias);
  if (s->label != NULL)
    strcpy(p.label, s->label);
  if (s->tenant_name != NULL)
    strcpy(p.tenant_name, s->tenant_name);
  if (s->adapter_name != NULL)
    strcpy(p.adapter_name, s->adapter_name);
  if (s->text != NULL)
    copy(p.text, s->text, s->text_bytes);

  live->tokens = p.tokens;
  live->max_length = max_length;
  live->stop_tokens = p.stop_tokens;
  live->n_stop_tokens = s->n_stop_tokens + n_eos_tokens;
  live->scores = s->score_prompt ? p.scores : NULL;
  live->n_scored = 1;
  live->score_logprobs = s->score_logprobs;
  live->pooling = s->pooling;
  live->second_text = s->second_text;
  live->pooled = s->pooling != LLS_POOLING_NONE ? p.pooled : NULL;
  live->label = p.label;
  live->text = s->text != NULL ? p.text : NULL;
  live->text_bytes = s->text != NULL ? s->text_bytes : 0;
  live->owner = s->owner;
  live->lora = lls_lora_ref(s->lora);
  live->lora_scale = s->lora_scale;
  live->min_new_tokens = s->min_new_tokens;
  live->reports_progress = s->reports_progress;
  live->first_token_ns = LLS_NEVER;
  live->sampling = s->sampling;
  live->sampling.bias = p.bias;
  live->biases = p.bias;
  live->n_bias = s->sampling.n_bias;
  set_dry(live, s, context, &p);
  live->thought.thought = s->thought;
  live->drafts = p.drafts;
  live->draft_odds = p.draft_odds;
  live->max_drafts = context->max_drafts;
  live->move = (struct lls_move){
      .mailed_ns = LLS_NEVER, .entries = p.entries, .max_entries = n_entries};
  begin_keys(live, s, context, &p);
  set_lists(live, s, context, &p);
  begin_grammar(live, s->grammar, &p);
  fill_view(live, s, &p, now_ns);
  live->view.id = id;
  live->view.slot = slot;
  live->view.max_new_tokens = max_new_tokens;
  lls_live_name_blocks(live);
  return live;
}

void lls_live_free(struct lls_live *live)
{
  if (live != NULL) {
    lls_grammar_unref(live->constraint.grammar);
    lls_lora_unref(live->lora);
  }
  free(live); /* everything else it points to is in the same allocation */
}

static uint32_t power_of_two_above(uint32_t n)
{
  uint32_t p = 1;
  while (p < n)
    p *= 2;
  return p;
}

int lls_slots_init(struct lls_slots *s, uint32_t max_requests)
{
  *s = (struct lls_slots){.n = power_of_two_above(max_requests), .sequence = 1};
  s->free_slots = malloc(max_requests * sizeof *s->free_slots);
  if (s->free_slots == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < max_requests; i++)
    s->free_slots[i] = max_requests - 1 - i; /* slot 0 is taken first */
  s->n_free = max_requests;
  return 0;
}

void lls_slots_free(struct lls_slots *s)
{
  free(s->free_slots);
  *s = (struct lls_slots){0};
}

int lls_slots_take(struct lls_slots *s, uint32_t *slot, uint64_t *id)
{
  if (s->n_free == 0)
    return -ENOSPC;
  *slot = s->free_slots[--s->n_free];
  *id = s->sequence++ * s->n + *slot;
  return 0;
}

void lls_slots_give_back(struct lls_slots *s, uint32_t slot)
{
  LLS_CHECK(slot < s->n && s->n_free < s->n);
  s->free_slots[s->n_free++] = slot;
}

int lls_request_table_init(struct lls_request_table *t, const struct lls_slots *slots)
{
  t->slots = slots->n;
  t->by_slot = calloc(t->slots, sizeof(struct lls_live *));
  return t->by_slot != NULL ? 0 : -ENOMEM;
}

void lls_request_table_free(struct lls_request_table *t)
{
  free(t->by_slot);
  *t = (struct lls_request_table){0};
}
