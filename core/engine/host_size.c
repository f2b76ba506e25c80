/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the host tier is: as the configuration says, or a quarter of the memory
 * that the weights and caches in host memory leave free on the machine (or in its
 * control group, if that has less), and at most the size of the device's cache, since
 * the tier holds blocks that were swapped out of that cache. The other three quarters
 * are for the system, the page cache and the server itself.
 */
#include <stdio.h>

#include "core/base/least.h"
#include "core/device/host_memory.h"
#include "core/engine/engine_internal.h"

#define MIB(bytes) ((size_t)(bytes) >> 20)

static const double share = 0.25;

uint32_t lls_engine_sharers(const struct lls_engine *e)
{
  const struct lls_ranks *ranks = e->options.ranks;
  return ranks != NULL && e->device->is_host ? ranks->local_size : 1;
}

static int machine(struct lls_engine *e, size_t *available)
{
  size_t total;
  struct lls_device *d = e->device;
  return d->ops->host_memory != NULL ? d->ops->host_memory(d, &total, available)
                                     : lls_host_memory_size(&total, available);
}

/* Returns this instance's share of the host memory that weights and caches leave.
 * Weights of a mapped file are subtracted too: the kernel counts them as available, but
 * every step reads them. */
static size_t left_of(const struct lls_engine *e, size_t available, size_t device_bytes)
{
  size_t others =
      lls_engine_sharers(e) * (e->options.instances > 1 ? e->options.instances : 1);
  size_t taken = e->device->is_host ? e->weights.bytes + others * device_bytes : 0;
  if (e->device->is_host)
    available -= lls_least_size(available, e->options.beside_bytes);
  return available > taken ? (available - taken) / others : 0;
}

size_t lls_engine_host_bytes(struct lls_engine *e, size_t device_bytes)
{
  size_t available;
  if (e->options.pool.host_memory != LLS_NEVER) {
    snprintf(e->host_reason, sizeof e->host_reason, "[cache] host_memory says so");
    return (size_t)e->options.pool.host_memory;
  }
  if (machine(e, &available) < 0) {
    snprintf(e->host_reason, sizeof e->host_reason,
             "as much as on the device, since the machine does not tell its memory");
    return device_bytes;
  }
  size_t left = left_of(e, available, device_bytes);
  size_t part = (size_t)(share * (double)left);
  snprintf(e->host_reason, sizeof e->host_reason,
           part < device_bytes ? "%g %% of the %zu MiB of memory that are left"
                               : "as much as on the device; %g %% of the %zu MiB of "
                                 "memory that are left would be more",
           100 * share, MIB(left));
  return part < device_bytes ? part : device_bytes;
}

const char *lls_engine_host_reason(const struct lls_engine *e)
{
  return e->host_reason;
}
