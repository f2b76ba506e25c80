/* SPDX-License-Identifier: Apache-2.0 */
/* A request as bytes: its numbers, followed by its arrays; see remote_wire.h. */
#include "core/cluster/remote_wire.h"

#include <errno.h>

#include "core/base/error.h"
#include "core/cluster/pulls.h"
#include "core/cluster/remote_session.h"
#include "core/instance/request.h"
#include "core/instance/session.h"
#include "core/lora/lora.h"

/* All members that are not arrays. Pointers in it have no meaning. */
struct numbers {
  struct lls_request view;
  struct lls_sampling sampling;
  struct lls_dry dry;
  struct lls_thought thought;
  struct lls_life life;
  struct lls_move move;
  struct lls_key salted;
  int64_t first_token_ns;
  uint64_t text_bytes, label_bytes, tenant_bytes, key_bytes;
  uint64_t drafted, accepted;
  uint64_t adapter_bytes; /* length of the adapter's name, which follows */
  uint64_t path_bytes;    /* length of its path; 0: the request has no adapter */
  uint64_t session;       /* id; 0: the request has no session */
  uint64_t session_bytes; /* length of its name */
  unsigned char adapter_digest[sizeof((struct lls_lora *)NULL)->digest];
  float adapter_scale;
  uint32_t max_length, min_new_tokens, n_stop_tokens, n_bad_words, n_scored,
      score_logprobs, n_dry_sequences;
  uint32_t pooling, second_text, n_pooled, prefix_tokens;
  bool scores, pooled, has_text, allowed, dry_tokens, reports_progress, finds_prefixes;
};

static void move_times(struct numbers *n, int64_t ahead_ns)
{
  int64_t *const times[] = {&n->view.arrival_ns,         &n->view.queue_enter_ns,
                            &n->view.first_scheduled_ns, &n->view.last_token_ns,
                            &n->view.prediction.made_ns, &n->first_token_ns};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    *times[i] = lls_wire_time(*times[i], ahead_ns);
  for (uint32_t i = 0; i < n->life.n; i++)
    n->life.changes[i].at_ns = lls_wire_time(n->life.changes[i].at_ns, ahead_ns);
}

/* ---- packing ----------------------------------------------------------------------- */

static void fill(struct numbers *n, const struct lls_live *live)
{
  memset(n, 0, sizeof *n); /* with the padding, since all bytes are sent */
  n->view = live->view;
  n->sampling = live->sampling;
  n->sampling.n_bias = live->n_bias;
  n->dry = live->dry.dry;
  n->thought = live->thought.thought;
  n->n_dry_sequences = live->dry.breakers.n_sequences;
  n->dry_tokens = live->dry.breakers.tokens != NULL;
  n->life = live->life;
  n->move = live->move;
  n->salted = live->keys.root;
  n->first_token_ns = live->first_token_ns;
  n->has_text = live->text != NULL;
  n->text_bytes = live->text_bytes;
  n->label_bytes = strlen(live->label);
  n->tenant_bytes = strlen(live->view.tenant_name);
  n->adapter_bytes = strlen(live->view.adapter_name);
  if (live->lora != NULL) {
    n->path_bytes = strlen(live->lora->path);
    n->adapter_scale = live->lora_scale;
    memcpy(n->adapter_digest, live->lora->digest, sizeof n->adapter_digest);
  }
  if (live->sessions != NULL) {
    n->session = live->sessions->view.id;
    n->session_bytes = strnlen(live->sessions->view.name, LLS_GUEST_NAME_BYTES);
  }
  if (live->constraint.grammar != NULL) {
    size_t bytes = 0;
    lls_grammar_key(live->constraint.grammar, &bytes);
    n->key_bytes = bytes;
  }
  n->drafted = live->drafted;
  n->accepted = live->accepted;
  n->max_length = live->max_length;
  n->min_new_tokens = live->min_new_tokens;
  n->n_stop_tokens = live->n_stop_tokens;
  n->n_bad_words = live->n_bad_words;
  n->allowed = live->allowed != NULL;
  n->n_scored = live->n_scored;
  n->score_logprobs = live->score_logprobs;
  n->pooling = live->pooling;
  n->second_text = live->second_text;
  n->n_pooled = live->n_pooled;
  n->prefix_tokens = live->prefix_tokens;
  n->finds_prefixes = live->finds_prefixes;
  n->scores = live->scores != NULL;
  n->pooled = live->pooled != NULL;
  n->reports_progress = live->reports_progress;
}

/* The arrays of a request; those of a receiver lie in the message, aligned or not. */
struct arrays {
  const void *tokens, *stop_tokens, *bias, *bad_words, *allowed, *scores, *pooled;
  const void *dry_tokens, *dry_sequences;
  const void *label, *tenant, *adapter, *path, *session, *text, *key, *entries;
};

static struct arrays arrays_of(const struct lls_live *live)
{
  size_t key_bytes = 0;
  return (struct arrays){
      .tokens = live->tokens,
      .stop_tokens = live->stop_tokens,
      .bias = live->sampling.bias,
      .bad_words = live->bad_words,
      .allowed = live->allowed,
      .dry_tokens = live->dry.breakers.tokens,
      .dry_sequences = live->dry.breakers.sequences,
      .scores = live->scores,
      .pooled = live->pooled,
      .label = live->label,
      .tenant = live->view.tenant_name,
      .adapter = live->view.adapter_name,
      .path = live->lora != NULL ? live->lora->path : "",
      .session = live->sessions != NULL ? live->sessions->view.name : "",
      .text = live->text,
      .key = live->constraint.grammar != NULL
                 ? lls_grammar_key(live->constraint.grammar, &key_bytes)
                 : NULL,
      .entries = live->move.entries,
  };
}

/* Walks a request's numbers and arrays, in the order of the message. */
static void walk(const struct lls_pack_walk *k, const struct lls_wire *w,
                 struct numbers *n, struct arrays *a)
{
  LLS_WALK(k, *n);
  if (k->in != NULL && k->in->failed)
    return; /* there are no counts */
  size_t n_entries = lls_lists_entries(&n->move.blocks);
  size_t words = n->allowed ? lls_mask_words(w->live.vocabulary) : 0;
  lls_pack_walk_array(k, &a->tokens, lls_request_length(&n->view) * sizeof(int32_t));
  lls_pack_walk_array(k, &a->stop_tokens, n->n_stop_tokens * sizeof(int32_t));
  lls_pack_walk_array(k, &a->bias, n->sampling.n_bias * sizeof(struct lls_logit_bias));
  lls_pack_walk_array(k, &a->bad_words, n->n_bad_words * sizeof(int32_t));
  lls_pack_walk_array(k, &a->allowed, words * sizeof(uint32_t));
  lls_pack_walk_array(k, &a->dry_tokens,
                      n->dry_tokens ? lls_mask_words(w->live.vocabulary) * 4 : 0);
  lls_pack_walk_array(k, &a->dry_sequences, n->n_dry_sequences * sizeof(int32_t));
  lls_pack_walk_array(k, &a->scores,
                      n->scores ? n->n_scored * sizeof(struct lls_sampled) : 0);
  lls_pack_walk_array(k, &a->pooled,
                      n->pooled ? w->live.vector_columns * sizeof(float) : 0);
  lls_pack_walk_array(k, &a->label, n->label_bytes + 1);
  lls_pack_walk_array(k, &a->tenant, n->tenant_bytes + 1);
  lls_pack_walk_array(k, &a->adapter, n->adapter_bytes + 1);
  lls_pack_walk_array(k, &a->path, n->path_bytes + 1);
  lls_pack_walk_array(k, &a->session, n->session_bytes);
  lls_pack_walk_array(k, &a->text, n->has_text ? n->text_bytes : 0);
  lls_pack_walk_array(k, &a->key, n->key_bytes);
  lls_pack_walk_array(k, &a->entries, n_entries * sizeof(struct lls_block_entry));
}

void lls_wire_pack_request(const struct lls_wire *w, const struct lls_live *live,
                           struct lls_pack *p)
{
  struct numbers n;
  struct arrays a = arrays_of(live);
  fill(&n, live);
  move_times(&n, w->ahead_ns);
  if (n.move.mail != LLS_MAIL_OFFER)
    n.move.blocks = (struct lls_block_lists){0};
  walk(&(struct lls_pack_walk){.out = p}, w, &n, &a);
}

/* ---- unpacking --------------------------------------------------------------------- */

static bool take(const struct lls_wire *w, struct lls_unpack *u, struct numbers *n,
                 struct arrays *a)
{
  walk(&(struct lls_pack_walk){.in = u}, w, n, a);
  return !u->failed && n->max_length >= lls_request_length(&n->view) &&
         n->session_bytes <= LLS_GUEST_NAME_BYTES;
}

/* Copies the tokens. Those that the request has already are not rewritten, since other
 * threads may be reading them. */
static void set_tokens(struct lls_live *live, const struct numbers *n,
                       const struct arrays *a)
{
  uint32_t known = lls_request_length(&live->view), all = lls_request_length(&n->view);
  if (all > known)
    memcpy(live->tokens + known, (const int32_t *)a->tokens + known,
           (all - known) * sizeof *live->tokens);
}

static void set_grammar_state(struct lls_live *live)
{
  struct lls_constraint *c = &live->constraint;
  const struct lls_request *v = &live->view;
  if (c->grammar == NULL)
    return;
  lls_grammar_state_init(c->state, c->grammar);
  c->progress = (struct lls_mask_progress){0};
  c->spent = c->cost = 0;
  c->whole = c->postponed = false;
  c->failed = 0;
  for (uint32_t i = 0; i < v->generated_tokens; i++)
    lls_grammar_accept_token(c->state, live->tokens[v->prompt_tokens + i]);
}

static void set_numbers(struct lls_live *live, const struct numbers *n)
{
  struct lls_sampling sampling = n->sampling;
  sampling.bias = live->sampling.bias;
  sampling.history = live->sampling.history;
  sampling.banned = NULL;
  sampling.allowed = NULL;
  live->sampling = sampling;
  const char *tenant_name = live->view.tenant_name;
  const char *adapter_name = live->view.adapter_name;
  live->view = n->view;
  live->view.tokens = live->tokens;
  live->view.label = live->label;
  live->view.tenant_name = tenant_name;
  live->view.adapter_name = adapter_name;
  live->view.keys = live->keys.all;
  live->view.expected = NULL; /* is not sent */
  live->view.n_expected = 0;
  live->view.user = live->user;
  live->view.drafts = live->drafts; /* guesses stay behind */
  live->view.draft_odds = live->draft_odds;
  live->view.drafted_tokens = 0;
  live->drafted = n->drafted;
  live->accepted = n->accepted;
  live->session = NULL; /* the instance that takes the request sets it */
  live->view.session = NULL;
  live->life = n->life;
  live->first_token_ns = n->first_token_ns;
  live->n_scored = n->n_scored;
  live->n_pooled = n->n_pooled;
  live->prefix_tokens = n->prefix_tokens;
  live->finds_prefixes = n->finds_prefixes;
  memset(live->user, 0, sizeof live->user);
  live->announced = live->drafter_knows = live->doomed = false;
  live->named_in_step = 0;
}

/* Copies the block lists, if the request has memory for lists. */
static bool set_move(struct lls_live *live, const struct numbers *n,
                     const struct arrays *a)
{
  struct lls_move *m = &live->move;
  struct lls_block_entry *entries = m->entries;
  uint32_t max_entries = m->max_entries;
  *m = n->move;
  m->entries = entries;
  m->max_entries = max_entries;
  m->mailed_ns = LLS_NEVER;
  m->incoming = false;
  size_t used = lls_lists_entries(&m->blocks);
  if (used > max_entries || m->blocks.n_groups > LLS_MAX_GROUPS)
    return false;
  if (used > 0)
    memcpy(entries, a->entries, used * sizeof *entries);
  lls_lists_move(&m->blocks, entries);
  return true;
}

static bool set(const struct lls_wire *w, struct lls_live *live, struct numbers *n,
                const struct arrays *a)
{
  /* a request that has shown tokens has shown its prompt's scores, too */
  bool shown = live->view.generated_tokens > 0;
  move_times(n, -w->ahead_ns);
  set_tokens(live, n, a);
  set_numbers(live, n);
  lls_live_name_blocks(live);
  if (n->scores && n->n_scored > 0 && !shown)
    memcpy(live->scores, a->scores, n->n_scored * sizeof *live->scores);
  if (n->pooled)
    memcpy(live->pooled, a->pooled, w->live.vector_columns * sizeof *live->pooled);
  set_grammar_state(live);
  return set_move(live, n, a);
}

/* Makes the request's submission. The arrays are as aligned as the malloc'ed message, up
 * to the text: the size of each one before it is a multiple of 4 bytes. */
/* Returns the breakers, which are copied from the message. */
static struct lls_dry_breakers breakers_of(const struct numbers *n,
                                           const struct arrays *a)
{
  return (struct lls_dry_breakers){
      .tokens = n->dry_tokens ? (uint32_t *)(uintptr_t)a->dry_tokens : NULL,
      .sequences = (int32_t *)(uintptr_t)a->dry_sequences,
      .n_sequences = n->n_dry_sequences};
}

/* Finds the request's grammar and adapter here; the caller has a reference to each. */
static int find_parts(const struct lls_wire *w, const struct numbers *n,
                      const struct arrays *a, struct lls_grammar **grammar,
                      struct lls_lora **lora, struct lls_error *err)
{
  int rc = 0;
  if (n->path_bytes > 0)
    rc = w->adapter != NULL
             ? w->adapter(w->adapter_context, a->path, n->adapter_digest, lora, err)
             : lls_fail(err, -ENOTSUP, "there are no adapters here");
  if (rc == 0 && n->key_bytes > 0)
    rc = w->grammar != NULL
             ? w->grammar(w->grammar_context, a->key, n->key_bytes, grammar, err)
             : lls_fail(err, -ENOTSUP, "grammars cannot be compiled here");
  return rc;
}

static struct lls_live *create(const struct lls_wire *w, const struct numbers *n,
                               const struct arrays *a, struct lls_grammar *grammar)
{
  const struct lls_submission s = {
      .tokens = a->tokens,
      .n_tokens = n->view.prompt_tokens,
      .text = n->has_text ? a->text : NULL,
      .text_bytes = n->text_bytes,
      .label = a->label,
      .tenant_name = a->tenant,
      .adapter_name = a->adapter,
      .salted = n->salted,
      .sampling = {.bias = a->bias,
                   .n_bias = n->sampling.n_bias,
                   .allowed = n->allowed ? a->allowed : NULL},
      .dry = n->dry,
      .thought = n->thought,
      .dry_breakers = breakers_of(n, a),
      .grammar = grammar,
      .min_new_tokens = n->min_new_tokens,
      .stop_tokens = a->stop_tokens,
      .n_stop_tokens = n->n_stop_tokens,
      .bad_words = a->bad_words,
      .n_bad_words = n->n_bad_words,
      .ignore_eos = true, /* the model's EOS tokens are among stop_tokens */
      .reports_progress = n->reports_progress,
      .score_prompt = n->scores,
      .score_logprobs = n->score_logprobs,
      .pooling = n->pooling,
      .second_text = n->second_text,
  };
  return lls_live_create(&s, &w->live, n->view.id, n->view.slot,
                         n->max_length - n->view.prompt_tokens, 0);
}

struct lls_live *lls_wire_new_request(const struct lls_wire *w, struct lls_unpack *u,
                                      struct lls_error *err)
{
  struct numbers n;
  struct arrays a;
  struct lls_grammar *grammar = NULL;
  struct lls_lora *lora = NULL;
  if (!take(w, u, &n, &a)) {
    lls_fail(err, -EPROTO, "a request came in pieces");
    return NULL;
  }
  int rc = find_parts(w, &n, &a, &grammar, &lora, err);
  struct lls_live *live = rc == 0 ? create(w, &n, &a, grammar) : NULL;
  lls_grammar_unref(grammar);
  if (live == NULL) {
    lls_lora_unref(lora);
    if (rc == 0)
      lls_fail(err, -ENOMEM, "out of memory for a request of %u tokens", n.max_length);
    return NULL;
  }
  if (n.session != 0 && w->guests != NULL)
    live->sessions =
        lls_guests_find(w->guests, n.session, n.view.tenant, a.session, n.session_bytes);
  live->lora = lora; /* the keys came with it */
  live->lora_scale = n.adapter_scale;
  if (!set(w, live, &n, &a)) {
    lls_live_free(live);
    lls_fail(err, -EPROTO, "a request came with more blocks than it can have");
    return NULL;
  }
  return live;
}

bool lls_wire_update_request(const struct lls_wire *w, struct lls_unpack *u,
                             struct lls_live *live)
{
  struct numbers n;
  struct arrays a;
  if (!take(w, u, &n, &a) || n.view.id != live->view.id ||
      n.max_length != live->max_length)
    return false;
  return set(w, live, &n, &a);
}

void lls_wire_set_mail(char *packed, uint32_t mail)
{
  struct numbers n;
  memcpy(&n, packed, sizeof n);
  n.move.mail = mail;
  n.move.refusal = 0; /* process 0 sends it, which refuses none */
  memcpy(packed, &n, sizeof n);
}
