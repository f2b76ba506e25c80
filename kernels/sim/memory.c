/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is only counted. An allocation is a small record of its size, so that
 * freeing it can be counted, too. Nothing reads or writes through it, since no
 * operation of this device does anything.
 */
#include "kernels/sim/memory.h"

#include <llmserve/host.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/device/quantised.h"

#define MIB(bytes) ((size_t)((bytes) >> 20))

struct lls_weight {
  uint64_t bytes;
};

static int take(struct lls_sim_device *d, uint64_t bytes, void **out)
{
  if (bytes > d->options.memory - d->totals.memory_used)
    return -ENOMEM;
  struct lls_weight *record = malloc(sizeof *record);
  if (record == NULL)
    return -ENOMEM;
  record->bytes = bytes;
  d->totals.memory_used += bytes;
  *out = record;
  return 0;
}

static void give_back(struct lls_sim_device *d, void *data)
{
  struct lls_weight *record = data;
  if (record == NULL)
    return;
  d->totals.memory_used -= record->bytes;
  free(record);
}

int lls_sim_memory(struct lls_device *device, size_t *total, size_t *available)
{
  const struct lls_sim_device *d = lls_sim(device);
  *total = d->options.memory;
  *available = d->options.memory - d->totals.memory_used;
  return 0;
}

/* The host's memory is the same on each machine, so that a simulation is repeatable. */
int lls_sim_host_memory(struct lls_device *device, size_t *total, size_t *available)
{
  (void)device;
  *total = *available = (size_t)32 << 30;
  return 0;
}

int lls_sim_alloc(struct lls_device *device, enum lls_memory kind, size_t bytes,
                  void **out)
{
  return take(lls_sim(device), kind == LLS_MEMORY_DEVICE ? bytes : 0, out);
}

void lls_sim_release(struct lls_device *device, enum lls_memory kind, void *data)
{
  (void)kind;
  give_back(lls_sim(device), data);
}

/* ---- weights ----------------------------------------------------------------------- */

int lls_sim_weight_create(struct lls_device *device, const struct lls_tensor_view *parts,
                          const struct lls_tensor_view *biases, size_t n_parts,
                          enum lls_weight_format format, struct lls_weight **out,
                          struct lls_error *err)
{
  (void)biases; /* biases are a thousandth of the matrix, and not counted */
  uint64_t bytes = 0;
  for (size_t i = 0; i < n_parts; i++)
    bytes += (uint64_t)((double)(parts[i].rows * parts[i].columns) *
                        lls_weight_number_bytes(format, parts[i].dtype));
  void *record;
  int rc = take(lls_sim(device), bytes, &record);
  if (rc < 0)
    return lls_fail(err, rc, "no memory for a matrix of %zu MiB on the simulated device",
                    MIB(bytes));
  *out = record;
  return 0;
}

void lls_sim_weight_destroy(struct lls_device *device, struct lls_weight *weight)
{
  give_back(lls_sim(device), weight);
}

size_t lls_sim_weight_bytes(const struct lls_weight *weight)
{
  return weight->bytes;
}

int lls_sim_vector_create(struct lls_device *device, const struct lls_tensor_view *view,
                          float **out, struct lls_error *err)
{
  void *record;
  int rc = take(lls_sim(device), view->columns * sizeof(float), &record);
  if (rc < 0)
    return lls_fail(err, rc, "no memory for a norm on the simulated device");
  *out = record;
  return 0;
}

/* A table is tied to the head or read from the host, so it is not counted. */
int lls_sim_table_create(struct lls_device *device, const struct lls_tensor_view *view,
                         void **out, struct lls_error *err)
{
  (void)view;
  int rc = take(lls_sim(device), 0, out);
  return rc < 0 ? lls_fail(err, rc, "no memory for a table") : 0;
}

void lls_sim_table_destroy(struct lls_device *device, void *table)
{
  give_back(lls_sim(device), table);
}

/* ---- pool -------------------------------------------------------------------------- */

int lls_sim_pool_create(struct lls_device *device, const struct lls_pool_shape *shape,
                        struct lls_pool **out, struct lls_error *err)
{
  struct lls_sim_device *d = lls_sim(device);
  uint64_t unit = lls_unit_bytes(shape), side = lls_side_bytes(shape);
  uint64_t bytes =
      shape->device_units * unit + shape->scratch_blocks * 2 * side / shape->layers;
  uint64_t left = d->options.memory - d->totals.memory_used;
  if (bytes > left)
    return lls_fail(err, -ENOMEM, "%zu MiB are requested, %zu MiB are left on %s",
                    MIB(bytes), MIB(left), d->name);
  struct lls_pool *pool = malloc(sizeof *pool);
  if (pool == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a cache pool");
  *pool = (struct lls_pool){.shape = *shape, .bytes = bytes};
  d->totals.memory_used += bytes;
  *out = pool;
  return 0;
}

void lls_sim_pool_destroy(struct lls_device *device, struct lls_pool *pool)
{
  if (pool == NULL)
    return;
  lls_sim(device)->totals.memory_used -= pool->bytes;
  free(pool);
}

/* Bytes and transfers of a step's copies, by their order. */
struct traffic {
  double host_bytes, device_bytes, transfers;
};

static double traffic_ns(const struct lls_cost_rates *r, const struct traffic *t)
{
  double host_ns = lls_cost_copy_ns(r, LLS_LINK_HOST, t->host_bytes, t->transfers);
  return fmax(host_ns, 0) + t->device_bytes * r->device_byte_ns;
}

/* All copies of an order count as one transfer: a batched copy of many blocks pays the
 * latency once. */
int lls_sim_pool_copy(struct lls_device *device, struct lls_pool *pool,
                      const struct lls_copy *copies, size_t n)
{
  struct lls_sim_device *d = lls_sim(device);
  struct traffic traffic[2] = {{.transfers = 1}, {.transfers = 1}};
  for (size_t i = 0; i < n; i++) {
    const struct lls_copy *c = &copies[i];
    if (!lls_copy_fits(&pool->shape, c))
      return -EINVAL;
    double bytes = (double)lls_copied_bytes(&pool->shape, c);
    d->totals.copied_bytes[lls_copy_way(c)] += (uint64_t)bytes;
    if (lls_copy_way(c) == LLS_COPY_DEVICE_TO_DEVICE)
      traffic[c->order].device_bytes += bytes;
    else
      traffic[c->order].host_bytes += bytes;
  }
  d->before_ns = traffic_ns(&d->options.rates, &traffic[LLS_COPY_BEFORE_STEP]);
  d->async_ns = traffic_ns(&d->options.rates, &traffic[LLS_COPY_ASYNC]);
  return 0;
}

/* Returns the time over the link between the devices; if the profile has none, to the
 * host and from there. */
static double pull_ns(const struct lls_cost_rates *r, double bytes)
{
  double peer_ns = lls_cost_copy_ns(r, LLS_LINK_PEER, bytes, 1);
  return peer_ns >= 0 ? peer_ns
                      : 2 * fmax(lls_cost_copy_ns(r, LLS_LINK_HOST, bytes, 1), 0);
}

int lls_sim_pool_pull(struct lls_device *device, struct lls_pool *pool,
                      struct lls_device *from, const struct lls_pool *from_pool,
                      const struct lls_pull *list, size_t n)
{
  struct lls_sim_device *d = lls_sim(device), *source = lls_sim(from);
  uint64_t bytes = 0;
  for (size_t i = 0; i < n; i++) {
    if (!lls_pull_source_fits(&from_pool->shape, &list[i]) ||
        !lls_pull_target_fits(&pool->shape, &list[i]))
      return -EINVAL;
    bytes += lls_pulled_bytes(&pool->shape, &list[i]);
  }
  double begin_ns = fmax((double)d->now_ns + d->peer_ns, source->sends_until_ns);
  double took_ns = pull_ns(&d->options.rates, (double)bytes);
  source->sends_until_ns = begin_ns + took_ns;
  d->peer_ns = begin_ns + took_ns - (double)d->now_ns;
  d->totals.pulls++;
  d->totals.pulled_bytes += bytes;
  d->totals.pull_ns += llround(d->peer_ns);
  d->totals.pull_link_ns += llround(took_ns);
  return 0;
}
