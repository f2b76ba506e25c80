/* SPDX-License-Identifier: Apache-2.0 */
/* See policy_stats.h. */
#include "core/policy/policy_stats.h"

#include <string.h>

#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/plugin/loader.h"

bool lls_policy_stat_is_name(const char *name)
{
  size_t n = 0;
  while (name != NULL && n < LLS_POLICY_STAT_NAME_MAX && name[n] != '\0' &&
         strchr("abcdefghijklmnopqrstuvwxyz0123456789_", name[n]) != NULL)
    n++;
  return n > 0 && n < LLS_POLICY_STAT_NAME_MAX && name[n] == '\0';
}

/* Returns the figure called `name`, adding one if the list has none. Returns NULL if
 * the list is full or the name is not allowed. */
static struct lls_policy_stat *figure_of(struct lls_policy_stat *list, uint32_t *n,
                                         const char *name)
{
  uint32_t i = 0;
  if (!lls_policy_stat_is_name(name))
    return NULL;
  while (i < *n && strcmp(list[i].name, name) != 0)
    i++;
  if (i == LLS_MAX_POLICY_STATS)
    return NULL;
  *n += i == *n;
  strcpy(list[i].name, name);
  return &list[i];
}

static void on_number(void *context, const char *name, double value)
{
  struct lls_policy_stats *p = context;
  struct lls_policy_stat *f = figure_of(p->figures, &p->n, name);
  if (f != NULL)
    f->value = value;
}

static void on_text(void *context, const char *line)
{
  (void)context, (void)line;
}

static struct lls_sink sink_of(struct lls_policy_stats *p)
{
  return (struct lls_sink){.context = p, .number = on_number, .text = on_text};
}

static void take_counters(struct lls_policy_stats *p, const struct lls_policy_host *host)
{
  memcpy(p->name, host->name_text, sizeof p->name);
  for (uint32_t i = 0; i < host->n_counters; i++) {
    struct lls_policy_stat *f =
        figure_of(p->counters, &p->n_counters, host->counters[i].name);
    if (f != NULL)
      f->value = host->counters[i].value;
  }
}

static bool is_time(const struct lls_instance *in, int64_t now_ns)
{
  return in->policy_stats_ns == LLS_NEVER ||
         now_ns - in->policy_stats_ns >= LLS_NS_PER_S || lls_instance_alive(in) == 0;
}

void lls_policy_stats_take(struct lls_instance *in)
{
  const struct lls_policies *policies = &in->policies;
  int64_t now_ns = lls_instance_now(in);
  LLS_ON_STEP(in);
  if (!is_time(in, now_ns))
    return;
  in->policy_stats_ns = now_ns;
  in->policy_stats_taken = true;
  for (uint32_t i = 0; i < LLS_KINDS; i++) {
    const struct lls_running_policy *p = &policies->by_kind[i];
    struct lls_policy_stats *stats = &in->policy_stats.by_kind[i];
    const struct lls_sink sink = sink_of(stats);
    if (p == &policies->scheduler && policies->scheduler_off)
      stats->n = 0; /* a scheduler that was switched off is not called */
    else if (lls_plugin_common(p->module).stats != NULL)
      LLS_CALL_COMMON(p, stats, &sink);
    take_counters(stats, p->host);
  }
}

void lls_policy_stats_forget(struct lls_instance *in, const struct lls_adoption *adoption)
{
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    if (adoption->by_kind[i].replaced)
      in->policy_stats.by_kind[i] = (struct lls_policy_stats){0};
  in->policy_stats_ns = LLS_NEVER;
}
