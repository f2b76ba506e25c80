/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base of every scheduler in this tree: the host, its parameters, and the callbacks
 * that follow from the parameter table alone. It is the first member of the scheduler's
 * own struct, so `self` also points to a struct lls_pol_scheduler.
 */
#ifndef LLS_POL_SCHEDULER_H
#define LLS_POL_SCHEDULER_H

#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_scheduler {
  const struct lls_host *host;
  const struct lls_param *table;
  uint32_t n_params;
  void *params; /* bound by the table; part of the scheduler's own struct */
  struct lls_pol_backlog *backlog; /* set by the backlog's init, or NULL */
};

/* Returns zeroed memory for the scheduler's own struct, with base filled and `given`
 * copied to params_at; NULL if out of memory. */
struct lls_pol_scheduler *lls_pol_scheduler_new(size_t size, const struct lls_host *,
                                                const struct lls_param *table,
                                                uint32_t n_params, size_t params_at,
                                                size_t params_size, const void *given);

/* LLS_POL_SCHEDULER_NEW(struct fcfs, host, parameters, given): the struct must have a
 * member params. */
#define LLS_POL_SCHEDULER_NEW(STRUCT, HOST, TABLE, GIVEN)                                \
  ((STRUCT *)lls_pol_scheduler_new(                                                      \
      sizeof(STRUCT), HOST, TABLE, sizeof(TABLE) / sizeof *(TABLE),                      \
      offsetof(STRUCT, params), sizeof((STRUCT *)NULL)->params, GIVEN))

/* Defines the descriptor, from `parameters` (bound to PARAMS) and `vtable`. */
#define LLS_POL_SCHEDULER_PLUGIN(ID, PARAMS, DESCRIPTION)                                \
  LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {                          \
      .api_version = LLS_API_VERSION,                                                    \
      .size = sizeof llmserve_plugin,                                                    \
      .kind = LLS_KIND_SCHEDULER,                                                        \
      .id = ID,                                                                          \
      .version = "1.0",                                                                  \
      .description = DESCRIPTION,                                                        \
      .licence = "Apache-2.0",                                                           \
      LLS_PLUGIN_PARAMS(parameters, PARAMS),                                             \
      .vtable = &vtable,                                                                 \
  }

/* For reconfigure: sets the reloadable parameters; all other ones stay as they were at
 * create, since caps and sizes depend on them. */
int lls_pol_scheduler_reconfigure(void *self, const void *params);

/* Adds n to the counter of that name in /metrics. */
static inline void lls_pol_scheduler_count(const struct lls_pol_scheduler *s,
                                           const char *event, uint32_t n)
{
  s->host->count(s->host->context, event, n);
}

/* For stats: writes a figure for each of n levels, named "level_N" from `first` on; if
 * there are many levels, the last figure is the sum of the remaining ones. */
void lls_pol_scheduler_level_figures(const struct lls_sink *, const uint32_t *requests,
                                     uint32_t n, uint32_t first);

/* For dump: writes the parameters. Schedulers with queues add them. */
void lls_pol_scheduler_dump(void *self, const struct lls_sink *);

#ifdef __cplusplus
}
#endif

#endif
