/* SPDX-License-Identifier: Apache-2.0 */
/* A drafter under watch: checks what it writes; see watch.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/limits.h"
#include "tools/plugin-check/watch.h"

WATCH_LIFE(drafter)

#define BEYOND    8         /* entries behind the room that is offered */
#define UNTOUCHED INT32_MIN /* what they hold */

/* Reports what lies outside of what draft may write. Whether an id is in the vocabulary
 * the core says (its breaches are counted). */
static void judge(struct witness *w, const struct lls_request *r,
                  const struct lls_draft *out, int n)
{
  struct findings *f = w->watch->findings;
  if (n > 0 && (uint32_t)n > out->max)
    found(f, "draft returned %d where there is room for %u tokens", n, out->max);
  for (uint32_t i = 0; i < BEYOND; i++)
    if (out->tokens[out->max + i] != UNTOUCHED)
      found(f, "draft wrote token %u where there is room for %u", out->max + i, out->max);
  for (int i = 0; i < n && (uint32_t)i < out->max; i++) {
    if (out->tokens[i] < 0)
      found(f, "draft wrote token %d of request %" PRIu64 ": %d is not an id", i, r->id,
            out->tokens[i]);
    if (!(out->odds[i] >= 0 && out->odds[i] <= 1))
      found(f, "draft gives token %d odds of %g, expected 0 to 1", i,
            (double)out->odds[i]);
  }
}

static void write_down(FILE *journal, const struct lls_request *r,
                       const struct lls_draft *out, int n)
{
  fprintf(journal, "draft %" PRIu64 " after %u: %d", r->id, lls_request_length(r), n);
  for (int i = 0; i < n && (uint32_t)i < out->max; i++)
    fprintf(journal, " %d %a", out->tokens[i], (double)out->odds[i]);
  fputc('\n', journal);
}

static int draft(void *self, const struct lls_request *r, struct lls_draft *out)
{
  struct witness *w = self;
  int32_t tokens[LLS_MAX_DRAFTS + BEYOND];
  struct lls_draft own = *out;
  for (uint32_t i = 0; i < LLS_MAX_DRAFTS + BEYOND; i++)
    tokens[i] = UNTOUCHED;
  own.tokens = tokens;
  struct call call = watch_enter(w, "draft", TAG_STEP);
  int64_t started_ns = watch_cpu_ns();
  int n = w->real->drafter.draft(w->self, r, &own);
  watch_sample(w->watch, watch_cpu_ns() - started_ns);
  watch_leave(w, call);
  judge(w, r, &own, n);
  if (w->watch->journal != NULL)
    write_down(w->watch->journal, r, &own, n);
  if (n > 0 && (uint32_t)n <= out->max)
    memcpy(out->tokens, tokens, (size_t)n * sizeof *tokens);
  w->watch->n_drafts += n > 0;
  return n;
}

static uint32_t wants(void *self, const struct lls_request *r,
                      const struct lls_draft_work *work)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "wants", TAG_STEP);
  int64_t started_ns = watch_cpu_ns();
  uint32_t n = w->real->drafter.wants(w->self, r, work);
  watch_sample(w->watch, watch_cpu_ns() - started_ns);
  watch_leave(w, call);
  if (n > work->max)
    found(w->watch->findings, "wants returned %u where there are %u candidates at most",
          n, work->max);
  if (w->watch->journal != NULL)
    fprintf(w->watch->journal, "wants %" PRIu64 ": %u\n", r->id, n);
  return n;
}

PASS(uint32_t, drafter, flags, TAG_MAIN, (void *self), w->self)
PASS_VOID(drafter, on_arrival, TAG_STEP, (void *self, const struct lls_request *r),
          w->self, r)
PASS_VOID(drafter, verified, TAG_STEP,
          (void *self, const struct lls_request *r, uint32_t drafted, uint32_t accepted),
          w->self, r, drafted, accepted)
PASS_VOID(drafter, on_finish, TAG_STEP,
          (void *self, const struct lls_request *r, uint32_t reason), w->self, r, reason)

static void stats(void *self, const struct lls_sink *s)
{
  struct witness *w = self;
  watch_stats(w, w->real->drafter.stats, s);
}

PASS(int, drafter, export_state, TAG_MAIN, (void *self, struct lls_blob *b), w->self, b)
PASS_IMPORT(drafter)

void watch_drafter(struct watched *out)
{
  struct lls_drafter_vtable *ours = &out->module.drafter;
  WATCHED(ours, create);
  WATCHED(ours, destroy);
  WATCHED(ours, flags);
  WATCHED(ours, draft);
  WATCHED(ours, on_arrival);
  WATCHED(ours, verified);
  WATCHED(ours, on_finish);
  WATCHED(ours, stats);
  WATCHED(ours, reconfigure);
  WATCHED(ours, export_state);
  WATCHED(ours, import_state);
  WATCHED(ours, wants);
}
