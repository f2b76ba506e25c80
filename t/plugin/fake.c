/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of the fake host, and the services that it gives to plugins. */
#include "t/tap.h"

#include "t/plugin/fake.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- services ------------------------------------------------------------------- */

static int64_t now(void *context)
{
  return ((struct fake *)context)->now_ns;
}

uint64_t fake_random(struct fake *f)
{
  uint64_t z = (f->random_state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

uint32_t fake_between(struct fake *f, uint32_t low, uint32_t high)
{
  return low + (uint32_t)(fake_random(f) % (high - low + 1));
}

static uint64_t random_of(void *context, uint32_t stream)
{
  struct fake *f = context;
  f->streams |= 1u << stream;
  return fake_random(f);
}

__attribute__((format(printf, 3, 4))) static void log_line(void *context, uint32_t level,
                                                           const char *format, ...)
{
  struct fake *f = context;
  if (level != LLS_LOG_HOST_MISBEHAVING || f->misbehaviour[0] != '\0')
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(f->misbehaviour, sizeof f->misbehaviour, format, args);
  va_end(args);
}

__attribute__((format(printf, 3, 4))) static int fail_with(void *context, int code,
                                                           const char *format, ...)
{
  struct fake *f = context;
  va_list args;
  va_start(args, format);
  vsnprintf(f->failure, sizeof f->failure, format, args);
  va_end(args);
  return code;
}

static void count(void *context, const char *counter, double add)
{
  struct fake *f = context;
  uint32_t i = 0;
  while (i < f->n_counters && strcmp(f->counters[i].name, counter) != 0)
    i++;
  assert_true(i < sizeof f->counters / sizeof *f->counters);
  f->n_counters += i == f->n_counters;
  f->counters[i].name = counter;
  f->counters[i].value += add;
}

static const struct lls_request *find(void *context, uint64_t request)
{
  const struct fake_request *r = fake_find(context, request);
  return r != NULL ? &r->view : NULL;
}

static int overrun(void *context, uint64_t request, struct lls_prediction *out)
{
  struct fake *f = context;
  const struct fake_request *r = fake_find(f, request);
  return r != NULL && f->p->overrun != NULL
             ? f->p->overrun(f->predictor_self, &r->view, out)
             : -ENOENT;
}

static int predicted(void *context, uint64_t ticket, const struct lls_prediction *p)
{
  struct fake *f = context;
  struct fake_request *r = fake_find(f, ticket);
  if (r == NULL)
    return -ENOENT;
  r->view.prediction = *p;
  if (f->s->on_prediction != NULL)
    f->s->on_prediction(f->scheduler_self, &r->view);
  return 0;
}

static const void *extension(void *context, const char *id)
{
  (void)context, (void)id;
  return NULL;
}

static void host_init(struct fake *f)
{
  f->host = (struct lls_host){
      .api_version = LLS_API_VERSION,
      .size = sizeof f->host,
      .context = f,
      .now = now,
      .random = random_of,
      .log = log_line,
      .fail = fail_with,
      .count = count,
      .find = find,
      .overrun = overrun,
      .predicted = predicted,
      .engine = &f->caps,
      .topology = &f->topology,
      .cost = &f->cost,
      .extension = extension,
  };
}

/* ---- audit ---------------------------------------------------------------------- */

static void sink_text(void *context, const char *line)
{
  struct fake *f = context;
  size_t n = strlen(line);
  if (f->text_length + n + 2 > f->text_capacity) {
    f->text_capacity = 2 * f->text_capacity + n + 4096;
    f->text = realloc(f->text, f->text_capacity);
    assert_non_null(f->text);
  }
  memcpy(f->text + f->text_length, line, n);
  f->text_length += n;
  memcpy(f->text + f->text_length++, "\n", 2);
}

static void sink_number(void *context, const char *name, double value)
{
  char line[128];
  snprintf(line, sizeof line, "%s %.17g", name, value);
  sink_text(context, line);
}

int fake_audit(struct fake *f)
{
  struct lls_sink sink = {f, sink_number, sink_text};
  f->text_length = 0;
  sink_text(f, "");
  return f->c->audit(f->cache_self, &sink);
}

void fake_dump(struct fake *f)
{
  struct lls_sink sink = {f, sink_number, sink_text};
  f->text_length = 0;
  sink_text(f, "");
  f->s->dump(f->scheduler_self, &sink);
}

void fake_stats(struct fake *f)
{
  struct lls_sink sink = {f, sink_number, sink_text};
  f->text_length = 0;
  sink_text(f, "");
  if (f->s->stats != NULL)
    f->s->stats(f->scheduler_self, &sink);
  if (f->c->stats != NULL)
    f->c->stats(f->cache_self, &sink);
  for (uint32_t i = 0; i < f->n_counters; i++)
    sink_number(f, f->counters[i].name, f->counters[i].value);
}

double fake_figure(struct fake *f, const char *name)
{
  char wanted[64];
  snprintf(wanted, sizeof wanted, "\n%s ", name);
  fake_stats(f);
  const char *found = strstr(f->text, wanted);
  return found != NULL ? strtod(found + strlen(wanted), NULL) : NAN;
}

static int64_t prefill_ns(void *context, uint32_t tokens, uint32_t context_tokens)
{
  const struct fake *f = context;
  (void)context_tokens;
  return f->o.prefill_ns > 0 ? f->o.prefill_ns * tokens : LLS_NEVER;
}

static int64_t decode_ns(void *context, uint32_t context_tokens, uint32_t n)
{
  (void)context;
  (void)context_tokens;
  (void)n;
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
  (void)context;
  (void)bytes;
  (void)link;
  return LLS_NEVER;
}

/* No step was measured. */
static void statistics(void *context, uint32_t last_steps,
                       struct lls_step_statistics *out)
{
  (void)context;
  (void)last_steps;
  *out = (struct lls_step_statistics){.size = out->size};
}

/* ---- creation ------------------------------------------------------------------- */

static void describe(struct fake *f)
{
  const struct fake_options *o = &f->o;
  f->caps = (struct lls_engine_caps){
      .size = sizeof f->caps,
      .max_step_tokens = o->max_tokens,
      .max_sequences = o->max_sequences,
      .max_context = o->max_context,
      .max_requests = o->max_requests,
      .forms = LLS_BIT_KV | LLS_BIT_HIDDEN,
      .preempt_modes = 1u << LLS_PREEMPT_RECOMPUTE | 1u << LLS_PREEMPT_DEFER |
                       (o->host_units > 0 ? 1u << LLS_PREEMPT_SWAP : 0),
      .mixed_batch = !o->no_mixed_batch,
      .chunked_prefill = !o->no_chunked_prefill,
      .right_to_left = true,
      .hidden_ratio = 0.5,
  };
  f->topology = (struct lls_topology){
      .size = sizeof f->topology, .n_instances = 1, .instances = &f->instance};
  f->cost = (struct lls_cost){.size = sizeof f->cost,
                              .context = f,
                              .prefill_ns = prefill_ns,
                              .decode_ns = decode_ns,
                              .iteration_ns = iteration_ns,
                              .transfer_ns = transfer_ns,
                              .statistics = statistics};
  host_init(f);
}

static void allocate(struct fake *f)
{
  uint32_t n = f->o.max_requests;
  f->by_slot = calloc(n, sizeof *f->by_slot);
  f->waiting.items = calloc(n, sizeof *f->waiting.items);
  f->running.items = calloc(n, sizeof *f->running.items);
  f->preempted.items = calloc(n, sizeof *f->preempted.items);
  f->results = calloc(n, sizeof *f->results);
  f->plan.size = sizeof f->plan;
  f->plan.max_items = n;
  f->plan.items = calloc(n, sizeof *f->plan.items);
  f->memory.block_tokens = f->o.block_tokens;
  f->memory.units[LLS_TIER_DEVICE] = f->o.device_units;
  f->memory.units[LLS_TIER_HOST] = f->o.host_units;
  for (int tier = 0; tier < 2; tier++)
    f->memory.slots[tier] = calloc(
        (size_t)f->memory.units[tier] * 2 * f->o.block_tokens + 1, sizeof(uint64_t));
}

/* The first of the scheduler's preferences that the cache and the engine can do. */
static void choose_preempt_mode(struct fake *f)
{
  struct lls_scheduler_caps caps = {.size = sizeof caps};
  f->s->caps(f->scheduler_self, &caps);
  uint32_t can = f->c->preempt_modes(f->cache_self) & f->caps.preempt_modes;
  for (uint32_t i = caps.n_preempt; i-- > 0;)
    if (can & 1u << caps.preempt[i])
      f->preempt_mode = caps.preempt[i];
}

static void load(struct fake *f)
{
  struct lls_error err = {0};
  if (f->o.predictor.name == NULL)
    f->o.predictor.name = "none";
  int rc = policy_load(LLS_KIND_SCHEDULER, &f->o.scheduler, &f->scheduler, &err);
  if (rc == 0)
    rc = policy_load(LLS_KIND_CACHE, &f->o.cache, &f->cache, &err);
  if (rc == 0)
    rc = policy_load(LLS_KIND_PREDICTOR, &f->o.predictor, &f->predictor, &err);
  if (rc < 0)
    fail_msg("%s", err.text);
  f->s = &f->scheduler.module->scheduler;
  f->c = &f->cache.module->cache;
  f->p = &f->predictor.module->predictor;
}

int fake_open(struct fake *f, const struct fake_options *o)
{
  *f = (struct fake){.o = *o, .random_state = o->seed, .now_ns = LLS_NS_PER_S};
  f->next.slo = (struct lls_slo){LLS_NEVER, LLS_NEVER, LLS_NEVER, LLS_NEVER};
  struct lls_cache_geometry geometry = {
      .size = sizeof geometry,
      .block_tokens = o->block_tokens,
      .unit_bytes = 32 * o->block_tokens,
      .device_units = o->device_units,
      .host_units = o->host_units,
      .x_units = 1,
      .int8 = o->int8,
  };
  describe(f);
  load(f);
  allocate(f);
  fake_service_init(f);
  int rc = f->c->create(&f->host, f->cache.params, &geometry, &f->cache_self);
  if (rc == 0)
    rc = f->p->create(&f->host, f->predictor.params, &f->predictor_self);
  if (rc == 0)
    rc = f->s->create(&f->host, f->scheduler.params, &f->scheduler_self);
  if (rc == 0)
    choose_preempt_mode(f);
  return rc;
}

void fake_close(struct fake *f)
{
  if (f->scheduler_self != NULL)
    f->s->destroy(f->scheduler_self);
  if (f->predictor_self != NULL)
    f->p->destroy(f->predictor_self);
  if (f->cache_self != NULL)
    f->c->destroy(f->cache_self);
  policy_unload(&f->scheduler);
  policy_unload(&f->cache);
  policy_unload(&f->predictor);
  for (uint32_t i = 0; i < f->o.max_requests; i++)
    fake_free(f->by_slot[i]);
  free(f->by_slot);
  free(f->waiting.items);
  free(f->running.items);
  free(f->preempted.items);
  free(f->results);
  free(f->plan.items);
  free(f->memory.slots[0]);
  free(f->memory.slots[1]);
  free(f->text);
  assert_string_equal(f->misbehaviour, "");
}
