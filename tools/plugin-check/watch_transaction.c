/* SPDX-License-Identifier: Apache-2.0 */
/* The transactions of a cache manager under watch: after a rollback to a mark the audit
 * must show the same as at the mark; see watch.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plugin-check/watch.h"

/* ---- marks -------------------------------------------------------------------- */

static void remember(struct witness *w, uint32_t mark)
{
  if (w->n_marks == w->capacity_marks) {
    w->capacity_marks = 2 * w->capacity_marks + 64;
    w->marks = realloc(w->marks, w->capacity_marks * sizeof *w->marks);
    if (w->marks == NULL)
      abort();
  }
  w->marks[w->n_marks++] = (struct mark){mark, watch_audit(w)};
}

void watch_forget_marks(struct witness *w, uint32_t n)
{
  while (w->n_marks > n)
    free(w->marks[--w->n_marks].text);
}

/* ---- the transaction ---------------------------------------------------------- */

static int begin(void *self)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "begin", TAG_STEP);
  int64_t started_ns = watch_cpu_ns();
  int rc = w->real->cache.begin(w->self);
  watch_sample(w->watch, watch_cpu_ns() - started_ns);
  watch_leave(w, call);
  uint32_t every = w->watch->audit_every;
  w->audited = !w->watch->light && every > 0 && w->step % every == 0;
  w->step++;
  watch_forget_marks(w, 0);
  /* remembered after begin, which voids the results of earlier calls to copies */
  if (w->audited)
    remember(w, 0);
  for (uint32_t i = 0; i < w->n_slots; i++) {
    struct placed *p = &w->placed[i];
    /* the request's table was asked for, but the request did not run */
    p->left |= p->in_step;
    p->in_step = p->preempted = false;
  }
  shadow_begin(&w->memory->shadow);
  watch_transfers_begin(w);
  return rc;
}

static uint32_t mark(void *self)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "mark", TAG_STEP);
  uint32_t mark = w->real->cache.mark(w->self);
  watch_leave(w, call);
  if (w->audited && (w->n_marks == 0 || mark > w->marks[w->n_marks - 1].mark))
    remember(w, mark);
  return mark;
}

static int rollback(void *self, uint32_t to)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "rollback", TAG_STEP);
  int rc = w->real->cache.rollback(w->self, to);
  watch_leave(w, call);
  if (rc < 0)
    found(w->watch->findings, "rollback(%u) failed: %s", to, strerror(-rc));
  for (uint32_t i = w->n_marks; w->audited && i-- > 0;)
    if (w->marks[i].mark == to) {
      watch_compare(w, w->marks[i].text, to);
      watch_forget_marks(w, i + 1);
      break;
    }
  return rc;
}

static int commit(void *self)
{
  struct witness *w = self;
  struct call call = watch_enter(w, "commit", TAG_STEP);
  int rc = w->real->cache.commit(w->self);
  watch_leave(w, call);
  if (rc < 0)
    found(w->watch->findings, "commit failed: %s; it can't for want of memory",
          strerror(-rc));
  if (w->audited)
    free(watch_audit(w));
  if (!w->watch->light)
    watch_transfers_committed(w);
  return rc;
}

void watch_transactions(struct lls_cache_vtable *ours)
{
  WATCHED(ours, begin);
  WATCHED(ours, mark);
  WATCHED(ours, rollback);
  WATCHED(ours, commit);
}
