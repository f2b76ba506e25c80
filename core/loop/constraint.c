/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that keep to a grammar. Masks are filled while the device computes the forward
 * pass of their step, if it computes beside this thread, and tokens are taken as they are
 * committed. What can only follow is not asked of the model: tokens are appended as if
 * they had been drawn, and computed in the next step together (jump-ahead); where a text
 * is whole and nothing but its end can follow, it ends.
 *
 * The first mask of a place in a grammar may take a walk of the vocabulary. A step walks
 * so much and no more (limits.mask_work): a request whose mask is not whole by then draws
 * nothing, and goes on in the next step, so that the others do not wait for it.
 *
 * A request that asks for logprobs does not jump, since the model has to be asked how
 * likely each token was; its answer is the same.
 */
#include "core/loop/instance.h"

#include "core/base/least.h"

#include <errno.h>
#include <string.h>

#define LONGEST_JUMP 64 /* tokens; more of them come with the next token */

int lls_constraint_check(const struct lls_grammar *grammar, uint32_t vocabulary,
                         struct lls_error *err)
{
  uint32_t size = grammar != NULL ? lls_grammar_vocabulary(grammar)->size : vocabulary;
  return size == vocabulary
             ? 0
             : lls_fail(err, -EINVAL,
                        "the grammar is for a vocabulary of %u, the model's has %u", size,
                        vocabulary);
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

/* Nothing is drawn in this step: its last token is computed once more in the next. */
static bool may_postpone(const struct lls_instance *in, const struct lls_live *live)
{
  return in->caps.chunked_prefill && live->context + live->run_tokens > 1;
}

static void fill_mask(const struct lls_instance *in, struct lls_live *live,
                      uint64_t *work)
{
  struct lls_constraint *c = &live->constraint;
  uint64_t unbounded = UINT64_MAX;
  int rc = may_force(live) && forces(live)
               ? 1
               : lls_grammar_fill_mask_some(c->state, c->mask, &c->progress,
                                            may_postpone(in, live) ? work : &unbounded);
  c->postponed = rc == -EAGAIN;
  c->failed = rc < 0 && !c->postponed ? rc : 0;
  if (rc >= 0)
    live->exhausted =
        !lls_lists_cut(in, live, c->mask, lls_grammar_vocabulary(c->grammar)->size);
}

void lls_constraint_fill_masks(void *context)
{
  struct lls_instance *in = context;
  uint64_t work = in->limits.mask_work > 0 ? (uint64_t)in->limits.mask_work : UINT64_MAX;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->batch.n; i++) {
    struct lls_live *live = in->batch.live[i];
    if (live->constraint.grammar != NULL && in->batch.sequences[i].sampling != NULL)
      fill_mask(in, live, &work);
  }
}

static const char *why(int rc)
{
  switch (rc) {
  case -E2BIG:
    return "the grammar is too ambiguous, or nested too deeply";
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
  int rc = c->failed != 0 ? c->failed : lls_grammar_accept_token(c->state, token);
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
  return live->constraint.grammar != NULL && in->limits.jump_ahead &&
         in->caps.chunked_prefill && in->caps.mixed_batch &&
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
  uint32_t room = lls_least_u32(LONGEST_JUMP, v->max_new_tokens - v->generated_tokens);
  int found = lls_grammar_forced(c->state, tokens, room);
  uint32_t n = 0;
  while ((int)n < found && !lls_live_stops_at(live, tokens[n]) &&
         lls_grammar_accept_token(c->state, tokens[n]) == 0)
    n++;
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
