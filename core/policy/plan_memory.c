/* SPDX-License-Identifier: Apache-2.0 */
/* See plan_memory.h. */
#include "core/policy/plan_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/instance/session.h"

#define SLACK ((size_t)64 << 10) /* bytes after each part; whole pages of any size */

/* Returns the next part of `map` and adds its size to *used; map NULL: only measures. */
static void *part(char *map, size_t *used, size_t bytes)
{
  void *at = map != NULL ? map + *used : NULL;
  *used += (bytes + 63) / 64 * 64 + SLACK;
  return at;
}

/* Returns the bytes of all parts. */
static size_t lay_out(struct lls_plan_memory *m, char *map)
{
  size_t used = 0;
  m->plan = part(map, &used, sizeof *m->plan);
  m->view = part(map, &used, sizeof *m->view);
  m->service = part(map, &used, sizeof *m->service);
  m->loads = part(map, &used, m->n_loads * sizeof *m->loads);
  m->list = part(map, &used, m->n_loads * sizeof *m->list);
  m->lists = part(map, &used, m->max_listed * sizeof *m->lists);
  m->sessions = part(map, &used, (LLS_IDLE_SESSIONS + 1) * sizeof *m->sessions);
  m->results = part(map, &used, m->max_results * sizeof *m->results);
  m->items = part(map, &used, m->max_items * sizeof *m->items);
  return (used + SLACK - 1) / SLACK * SLACK;
}

int lls_plan_memory_init(struct lls_plan_memory *m, uint32_t max_items,
                         uint32_t max_listed, uint32_t n_loads, uint32_t max_results)
{
  *m = (struct lls_plan_memory){.max_items = max_items,
                                .max_listed = max_listed,
                                .n_loads = n_loads,
                                .max_results = max_results};
  size_t bytes = lay_out(m, NULL), all = bytes + 2 * SLACK; /* a guard at either end */
  void *map = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return -ENOMEM;
  m->map = map;
  m->map_bytes = all;
  if (mprotect((char *)map + SLACK, bytes, PROT_READ | PROT_WRITE) < 0) {
    lls_plan_memory_free(m);
    return -ENOMEM;
  }
  lay_out(m, (char *)map + SLACK);
  return 0;
}

void lls_plan_memory_free(struct lls_plan_memory *m)
{
  if (m->map != NULL)
    munmap(m->map, m->map_bytes);
  *m = (struct lls_plan_memory){0};
}

/* ---- the copies for the scheduler -------------------------------------------------- */

static const struct lls_request *const *copy_list(struct lls_plan_memory *m,
                                                  uint32_t *used,
                                                  const struct lls_request *const *from,
                                                  uint32_t n)
{
  const struct lls_request **to = m->lists + *used;
  LLS_CHECK(n <= m->max_listed - *used);
  memcpy(to, from, n * sizeof *from);
  *used += n;
  return to;
}

static void copy_lists(struct lls_plan_memory *m, struct lls_step_view *v)
{
  uint32_t used = 0;
  v->waiting = copy_list(m, &used, v->waiting, v->n_waiting);
  v->running = copy_list(m, &used, v->running, v->n_running);
  v->preempted = copy_list(m, &used, v->preempted, v->n_preempted);
  v->moving = copy_list(m, &used, v->moving, v->n_moving);
  v->offered = copy_list(m, &used, v->offered, v->n_offered);
  v->arriving = copy_list(m, &used, v->arriving, v->n_arriving);
  memcpy(m->sessions, v->sessions, v->n_sessions * sizeof *m->sessions);
  v->sessions = m->sessions;
}

static void copy_loads(struct lls_plan_memory *m, struct lls_step_view *v)
{
  for (uint32_t i = 0; v->loads != NULL && i < m->n_loads; i++) {
    m->loads[i] = *v->loads[i];
    m->list[i] = &m->loads[i];
  }
  v->loads = v->loads != NULL ? m->list : NULL;
}

void lls_plan_memory_fill(struct lls_plan_memory *m, const struct lls_step_view *view)
{
  *m->plan = (struct lls_plan){.size = sizeof *m->plan,
                               .max_items = m->max_items,
                               .items = m->items,
                               .idle_until_ns = LLS_NEVER};
  *m->view = *view;
  *m->service = *view->cache;
  m->view->cache = m->service;
  copy_lists(m, m->view);
  copy_loads(m, m->view);
}

const struct lls_step_result *
lls_plan_memory_results(struct lls_plan_memory *m, const struct lls_step_result *results,
                        uint32_t n)
{
  LLS_CHECK(n <= m->max_results);
  memcpy(m->results, results, n * sizeof *results);
  return m->results;
}

/* ---- the scheduler's plan ---------------------------------------------------------- */

const char *lls_plan_memory_take(const struct lls_plan_memory *m, struct lls_plan *plan)
{
  const struct lls_plan given = *m->plan; /* read once: plugin threads may write */
  LLS_CHECK(plan->max_items == m->max_items && plan->items != m->items);
  if (given.size != sizeof given || given.max_items != m->max_items ||
      given.items != m->items)
    return "overwrote size, max_items or items, which belong to the core";
  if (given.overflow > 0 || given.n_items > given.max_items)
    return "has more items than there is room for";
  if (given.idle_until_ns < LLS_NEVER)
    return "idles until a time before the start of the clock";
  plan->n_items = given.n_items;
  plan->idle_until_ns = given.idle_until_ns;
  memcpy(plan->items, m->items, given.n_items * sizeof *plan->items);
  return NULL;
}
