/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a cache manager's answers before they are used: counts used as bounds, enums
 * used as indices, pointers that are followed. An answer that breaks the contract is a
 * breach: it is counted, logged with the manager's name, and treated as no answer. Table
 * entries and copies are checked by the engine, which knows the pool
 * (core/engine/tables.c).
 */
#include "core/instance/cache_answers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"

int lls_cache_breach(struct lls_instance *in, const char *format, ...)
{
  char why[LLS_ERROR_MAX / 2];
  va_list args;
  LLS_ON_STEP(in);
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  lls_policy_breach(in->policies.cache.host, "%s", why);
  return -EPROTO;
}

int lls_cache_capacity(struct lls_instance *in, uint32_t tier, struct lls_capacity *out)
{
  *out = (struct lls_capacity){.size = sizeof *out};
  LLS_ON_STEP(in);
  int rc = LLS_CALL(&in->policies, cache, capacity, tier, out);
  out->size = sizeof *out;
  if (rc < 0) {
    *out = (struct lls_capacity){.size = sizeof *out};
    return rc;
  }
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  uint32_t units = tier == LLS_TIER_DEVICE ? pool->device_units : pool->host_units;
  if (out->total_units / 2 <= units && out->free_units <= out->total_units)
    return 0;
  uint32_t total = out->total_units, unused = out->free_units;
  *out = (struct lls_capacity){.size = sizeof *out};
  return lls_cache_breach(in, "capacity says %u of %u units are free, of %u in the pool",
                          unused, total, units);
}

int lls_cache_info(struct lls_instance *in, const struct lls_request *r,
                   struct lls_cache_info *out)
{
  *out = (struct lls_cache_info){.size = sizeof *out};
  LLS_ON_STEP(in);
  int rc = LLS_CALL(&in->policies, cache, info, r, out);
  struct lls_cache_info found = *out;
  out->size = sizeof *out;
  if (rc == 0 && found.residency <= LLS_RESIDENT_MOVING &&
      found.form <= LLS_FORM_HIDDEN && found.missing_tokens <= found.cached_tokens &&
      found.shared_tokens <= found.cached_tokens)
    return 0;
  *out = (struct lls_cache_info){.size = sizeof *out};
  if (rc < 0)
    return rc;
  return lls_cache_breach(in,
                          "info of request %llu returns %d with residency %u, form %u, "
                          "%u tokens cached, %u of them missing and %u shared",
                          (unsigned long long)r->id, rc, found.residency, found.form,
                          found.cached_tokens, found.missing_tokens, found.shared_tokens);
}

/* An entry has one token or more. */
static bool is_list(const struct lls_instance *in, const struct lls_block_entry *list,
                    uint32_t n)
{
  uint32_t most = in->caps.max_context + lls_engine_pool_shape(in->engine)->block_tokens;
  return n <= most && (n == 0 || list != NULL);
}

int lls_cache_table(struct lls_instance *in, const struct lls_request *r,
                    struct lls_block_table *out)
{
  *out = (struct lls_block_table){0};
  LLS_ON_STEP(in);
  int rc = LLS_CALL(&in->policies, cache, table, r, out);
  const struct lls_block_table found = *out;
  *out = (struct lls_block_table){0};
  if (rc < 0)
    return rc;
  if (rc > 0 || found.n_groups != in->caps.n_groups || found.lists == NULL)
    return lls_cache_breach(in,
                            "table of request %llu returns %d with %u lists%s where "
                            "there are %u groups",
                            (unsigned long long)r->id, rc, found.n_groups,
                            found.lists == NULL ? ", NULL," : "", in->caps.n_groups);
  for (uint32_t i = 0; i < found.n_groups; i++) {
    const struct lls_group_list *l = &found.lists[i];
    if (!is_list(in, l->entries, l->n_entries) ||
        !is_list(in, l->restored, l->n_restored))
      return lls_cache_breach(in,
                              "table of request %llu has lists of %u and %u entries, of "
                              "which one is too long or NULL",
                              (unsigned long long)r->id, l->n_entries, l->n_restored);
  }
  *out = found;
  return 0;
}

bool lls_table_has_hidden(const struct lls_block_table *t)
{
  const struct lls_group_list *l = t->lists;
  bool hidden = t->n_groups > 0 && l->n_entries > 0;
  hidden = hidden && l->entries[0].form == LLS_FORM_HIDDEN;
  return hidden || (t->n_groups > 0 && l->n_restored > 0);
}

void lls_cache_release(struct lls_instance *in, const struct lls_request *r,
                       uint32_t flags)
{
  const struct lls_release how = {
      .size = sizeof how, .flags = flags, .session = r->session};
  LLS_ON_STEP(in);
  LLS_CALL(&in->policies, cache, release, r, &how);
}

/* Most copies: each slot of both pools as source and as target, which is more than any
 * step needs. */
int lls_cache_copies(struct lls_instance *in, const struct lls_copy **list, uint32_t *n)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  uint64_t units = (uint64_t)pool->device_units + pool->host_units;
  uint64_t most = 4 * units * pool->block_tokens;
  *list = NULL;
  LLS_ON_STEP(in);
  size_t found = LLS_CALL(&in->policies, cache, copies, list);
  *n = 0;
  if (found > most || found > UINT32_MAX || (found > 0 && *list == NULL))
    return lls_cache_breach(in, "copies says %zu copies%s for a pool of %llu units",
                            found, *list == NULL ? ", gives NULL," : "",
                            (unsigned long long)units);
  *n = (uint32_t)found;
  return 0;
}
