/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a machine together from the options; see machine.h. */
#include "tools/sim/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/assembly/options.h"
#include "core/device/devices.h"
#include "core/disk/block_store.h"
#include "core/device/quantised.h"
#include "kernels/sim/sim.h"
#include "core/cost/find.h"
#include "kernels/builtin.h"
#include "tools/sim/warm.h"

#define MAX_SETTINGS 128

/* ---- configuration ----------------------------------------------------------------- */

struct settings {
  char *list[MAX_SETTINGS];
  size_t n;
};

static int add_setting(struct settings *s, struct lls_error *err, const char *format,
                       const char *value)
{
  if (s->n == MAX_SETTINGS)
    return lls_fail(err, -E2BIG, "--set: at most %d settings", MAX_SETTINGS - 8);
  if (asprintf(&s->list[s->n], format, value) < 0)
    return lls_fail(err, -ENOMEM, "no memory");
  s->n++;
  return 0;
}

static void free_settings(struct settings *s)
{
  for (size_t i = 0; i < s->n; i++)
    free(s->list[i]);
}

static int user_settings(struct settings *s, const char *lines, struct lls_error *err)
{
  size_t length;
  int rc = 0;
  for (const char *line; rc == 0 && (line = lls_option_next(&lines, &length)) != NULL;) {
    char *one = strndup(line, length);
    rc = one != NULL ? add_setting(s, err, "%s", one) : -ENOMEM;
    free(one);
  }
  return rc;
}

/* Weights are never read, so the model is its shape, whatever format its file has. */
static int model_settings(struct settings *s, const struct lls_sim_tool_options *o,
                          struct lls_error *err)
{
  int rc = add_setting(s, err, "model.load_format=%s", "dummy");
  char *path = NULL;
  if (rc == 0 &&
      o->device == LLS_SIM_DEVICE_SIM) /* disk_space needs one, of no use here */
    rc = add_setting(s, err, "server.state=%s", ".");
  if (rc < 0 || o->model[0] == '\0')
    return rc;
  rc = lls_find_model(o->model, &path, err);
  if (rc == 0)
    rc = add_setting(s, err, "model.path=%s", path);
  free(path);
  return rc;
}

/* Sets max_requests so high that only memory limits the queue. */
static int queue_settings(struct settings *s, uint32_t max_requests,
                          struct lls_error *err)
{
  const uint32_t most = 1 << 16;
  char number[16];
  snprintf(number, sizeof number, "%u", max_requests < most ? max_requests : most);
  return add_setting(s, err, "engine.max_requests=%s", number);
}

static int first_settings(struct settings *s, const char *text, struct lls_error *err)
{
  int rc = 0;
  while (rc == 0 && text != NULL && *text != '\0') {
    size_t length = strcspn(text, " ");
    char *one = strndup(text, length);
    rc = one != NULL ? add_setting(s, err, "%s", one) : -ENOMEM;
    free(one);
    text += length + (text[length] == ' ');
  }
  return rc;
}

static int64_t choose_ranks(const struct lls_sim_tool_options *o,
                            const struct lls_config *c)
{
  int64_t configured = c->engine.tensor_parallel_size;
  if (o->ranks != LLS_NEVER)
    return o->ranks;
  return configured != LLS_NEVER ? configured : 1;
}

static int load_config(struct lls_machine *m, const struct lls_sim_tool_options *o,
                       const char *settings, uint32_t max_requests, struct lls_error *err)
{
  struct settings s = {.n = 0};
  struct lls_config_errors errors = {0};
  int rc = settings != NULL ? first_settings(&s, settings, err)
                            : queue_settings(&s, max_requests, err);
  if (rc == 0)
    rc = user_settings(&s, o->set, err);
  if (rc == 0)
    rc = model_settings(&s, o, err);
  if (rc == 0) {
    rc = lls_config_load_with(o->config[0] != '\0' ? o->config : NULL,
                              (const char *const *)s.list, s.n, &m->config, &errors);
    m->configured = rc == 0;
  }
  if (m->configured)
    m->ranks = choose_ranks(o, &m->config);
  if (errors.n > 0 && o->config[0] == '\0' && o->model[0] == '\0' && o->set[0] == '\0')
    lls_fail(err, rc, "expected --model NAME or -c FILE: no model to simulate");
  else if (errors.n > 0)
    lls_fail(err, rc, "%s", errors.list[0].error.text);
  for (size_t i = 1; i < errors.n; i++)
    fprintf(stderr, "llmserve-sim: %s\n", errors.list[i].error.text);
  lls_config_errors_free(&errors);
  free_settings(&s);
  return rc;
}

/* ---- costs ------------------------------------------------------------------------- */

static int read_profile(const char *name, struct lls_profile *out, struct lls_error *err)
{
  char *path = NULL;
  int rc = lls_find_profile(name, &path, err);
  if (rc == 0)
    rc = lls_profile_read(path, out, err);
  free(path);
  return rc;
}

static void fill_rates(const struct lls_machine *m, const struct lls_profile *profile,
                       const struct lls_engine_options *engine, int64_t stages,
                       struct lls_cost_rates *out)
{
  struct lls_cost_shape shape;
  lls_cost_shape_init(&shape, &m->model,
                      lls_weight_number_bytes(engine->weights, m->model.dtype),
                      (double)lls_dtype_bytes(engine->cache_element), (uint32_t)m->ranks);
  shape.stages = (double)stages;
  lls_cost_rates_init(out, profile, &shape);
}

static bool estimates(const struct lls_sim_tool_options *o)
{
  return strcmp(o->estimate, "none") != 0 && o->device == LLS_SIM_DEVICE_SIM;
}

static int read_costs(struct lls_machine *m, const struct lls_sim_tool_options *o,
                      const struct lls_engine_options *engine, struct lls_error *err)
{
  bool same = strcmp(o->estimate, "same") == 0;
  if (o->stages > m->model.layers)
    return lls_fail(err, -EINVAL, "--stages %" PRId64 ": the model has %u layers",
                    o->stages, m->model.layers);
  int rc = read_profile(o->profile, &m->profile, err);
  if (rc == 0 && estimates(o) && !same)
    rc = read_profile(o->estimate, &m->estimate_profile, err);
  if (rc < 0)
    return rc;
  fill_rates(m, &m->profile, engine, o->stages, &m->rates);
  if (estimates(o))
    fill_rates(m, same ? &m->profile : &m->estimate_profile, engine, o->stages,
               &m->estimate);
  m->rates.error = o->profile_error;
  m->estimate.error = o->estimate_error;
  return 0;
}

/* ---- time -------------------------------------------------------------------------- */

static int64_t clock_ns(const struct lls_machine *m)
{
  struct timespec t;
  clock_gettime(m->cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

int64_t lls_machine_now(struct lls_machine *m)
{
  return m->real ? clock_ns(m) - m->began_ns : lls_sim_now(m->devices[m->turn]);
}

int64_t lls_machine_least(struct lls_machine *m)
{
  int64_t least_ns = lls_machine_now(m);
  for (uint32_t i = 0; i < m->instances.n && !m->real; i++)
    if (lls_sim_now(m->devices[i]) < least_ns)
      least_ns = lls_sim_now(m->devices[i]);
  return least_ns;
}

static int64_t clock_of(void *machine)
{
  return lls_machine_now(machine);
}

void lls_machine_wait(struct lls_machine *m, int64_t until_ns)
{
  if (!m->real) {
    for (uint32_t i = 0; i < m->instances.n; i++)
      lls_sim_advance(m->devices[i], until_ns);
    return;
  }
  if (m->passes_idle) { /* the clock jumps as if it had slept */
    int64_t left_ns = until_ns - lls_machine_now(m);
    m->began_ns -= left_ns > 0 ? left_ns : 0;
    return;
  }
  int64_t real_ns = until_ns + m->began_ns;
  const struct timespec until = {.tv_sec = real_ns / LLS_NS_PER_S,
                                 .tv_nsec = real_ns % LLS_NS_PER_S};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
    ;
}

/* ---- device, engine, loop ---------------------------------------------------------- */

static int create_sim(struct lls_machine *m, const struct lls_sim_tool_options *o,
                      uint32_t i, struct lls_error *err)
{
  double memory = (double)m->profile.device.memory * m->profile.efficiency.memory;
  const struct lls_sim_options options = {
      .rates = m->rates,
      .memory = (uint64_t)(memory * (double)(m->ranks * o->stages)),
      .plan_ns = o->plan_time,
      .eos = m->eos,
      .name = m->profile.device.name,
  };
  return lls_sim_device_create(&options, &m->devices[i], err);
}

/* Creates the real engine. The option, not [engine] device, chooses the device, so that
 * one file serves both. */
static int create_real(struct lls_machine *m, const struct lls_sim_tool_options *o,
                       struct lls_error *err)
{
  struct lls_device_options options = lls_device_options_of(&m->config, &m->model);
  bool cuda = o->device == LLS_SIM_DEVICE_CUDA;
  int rc = lls_device_create(cuda ? LLS_DEVICE_CUDA : LLS_DEVICE_CPU,
                             &lls_builtin_devices, &options, &m->devices[0], NULL, err);
  return rc < 0 && cuda ? lls_fail_at(err, rc, "--device cuda") : rc;
}

/* May sequences use the hidden form? Cache managers with one form do not list their
 * forms. Published runs reserved no memory for a form that they did not use. */
static bool may_use_hidden(const struct lls_machine *m)
{
  return m->config.policies.cache.module->cache.forms != NULL;
}

static int create_devices(struct lls_machine *m, const struct lls_sim_tool_options *o,
                          struct lls_engine_options *engine, struct lls_error *err)
{
  if (m->real)
    return create_real(m, o, err);
  int rc = read_costs(m, o, engine, err);
  for (uint32_t i = 0; i < m->instances.n && rc == 0; i++)
    rc = create_sim(m, o, i, err);
  engine->cache_share = 1; /* no other process uses a simulated device */
  engine->no_hidden = !may_use_hidden(m);
  return rc;
}

static int64_t device_clock(void *device)
{
  return lls_sim_now(device);
}

/* Does the simulator's own drafter guess? */
static bool guesses(const struct lls_machine *m)
{
  return !m->real && (m->guesses.acceptance > 0 || m->guesses.of != NULL);
}

static int create_engines(struct lls_machine *m, const struct lls_sim_tool_options *o,
                          struct lls_error *err)
{
  struct lls_engine_options options = lls_engine_options_of(&m->config, &m->model);
  if (guesses(m))
    options.max_drafts = (uint32_t)m->config.plugins.max_drafts;
  int rc = create_devices(m, o, &options, err);
  for (uint32_t i = 0; i < m->instances.n && rc == 0; i++) {
    options.clock = m->real ? clock_of : device_clock;
    options.clock_context = m->real ? (void *)m : m->devices[i];
    rc = lls_engine_create(&options, &m->model, m->devices[i], &m->engines[i], err);
  }
  return rc == 0 && m->real ? lls_warm_up(m->engines[0], err) : rc;
}

static void no_wake(void *context)
{
  (void)context;
}

static double byte_ns(double gigabytes)
{
  return gigabytes > 0 ? 1 / gigabytes : 0;
}

/* Simulates [cache] disk_space on the profile's disk. Nothing is read or written. */
static void use_simulated_disk(const struct lls_machine *m, struct lls_disk_rates *disk,
                               struct lls_loop_options *out)
{
  const struct lls_profile_disk *p = &m->profile.disk;
  *disk = (struct lls_disk_rates){.read_byte_ns = byte_ns(p->read),
                                  .write_byte_ns = byte_ns(p->write),
                                  .latency_ns = (double)p->latency};
  out->simulated_disk = disk;
  out->prompts.most_bytes = 0;
  if (out->disk.most_bytes > 0 && p->read == 0)
    lls_log(&m->log, LLS_LOG_WARNING, "sim",
            "[cache] disk_space: the profile has no [disk], so none is simulated");
  out->disk.most_bytes = p->read > 0 ? out->disk.most_bytes : 0;
}

static int create_loop(struct lls_machine *m, const struct lls_sim_tool_options *o,
                       const struct lls_loop_observer *observer, struct lls_error *err)
{
  struct lls_loop_options options = lls_loop_options_of(&m->config, &m->model);
  struct lls_loop_instance instances[LLS_MAX_INSTANCES];
  struct lls_disk_rates disk;
  for (uint32_t i = 0; i < m->instances.n; i++)
    instances[i] = (struct lls_loop_instance){
        .engine = m->engines[i],
        .role = m->instances.role[i],
        .clock_context = m->real ? (void *)m : m->devices[i],
    };
  if (!m->real)
    use_simulated_disk(m, &disk, &options);
  options.builtin = &lls_builtin_devices;
  options.instances = instances;
  options.n_instances = m->instances.n;
  options.log = &m->log;
  options.limits.plan_budget = 0; /* a simulation ignores real time */
  if (guesses(m))
    options.policies.drafter = (struct lls_loop_policy){&lls_guesses_module, &m->guesses};
  options.placing = (uint32_t)o->placing;
  options.wake = no_wake;
  options.manual = true;
  options.observer = *observer;
  options.eos_tokens = &m->eos;
  options.n_eos_tokens = 1;
  if (estimates(o))
    options.cost = &m->estimate;
  options.clock = m->real ? clock_of : device_clock;
  if (!o->measure_plans) /* no option asks for planning times */
    options.plan_clock = options.clock;
  return lls_loop_create(&options, &m->loop, err);
}

void lls_machine_begin_log(const struct lls_machine *m, struct lls_decision_log *log)
{
  const struct lls_loop_options o = lls_loop_options_of(&m->config, &m->model);
  lls_decision_log_begin(log, &o.policies, m->engines[0], o.seed);
}

/* Several instances run one after another in virtual time; a decision log supports only
 * one. */
static int read_instances(struct lls_machine *m, const struct lls_sim_tool_options *o,
                          struct lls_error *err)
{
  const char *key;
  int rc = lls_instances_read(&m->config.engine, &m->instances, &key, err);
  bool several = rc == 0 && m->instances.n > 1;
  if (several && m->real)
    return lls_fail(err, -ENOTSUP, "--device cpu and cuda run one instance, not %u",
                    m->instances.n);
  if (several && (o->record[0] != '\0' || o->against[0] != '\0' || o->replay[0] != '\0'))
    return lls_fail(err, -ENOTSUP,
                    "--record, --against and --replay are for one instance, not %u",
                    m->instances.n);
  return rc;
}

int lls_machine_configure(struct lls_machine *m, const struct lls_sim_tool_options *o,
                          const char *settings, uint32_t max_requests,
                          struct lls_error *err)
{
  *m = (struct lls_machine){
      .log = {.fd = 2, .level = LLS_LOG_WARNING, .format = LLS_LOG_TEXT},
      .real = o->device != LLS_SIM_DEVICE_SIM,
      .cpu_time = o->cpu_time && o->device == LLS_SIM_DEVICE_CPU,
  };
  m->passes_idle = m->cpu_time || o->device == LLS_SIM_DEVICE_CUDA;
  int rc = load_config(m, o, settings, max_requests, err);
  if (rc == 0)
    m->log.level = (uint32_t)m->config.server.log_level;
  return rc;
}

int lls_machine_open(struct lls_machine *m, const struct lls_sim_tool_options *o,
                     const char *settings, uint32_t max_requests,
                     const struct lls_loop_observer *observer, struct lls_error *err)
{
  int rc = lls_machine_configure(m, o, settings, max_requests, err);
  if (rc == 0)
    rc = read_instances(m, o, err);
  if (rc == 0 && m->real && o->draft_acceptance > 0)
    rc = lls_fail(
        err, -ENOTSUP,
        "--draft-acceptance is for a simulated device, which draws known tokens");
  if (rc == 0)
    rc = lls_generator_config_read(m->config.model.path, &m->model, err);
  if (rc == 0) {
    m->eos = m->model.n_eos > 0 ? m->model.eos[0] : 0;
    m->guesses = (struct lls_guesses){.acceptance = o->draft_acceptance,
                                      .of = o->acceptance_of,
                                      .vocab = m->model.vocab,
                                      .eos = m->eos};
    rc = create_engines(m, o, err);
  }
  m->began_ns = clock_ns(m);
  if (rc == 0)
    rc = create_loop(m, o, observer, err);
  m->began_ns = clock_ns(m); /* measurements before serving take no virtual time */
  if (rc < 0)
    lls_machine_close(m);
  return rc;
}

void lls_machine_close(struct lls_machine *m)
{
  lls_loop_destroy(m->loop);
  for (uint32_t i = 0; i < LLS_MAX_INSTANCES; i++) {
    lls_engine_destroy(m->engines[i]);
    if (m->devices[i] != NULL)
      m->devices[i]->ops->destroy(m->devices[i]);
  }
  lls_profile_free(&m->profile);
  lls_profile_free(&m->estimate_profile);
  if (m->configured)
    lls_config_free(&m->config);
  *m = (struct lls_machine){0};
}
