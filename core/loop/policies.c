/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and destroying the plugins of an instance; see policies.h. */
#include "core/loop/policies.h"

#include <errno.h>
#include <stdlib.h>

#include "core/loop/instance.h"

/* `p`: the generation that is created; its cache manager is the first of it, or stays. */
static struct lls_policy_host *make_host(struct lls_instance *in,
                                         const struct lls_policies *p,
                                         const struct lls_plugin_module *module)
{
  uint32_t kind = module->descriptor->kind;
  struct lls_policy_host *h = malloc(sizeof *h);
  if (h == NULL)
    return NULL;
  lls_policy_host_init(h, in, lls_plugin_kind_name(kind), module->descriptor->id,
                       in->seed + kind);
  h->caps.async_transfers =
      lls_transfer_supported(in, p->cache != NULL ? p->cache : in->policies.cache);
  return h;
}

/* "plugin: sentence" for a plugin whose create failed. */
static int created(int rc, const struct lls_policy_host *h, struct lls_error *err)
{
  if (rc == 0)
    return 0;
  return lls_fail(err, rc, "%s could not be created: %s", h->name,
                  lls_error_text(&h->failure, rc));
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
      .x_units = in->caps.forms & LLS_BIT_HIDDEN ? 1 : 0,
      .int8 = pool->int8,
  };
}

/* One that may put sequences in hidden form, where that was given up for the cache. */
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

static int create_cache(struct lls_instance *in, const struct lls_loop_policy *chosen,
                        struct lls_policies *p, struct lls_error *err)
{
  if (chosen->module == NULL)
    return 0;
  int rc = check_forms(in, chosen->module, err);
  if (rc < 0)
    return rc;
  struct lls_cache_geometry geometry = geometry_of(in);
  p->cache_module = chosen->module;
  p->cache_params = chosen->params;
  p->cache = &chosen->module->cache;
  p->cache_self = NULL;
  p->cache_host = make_host(in, p, chosen->module);
  if (p->cache_host == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  rc = LLS_NOTED(
      LLS_KIND_CACHE, "create",
      p->cache->create(&p->cache_host->host, chosen->params, &geometry, &p->cache_self));
  return created(rc, p->cache_host, err);
}

static int create_predictor(struct lls_instance *in, const struct lls_loop_policy *chosen,
                            struct lls_policies *p, struct lls_error *err)
{
  if (chosen->module == NULL)
    return 0;
  p->predictor_module = chosen->module;
  p->predictor_params = chosen->params;
  p->predictor = &chosen->module->predictor;
  p->predictor_self = NULL;
  p->predictor_host = make_host(in, p, chosen->module);
  if (p->predictor_host == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  int rc = LLS_NOTED(
      LLS_KIND_PREDICTOR, "create",
      p->predictor->create(&p->predictor_host->host, chosen->params, &p->predictor_self));
  return created(rc, p->predictor_host, err);
}

static int create_scheduler(struct lls_instance *in, const struct lls_loop_policy *chosen,
                            struct lls_policies *p, struct lls_error *err)
{
  if (chosen->module == NULL)
    return 0;
  p->scheduler_module = chosen->module;
  p->scheduler_params = chosen->params;
  p->scheduler = &chosen->module->scheduler;
  p->scheduler_self = NULL;
  p->scheduler_host = make_host(in, p, chosen->module);
  if (p->scheduler_host == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  int rc = LLS_NOTED(
      LLS_KIND_SCHEDULER, "create",
      p->scheduler->create(&p->scheduler_host->host, chosen->params, &p->scheduler_self));
  return created(rc, p->scheduler_host, err);
}

int lls_policies_create(struct lls_instance *in, const struct lls_loop_policies *chosen,
                        struct lls_policies *out, struct lls_error *err)
{
  *out = (struct lls_policies){0};
  int rc = create_cache(in, &chosen->cache, out, err);
  if (rc == 0)
    rc = create_predictor(in, &chosen->predictor, out, err);
  if (rc == 0)
    rc = create_scheduler(in, &chosen->scheduler, out, err);
  if (rc < 0)
    lls_policies_destroy(out, NULL);
  return rc;
}

void lls_policies_fill(struct lls_policies *p, const struct lls_policies *running)
{
  if (p->scheduler_host == NULL) {
    p->scheduler_module = running->scheduler_module;
    p->scheduler_params = running->scheduler_params;
    p->scheduler = running->scheduler;
    p->scheduler_self = running->scheduler_self;
    p->scheduler_host = running->scheduler_host;
    p->scheduler_off = running->scheduler_off;
  }
  if (p->predictor_host == NULL) {
    p->predictor_module = running->predictor_module;
    p->predictor_params = running->predictor_params;
    p->predictor = running->predictor;
    p->predictor_self = running->predictor_self;
    p->predictor_host = running->predictor_host;
  }
  if (p->cache_host == NULL) {
    p->cache_module = running->cache_module;
    p->cache_params = running->cache_params;
    p->cache = running->cache;
    p->cache_self = running->cache_self;
    p->cache_host = running->cache_host;
  }
}

void lls_policies_destroy(struct lls_policies *p, const struct lls_policies *kept)
{
  static const struct lls_policies none = {0};
  kept = kept != NULL ? kept : &none;
  if (p->scheduler_host != kept->scheduler_host) {
    if (p->scheduler_self != NULL)
      LLS_CALL(p, scheduler, destroy);
    free(p->scheduler_host);
  }
  if (p->predictor_host != kept->predictor_host) {
    if (p->predictor_self != NULL)
      LLS_CALL(p, predictor, destroy);
    free(p->predictor_host);
  }
  if (p->cache_host != kept->cache_host) {
    if (p->cache_self != NULL)
      LLS_CALL(p, cache, destroy);
    free(p->cache_host);
  }
  *p = (struct lls_policies){0};
}
