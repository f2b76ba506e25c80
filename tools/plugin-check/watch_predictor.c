/* SPDX-License-Identifier: Apache-2.0 */
/* A predictor under watch: checks that its predictions are possible; see watch.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/watch.h"

WATCH_LIFE(predictor)

/* ---- what it says ------------------------------------------------------------- */

static void judge(struct witness *w, const char *callback, const struct lls_prediction *p,
                  uint32_t most, uint32_t least)
{
  struct findings *f = w->watch->findings;
  if (p->length < least || p->length > most)
    found(f, "%s: predicts %u tokens where %u to %u are possible", callback, p->length,
          least, most);
  if (p->low > p->length || p->high < p->length)
    found(f, "%s: predicts %u tokens, between %u and %u", callback, p->length, p->low,
          p->high);
  if (!(p->confidence >= 0 && p->confidence <= 1))
    found(f, "%s: a confidence of %g, expected 0 to 1", callback, (double)p->confidence);
  if (p->source == LLS_PREDICTED_NOT || p->source > LLS_PREDICTED_ORACLE)
    found(f, "%s: source %u, expected one of enum lls_prediction_source", callback,
          p->source);
}

static int predict(void *self, uint64_t ticket, const struct lls_prompt *prompt,
                   struct lls_prediction *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "predict", TAG_STEP);
  int64_t started_ns = watch_cpu_ns();
  int rc = w->real->predictor.predict(w->self, ticket, prompt, out);
  watch_sample(w->watch, watch_cpu_ns() - started_ns);
  watch_leave(w, call);
  w->watch->late |= rc == -EINPROGRESS;
  if (rc == 0)
    judge(w, "predict", out, prompt->max_new_tokens, 1);
  else if (rc != -ENOENT && rc != -EINPROGRESS)
    found(w->watch->findings, "predict returned %d: expected 0, -ENOENT or -EINPROGRESS",
          rc);
  if (w->watch->journal != NULL)
    fprintf(w->watch->journal, "predict %" PRIu64 ": %d %u %u %u %g %u\n", ticket, rc,
            out->length, out->low, out->high, (double)out->confidence, out->source);
  return rc;
}

static int overrun(void *self, const struct lls_request *r, struct lls_prediction *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "overrun", TAG_STEP);
  int rc = w->real->predictor.overrun(w->self, r, out);
  watch_leave(w, call);
  if (rc == 0)
    judge(w, "overrun", out, r->max_new_tokens, r->generated_tokens);
  return rc;
}

PASS(uint32_t, predictor, flags, TAG_MAIN, (void *self), w->self)
PASS_VOID(predictor, observe, TAG_STEP,
          (void *self, const struct lls_prompt *prompt, uint32_t length), w->self, prompt,
          length)
PASS_VOID(predictor, on_end, TAG_STEP,
          (void *self, const struct lls_prompt *prompt, uint32_t length, uint32_t reason),
          w->self, prompt, length, reason)

static void stats(void *self, const struct lls_sink *s)
{
  struct witness *w = self;
  watch_stats(w, w->real->predictor.stats, s);
}

PASS(int, predictor, export_state, TAG_MAIN, (void *self, struct lls_blob *b), w->self, b)
PASS_IMPORT(predictor)

void watch_predictor(struct watched *out)
{
  struct lls_predictor_vtable *ours = &out->module.predictor;
  WATCHED(ours, create);
  WATCHED(ours, destroy);
  WATCHED(ours, flags);
  WATCHED(ours, predict);
  WATCHED(ours, overrun);
  WATCHED(ours, observe);
  WATCHED(ours, on_end);
  WATCHED(ours, stats);
  WATCHED(ours, reconfigure);
  WATCHED(ours, export_state);
  WATCHED(ours, import_state);
}
