/* SPDX-License-Identifier: Apache-2.0 */
/* See scheduler.h. */
#include <llmserve/policy/scheduler.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The name of a choice among "a|b|c". */
static void write_choice(const char *choices, int64_t index, char *out, size_t size)
{
  while (index-- > 0 && strchr(choices, '|') != NULL)
    choices = strchr(choices, '|') + 1;
  snprintf(out, size, "%.*s", (int)strcspn(choices, "|"), choices);
}

/* Writes the value as llmserve.ini has it; returns false if it is a number. */
static bool write_word(const struct lls_param *p, const void *at, char *out, size_t size)
{
  switch (p->type) {
  case LLS_TYPE_CHOICE:
    write_choice(p->choices, *(const int64_t *)at, out, size);
    return true;
  case LLS_TYPE_BOOL:
    snprintf(out, size, "%s", *(const bool *)at ? "true" : "false");
    return true;
  case LLS_TYPE_STRING:
  case LLS_TYPE_PATH:
    snprintf(out, size, "%s", *(char *const *)at != NULL ? *(const char *const *)at : "");
    return true;
  case LLS_TYPE_FLOAT:
    snprintf(out, size, "auto");
    return isnan(*(const double *)at);
  default:
    snprintf(out, size, "auto");
    return p->flags & LLS_PARAM_AUTO && *(const int64_t *)at == LLS_NEVER;
  }
}

void lls_pol_scheduler_dump(void *self, const struct lls_sink *sink)
{
  const struct lls_pol_scheduler *s = self;
  for (uint32_t i = 0; i < s->n_params; i++) {
    const struct lls_param *p = &s->table[i];
    const char *at = (const char *)s->params + p->offset;
    char word[192], line[256];
    if (!write_word(p, at, word, sizeof word)) {
      double value =
          p->type == LLS_TYPE_FLOAT ? *(const double *)at : (double)*(const int64_t *)at;
      sink->number(sink->context, p->name, value);
      continue;
    }
    snprintf(line, sizeof line, "%.48s %s", p->name, word);
    sink->text(sink->context, line);
  }
}
