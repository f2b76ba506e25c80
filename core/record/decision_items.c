/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of requests and the items of plans; see decision_log.h. */
#include "core/engine/engine.h"

#include <llmserve/scheduler.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/instance/request.h"
#include "core/plugin/loader.h"
#include "core/record/decision_log.h"

int lls_decision_numbers_init(struct lls_decision_numbers *n, uint32_t max_requests)
{
  *n = (struct lls_decision_numbers){.slots = 1, .max_items = max_requests};
  while (n->slots < max_requests)
    n->slots *= 2;
  n->by_slot = calloc(n->slots, sizeof *n->by_slot);
  n->scratch = calloc(max_requests, sizeof *n->scratch);
  if (n->by_slot != NULL && n->scratch != NULL)
    return 0;
  lls_decision_numbers_free(n);
  return -ENOMEM;
}

void lls_decision_numbers_free(struct lls_decision_numbers *n)
{
  free(n->by_slot);
  free(n->scratch);
  *n = (struct lls_decision_numbers){0};
}

uint64_t lls_decision_number_new(struct lls_decision_numbers *n, uint64_t id)
{
  n->by_slot[id & (n->slots - 1)] = ++n->last;
  return n->last;
}

uint64_t lls_decision_number(const struct lls_decision_numbers *n, uint64_t id)
{
  return n->by_slot[id & (n->slots - 1)];
}

/* ---- the header -------------------------------------------------------------------- */

void lls_decision_write_header(const struct lls_loop_policies *p,
                               const struct lls_engine *engine, uint32_t max_requests,
                               uint64_t seed, struct lls_text *out)
{
  const struct lls_engine_caps *caps = lls_engine_caps(engine);
  const struct lls_pool_shape *pool = lls_engine_pool_shape(engine);
  lls_text_printf(out, "H 2 %s %s %s", p->scheduler.module->descriptor->id,
                  p->cache.module->descriptor->id, p->predictor.module->descriptor->id);
  lls_text_printf(out,
                  " cache.block_tokens=%u cache.element=%s cache.device_memory=%zu"
                  " cache.host_memory=%zu engine.max_requests=%u"
                  " engine.max_step_tokens=%u engine.max_sequences=%u"
                  " engine.max_context=%u engine.seed=%" PRIu64 " plugins.drafter=%s\n",
                  pool->block_tokens, pool->element == LLS_F32 ? "f32" : "bf16",
                  pool->device_units * lls_unit_bytes(pool),
                  pool->host_units * lls_unit_bytes(pool), max_requests,
                  caps->max_step_tokens, caps->max_sequences, caps->max_context, seed,
                  p->drafter.module->descriptor->id);
}

/* ---- arrivals ---------------------------------------------------------------------- */

bool lls_decision_hash(uint32_t *hash, int32_t token, uint32_t position)
{
  *hash = (*hash ^ (uint32_t)token) * UINT32_C(16777619);
  return position % LLS_DECISION_HASHED == LLS_DECISION_HASHED - 1;
}

static void add_slo(struct lls_text *out, int64_t ns)
{
  lls_text_printf(out, " %" PRId64, ns == LLS_NEVER ? -1 : ns);
}

void lls_decision_write_arrival(uint64_t number, const struct lls_request *r,
                                struct lls_text *out)
{
  lls_text_printf(out, "A %" PRIu64 " %" PRId64 " %u %u %u %d %u", number, r->arrival_ns,
                  r->prompt_tokens, r->max_new_tokens, r->request_class, r->priority,
                  r->tenant);
  add_slo(out, r->slo.ttft_ns);
  add_slo(out, r->slo.tbt_ns);
  add_slo(out, r->slo.tpot_ns);
  add_slo(out, r->slo.completion_ns);
}

/* ---- items ------------------------------------------------------------------------- */

static int by_request(const void *a, const void *b)
{
  const struct lls_plan_item *x = a, *y = b;
  return (x->request > y->request) - (x->request < y->request);
}

static void write_item(const struct lls_plan_item *item, uint64_t number,
                       struct lls_text *out)
{
  switch (item->kind) {
  case LLS_PLAN_RUN:
    lls_text_printf(out, " r%" PRIu64 ":%u", number, item->tokens);
    break;
  case LLS_PLAN_PREEMPT:
    lls_text_printf(out, " p%" PRIu64 ":%u", number, item->mode);
    break;
  case LLS_PLAN_REJECT:
    lls_text_printf(out, " x%" PRIu64 ":%u", number, item->reason);
    break;
  default:
    lls_text_printf(out, " %u,%" PRIu64, item->kind, number);
  }
}

void lls_decision_items(struct lls_decision_numbers *n, const struct lls_plan *plan,
                        struct lls_text *out)
{
  uint32_t items = plan->n_items < n->max_items ? plan->n_items : n->max_items;
  lls_text_clear(out);
  if (items == 0)
    return;
  memcpy(n->scratch, plan->items, items * sizeof *n->scratch);
  qsort(n->scratch, items, sizeof *n->scratch, by_request);
  for (uint32_t i = 0; i < items; i++)
    write_item(&n->scratch[i], lls_decision_number(n, n->scratch[i].request), out);
}
