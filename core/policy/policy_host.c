/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the core for one plugin instance; see include/llmserve/host.h for the
 * contract. */
#include "core/policy/policy_host.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/cost/cost.h"
#include "core/instance/inbox.h"
#include "core/instance/instance.h"
#include "core/instance/lifecycle.h"
#include "core/instance/request.h"
#include "core/instance/running_policy.h"
#include "core/obs/log.h"
#include "core/policy/policy_stats.h"

static int64_t now(void *context)
{
  struct lls_policy_host *h = context;
  return lls_instance_now(h->instance);
}

/* splitmix64: any state is a good state, so a stream is seeded by one addition. */
static uint64_t random_u64(void *context, uint32_t stream)
{
  struct lls_policy_host *h = context;
  uint64_t *state = &h->random_state[stream % LLS_RANDOM_STREAMS];
  uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

__attribute__((format(printf, 3, 4))) static void log_line(void *context, uint32_t level,
                                                           const char *format, ...)
{
  struct lls_policy_host *h = context;
  char line[LLS_ERROR_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  lls_log(h->instance->log, level, h->name, "%s", line);
}

__attribute__((format(printf, 3, 4))) static int fail(void *context, int code,
                                                      const char *format, ...)
{
  struct lls_policy_host *h = context;
  va_list args;
  va_start(args, format);
  vsnprintf(h->failure.text, sizeof h->failure.text, format, args);
  va_end(args);
  return code;
}

/* Copies the counter's name: a plugin's string need not stay valid, whatever its
 * contract says. */
static void count(void *context, const char *counter, double add)
{
  struct lls_policy_host *h = context;
  if (!isfinite(add) || counter == NULL)
    return;
  for (uint32_t i = 0; i < h->n_counters; i++)
    if (strncmp(h->counters[i].name, counter, sizeof h->counters[i].name) == 0) {
      h->counters[i].value += add;
      return;
    }
  if (h->n_counters == LLS_MAX_POLICY_STATS || !lls_policy_stat_is_name(counter))
    return;
  struct lls_policy_counter *new = &h->counters[h->n_counters++];
  snprintf(new->name, sizeof new->name, "%s", counter);
  new->value = add;
}

static const struct lls_request *find(void *context, uint64_t request)
{
  struct lls_policy_host *h = context;
  struct lls_live *live = lls_request_table_find(h->instance->table, request);
  return live != NULL ? &live->view : NULL;
}

static int overrun(void *context, uint64_t request, struct lls_prediction *out)
{
  struct lls_policy_host *h = context;
  struct lls_policies *p = &h->instance->policies;
  struct lls_live *live = lls_request_table_find(h->instance->table, request);
  if (live == NULL)
    return -ENOENT;
  if (!LLS_HAS(p, predictor, overrun))
    return -ENOTSUP;
  struct lls_prediction longer = {.made_ns = LLS_NEVER};
  int rc = LLS_CALL(p, predictor, overrun, &live->view, &longer);
  if (rc == 0)
    rc = lls_lifecycle_take_prediction(h->instance, live, &longer);
  if (rc == 0)
    *out = live->view.prediction;
  return rc;
}

/* Takes a late prediction; the ticket is the request's id. Any thread may call, so it
 * is posted to inboxes: of all instances, since the request may have migrated. */
static int predicted(void *context, uint64_t ticket,
                     const struct lls_prediction *prediction)
{
  const struct lls_instance *in = ((struct lls_policy_host *)context)->instance;
  int rc = prediction != NULL ? 0 : -EINVAL;
  for (uint32_t i = 0; rc != -EINVAL && i < in->n_peers; i++) {
    int posted = lls_inbox_predicted(in->peers[i]->inbox, ticket, prediction);
    rc = rc < 0 ? rc : posted;
  }
  return rc;
}

static const void *extension(void *context, const char *id)
{
  struct lls_policy_host *h = context;
  return id != NULL && strcmp(id, LLS_EMBED) == 0 ? &h->embed.embed : NULL;
}

void lls_policy_host_init(struct lls_policy_host *h, struct lls_instance *instance,
                          const char *kind, const char *id, uint64_t seed)
{
  *h = (struct lls_policy_host){.instance = instance, .caps = instance->caps};
  snprintf(h->name_text, sizeof h->name_text, "%s %s", kind, id);
  h->name = h->name_text;
  lls_embed_service_init(&h->embed, instance->builtin->cpu, instance->model_name,
                         instance->model_folder);
  for (uint64_t i = 0; i < LLS_RANDOM_STREAMS; i++)
    h->random_state[i] = (seed + i) * UINT64_C(0xD1342543DE82EF95);
  h->host = (struct lls_host){
      .api_version = 1,
      .size = sizeof h->host,
      .context = h,
      .now = now,
      .random = random_u64,
      .log = log_line,
      .fail = fail,
      .count = count,
      .find = find,
      .overrun = overrun,
      .predicted = predicted,
      .engine = &h->caps,
      .topology = &instance->topology,
      .cost = lls_cost_model_service(instance->cost),
      .extension = extension,
  };
}
