/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SELECT (section 4.4, Algorithm 2): from the pool, the request whose compute and KV
 * demand is nearest to the remaining tokens and memory. These only shrink, so a request
 * that does not fit once is dropped for good: each pick is one pass over fewer and
 * fewer requests.
 */
#include "accelgen.h"

#include <llmserve/policy/check.h>

/*
 * Computes D_c and D_m of the tokens that a request would get now. Returns false if it
 * would get none. A cut prompt takes the whole remaining budget or memory (Algorithm 2,
 * line 5), computed again at each pick; otherwise it would never fit after the first
 * one.
 */
static bool demand(const struct accelgen_pool *p, const struct accelgen_option *o,
                   struct accelgen_pick *out)
{
  out->tokens = o->tokens;
  if ((!o->cut && o->tokens > p->tokens) || o->before > p->memory)
    return false;
  if (o->cut) {
    uint32_t room = o->slots + p->memory - o->before;
    out->tokens = lls_pol_min(lls_pol_min(o->tokens, p->tokens), room);
  }
  out->memory = o->before + accelgen_memory(out->tokens, o->slots, p->block_tokens);
  return out->tokens > 0 && out->memory <= p->memory;
}

/* sqrt((A_c - D_c)^2 + (A_m - D_m)^2), squared. */
static double distance(const struct accelgen_pool *p, const struct accelgen_pick *pick)
{
  double c = (p->tokens - pick->tokens) * p->token_scale;
  double m = (p->memory - pick->memory) * p->kv_scale;
  return c * c + m * m;
}

static bool before(const struct accelgen_option *a, const struct accelgen_option *b)
{
  return a->slack < b->slack || (a->slack == b->slack && a->id < b->id);
}

/* True if only a part of the option would run now, so that it would become a begun
 * prompt. */
static bool begins(const struct accelgen_pool *p, const struct accelgen_option *o,
                   uint32_t tokens)
{
  return o->exclusive ||
         (p->one_at_a_time && o->cut && !o->started && tokens < o->tokens);
}

bool accelgen_select(struct accelgen_pool *p, struct accelgen_pick *out)
{
  uint32_t best = UINT32_MAX;
  double least = 0;
  for (uint32_t i = 0; i < p->n;) {
    struct accelgen_pick pick;
    if (!demand(p, &p->options[i], &pick)) {
      p->options[i] = p->options[--p->n];
      continue;
    }
    if (p->under_way > 0 && begins(p, &p->options[i], pick.tokens)) {
      i++; /* no prompt is begun before the begun one has its last chunk */
      continue;
    }
    double d = distance(p, &pick);
    if (best == UINT32_MAX || d < least ||
        (d == least && before(&p->options[i], &p->options[best]))) {
      best = i;
      least = d;
      out->tokens = pick.tokens;
      out->memory = pick.memory;
    }
    i++;
  }
  if (best == UINT32_MAX)
    return false;
  out->option = p->options[best];
  p->options[best] = p->options[--p->n];
  return true;
}

void accelgen_selected(struct accelgen_pool *p, const struct accelgen_pick *pick)
{
  LLS_POL_CHECK(pick->tokens <= p->tokens && pick->memory <= p->memory);
  p->tokens -= pick->tokens;
  p->memory -= pick->memory;
  if (begins(p, &pick->option, pick->tokens))
    p->under_way++;
  else if (pick->option.started && pick->tokens == pick->option.tokens &&
           p->under_way > 0)
    p->under_way--;
}
