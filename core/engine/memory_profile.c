/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a device of its own has left for the cache, measured by a trial run:
 * the largest prefill and the largest decode run over a small pool, so that everything
 * is allocated that the first steps allocate (the libraries' kernels and working space,
 * graphs, the step's inputs). The free memory then shows how much the engine has taken;
 * the rest of its share of the memory is for the pool. vLLM's gpu_memory_utilization
 * means the same.
 */
#include <errno.h>

#include "core/engine/engine_internal.h"

#define MIB(bytes) ((size_t)(bytes) >> 20)

/* Runs the trial steps over a small pool, sets *available to the bytes that are free
 * with this pool allocated, and destroys the pool. */
static int use_memory(struct lls_engine *e, size_t *available, struct lls_error *err)
{
  const struct lls_device_ops *ops = e->device->ops;
  size_t total;
  int rc = ops->pool_create(e->device, &e->pool_shape, &e->pool, err);
  if (rc == 0)
    rc = lls_engine_prepare(e, err); /* loads libraries and graphs, which stay loaded */
  if (rc == 0)
    rc = lls_engine_try_steps(e, err);
  if (rc == 0 && (rc = ops->memory(e->device, &total, available)) < 0)
    lls_fail(err, rc, "the device does not tell its free memory");
  if (e->pool != NULL)
    ops->pool_destroy(e->device, e->pool);
  e->pool = NULL;
  return rc;
}

int lls_engine_profile_memory(struct lls_engine *e, size_t *bytes, struct lls_error *err)
{
  const struct lls_engine_options *o = &e->options;
  size_t total, available, least, unit = lls_unit_bytes(&e->pool_shape);
  int rc = e->device->ops->memory(e->device, &total, &available);
  if (rc < 0)
    return lls_fail(err, rc, "the device does not tell its free memory");
  uint32_t units = lls_engine_trial_units(e);
  e->pool_shape.device_units = units;
  /* the host tier may take device memory too */
  e->pool_shape.host_units = o->pool.host_memory != 0 ? lls_all_units(&e->pool_shape) : 0;
  e->pool_shape.scratch_blocks = (e->caps.forms & LLS_BIT_HIDDEN) ? 1 : 0;
  rc = use_memory(e, &available, err);
  if (rc < 0)
    return lls_fail_at(err, rc, "a trial step of %u tokens", o->max_tokens);
  available += units * unit; /* the memory of the small pool, which is free again */
  size_t used = e->memory_before > available ? e->memory_before - available : 0;
  used += o->beside_bytes;
  size_t allowed = (size_t)(o->pool.gpu_memory_utilization * (double)total);
  *bytes = allowed > used ? allowed - used : 0;
  *bytes = *bytes < available ? *bytes : available;
  *bytes = lls_engine_without_scratch(e, *bytes);
  least = lls_engine_units_for(e, o->max_tokens) * unit;
  if (*bytes >= least)
    return 0;
  return lls_fail(
      err, -ENOMEM,
      "the model does not fit: weights of %zu MiB and %zu MiB for steps of %u "
      "tokens%s leave %zu MiB of the %zu MiB that gpu_memory_utilization = %g "
      "allows of %zu MiB (%zu MiB are free), and such a step needs a cache of "
      "%zu MiB",
      MIB(e->weights.bytes), MIB(used > e->weights.bytes ? used - e->weights.bytes : 0),
      o->max_tokens, o->beside_bytes > 0 ? " and the draft model" : "", MIB(*bytes),
      MIB(allowed), o->pool.gpu_memory_utilization, MIB(total), MIB(available),
      MIB(least));
}
