/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that keep to a grammar. Masks are filled while the device computes the forward
 * pass of their step, if it computes beside this thread, and tokens are taken as they are
 * committed. What can only follow is not asked of the model: tokens are appended as if
 * they had been drawn, and computed in the next step together (jump-ahead); where a text
 * is whole and nothing but its end can follow, it ends.
 *
 * The first masks of a grammar take walks of the vocabulary, and all of an ambiguous one
 * are long ways. A step does limits.mask_work for all its requests together, in the units
 * of lls_grammar_fill_mask_some, and no more; what a piece took beyond it, later steps
 * have less. A request whose mask is not whole by then draws nothing, and goes on in a
 * later step, so that the others do not wait for it. Each has LLS_MASK_FREE besides, for
 * which most masks are made, unless its last token took more: then it waits for its turn
 * among its like. Work of a request that is gone was never begun.
 *
 * A request that asks for logprobs does not jump, since the model has to be asked how
 * likely each token was; its answer is the same.
 */
#include "core/loop/instance.h"

#include "core/base/least.h"

#include <errno.h>
#include <string.h>

#define LONGEST_JUMP  64   /* tokens; more of them come with the next token */
#define LLS_MASK_FREE 4000 /* units: some 40 us; 9 in 10 masks of schemas take 10 us */
#define LLS_UNIT_NS   10
#define MOST_AT_ONCE  200000 /* units, where a draw cannot wait: two milliseconds */
#define MOST_DEBT     32 /* steps' limits: a piece that takes longer is forgiven in part */

int lls_constraint_check(const struct lls_grammar *grammar, uint32_t vocabulary,
                         uint32_t prompt_tokens, struct lls_error *err)
{
  uint32_t size = grammar != NULL ? lls_grammar_vocabulary(grammar)->size : vocabulary;
  if (size != vocabulary)
    return lls_fail(err, -EINVAL,
                    "the grammar is for a vocabulary of %u, the model's has %u", size,
                    vocabulary);
  if (grammar != NULL && prompt_tokens == 1 &&
      lls_grammar_first_work(grammar) > MOST_AT_ONCE)
    return lls_fail(
        err, -EINVAL,
        "the grammar's first token takes much work, for which only a prompt of "
        "two tokens or more can wait");
  return 0;
}

/* Lists may forbid the tokens that were chosen for a forced text, and allow others. */
static bool may_force(const struct lls_live *live)
{
  return live->allowed == NULL && live->n_bad_words == 0;
}

/* True if the next token is forced; then it alone is in the mask, so that an answer has
 * the same tokens where it may not jump. */
static bool forces(struct lls_live *live)
{
  struct lls_constraint *c = &live->constraint;
  const struct lls_vocabulary *v = lls_grammar_vocabulary(c->grammar);
  int32_t token;
  if (lls_grammar_forced(c->state, &token, 1) < 1 || lls_live_stops_at(live, token))
    return false;
  memset(c->mask, 0, lls_vocabulary_words(v) * sizeof *c->mask);
  c->mask[token / 32] |= 1u << (token % 32);
  return true;
}

/* Nothing is drawn in this step: its last token is computed once more in the next. It is
 * not the only one, or there would be no cache that goes on. */
static bool may_postpone(const struct lls_instance *in, const struct lls_live *live)
{
  return in->caps.chunked_prefill && live->context + live->run_tokens > 1;
}

/* Its work is in free units, or it waits for its turn. */
static bool is_light(const struct lls_instance *in, const struct lls_constraint *c)
{
  uint64_t free_units = lls_least_u64(LLS_MASK_FREE, (uint64_t)in->limits.mask_work);
  return in->limits.mask_work == 0 || lls_most_u64(c->cost, c->spent) < free_units;
}

/* Returns the request's work since then. */
static uint64_t note_work(struct lls_instance *in, struct lls_constraint *c,
                          uint64_t before)
{
  uint64_t took = lls_grammar_state_work(c->state) - before;
  c->spent += took;
  in->status.grammar_work += took;
  return took;
}

/* Within so many units; how many it took. */
static uint64_t fill_mask(struct lls_instance *in, struct lls_live *live, uint64_t work)
{
  struct lls_constraint *c = &live->constraint;
  const uint64_t before = lls_grammar_state_work(c->state);
  bool begun = c->progress.work > 0;
  int rc = !begun && may_force(live) && forces(live)
               ? 1
               : lls_grammar_fill_mask_some(c->state, c->mask, &c->progress, &work);
  c->postponed = rc == -EAGAIN;
  c->failed = rc < 0 && !c->postponed ? rc : 0;
  if (rc >= 0)
    live->exhausted =
        !lls_lists_cut(in, live, c->mask, lls_grammar_vocabulary(c->grammar)->size);
  return note_work(in, c, before);
}

/* Takes off what a request took beyond its free units, and what no step has as yet from
 * steps to come. */
static void charge(struct lls_instance *in, uint64_t *left, uint64_t took)
{
  uint64_t limit = (uint64_t)in->limits.mask_work;
  uint64_t most = MOST_DEBT * limit, beyond = took - lls_least_u64(took, *left);
  *left -= lls_least_u64(*left, took);
  if (limit > 0)
    in->mask_debt = lls_least_u64(in->mask_debt + beyond, most);
}

/* Returns the units of this step: no limit, or the limit less some of the debt. Steps of
 * a small model are short: they grow by some half and not more. */
static uint64_t begin_step(struct lls_instance *in)
{
  uint64_t half = (uint64_t)in->device_ns / (2 * LLS_UNIT_NS);
  uint64_t limit =
      lls_least_u64((uint64_t)in->limits.mask_work, lls_most_u64(half, LLS_MASK_FREE));
  uint64_t paid = lls_least_u64(in->mask_debt, limit);
  in->mask_debt -= paid;
  return limit > 0 ? limit - paid : UINT64_MAX;
}

static void fill_light(struct lls_instance *in, struct lls_live *live, uint64_t *left)
{
  uint64_t more = *left < UINT64_MAX - LLS_MASK_FREE ? LLS_MASK_FREE : 0;
  uint64_t most = may_postpone(in, live) ? *left + more : UINT64_MAX;
  uint64_t took = fill_mask(in, live, most);
  charge(in, left, took - lls_least_u64(took, more));
}

static void fill_heavy(struct lls_instance *in, struct lls_live *live, uint64_t *left)
{
  bool may = may_postpone(in, live);
  live->constraint.postponed = may && *left == 0;
  if (!live->constraint.postponed)
    charge(in, left, fill_mask(in, live, may ? *left : UINT64_MAX));
}

/* First those with little work, in free units or beyond; then the others, another one
 * first in each step. */
void lls_constraint_fill_masks(void *context)
{
  struct lls_instance *in = context;
  const struct lls_step_batch *b = &in->batch;
  uint64_t left = begin_step(in);
  uint32_t first = b->n > 0 ? (uint32_t)(in->step % b->n) : 0;
  LLS_ON_STEP(in);
  for (int heavy = 0; heavy <= 1; heavy++)
    for (uint32_t i = 0; i < b->n; i++) {
      uint32_t at = heavy ? (first + i) % b->n : i;
      struct lls_constraint *c = &b->live[at]->constraint;
      if (c->grammar == NULL || b->sequences[at].sampling == NULL)
        continue;
      if (!heavy)
        c->waits = !is_light(in, c);
      if (heavy && c->waits)
        fill_heavy(in, b->live[at], &left);
      else if (!heavy && !c->waits)
        fill_light(in, b->live[at], &left);
      in->status.postponed_draws += heavy && c->postponed;
    }
}

static const char *why(int rc)
{
  switch (rc) {
  case -E2BIG:
    return "the grammar is too ambiguous, or nested too deeply: its next token takes "
           "more "
           "work than any may";
  default:
    return "the token that was drawn cannot follow";
  }
}

static int fail(struct lls_instance *in, const struct lls_live *live, int rc)
{
  lls_log(in->log, LLS_LOG_WARNING, "grammar",
          "request %s: after %u tokens of its answer %s", live->label,
          live->view.generated_tokens, why(rc));
  return rc;
}

/* Charges work that cannot wait. */
static void owe(struct lls_instance *in, uint64_t took)
{
  uint64_t nothing = 0;
  charge(in, &nothing, took - lls_least_u64(took, LLS_MASK_FREE));
}

int lls_constraint_take(struct lls_instance *in, struct lls_live *live, int32_t token)
{
  struct lls_constraint *c = &live->constraint;
  LLS_ON_STEP(in);
  if (c->grammar == NULL)
    return 0;
  const uint64_t before = lls_grammar_state_work(c->state);
  int rc = c->failed != 0 ? c->failed : lls_grammar_accept_token(c->state, token);
  owe(in, note_work(in, c, before));
  c->cost = c->spent;
  c->spent = 0;
  c->failed = rc;
  return rc < 0 ? fail(in, live, rc) : 0;
}

bool lls_constraint_complete(const struct lls_instance *in, const struct lls_live *live)
{
  const struct lls_constraint *c = &live->constraint;
  LLS_ON_STEP(in);
  return c->grammar != NULL && lls_grammar_complete(c->state);
}

static bool may_jump(const struct lls_instance *in, const struct lls_live *live)
{
  return live->constraint.grammar != NULL && is_light(in, &live->constraint) &&
         in->limits.jump_ahead && in->caps.chunked_prefill && in->caps.mixed_batch &&
         !live->sampling.want_logprob && may_force(live);
}

uint32_t lls_constraint_jump(struct lls_instance *in, struct lls_live *live)
{
  const struct lls_request *v = &live->view;
  struct lls_constraint *c = &live->constraint;
  int32_t *tokens = live->tokens + lls_request_length(v);
  LLS_ON_STEP(in);
  if (!may_jump(in, live))
    return 0;
  const uint64_t before = lls_grammar_state_work(c->state);
  uint32_t room = lls_least_u32(LONGEST_JUMP, v->max_new_tokens - v->generated_tokens);
  int found = lls_grammar_forced(c->state, tokens, room);
  uint32_t n = 0;
  while ((int)n < found && !lls_live_stops_at(live, tokens[n]) &&
         lls_grammar_accept_token(c->state, tokens[n]) == 0)
    n++;
  owe(in, note_work(in, c, before));
  return n;
}

bool lls_constraint_hides(const struct lls_instance *in, const struct lls_live *live,
                          int32_t token)
{
  LLS_ON_STEP(in);
  const struct lls_constraint *c = &live->constraint;
  return c->grammar != NULL &&
         lls_vocabulary_ends(lls_grammar_vocabulary(c->grammar), token);
}
