/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the fragments of states: the vocabulary's trie is walked in the state's rule
 * alone. If the rule ends inside a token, and the next byte may follow the rule
 * anywhere in the grammar, the rest of the token becomes a suffix. A fragment is built
 * in pieces, since the step thread waits for each piece.
 */
#include "text/grammar/fragment.h"

#include "text/grammar/fragment_draft.h"
#include "text/grammar/fragment_store.h"
#include "text/grammar/fragment_walks.h"
#include "text/grammar/trie_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES (16u << 20) /* a grammar: some hundred fragments of large masks */

#define MOST_WORK 2000000 /* work of the stacks for one fragment: some 20 ms */

/* a marker by its address: the state has no fragment */
static const struct lls_fragment none;

int lls_fragments_create(struct lls_fragments *f, struct lls_dfa *dfa,
                         const struct lls_vocabulary *vocabulary)
{
  *f = (struct lls_fragments){.dfa = dfa, .vocabulary = vocabulary};
  f->of_state = calloc(dfa->capacity, sizeof(struct lls_fragment *));
  f->stays = calloc(dfa->nfa->n_rules, sizeof *f->stays);
  f->job = calloc(1, sizeof *f->job);
  f->walk = lls_walk_memory_create();
  int rc = f->of_state == NULL || f->stays == NULL || f->job == NULL || f->walk == NULL
               ? -ENOMEM
               : 0;
  if (rc == 0)
    rc = lls_stacks_create(&f->stacks, dfa);
  if (rc == 0)
    rc = lls_fragment_memory_create(&f->memory, MEMORY_BYTES);
  if (rc == 0)
    rc = lls_draft_create(&f->draft, vocabulary);
  if (rc < 0)
    lls_fragments_free(f);
  return rc;
}

void lls_fragments_free(struct lls_fragments *f)
{
  free(f->of_state);
  free(f->stays);
  free(f->job);
  free(f->walk);
  lls_stacks_free(&f->stacks);
  free(f->memory.base);
  lls_draft_free(f->draft);
  *f = (struct lls_fragments){0};
}

size_t lls_fragments_bytes(const struct lls_fragments *f)
{
  return f->memory.used + f->dfa->n_states * sizeof(struct lls_fragment *);
}

/* ---- building a fragment ----------------------------------------------------------- */

static const struct lls_fragment *copy(struct lls_fragments *f)
{
  const struct lls_fragment *done = lls_draft_copy(f->draft, &f->memory);
  if (done != NULL)
    return done;
  f->memory.used = 0; /* cleared as a whole; fragments still needed are built again */
  f->cleared++;
  memset(f->of_state, 0, f->dfa->n_states * sizeof(struct lls_fragment *));
  return lls_draft_copy(f->draft, &f->memory);
}

static const struct lls_nfa_rule *rule_of(const struct lls_fragments *f, uint32_t state)
{
  return &f->dfa->nfa->rules[f->dfa->states[state].rule];
}

static void begin(struct lls_fragments *f, uint32_t state, bool repeats, bool brief)
{
  *f->job = (struct lls_fragment_job){.active = true,
                                      .repeats = repeats,
                                      .brief = brief,
                                      .state = state,
                                      .node = 1,
                                      .most = f->stacks.work + MOST_WORK};
  lls_draft_begin(f->draft, repeats);
}

static void begin_repetition(struct lls_fragments *f, uint32_t state)
{
  struct lls_fragment_key key;
  if (lls_fragment_key_of(f->dfa, state, &key))
    f->of_state[state] = lls_fragment_store_find(f->vocabulary->fragments, &key);
  if (f->of_state[state] == NULL)
    begin(f, state, true, false);
}

/* Begins with the lender's own fragment if that is not known yet. */
static void begin_rule(struct lls_fragments *f, uint32_t state)
{
  struct lls_loan loan;
  bool lends = lls_loan_find(f->dfa, state, &loan);
  f->job->active = false;
  if (lends && !lls_fragment_is_known(f, loan.start))
    begin_repetition(f, loan.start);
  if (f->job->active)
    return;
  begin(f, state, false, false);
  if (!lends)
    return;
  const struct lls_fragment *lender = lls_fragment_of(f, loan.start);
  if (lender != NULL && lender->counts && lender->bits[LLS_FRAGMENT_CUTS - 1] != NULL)
    loan.fragment = lender;
  f->job->loan = loan;
}

static void begin_any(struct lls_fragments *f, uint32_t state)
{
  const struct lls_nfa_rule *rule = rule_of(f, state);
  if (rule->counted && !rule->calls)
    begin_repetition(f, state);
  else
    begin_rule(f, state);
}

/* Brief fragments are not shared: they depend on the grammar's bounds. */
static const struct lls_fragment *complete(struct lls_fragments *f,
                                           const struct lls_fragment_job *job)
{
  struct lls_fragment_key key;
  const struct lls_fragment *done = NULL;
  if (f->draft->full || f->stacks.full || f->dfa->full)
    return &none;
  if (job->repeats && !job->brief && lls_fragment_key_of(f->dfa, job->state, &key))
    done = lls_fragment_store_add(f->vocabulary->fragments, &key, f->draft);
  if (done == NULL)
    done = copy(f);
  return done != NULL ? done : &none;
}

/* Continues the job. Returns false if the work limit was reached. */
static bool go_on(struct lls_fragments *f, uint64_t until)
{
  struct lls_fragment_job *job = f->job;
  f->stacks.full = false;
  f->stacks.most = job->most;
  enum lls_walked walked = job->repeats ? lls_fragment_walk_repetition(f, job, until)
                                        : lls_fragment_walk_rule(f, job, until);
  if (walked == LLS_WALKED_SOME)
    return false;
  bool endless = rule_of(f, job->state)->max == LLS_GRAMMAR_UNBOUNDED;
  if (walked == LLS_WALKED_UNCLEAR) {
    begin_rule(f, job->state);
  } else if (f->draft->full && job->repeats && !job->brief && endless) {
    begin(f, job->state, true, true);
  } else {
    job->active = false;
    const struct lls_fragment *done = complete(f, job);
    f->of_state[job->state] = done;
  }
  return true;
}

bool lls_fragment_make(struct lls_fragments *f, uint32_t state, uint64_t until)
{
  bool goes_on = true;
  while (goes_on && !lls_fragment_is_known(f, state)) {
    if (!f->job->active)
      begin_any(f, state);
    goes_on = !f->job->active || go_on(f, until);
  }
  return goes_on;
}

const struct lls_fragment *lls_fragment_of(const struct lls_fragments *f, uint32_t state)
{
  return f->of_state[state] != &none ? f->of_state[state] : NULL;
}
