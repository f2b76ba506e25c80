/* SPDX-License-Identifier: Apache-2.0 */
/* See figures.h. */
#include "core/loop/figures.h"

#include <string.h>

#include "core/loop/instance.h"

bool lls_figure_is_name(const char *name)
{
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
  return n > 0 && n < LLS_FIGURE_NAME_MAX && name[n] == '\0';
}

/* The figure of that name; a new one if there is none; NULL: no room, or no name. */
static struct lls_figure *figure_of(struct lls_figure *list, uint32_t *n,
                                    const char *name)
{
  uint32_t i = 0;
  while (i < *n && strcmp(list[i].name, name) != 0)
    i++;
  if (i == LLS_MAX_FIGURES || !lls_figure_is_name(name))
    return NULL;
  *n += i == *n;
  strcpy(list[i].name, name);
  return &list[i];
}

static void on_number(void *context, const char *name, double value)
{
  struct lls_policy_figures *p = context;
  struct lls_figure *f = figure_of(p->figures, &p->n, name);
  if (f != NULL)
    f->value = value;
}

static void on_text(void *context, const char *line)
{
  (void)context, (void)line;
}

static struct lls_sink sink_of(struct lls_policy_figures *p)
{
  return (struct lls_sink){.context = p, .number = on_number, .text = on_text};
}

static void take_counters(struct lls_policy_figures *p,
                          const struct lls_policy_host *host)
{
  memcpy(p->name, host->name_text, sizeof p->name);
  for (uint32_t i = 0; i < host->n_counters; i++) {
    struct lls_figure *f = figure_of(p->counters, &p->n_counters, host->counters[i].name);
    if (f != NULL)
      f->value = host->counters[i].value;
  }
}

static bool is_time(const struct lls_instance *in, int64_t now_ns)
{
  return in->figures_ns == LLS_NEVER || now_ns - in->figures_ns >= LLS_NS_PER_S ||
         lls_instance_alive(in) == 0;
}

void lls_figures_take(struct lls_instance *in)
{
  struct lls_policies *p = &in->policies;
  struct lls_loop_figures *f = &in->figures;
  const struct lls_sink scheduler = sink_of(&f->scheduler), cache = sink_of(&f->cache),
                        predictor = sink_of(&f->predictor);
  int64_t now_ns = lls_instance_now(in);
  if (!is_time(in, now_ns))
    return;
  in->figures_ns = now_ns;
  in->figures_taken = true;
  if (p->scheduler_off)
    f->scheduler.n = 0; /* it is not asked any more */
  else if (p->scheduler->stats != NULL)
    LLS_CALL(p, scheduler, stats, &scheduler);
  if (p->cache->stats != NULL)
    LLS_CALL(p, cache, stats, &cache);
  if (p->predictor->stats != NULL)
    LLS_CALL(p, predictor, stats, &predictor);
  take_counters(&f->scheduler, p->scheduler_host);
  take_counters(&f->cache, p->cache_host);
  take_counters(&f->predictor, p->predictor_host);
}

void lls_figures_forget(struct lls_instance *in, const struct lls_adopt *replaced)
{
  if (replaced->scheduler)
    in->figures.scheduler = (struct lls_policy_figures){0};
  if (replaced->cache)
    in->figures.cache = (struct lls_policy_figures){0};
  if (replaced->predictor)
    in->figures.predictor = (struct lls_policy_figures){0};
  in->figures_ns = LLS_NEVER;
}
