/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and destroying the plugins of an instance; see policies.h. */
#include "core/policy/policies.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/error.h"
#include "core/engine/engine.h"
#include "core/instance/instance.h"
#include "core/instance/running_policy.h"
#include "core/plugin/loader.h"
#include "core/policy/compat.h"
#include "core/policy/policy_host.h"

/* Makes the host of one plugin. `p` is the set being made, whose cache manager was
 * prepared first or is a gap, which the running one will fill. */
static struct lls_policy_host *make_host(struct lls_instance *in,
                                         const struct lls_policies *p,
                                         const struct lls_plugin_module *module)
{
  const struct lls_plugin_module *cache =
      p->cache.module != NULL ? p->cache.module : in->policies.cache.module;
  uint32_t kind = module->descriptor->kind;
  struct lls_policy_host *h = malloc(sizeof *h);
  if (h == NULL)
    return NULL;
  lls_policy_host_init(h, in, lls_plugin_kind_name(kind), module->descriptor->id,
                       in->seed + kind);
  h->caps.async_transfers = lls_compat_has_transfers(in, &cache->cache);
  return h;
}

static struct lls_cache_geometry geometry_of(const struct lls_instance *in)
{
  const struct lls_pool_shape *pool = lls_engine_pool_shape(in->engine);
  return (struct lls_cache_geometry){
      .size = sizeof(struct lls_cache_geometry),
      .block_tokens = pool->block_tokens,
      .unit_bytes = lls_unit_bytes(pool),
      .device_units = pool->device_units,
      .host_units = pool->host_units,
      .device_form = lls_pool_has_int8(pool, false) ? LLS_FORM_INT8 : LLS_FORM_NONE,
      .host_form = lls_pool_has_int8(pool, true) ? LLS_FORM_INT8 : LLS_FORM_NONE,
      .shows_changes = in->block_events != NULL,
  };
}

/* Refuses a cache manager that restores hidden states if the engine has given their
 * memory to the cache. */
static int check_forms(const struct lls_instance *in,
                       const struct lls_plugin_module *module, struct lls_error *err)
{
  if (module->cache.forms == NULL || !lls_engine_gave_up_hidden(in->engine))
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "cache manager %s restores hidden states, and the memory for that went "
                  "to the cache when llmserve began with a manager that does not: start "
                  "it with %s",
                  module->descriptor->id, module->descriptor->id);
}

/* Refuses a cache manager that keeps fewer groups of layers than the engine has made for
 * the one that llmserve began with, or no states. */
static int check_groups(const struct lls_instance *in,
                        const struct lls_plugin_module *module, struct lls_error *err)
{
  const struct lls_group *last = in->caps.groups[in->caps.n_groups - 1];
  if (last->kind == LLS_GROUP_STATE && !lls_cache_keeps(&module->cache, LLS_GROUP_STATE))
    return lls_fail(err, -ENOTSUP,
                    "%u layers of this model keep a state of each sequence, which cache "
                    "manager %s cannot: set [plugins] cache = tiered or paged",
                    last->layers, module->descriptor->id);
  if (in->caps.n_groups <= lls_cache_groups(&module->cache))
    return 0;
  return lls_fail(err, -ENOTSUP,
                  "cache manager %s keeps fewer groups of layers (%u) than the %u that "
                  "llmserve began with, which paged, tiered and bidirectional "
                  "keep: start it with %s",
                  module->descriptor->id, lls_cache_groups(&module->cache),
                  in->caps.n_groups, module->descriptor->id);
}

static int call_create(const struct lls_instance *in, struct lls_running_policy *p)
{
  const struct lls_plugin_module *m = p->module;
  const struct lls_host *host = &p->host->host;
  struct lls_cache_geometry geometry;
  switch (m->descriptor->kind) {
  case LLS_KIND_SCHEDULER:
    return m->scheduler.create(host, p->params, &p->self);
  case LLS_KIND_CACHE:
    geometry = geometry_of(in);
    return m->cache.create(host, p->params, &geometry, &p->self);
  case LLS_KIND_DRAFTER:
    return m->drafter.create(host, p->params, &p->self);
  default:
    return m->predictor.create(host, p->params, &p->self);
  }
}

static int prepare(struct lls_instance *in, const struct lls_loop_policy *chosen,
                   const struct lls_policies *generation, struct lls_running_policy *p,
                   struct lls_error *err)
{
  const struct lls_plugin_module *module = chosen->module;
  if (module == NULL)
    return 0;
  bool cache = module->descriptor->kind == LLS_KIND_CACHE;
  int rc = cache ? check_forms(in, module, err) : 0;
  if (cache && rc == 0)
    rc = check_groups(in, module, err);
  if (rc < 0)
    return rc;
  *p = (struct lls_running_policy){.module = module, .params = chosen->params};
  p->host = make_host(in, generation, module);
  return p->host != NULL ? 0 : lls_fail(err, -ENOMEM, "out of memory");
}

static int create(struct lls_running_policy *p, struct lls_error *err)
{
  if (p->host == NULL)
    return 0;
  uint32_t kind = p->module->descriptor->kind;
  int rc = lls_policy_rc(p->host,
                         LLS_NOTED(kind, "create", call_create(p->host->instance, p)));
  if (rc < 0)
    lls_fail(err, rc, "%s could not be created: %s", p->host->name,
             lls_error_text(&p->host->failure, rc));
  return rc;
}

/* Order of creation, reversed for destruction: a scheduler may read what the cache
 * manager, the predictor and the drafter report. */
static const uint32_t order[LLS_KINDS] = {LLS_KIND_CACHE, LLS_KIND_PREDICTOR,
                                          LLS_KIND_DRAFTER, LLS_KIND_SCHEDULER};

int lls_policies_prepare(struct lls_instance *in, const struct lls_loop_policies *chosen,
                         struct lls_policies *out, struct lls_error *err)
{
  *out = (struct lls_policies){0};
  int rc = 0;
  for (uint32_t i = 0; i < LLS_KINDS && rc == 0; i++)
    rc = prepare(in, LLS_OF_KIND(chosen, order[i]), out, LLS_OF_KIND(out, order[i]), err);
  if (rc < 0)
    lls_policies_destroy(out, NULL);
  return rc;
}

int lls_policies_create(struct lls_policies *p, struct lls_error *err)
{
  int rc = 0;
  for (uint32_t i = 0; i < LLS_KINDS && rc == 0; i++)
    rc = create(LLS_OF_KIND(p, order[i]), err);
  return rc;
}

void lls_policies_fill(struct lls_policies *p, const struct lls_policies *running)
{
  if (p->scheduler.host == NULL)
    p->scheduler_off = running->scheduler_off;
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    if (p->by_kind[i].host == NULL)
      p->by_kind[i] = running->by_kind[i];
}

static void destroy(struct lls_running_policy *p)
{
  if (p->self != NULL)
    LLS_CALL_COMMON(p, destroy);
  free(p->host);
}

void lls_policies_destroy(struct lls_policies *p, const struct lls_policies *kept)
{
  static const struct lls_policies none = {0};
  kept = kept != NULL ? kept : &none;
  for (uint32_t i = LLS_KINDS; i-- > 0;)
    if (LLS_OF_KIND(p, order[i])->host != LLS_OF_KIND(kept, order[i])->host)
      destroy(LLS_OF_KIND(p, order[i]));
  *p = (struct lls_policies){0};
}
