/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scheduler of tests that guesses: it gives each decoding request guesses of its next
 * tokens and has them verified. It takes the place of a loaded scheduler's callbacks. It
 * runs all that fits, in order of arrival, and preempts the newest request where memory
 * is short.
 */
#ifndef LLS_T_DRAFTING_H
#define LLS_T_DRAFTING_H

#include "core/instance/instance.h"
#include "core/instance/request.h"
#include "core/loop/loop_internal.h"
#include "core/step/drafts.h"
#include "t/clients.h"
#include "t/dice.h"

#define DRAFTING_MAX    7 /* guesses */
#define DRAFTING_ANSWER 64

struct answer { /* of a request */
  int32_t tokens[DRAFTING_ANSWER];
  struct lls_sampled drawn[DRAFTING_ANSWER];
  uint32_t n_tokens, n_prompt, finished, reason, preemptions;
  uint64_t drafted, accepted, id;
};

enum drafting_kind {
  DRAFTING_NONE,
  DRAFTING_ORACLE,  /* the text of the run without guesses */
  DRAFTING_MIXED,   /* the oracle's, with one wrong token at a random place */
  DRAFTING_HOSTILE, /* any numbers, also such that are no tokens */
  DRAFTING_REPEAT,  /* the last token again and again */
};

struct drafting {
  struct harness *harness;
  enum drafting_kind kind;
  const struct answer *texts; /* answers that the oracle knows, by label */
  uint32_t max;               /* guesses a request; 0: DRAFTING_MAX */
  uint32_t chunk;             /* most tokens of a prompt in a step */
  uint32_t preempt_every;     /* steps; 0: only where memory is short */
  uint32_t preempt_mode;
  uint32_t form; /* enum lls_form of all runs; 0: the manager's choice */
  struct dice dice;
  bool is_short; /* a request did not get memory in the last step */
  uint32_t step;
  uint64_t offered; /* guesses */
};

static struct drafting drafting;

static inline void drafting_event(void *context, const struct lls_event *event)
{
  struct answer *a = event->owner;
  (void)context;
  assert_int_equal(a->finished, 0); /* no event follows the end */
  if (event->kind == LLS_EVENT_TOKEN) {
    assert_true(a->n_tokens + event->n_forced < DRAFTING_ANSWER);
    lls_sampled_copy(&a->drawn[a->n_tokens], &event->token);
    a->tokens[a->n_tokens++] = event->token.token;
    for (uint32_t i = 0; i < event->n_forced; i++)
      a->tokens[a->n_tokens++] = event->forced[i];
    return;
  }
  a->finished++;
  a->reason = event->reason;
  a->preemptions = event->preemptions;
  a->drafted = event->drafted_tokens;
  a->accepted = event->accepted_tokens;
}

/* Runs all requests to their end; returns the steps. */
static inline uint32_t drafting_serve(struct harness *h)
{
  uint32_t steps = 0;
  for (; steps < 20000 && !lls_loop_idle(h->loop); steps++) {
    assert_true(lls_loop_step(h->loop) >= 0);
    lls_loop_events(h->loop, drafting_event, NULL);
  }
  assert_true(lls_loop_idle(h->loop));
  return steps;
}

static inline uint32_t drafting_guess(struct drafting *d, const struct lls_request *r,
                                      int32_t *out)
{
  uint32_t most = d->max > 0 ? d->max : DRAFTING_MAX, n = 0;
  uint32_t wrong = dice(&d->dice, 0, most - 1);
  const struct answer *text = d->texts != NULL ? &d->texts[atoi(r->label)] : NULL;
  for (; n < most; n++) {
    uint32_t at = r->generated_tokens + n;
    switch (d->kind) {
    case DRAFTING_ORACLE:
    case DRAFTING_MIXED:
      if (at >= text->n_tokens)
        return n;
      out[n] = text->tokens[at];
      if (d->kind == DRAFTING_MIXED && n == wrong)
        out[n] ^= 1;
      break;
    case DRAFTING_REPEAT:
      out[n] = r->tokens[lls_request_length(r) - 1];
      break;
    default:
      out[n] = (int32_t)dice(&d->dice, 0, 300) - 5;
    }
  }
  return n;
}

static inline uint32_t drafting_offer(struct drafting *d, const struct lls_request *r)
{
  struct lls_live *live = lls_live_of(r);
  int32_t guesses[64];
  float odds[64];
  uint32_t n = drafting_guess(d, r, guesses);
  for (uint32_t i = 0; i < n; i++)
    odds[i] = d->kind == DRAFTING_HOSTILE ? (i % 2 ? 1e30f : 0.f / (float)(i * 0)) : 0.9f;
  lls_drafts_offer(&d->harness->loop->threads[0].instance, live, n, guesses, odds);
  for (uint32_t i = 0; i < r->drafted_tokens; i++)
    assert_true(r->draft_odds[i] >= 0 && r->draft_odds[i] <= 1);
  d->offered += r->drafted_tokens;
  return r->drafted_tokens;
}

/* Adds a run of as many tokens as are left. */
static inline void drafting_run(struct drafting *d, const struct lls_request *r,
                                uint32_t *left, struct lls_plan *out)
{
  uint32_t pending = lls_request_pending(r);
  uint32_t tokens = pending < *left ? pending : *left;
  if (d->chunk > 0 && tokens > d->chunk)
    tokens = d->chunk;
  if (tokens == 0)
    return;
  lls_plan_run(out, r, tokens);
  out->items[out->n_items - 1].form = d->form;
  *left -= tokens;
  if (tokens < pending || d->kind == DRAFTING_NONE || r->generated_tokens == 0)
    return;
  uint32_t drafts = drafting_offer(d, r);
  drafts = drafts < *left ? drafts : *left;
  out->items[out->n_items - 1].drafts = drafts;
  *left -= drafts;
}

static inline int drafting_plan(void *self, const struct lls_step_view *view,
                                struct lls_plan *out)
{
  struct drafting *d = &drafting;
  uint32_t left = view->max_tokens, running = view->n_running;
  bool preempts = d->preempt_every > 0 && ++d->step % d->preempt_every == 0;
  bool was_short = d->is_short;
  (void)self;
  d->is_short = false;
  if ((was_short || preempts) && running > 1)
    lls_plan_preempt(out, view->running[--running], d->preempt_mode);
  for (uint32_t i = 0; i < running; i++)
    drafting_run(d, view->running[i], &left, out);
  for (uint32_t i = 0; i < view->n_preempted && !was_short; i++)
    drafting_run(d, view->preempted[i], &left, out);
  for (uint32_t i = 0; i < view->n_waiting && !was_short; i++)
    drafting_run(d, view->waiting[i], &left, out);
  return 0;
}

static inline void drafting_refused(void *self, const struct lls_request *r,
                                    uint32_t refusal)
{
  (void)self;
  (void)r;
  if (refusal == LLS_REFUSED_POSTPONED)
    return;
  assert_int_equal(refusal, LLS_REFUSED_NO_MEMORY);
  drafting.is_short = true;
}

static inline void drafting_install(void *context, struct lls_loop_policies *policies)
{
  static struct lls_plugin_module module;
  (void)context;
  module = *policies->scheduler.module;
  module.scheduler.plan = drafting_plan;
  module.scheduler.on_refused = drafting_refused;
  policies->scheduler.module = &module;
}

#endif
