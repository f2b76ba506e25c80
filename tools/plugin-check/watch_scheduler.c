/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduler under watch; see watch.h. The loop itself checks plans. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/watch.h"

WATCH_LIFE(scheduler)

/* ---- plan --------------------------------------------------------------------- */

/* Hashes whole words: each view is hashed twice a step, which took a fifth of the time
 * of t/sdk/plugin-check.t when done byte by byte. */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes)
{
  const unsigned char *byte = data;
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    size_t left = bytes - i;
    memcpy(&word, byte + i, left < sizeof word ? left : sizeof word);
    hash = (hash ^ word) * UINT64_C(0x100000001b3);
  }
  return hash;
}

/* Returns a checksum of everything in the view that no service changes. (A reserve
 * during plan may take a prefix, which the view shows only in the next step.) */
static uint64_t checksum(const struct lls_step_view *v)
{
  const struct lls_request *const *const lists[] = {v->waiting, v->running, v->preempted,
                                                    v->moving,  v->offered, v->arriving};
  const uint32_t n[] = {v->n_waiting, v->n_running, v->n_preempted,
                        v->n_moving,  v->n_offered, v->n_arriving};
  uint64_t hash = mix(1, v, sizeof *v);
  for (int l = 0; l < 6; l++)
    for (uint32_t i = 0; i < n[l]; i++) {
      hash = mix(hash, lists[l][i], sizeof *lists[l][i]);
      hash = mix(hash, lists[l][i]->tokens,
                 lls_request_length(lists[l][i]) * sizeof(int32_t));
    }
  return hash;
}

static void write_down(struct watch *w, const struct lls_step_view *v,
                       const struct lls_plan *p, int rc)
{
  fprintf(w->journal, "step %" PRIu64 " at %" PRId64 ": %d", v->step, v->now_ns, rc);
  for (uint32_t i = 0; rc == 0 && i < p->n_items; i++)
    fprintf(w->journal, " (%u %" PRIu64 " %u %u %u %u)", p->items[i].kind,
            p->items[i].request, p->items[i].tokens, p->items[i].mode, p->items[i].reason,
            p->items[i].target);
  fprintf(w->journal, " until %" PRId64 "\n", p->idle_until_ns);
}

/* Counts the plan's items that move memory concurrently with steps or give a request to
 * another instance. */
static void count_moves(struct watch *w, const struct lls_step_view *v,
                        const struct lls_plan *p)
{
  for (uint32_t i = 0; i < p->n_items; i++) {
    const struct lls_plan_item *item = &p->items[i];
    w->n_transfers += item->kind == LLS_PLAN_OFFLOAD || item->kind == LLS_PLAN_UPLOAD;
    w->n_handed_over += item->kind == LLS_PLAN_MIGRATE && item->target != v->instance;
  }
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct witness *w = self;
  uint64_t before = w->watch->light ? 0 : checksum(view);
  struct call call = watch_enter(w, "plan", TAG_STEP);
  int64_t started_ns = watch_cpu_ns();
  int rc = w->real->scheduler.plan(w->self, view, out);
  watch_sample(w->watch, watch_cpu_ns() - started_ns);
  watch_leave(w, call);
  count_moves(w->watch, view, out);
  if (!w->watch->light && checksum(view) != before)
    found(w->watch->findings,
          "plan of step %" PRIu64 " wrote to the view or to a request, which are "
          "read-only but for the user words",
          view->step);
  if (w->watch->journal != NULL)
    write_down(w->watch, view, out, rc);
  return rc;
}

/* ---- passed on ---------------------------------------------------------------- */

typedef const struct lls_request *request;
typedef const struct lls_sink *sink;

static void caps(void *self, struct lls_scheduler_caps *out)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "caps", TAG_MAIN);
  w->real->scheduler.caps(w->self, out);
  watch_leave(w, call);
  w->watch->needs = out->needs;
}

PASS(int, scheduler, calibrate, TAG_STEP, (void *self, const struct lls_cost *c), w->self,
     c)
PASS_VOID(scheduler, on_arrival, TAG_STEP, (void *self, request r), w->self, r)
PASS_VOID(scheduler, on_prediction, TAG_STEP, (void *self, request r), w->self, r)
PASS_VOID(scheduler, on_step, TAG_STEP, (void *self, const struct lls_step_report *r),
          w->self, r)
PASS_VOID(scheduler, on_finish, TAG_STEP, (void *self, request r, uint32_t reason),
          w->self, r, reason)
PASS_VOID(scheduler, on_transfer, TAG_STEP, (void *self, uint64_t transfer, request r),
          w->self, transfer, r)
PASS_VOID(scheduler, on_session_end, TAG_STEP, (void *self, const struct lls_session *s),
          w->self, s)
PASS_VOID(scheduler, on_refused, TAG_STEP, (void *self, request r, uint32_t refusal),
          w->self, r, refusal)

static void stats(void *self, const struct lls_sink *s)
{
  struct witness *w = self;
  watch_stats(w, w->real->scheduler.stats, s);
}

PASS_VOID(scheduler, dump, TAG_STEP, (void *self, sink s), w->self, s)
PASS(int, scheduler, export_state, TAG_MAIN, (void *self, struct lls_blob *b), w->self, b)
PASS_IMPORT(scheduler)

void watch_scheduler(struct watched *out)
{
  struct lls_scheduler_vtable *ours = &out->module.scheduler;
  WATCHED(ours, create);
  WATCHED(ours, destroy);
  WATCHED(ours, caps);
  WATCHED(ours, plan);
  WATCHED(ours, calibrate);
  WATCHED(ours, on_arrival);
  WATCHED(ours, on_prediction);
  WATCHED(ours, on_step);
  WATCHED(ours, on_finish);
  WATCHED(ours, on_transfer);
  WATCHED(ours, on_refused);
  WATCHED(ours, on_session_end);
  WATCHED(ours, stats);
  WATCHED(ours, dump);
  WATCHED(ours, reconfigure);
  WATCHED(ours, export_state);
  WATCHED(ours, import_state);
}
