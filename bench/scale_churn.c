/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that are lost, leave and return; see bench/scale.c. */
#include <string.h>

#include "bench/scale_cluster.h"

double draw_life(struct world *w)
{
  return w->mtbf_s > 0 ? -log(1 - lls_random_uniform(&w->churn)) * w->mtbf_s : NEVER;
}

/* Sends the requests of a list elsewhere. */
static void resend(struct world *w, uint32_t i, uint32_t generated, double now)
{
  for (uint32_t next; i != NONE; i = next) {
    struct request *q = &w->requests[i];
    next = q->next;
    take_back(w, q);
    q->computed = q->to_compute = 0;
    if (generated > 0)
      q->generated = (uint16_t)generated;
    w->n_resent++;
    arrive(w, i, now);
  }
}

/* Empties a replica whose loss is noticed. */
static void notice(struct world *w, uint32_t index, double now)
{
  struct replica *r = &w->replicas[index];
  uint32_t head = r->head, ends[ANSWER];
  memcpy(ends, r->ends, sizeof ends);
  for (uint32_t k = 0; k < ANSWER; k++)
    r->ends[k] = NONE;
  r->head = NONE;
  r->waiting = r->decodes = r->n_cached = 0;
  r->context = 0;
  set_state(w, index, ABSENT, now + w->down_s);
  for (uint32_t left = ANSWER - 1; left > 0; left--)
    resend(w, ends[(r->steps + left) % ANSWER], ANSWER - left, now);
  resend(w, head, 0, now);
}

static void lose(struct world *w, uint32_t index, double now)
{
  struct replica *r = &w->replicas[index];
  w->n_lost++;
  if (w->notice_s < 0) {
    bool idle = r->ready < 0;
    set_state(w, index, idle ? ABSENT : LEAVING, idle ? now + w->down_s : NEVER);
    r->n_cached = idle ? 0 : r->n_cached;
    return;
  }
  for (uint32_t k = 0; k < ANSWER; k++)
    for (uint32_t i = r->ends[k]; i != NONE; i = w->requests[i].next)
      w->requests[i].cut = r->stepped;
  set_state(w, index, SILENT, now + w->notice_s);
}

void change(struct world *w)
{
  double now = w->next_change;
  uint32_t i = 0;
  while (w->replicas[i].changes > now)
    i++;
  if (w->replicas[i].state == UP) {
    lose(w, i, now);
  } else if (w->replicas[i].state == SILENT) {
    notice(w, i, now);
  } else {
    w->replicas[i].n_cached = 0;
    set_state(w, i, UP, now + draw_life(w));
  }
}
