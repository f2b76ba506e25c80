/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that keep to a grammar. Masks are filled while the device computes the forward
 * pass of their step, if it computes beside this thread, and tokens are taken as they are
 * committed. Where a text is whole and nothing but its end can follow, it ends without
 * the model being asked for that.
 */
#include "core/loop/instance.h"

#include <errno.h>

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

void lls_constraint_fill_masks(void *context)
{
  struct lls_instance *in = context;
  LLS_ON_STEP(in);
  for (uint32_t i = 0; i < in->batch.n; i++) {
    struct lls_constraint *c = &in->batch.live[i]->constraint;
    if (c->grammar == NULL || in->batch.sequences[i].sampling == NULL)
      continue;
    int rc = lls_grammar_fill_mask(c->state, c->mask);
    c->failed = rc > 0 ? 0 : rc < 0 ? rc : -ENOENT;
  }
}

static const char *why(int rc)
{
  switch (rc) {
  case -ENOENT:
    return "no token of the vocabulary can follow";
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
  if (rc < 0)
    return fail(in, live, rc);
  return lls_grammar_complete(c->state) ? 1 : 0;
}

bool lls_constraint_hides(const struct lls_instance *in, const struct lls_live *live,
                          int32_t token)
{
  LLS_ON_STEP(in);
  const struct lls_constraint *c = &live->constraint;
  return c->grammar != NULL &&
         lls_vocabulary_ends(lls_grammar_vocabulary(c->grammar), token);
}
