/* SPDX-License-Identifier: Apache-2.0 */
/* See scheduler.h. */
#include <llmserve/policy/scheduler.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct lls_pol_scheduler *lls_pol_scheduler_new(size_t size, const struct lls_host *host,
                                                const struct lls_param *table,
                                                uint32_t n_params, size_t params_at,
                                                size_t params_size, const void *given)
{
  struct lls_pol_scheduler *s = calloc(1, size);
  if (s == NULL)
    return NULL;
  *s = (struct lls_pol_scheduler){
      .host = host,
      .table = table,
      .n_params = n_params,
      .params = (char *)s + params_at,
  };
  memcpy(s->params, given, params_size);
  return s;
}

static size_t size_of(const struct lls_param *p)
{
  switch (p->type) {
  case LLS_TYPE_BOOL:
    return sizeof(bool);
  case LLS_TYPE_FLOAT:
    return sizeof(double);
  case LLS_TYPE_STRING:
  case LLS_TYPE_PATH:
    return sizeof(const char *);
  default:
    return sizeof(int64_t);
  }
}

int lls_pol_scheduler_reconfigure(void *self, const void *params)
{
  struct lls_pol_scheduler *s = self;
  for (uint32_t i = 0; i < s->n_params; i++) {
    const struct lls_param *p = &s->table[i];
    if (p->flags & LLS_PARAM_RELOADABLE)
      memcpy((char *)s->params + p->offset, (const char *)params + p->offset, size_of(p));
  }
  return 0;
}

void lls_pol_scheduler_level_figures(const struct lls_sink *sink,
                                     const uint32_t *requests, uint32_t n, uint32_t first)
{
  enum { MOST = 16 };
  for (uint32_t i = 0; i < n && i < MOST; i++) {
    uint64_t sum = requests[i];
    for (uint32_t deeper = i + 1; i + 1 == MOST && deeper < n; deeper++)
      sum += requests[deeper];
    char name[32];
    snprintf(name, sizeof name, "level_%" PRIu32, first + i);
    sink->number(sink->context, name, (double)sum);
  }
}

static double value_of(const struct lls_param *p, const void *params)
{
  const char *at = (const char *)params + p->offset;
  switch (p->type) {
  case LLS_TYPE_BOOL:
    return *(const bool *)at;
  case LLS_TYPE_FLOAT:
    return *(const double *)at;
  case LLS_TYPE_STRING:
  case LLS_TYPE_PATH:
    return 0;
  default:
    return (double)*(const int64_t *)at;
  }
}

void lls_pol_scheduler_dump(void *self, const struct lls_sink *sink)
{
  const struct lls_pol_scheduler *s = self;
  for (uint32_t i = 0; i < s->n_params; i++)
    sink->number(sink->context, s->table[i].name, value_of(&s->table[i], s->params));
}
