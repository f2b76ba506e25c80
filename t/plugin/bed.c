/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up a bed; see bed.h. */
#include "t/tap.h"

#include "t/plugin/bed.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- estimates ------------------------------------------------------------------ */

static int64_t prefill_ns(void *context, uint32_t tokens, uint32_t context_tokens)
{
  const struct bed *bed = context;
  (void)context_tokens;
  return bed->o.prefill_ns > 0 ? bed->o.prefill_ns * tokens : LLS_NEVER;
}

static int64_t decode_ns(void *context, uint32_t context_tokens, uint32_t n)
{
  (void)context, (void)context_tokens, (void)n;
  return LLS_NEVER;
}

static int64_t iteration_ns(void *context, const struct lls_iteration_shape *shape)
{
  uint32_t tokens = shape->n_decodes;
  for (uint32_t i = 0; i < shape->n_chunks; i++)
    tokens += shape->chunks[i].tokens;
  return prefill_ns(context, tokens, 0);
}

static int64_t transfer_ns(void *context, uint64_t bytes, uint32_t link)
{
  (void)context, (void)bytes, (void)link;
  return LLS_NEVER;
}

/* No step has been measured. */
static void statistics(void *context, uint32_t last_steps,
                       struct lls_step_statistics *out)
{
  (void)context, (void)last_steps;
  *out = (struct lls_step_statistics){.size = out->size};
}

/* ---- between the loop and the watch --------------------------------------------- */

/* Returns the policy that this watch belongs to. */
static struct bed_policy *policy_of(void *self)
{
  const struct witness *w = self;
  return (struct bed_policy *)(uintptr_t)w->core;
}

/* Changes the parameters that the loop passes on: the host is the core's, except for
 * cost estimates and for abilities that the test's engine lacks. */
static struct bed_policy *furnish(const struct lls_host *core, const void *params)
{
  size_t offset = offsetof(struct bed_policy, handed);
  struct bed_policy *p = (struct bed_policy *)((uintptr_t)params - offset);
  struct bed *bed = p->bed;
  bed->in = ((struct lls_policy_host *)core->context)->instance;
  bed->in->caps.mixed_batch &= !bed->o.no_mixed_batch;
  bed->in->caps.chunked_prefill &= !bed->o.no_chunked_prefill;
  p->caps = *core->engine;
  p->caps.mixed_batch = bed->in->caps.mixed_batch;
  p->caps.chunked_prefill = bed->in->caps.chunked_prefill;
  p->host = *core;
  p->host.engine = &p->caps;
  p->host.cost = &bed->cost;
  return p;
}

static int create_scheduler(const struct lls_host *core, const void *params, void **self)
{
  struct bed_policy *p = furnish(core, params);
  return p->watched.module.scheduler.create(&p->host, params, self);
}

static int create_cache(const struct lls_host *core, const void *params,
                        const struct lls_cache_geometry *geometry, void **self)
{
  struct bed_policy *p = furnish(core, params);
  p->bed->geometry = *geometry;
  return p->watched.module.cache.create(&p->host, params, geometry, self);
}

static int create_predictor(const struct lls_host *core, const void *params, void **self)
{
  struct bed_policy *p = furnish(core, params);
  return p->watched.module.predictor.create(&p->host, params, self);
}

static int create_drafter(const struct lls_host *core, const void *params, void **self)
{
  struct bed_policy *p = furnish(core, params);
  return p->watched.module.drafter.create(&p->host, params, self);
}

static int calibrate(void *self, const struct lls_cost *cost)
{
  struct bed_policy *p = policy_of(self);
  (void)cost;
  return p->watched.module.scheduler.calibrate(self, &p->bed->cost);
}

static int plan(void *self, const struct lls_step_view *view, struct lls_plan *out)
{
  struct bed_policy *p = policy_of(self);
  if (p->bed->ask_nobody)
    return -ECANCELED;
  int rc = p->watched.module.scheduler.plan(self, view, out);
  return p->bed->refuse_next ? -ECANCELED : rc;
}

static size_t copies(void *self, const struct lls_copy **out)
{
  struct bed_policy *p = policy_of(self);
  size_t n = p->watched.module.cache.copies(self, out);
  for (size_t i = 0; i < n; i++)
    p->bed->copies[lls_copy_way(&(*out)[i])]++;
  return n;
}

static void intercept(struct lls_plugin_module *m)
{
  switch (m->descriptor->kind) {
  case LLS_KIND_SCHEDULER:
    m->scheduler.create = create_scheduler;
    m->scheduler.plan = plan;
    m->scheduler.calibrate = m->scheduler.calibrate != NULL ? calibrate : NULL;
    break;
  case LLS_KIND_CACHE:
    m->cache.create = create_cache;
    m->cache.copies = copies;
    break;
  case LLS_KIND_DRAFTER:
    m->drafter.create = create_drafter;
    break;
  default:
    m->predictor.create = create_predictor;
  }
}

/* Replaces the plugins that the harness has loaded by their watched versions. */
static void replace(void *context, struct lls_loop_policies *policies)
{
  struct bed *bed = context;
  for (uint32_t i = 0; i < LLS_KINDS; i++) {
    struct lls_loop_policy *loaded = &policies->by_kind[i];
    struct bed_policy *p = &bed->policies.by_kind[i];
    p->bed = bed;
    p->watch = (struct watch){.findings = &bed->findings,
                              .any_refusal = true,
                              .audit_every = bed->o.audit_every};
    watch_module(&p->watched, &p->watch, loaded->module);
    p->handed = (struct handed){&p->watched, loaded->params};
    p->module = p->watched.module;
    p->module.descriptor = &p->module.copy;
    intercept(&p->module);
    *loaded = (struct lls_loop_policy){&p->module, &p->handed};
  }
}

/* ---- its cache managers --------------------------------------------------------- */

int bed_create_cache(struct bed *bed, const struct lls_cache_geometry *geometry,
                     void **self)
{
  const struct lls_host *core = &bed->in->policies.cache.host->host;
  const struct bed_policy *p = &bed->policies.cache;
  furnish(core, &p->handed);
  return p->watched.module.cache.create(&p->host, &p->handed, geometry, self);
}

struct shadow *bed_shadow(struct bed *bed)
{
  return &bed->policies.cache.watch.memories[0].shadow;
}

void bed_use_cache(struct bed *bed, void *self)
{
  bed->in->policies.cache.self = self;
  bed->cache_self = self;
}

/* ---- creation ------------------------------------------------------------------- */

static struct harness_options harness_options_of(struct bed *bed)
{
  const struct bed_options *o = &bed->o;
  static const struct harness_policy none = {"none", NULL};
  return (struct harness_options){
      .model = "t/plugin/model",
      .dummy = true,
      .element = LLS_BF16,
      .max_tokens = o->max_tokens,
      .max_sequences = o->max_sequences,
      .max_requests = o->max_requests,
      .block_tokens = o->block_tokens,
      .max_context = o->max_context,
      .device_units = o->device_units,
      .host_units = o->host_units,
      .window = o->window,
      .int8 = o->int8,
      .scheduler = o->scheduler,
      .cache = o->cache,
      .predictor = o->predictor.name != NULL ? o->predictor : none,
      .drafter = o->drafter,
      .strikes = UINT32_MAX,
      .seed = o->seed,
      .log_level = LLS_LOG_WARNING,
      .sim = &bed->sim,
      .cost = &bed->sim.rates,
      .observer = bed_observer(bed),
      .replace = replace,
      .replace_context = bed,
  };
}

static void take_shorthands(struct bed *bed)
{
  const struct lls_policies *p = &bed->in->policies;
  bed->s = &bed->policies.scheduler.module.scheduler;
  bed->c = &bed->policies.cache.module.cache;
  bed->p = &bed->policies.predictor.module.predictor;
  bed->scheduler_self = p->scheduler.self;
  bed->cache_self = p->cache.self;
  bed->predictor_self = p->predictor.self;
  bed->by_slot = bed->in->table->by_slot;
}

/* Opens the harness; log lines during creation are added to the error. */
static int open_harness(struct bed *bed, struct lls_error *err)
{
  const struct harness_options options = harness_options_of(bed);
  int stderr_fd = dup(STDERR_FILENO);
  dup2(bed->log, STDERR_FILENO);
  int rc = harness_open(&bed->harness, &options, err);
  dup2(stderr_fd, STDERR_FILENO);
  close(stderr_fd);
  bed->harness.log.fd = bed->log;
  return rc;
}

int bed_open(struct bed *bed, const struct bed_options *o)
{
  struct lls_error err = {0};
  *bed = (struct bed){.o = *o, .dice = {o->seed}, .now_ns = LLS_NS_PER_S};
  bed->next.slo = (struct lls_slo){LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER};
  bed->cost = (struct lls_cost){.size = sizeof bed->cost,
                                .context = bed,
                                .prefill_ns = prefill_ns,
                                .decode_ns = decode_ns,
                                .iteration_ns = iteration_ns,
                                .transfer_ns = transfer_ns,
                                .statistics = statistics};
  bed->sim = (struct lls_sim_options){.rates = {.row_ns = 100000},
                                      .memory = UINT64_C(1) << 50,
                                      .eos = BED_EOS,
                                      .name = "bed"};
  bed->log = memfd_create("log", MFD_CLOEXEC);
  bed->findings =
      (struct findings){.fd = memfd_create("findings", MFD_CLOEXEC), .where = bed->where};
  bed->plan.items = calloc(o->max_requests, sizeof *bed->plan.items);
  assert_true(bed->log >= 0 && bed->findings.fd >= 0 && bed->plan.items != NULL);
  int rc = open_harness(bed, &err);
  if (rc < 0) {
    bed_close(bed);
    snprintf(bed->failure, sizeof bed->failure, "%s", err.text);
    return rc;
  }
  take_shorthands(bed);
  lls_sim_advance(bed->harness.device, bed->now_ns);
  return 0;
}

void bed_close(struct bed *bed)
{
  if (bed->plan.items == NULL)
    return;
  harness_close(&bed->harness);
  bool complaints = bed_complains(bed);
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    watch_free(&bed->policies.by_kind[i].watch);
  free(bed->plan.items);
  bed->plan.items = NULL;
  free(bed->text);
  close(bed->findings.fd);
  close(bed->log);
  if (complaints)
    fail_msg("%s", bed->found);
}
