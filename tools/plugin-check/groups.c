/* SPDX-License-Identifier: Apache-2.0 */
/* The host, the engine's description and the requests of a rig; see groups.h. */
#include "tools/plugin-check/groups.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define VOCABULARY 50 /* so that equal tokens are frequent */

/* ---- the host --------------------------------------------------------------------- */

static int64_t now(void *context)
{
  return ((struct groups_rig *)context)->now_ns;
}

static uint64_t draw(void *context, uint32_t stream)
{
  (void)stream;
  return dice_next(&((struct groups_rig *)context)->random);
}

static void ignore_line(void *context, uint32_t level, const char *format, ...)
{
  (void)context, (void)level, (void)format;
}

static int note_failure(void *context, int code, const char *format, ...)
{
  struct groups_rig *r = context;
  va_list args;
  va_start(args, format);
  vsnprintf(r->failure, sizeof r->failure, format, args);
  va_end(args);
  return code;
}

static void ignore_count(void *context, const char *counter, double add)
{
  (void)context, (void)counter, (void)add;
}

static const struct lls_request *find(void *context, uint64_t request)
{
  struct groups_rig *r = context;
  for (uint32_t i = 0; i < GROUPS_REQUESTS; i++)
    if (r->requests[i].alive && r->requests[i].view.id == request)
      return &r->requests[i].view;
  return NULL;
}

static int no_overrun(void *context, uint64_t request, struct lls_prediction *out)
{
  (void)context, (void)request, (void)out;
  return -ENOTSUP;
}

static int no_prediction(void *context, uint64_t ticket, const struct lls_prediction *p)
{
  (void)context, (void)ticket, (void)p;
  return -ENOENT;
}

static const void *no_extension(void *context, const char *id)
{
  (void)context, (void)id;
  return NULL;
}

static int64_t no_step_time(void *context, const struct lls_iteration_shape *shape)
{
  (void)context, (void)shape;
  return LLS_NEVER;
}

static int64_t no_time(void *context, uint32_t a, uint32_t b)
{
  (void)context, (void)a, (void)b;
  return LLS_NEVER;
}

static int64_t no_transfer_time(void *context, uint64_t bytes, uint32_t link)
{
  (void)context, (void)bytes, (void)link;
  return LLS_NEVER;
}

static void no_statistics(void *context, uint32_t last, struct lls_step_statistics *out)
{
  (void)context, (void)last;
  *out = (struct lls_step_statistics){.size = sizeof *out, .mean_ns = LLS_NEVER};
}

static void make_host(struct groups_rig *r)
{
  r->cost = (struct lls_cost){
      sizeof r->cost, r, no_step_time, no_time, no_time, no_transfer_time, no_statistics};
  r->topology = (struct lls_topology){sizeof r->topology, 1, &r->instance};
  r->engine = (struct lls_engine_caps){
      .size = sizeof r->engine,
      .max_step_tokens = GROUPS_STEP,
      .max_sequences = GROUPS_REQUESTS,
      .max_context = GROUPS_CONTEXT,
      .max_requests = GROUPS_REQUESTS,
      .forms = LLS_BIT_KV,
      .preempt_modes = 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_SWAP,
      .mixed_batch = true,
      .chunked_prefill = true,
      .right_to_left = true,
      .n_groups = r->set->n,
      .groups = r->groups,
  };
  r->host = (struct lls_host){
      .api_version = LLS_API_VERSION,
      .size = sizeof r->host,
      .context = r,
      .now = now,
      .random = draw,
      .log = ignore_line,
      .fail = note_failure,
      .count = ignore_count,
      .find = find,
      .overrun = no_overrun,
      .predicted = no_prediction,
      .engine = &r->engine,
      .topology = &r->topology,
      .cost = &r->cost,
      .extension = no_extension,
  };
}

/* ---- life ------------------------------------------------------------------------- */

int groups_create(struct groups_rig *r)
{
  r->self = NULL;
  r->failure[0] = '\0';
  return r->module->cache.create(&r->host, r->params, &r->geometry, &r->self);
}

int groups_open(struct groups_rig *r, const struct lls_plugin_module *module,
                const void *params, const struct groups_set *set, uint64_t seed,
                struct findings *f)
{
  *r = (struct groups_rig){.findings = f,
                           .set = set,
                           .module = module,
                           .params = params,
                           .dice = {seed},
                           .random = {seed + 1}};
  for (uint32_t i = 0; i < set->n; i++)
    r->groups[i] = &set->groups[i];
  make_host(r);
  r->geometry = (struct lls_cache_geometry){
      .size = sizeof r->geometry,
      .block_tokens = GROUPS_TOKENS,
      .unit_bytes = 4096,
      .device_units = set->device_units,
      .host_units = set->host_units,
      .device_form = set->full_form,
      .host_form = set->full_form,
  };
  groups_memory_init(&r->tiers[LLS_TIER_DEVICE], set->device_units);
  groups_memory_init(&r->tiers[LLS_TIER_HOST], set->host_units);
  return groups_create(r);
}

void groups_close(struct groups_rig *r)
{
  if (r->self != NULL)
    r->module->cache.destroy(r->self);
  groups_memory_free(&r->tiers[LLS_TIER_DEVICE]);
  groups_memory_free(&r->tiers[LLS_TIER_HOST]);
}

/* ---- requests --------------------------------------------------------------------- */

static uint64_t mixed(uint64_t before, uint64_t next)
{
  struct dice d = {before * 0x100000001b3 ^ next};
  return dice_next(&d);
}

/* Tokens, contents and keys of a context. Families begin differently and go on alike;
 * requests of the last one have the tokens of the first one, and a salt. */
static void fill(struct groups_request *q, uint32_t family, uint32_t alike)
{
  uint64_t before = family;
  for (uint32_t p = 0; p < GROUPS_CONTEXT; p++) {
    struct dice d = {p == 0 ? family % 3 : p < alike ? p : p + 1000 * q->view.id};
    q->tokens[p] = (int32_t)dice(&d, 3, VOCABULARY);
    before = q->contents[p] = mixed(before, (uint64_t)q->tokens[p]);
    if (p % GROUPS_TOKENS == GROUPS_TOKENS - 1)
      q->keys[p / GROUPS_TOKENS] = (struct lls_key){{mixed(before, 1), before}};
  }
}

void groups_submit(struct groups_rig *r, struct groups_request *q)
{
  uint32_t prompt = dice(&r->dice, 1, 60);
  *q = (struct groups_request){0};
  q->view = (struct lls_request){
      .id = ++r->ids,
      .state = LLS_WAITING,
      .slot = (uint32_t)(q - r->requests),
      .request_class = (uint32_t)(r->ids % (LLS_CLASS_BEST_EFFORT + 1)),
      .prompt_tokens = prompt,
      .max_new_tokens = GROUPS_CONTEXT - prompt,
      .arrival_ns = r->now_ns,
      .queue_enter_ns = r->now_ns,
      .first_scheduled_ns = LLS_NEVER,
      .last_token_ns = r->now_ns,
      .slo = {LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER},
      .tokens = q->tokens,
      .label = "",
      .user = q->user,
      .tenant_name = "",
      .keys = q->keys,
      .n_keys = prompt / GROUPS_TOKENS,
  };
  fill(q, dice(&r->dice, 0, 3), dice(&r->dice, 0, GROUPS_CONTEXT));
  q->alive = r->module->cache.admit(r->self, &q->view) == 0;
}

void groups_append(struct groups_request *q)
{
  q->view.generated_tokens++;
  q->view.n_keys = lls_request_length(&q->view) / GROUPS_TOKENS;
}
