/* SPDX-License-Identifier: Apache-2.0 */
/* The parts common to every kind: creation, and the host passed to a plugin. See
 * watch.h. */
#include "tools/plugin-check/watch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/policy/policy_stats.h"
#include "core/plugin/kinds.h"

int64_t watch_cpu_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * LLS_NS_PER_S + t.tv_nsec;
}

void watch_sample(struct watch *w, int64_t ns)
{
  w->samples[w->n_samples++ % MAX_SAMPLES] = ns;
}

struct call watch_enter(struct witness *w, const char *callback, enum tag tag)
{
  struct call before = {w->callback, w->tag};
  w->callback = callback;
  w->tag = tag;
  w->thread = pthread_self();
  if (!w->watch->light)
    snprintf(w->watch->findings->where, WHERE_MAX, "%s", callback);
  return before;
}

void watch_leave(struct witness *w, struct call before)
{
  w->callback = before.callback;
  w->tag = before.tag;
  if (!w->watch->light)
    snprintf(w->watch->findings->where, WHERE_MAX, "%s",
             before.callback != NULL ? before.callback : "");
}

/* ---- the host ----------------------------------------------------------------- */

static void needs_step(struct witness *w, const char *function)
{
  if (w->callback == NULL || !pthread_equal(w->thread, pthread_self()))
    found(w->watch->findings, "calls host->%s, which is [step], from a thread of its own",
          function);
  else if (w->tag != TAG_STEP)
    found(w->watch->findings, "calls host->%s, which is [step], in %s, which is [main]",
          function, w->callback);
}

static int64_t now(void *context)
{
  struct witness *w = context;
  return w->core->now(w->core->context);
}

static uint64_t random_u64(void *context, uint32_t stream)
{
  struct witness *w = context;
  needs_step(w, "random");
  if (stream > 15)
    found(w->watch->findings, "draws from random stream %u: there are 0 to 15", stream);
  return w->core->random(w->core->context, stream);
}

__attribute__((format(printf, 3, 4))) static void log_line(void *context, uint32_t level,
                                                           const char *format, ...)
{
  struct witness *w = context;
  char line[512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (level == LLS_LOG_HOST_MISBEHAVING)
    found(w->watch->findings, "takes exception to the host: %s", line);
  else if (level > LLS_LOG_DEBUG)
    found(w->watch->findings, "logs at level %u, which it has no right to", level);
  w->core->log(w->core->context, level, "%s", line);
}

__attribute__((format(printf, 3, 4))) static int fail(void *context, int code,
                                                      const char *format, ...)
{
  struct witness *w = context;
  va_list args;
  va_start(args, format);
  vsnprintf(w->watch->failure, sizeof w->watch->failure, format, args);
  va_end(args);
  return w->core->fail(w->core->context, code, "%s", w->watch->failure);
}

static void check_name(const struct witness *w, const char *function, const char *name)
{
  if (!lls_policy_stat_is_name(name))
    found(w->watch->findings,
          "%s names a figure '%s': expected less than %d letters a to z, digits and _; "
          "/metrics leaves it out",
          function, name, LLS_POLICY_STAT_NAME_MAX);
}

struct stats { /* plugin statistics, passed on to the core */
  const struct witness *witness;
  const struct lls_sink *core;
  uint32_t n;
};

static void on_number(void *context, const char *name, double value)
{
  struct stats *s = context;
  check_name(s->witness, "stats", name);
  s->n++;
  s->core->number(s->core->context, name, value);
}

static void on_text(void *context, const char *line)
{
  const struct stats *s = context;
  s->core->text(s->core->context, line);
}

void watch_stats(struct witness *w, void (*stats)(void *self, const struct lls_sink *),
                 const struct lls_sink *sink)
{
  struct stats s = {.witness = w, .core = sink};
  const struct lls_sink ours = {&s, on_number, on_text};
  struct call call = watch_enter(w, "stats", TAG_STEP);
  stats(w->self, &ours);
  watch_leave(w, call);
  if (s.n > LLS_MAX_POLICY_STATS)
    found(w->watch->findings, "stats has %u figures: /metrics shows %d", s.n,
          LLS_MAX_POLICY_STATS);
}

static void count(void *context, const char *counter, double add)
{
  struct witness *w = context;
  needs_step(w, "count");
  check_name(w, "host->count", counter);
  w->core->count(w->core->context, counter, add);
}

static const struct lls_request *find(void *context, uint64_t request)
{
  struct witness *w = context;
  needs_step(w, "find");
  return w->core->find(w->core->context, request);
}

static int overrun(void *context, uint64_t request, struct lls_prediction *out)
{
  struct witness *w = context;
  needs_step(w, "overrun");
  return w->core->overrun(w->core->context, request, out);
}

static int predicted(void *context, uint64_t ticket, const struct lls_prediction *p)
{
  struct witness *w = context;
  return w->core->predicted(w->core->context, ticket, p);
}

static const void *extension(void *context, const char *id)
{
  struct witness *w = context;
  return w->core->extension(w->core->context, id);
}

/* ---- creation ----------------------------------------------------------------- */

struct witness *watch_create(const struct handed *handed, const struct lls_host *core)
{
  struct witness *w = calloc(1, sizeof *w);
  if (w == NULL)
    abort(); /* without memory the checker cannot report anything true */
  w->watch = handed->watched->watch;
  w->real = handed->watched->real;
  w->core = core;
  w->host = *core;
  w->host.context = w;
  w->host.now = now;
  w->host.random = random_u64;
  w->host.log = log_line;
  w->host.fail = fail;
  w->host.count = count;
  w->host.find = find;
  w->host.overrun = overrun;
  w->host.predicted = predicted;
  w->host.extension = extension;
  w->watch->failure[0] = '\0';
  return w;
}

int watch_created(struct witness *w, int rc, void **self)
{
  struct watch *watch = w->watch;
  if (rc == 0) {
    *self = w;
    watch->latest = w->self;
    watch->newest = w;
    return 0;
  }
  if (rc > 0)
    found(watch->findings, "create returned %d: expected 0 or a negative errno", rc);
  else if (watch->failure[0] == '\0' && rc != -ENOMEM)
    found(watch->findings,
          "create failed (%s) without a sentence: say why through host->fail",
          strerror(-rc));
  if (w->self != NULL) /* as the core does with the remains of a failed create */
    lls_plugin_common(w->real).destroy(w->self);
  free(w);
  return rc < 0 ? rc : -EINVAL;
}

void watch_free(struct watch *w)
{
  for (uint32_t i = 0; i < MAX_INSTANCES; i++) {
    shadow_free(&w->memories[i].shadow);
    free(w->memories[i].transfers);
  }
}
