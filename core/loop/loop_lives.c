/* SPDX-License-Identifier: Apache-2.0 */
/* Which instances of a loop are up, and whether requests can be answered now: for
 * /health, /ready, the status and the metrics. */
#include "core/loop/loop_internal.h"

#include <time.h>

#include "core/base/error.h"
#include "core/config/instance_list.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/ranks/ranks.h"

/* time of silence, the same as for processes in remote_lives.c */
#define SILENT_NS (2 * LLS_NS_PER_S)

static int64_t monotonic_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

/* Reports an instance as silent if its step has long been waiting for another rank,
 * which may hang. */
static void look_at_ranks(const struct lls_instance *in, struct lls_instance_life *life)
{
  const struct lls_ranks *ranks =
      in->engine != NULL ? lls_engine_ranks(in->engine) : NULL;
  int64_t since_ns = ranks != NULL ? atomic_load(&ranks->waits_since_ns) : 0;
  if (since_ns == 0 || monotonic_ns() - since_ns < SILENT_NS)
    return;
  life->state = LLS_INSTANCE_SILENT;
  lls_fail(&life->why, 0, "instance %u (%s): a step waits for another rank",
           in->info.index, lls_role_name(in->info.role));
}

void lls_loop_instance_life(struct lls_loop *l, uint32_t instance,
                            struct lls_instance_life *out)
{
  const struct lls_instance *in = &l->threads[instance].instance;
  LLS_ON_MAIN(l);
  *out = (struct lls_instance_life){.state = LLS_INSTANCE_UP};
  if (in->remote)
    lls_remote_life(l->remote, instance, out);
  else
    look_at_ranks(in, out);
}

bool lls_loop_all_up(struct lls_loop *l, struct lls_error *why)
{
  LLS_ON_MAIN(l);
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_instance_life life;
    lls_loop_instance_life(l, i, &life);
    if (life.state == LLS_INSTANCE_UP || life.state == LLS_INSTANCE_ABSENT)
      continue;
    *why = life.why;
    return false;
  }
  return true;
}

/* Returns true if an instance of role `part` (prefill or decode), or a mixed one, is
 * up. */
static bool any_does(struct lls_loop *l, uint32_t part, struct lls_error *why)
{
  for (uint32_t i = 0; i < l->n; i++) {
    struct lls_instance_life life;
    uint32_t role = l->infos[i].role;
    if (role != part && role != LLS_ROLE_MIXED)
      continue;
    lls_loop_instance_life(l, i, &life);
    if (life.state == LLS_INSTANCE_UP)
      return true;
    lls_fail(why, 0, "no instance that %s is heard: %.400s",
             part == LLS_ROLE_DECODE ? "decodes" : "prefills", life.why.text);
  }
  return false;
}

bool lls_loop_answers(struct lls_loop *l, struct lls_error *why)
{
  LLS_ON_MAIN(l);
  return any_does(l, LLS_ROLE_PREFILL, why) && any_does(l, LLS_ROLE_DECODE, why);
}
