/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that must match a grammar. Masks are filled while the device computes the
 * forward pass of their step, if the device computes asynchronously; the grammar
 * advances as tokens are committed. Forced tokens (the only ones that can follow) are
 * not asked of the model: they are appended as if they had been drawn, and computed
 * together in the next step (jump-ahead). An answer that is complete and can only end,
 * ends.
 *
 * The first masks of a grammar need long walks of the vocabulary, and so does every mask
 * of an ambiguous grammar: mask_turns.c spreads this work over steps.
 *
 * A request with logprobs does not jump, since the model has to say how likely each
 * token was; its answer is the same.
 */
#include "core/step/constraint.h"

#include <errno.h>
#include <string.h>

#include "core/base/error.h"
#include "core/base/least.h"
#include "core/instance/instance.h"
#include "core/instance/lists.h"
#include "core/instance/request.h"
#include "core/obs/log.h"

#define LONGEST_JUMP 64     /* tokens; further ones follow the next draw */
#define MOST_AT_ONCE 200000 /* units, 2 ms: for a draw that cannot be postponed */

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

/* Returns false if the request has lists: they may forbid the tokens chosen for a forced
 * text, and allow others that spell it. */
static bool may_force(const struct lls_live *live)
{
  return live->allowed == NULL && live->n_bad_words == 0;
}

/* Returns true if the token after a state of the answer's grammar is forced. The mask
 * then has this token alone, so that an answer has the same tokens where it may not jump.
 */
static bool forces(const struct lls_live *live, struct lls_grammar_state *state,
                   uint32_t *mask)
{
  const struct lls_vocabulary *v = lls_grammar_vocabulary(live->constraint.grammar);
  int32_t token;
  if (!may_force(live) || lls_grammar_forced(state, &token, 1) < 1 ||
      lls_live_stops_at(live, token))
    return false;
  memset(mask, 0, lls_vocabulary_words(v) * sizeof *mask);
  mask[token / 32] |= 1u << (token % 32);
  return true;
}

/* Counts the work since `before` and returns it. */
static uint64_t note_work(struct lls_instance *in, struct lls_constraint *c,
                          uint64_t before)
{
  uint64_t took = lls_grammar_state_work(c->state) - before;
  c->spent += took;
  in->status.grammar_work += took;
  return took;
}

uint64_t lls_constraint_fill(struct lls_instance *in, struct lls_live *live,
                             uint64_t work)
{
  struct lls_constraint *c = &live->constraint;
  LLS_ON_STEP(in);
  if (c->whole)
    return 0;
  const uint64_t before = lls_grammar_state_work(c->state);
  bool begun = c->progress.work > 0;
  int rc = !begun && forces(live, c->state, c->mask)
               ? 1
               : lls_grammar_fill_mask_some(c->state, c->mask, &c->progress, &work);
  c->whole = rc != -EAGAIN;
  c->failed = rc < 0 && c->whole ? rc : 0;
  return note_work(in, c, before);
}

void lls_constraint_cut(struct lls_instance *in, struct lls_live *live)
{
  struct lls_constraint *c = &live->constraint;
  LLS_ON_STEP(in);
  if (c->failed == 0)
    live->exhausted =
        !lls_lists_cut(in, live, 0, c->mask, lls_grammar_vocabulary(c->grammar)->size);
}

bool lls_constraint_fill_ahead(struct lls_instance *in, const struct lls_live *live,
                               struct lls_grammar_state *state, uint32_t ahead,
                               uint32_t *mask, uint64_t *spent)
{
  const uint64_t before = lls_grammar_state_work(state);
  uint64_t work = in->limits.mask_work == 0 ? UINT64_MAX : LLS_MASK_FREE;
  struct lls_mask_progress progress = {0};
  LLS_ON_STEP(in);
  int rc = forces(live, state, mask)
               ? 1
               : lls_grammar_fill_mask_some(state, mask, &progress, &work);
  uint64_t took = lls_grammar_state_work(state) - before;
  in->status.grammar_work += took;
  *spent += took;
  return rc >= 0 && lls_lists_cut(in, live, ahead, mask,
                                  lls_grammar_vocabulary(live->constraint.grammar)->size);
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

int lls_constraint_take(struct lls_instance *in, struct lls_live *live, int32_t token)
{
  struct lls_constraint *c = &live->constraint;
  LLS_ON_STEP(in);
  if (c->grammar == NULL)
    return 0;
  const uint64_t before = lls_grammar_state_work(c->state);
  int rc = c->failed != 0 ? c->failed : lls_grammar_accept_token(c->state, token);
  lls_masks_owe(in, note_work(in, c, before));
  c->cost = c->spent;
  c->spent = 0;
  c->whole = false;
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
  return live->constraint.grammar != NULL && lls_masks_are_light(in, live) &&
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
  lls_masks_owe(in, note_work(in, c, before));
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
