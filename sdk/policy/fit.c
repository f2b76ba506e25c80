/* SPDX-License-Identifier: Apache-2.0 */
/* How many tokens of one sequence fit; see fit.h. */
#include <llmserve/policy/fit.h>

#include <llmserve/policy/number.h>

#define MANY 64 /* blocks: more than windows have */

static uint32_t bounded(uint64_t n)
{
  return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void set(struct lls_pol_fit *f, uint32_t first, uint32_t block, uint32_t fixed)
{
  f->first_units = lls_pol_max(first, 1);
  f->block_units = block;
  f->fixed_units = fixed;
  f->growth_units = block > 0 ? block : f->first_units;
}

void lls_pol_fit_init(struct lls_pol_fit *f, const struct lls_engine_caps *e)
{
  uint32_t first = 0, block = 0;
  for (uint32_t i = 0; i < e->n_groups; i++) {
    uint32_t units = e->groups[i]->forms[0].block_units;
    first += units;
    block += e->groups[i]->kind == LLS_GROUP_FULL ? units : 0;
  }
  f->block_tokens = 1;
  set(f, first, block > 0 ? block : first, 0);
}

/* Returns the units that the cache needs for n blocks of r, or 0. */
static uint32_t need_of(const struct lls_step_view *v, const struct lls_request *r,
                        uint32_t n)
{
  struct lls_need need = {.size = sizeof need};
  int rc = v->cache->need(v->cache->context, r, n * v->cache->block_tokens, LLS_FORM_KV,
                          &need);
  return rc < 0 ? 0 : need.new_units;
}

void lls_pol_fit_look(struct lls_pol_fit *f, const struct lls_step_view *v)
{
  f->block_tokens = v->cache->block_tokens;
  if (v->n_waiting == 0)
    return;
  const struct lls_request *r = v->waiting[0];
  uint32_t one = need_of(v, r, 1), many = need_of(v, r, MANY);
  uint32_t more = need_of(v, r, MANY + 1);
  /* A region for the whole sequence is as large for two blocks as for one. */
  bool by_blocks = need_of(v, r, 2) > one && more >= many;
  if (one == 0 || !by_blocks)
    return;
  uint64_t grown = (uint64_t)MANY * (more - many);
  set(f, one, more - many, many > grown ? (uint32_t)(many - grown) : 0);
}

uint32_t lls_pol_fit_units(const struct lls_pol_fit *f, uint64_t tokens)
{
  uint64_t n = (tokens + f->block_tokens - 1) / f->block_tokens;
  uint64_t early = f->first_units * n, late = f->fixed_units + f->block_units * n;
  return bounded(f->fixed_units > 0 && late < early ? late : early);
}

uint32_t lls_pol_fit_tokens(const struct lls_pol_fit *f, uint32_t units)
{
  uint64_t n = units / f->first_units;
  if (f->fixed_units > 0 && units >= f->fixed_units) {
    if (f->block_units == 0)
      return UINT32_MAX;
    uint64_t late = (units - f->fixed_units) / f->block_units;
    n = late > n ? late : n;
  }
  return bounded(n * f->block_tokens);
}
