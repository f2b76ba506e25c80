/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool's memory, copies between its tiers, and writing a step's K and V into it.
 * Copies run on the calling thread: a device that computes on the CPU cannot overlap
 * them with its work.
 */
#include "kernels/cpu/pool.h"
#include "core/ranks/ranks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int allocate(uint32_t units, size_t unit_bytes, char **out, struct lls_error *err)
{
  void *data = NULL;
  int rc = -ENOMEM;
  if (units == 0 || unit_bytes <= SIZE_MAX / units)
    rc = lls_cpu_memory_alloc(units * unit_bytes, &data);
  *out = data;
  if (rc != 0)
    return lls_fail(err, rc, "no memory for %u units of %zu bytes", units, unit_bytes);
  return 0;
}

/* Allocates the scratch of sequences in hidden form. It stays address space until such
 * sequences run. */
static int allocate_scratch(struct lls_pool *p, uint32_t ranks, struct lls_error *err)
{
  const struct lls_pool_shape *s = &p->shape;
  size_t columns = (size_t)s->kv_heads * s->head_dim;
  size_t rows = LLS_RESTORE_ROWS * columns * sizeof(float);
  size_t heads = (size_t)LLS_ABSORB_ROWS * s->kv_heads * sizeof(float);
  void *data[7] = {0};
  int rc =
      allocate(s->scratch_blocks, 2 * s->kv_heads * p->head_bytes[0], &p->scratch, err);
  if (rc < 0)
    return rc;
  rc = lls_cpu_memory_alloc(rows, &data[0]);
  if (rc == 0)
    rc = lls_cpu_memory_alloc(2 * rows, &data[1]);
  if (rc == 0)
    rc = lls_cpu_memory_alloc((size_t)s->max_context * s->head_dim * sizeof(float),
                              &data[2]);
  if (rc == 0 && ranks > 1)
    rc = lls_cpu_memory_alloc(rows * ranks, &data[3]);
  if (rc == 0 && s->head_dim % LLS_PANEL == 0)
    rc = lls_cpu_memory_alloc(heads * ranks * columns * ranks, &data[4]);
  if (rc == 0 && s->head_dim % LLS_PANEL == 0)
    rc = lls_cpu_memory_alloc(heads * ranks * s->max_context, &data[5]);
  if (rc == 0 && s->head_dim % LLS_PANEL == 0 && ranks > 1)
    rc = lls_cpu_memory_alloc(heads * columns * ranks, &data[6]);
  p->absorbed = data[4];
  p->absorbed_part = ranks > 1 ? data[6] : data[4];
  p->scores = data[5];
  p->whole_x = ranks > 1 ? data[3] : data[0];
  p->restored_x = data[0];
  p->restored = data[1];
  p->angles = data[2];
  return rc < 0 ? lls_fail(err, rc, "no memory to restore a hidden cache") : 0;
}

int lls_cpu_pool_create(struct lls_device *device, const struct lls_pool_shape *shape,
                        struct lls_pool **out, struct lls_error *err)
{
  const struct lls_ranks *ranks = lls_cpu(device)->options.ranks;
  if (shape->element != LLS_F32 && shape->element != LLS_BF16)
    return lls_fail(err, -ENOTSUP, "the CPU device caches f32 or bf16 only");
  struct lls_pool *pool = calloc(1, sizeof *pool);
  if (pool == NULL)
    return lls_fail(err, -ENOMEM, "no memory for a cache pool");
  pool->shape = *shape;
  for (uint32_t i = 0; i < lls_pool_groups(shape); i++) {
    pool->groups[i] = lls_group_shape(shape, i);
    pool->slot_bytes[i] = pool->groups[i].head_dim * lls_dtype_bytes(shape->element);
    pool->head_bytes[i] = pool->slot_bytes[i] * shape->block_tokens;
    pool->side_bytes[i] = lls_side_bytes(&pool->groups[i]);
  }
  pool->unit_bytes = lls_unit_bytes(shape);
  int rc = allocate(shape->device_units, pool->unit_bytes, &pool->device, err);
  if (rc == 0 && shape->host_units > 0)
    rc = allocate(shape->host_units, pool->unit_bytes, &pool->host, err);
  if (rc == 0 && shape->scratch_blocks > 0)
    rc = allocate_scratch(pool, ranks != NULL ? ranks->size : 1, err);
  if (rc != 0) {
    lls_cpu_pool_destroy(device, pool);
    return rc;
  }
  *out = pool;
  return 0;
}

void lls_cpu_pool_destroy(struct lls_device *device, struct lls_pool *pool)
{
  (void)device;
  if (pool == NULL)
    return;
  lls_cpu_memory_free(pool->scores);
  if (pool->absorbed_part != pool->absorbed)
    lls_cpu_memory_free(pool->absorbed_part);
  lls_cpu_memory_free(pool->absorbed);
  lls_cpu_memory_free(pool->angles);
  lls_cpu_memory_free(pool->restored);
  if (pool->whole_x != pool->restored_x)
    lls_cpu_memory_free(pool->whole_x);
  lls_cpu_memory_free(pool->restored_x);
  lls_cpu_memory_free(pool->scratch);
  lls_cpu_memory_free(pool->host);
  lls_cpu_memory_free(pool->device);
  free(pool);
}

/* ---- copies ---------------------------------------------------------------------- */

/* An INT8 block's sides, then their scales, which are aligned, since heads have an even
 * number of channels. */
static struct lls_pool_block int8_block(const struct lls_pool *p, uint32_t group,
                                        char *at)
{
  return (struct lls_pool_block){
      .numbers = at,
      .scales = (uint16_t *)(void *)(at + lls_form_sides(&p->shape, LLS_FORM_INT8) *
                                              lls_side_numbers(&p->groups[group]))};
}

/* The block that a copy reads or writes in one of the tiers. */
static struct lls_pool_block block_at(const struct lls_pool *p, bool host, uint32_t group,
                                      uint32_t form, uint32_t block)
{
  char *at = (host ? p->host : p->device) + block * p->unit_bytes;
  return form == LLS_FORM_INT8 ? int8_block(p, group, at)
                               : (struct lls_pool_block){.numbers = at};
}

/* Heads of the layers of a group in its blocks, in the cache's own type. */
struct heads {
  size_t n, slot_bytes, stride;
};

static struct heads heads_in(const struct lls_pool *p, uint32_t group, uint32_t form)
{
  const struct lls_pool_shape *s = &p->groups[group];
  return (struct heads){(size_t)lls_form_sides(s, form) * s->layers * s->kv_heads,
                        p->slot_bytes[group], p->head_bytes[group]};
}

/* Copies n_slots slots in every head. */
static void copy_heads(const struct heads *h, const char *from, char *to,
                       uint32_t n_slots)
{
  for (size_t i = 0; i < h->n; i++)
    memmove(to + i * h->stride, from + i * h->stride, n_slots * h->slot_bytes);
}

static int copy_slots(const struct lls_cpu_int8_kernels *k, const struct lls_pool *p,
                      const struct lls_copy *c)
{
  if (!lls_copy_fits(&p->shape, c))
    return -EINVAL;
  const struct lls_pool_shape *shape = &p->groups[c->group];
  bool from_host = lls_copy_way(c) == LLS_COPY_HOST_TO_DEVICE;
  bool to_host = lls_copy_way(c) == LLS_COPY_DEVICE_TO_HOST;
  struct lls_pool_block from =
      block_at(p, from_host, c->group, c->source_form, c->source);
  struct lls_pool_block to = block_at(p, to_host, c->group, c->target_form, c->target);
  if (from.scales != NULL || to.scales != NULL) {
    lls_cpu_convert(k, shape, from, to);
    return 0;
  }
  if (shape->state > 0) { /* with the rest of the last unit, where a wider block lay */
    memcpy(to.numbers, from.numbers,
           lls_form_units(shape, LLS_FORM_STATE) * p->unit_bytes);
    return 0;
  }
  const struct heads heads = heads_in(p, c->group, c->source_form);
  size_t first = c->slot * heads.slot_bytes;
  size_t target = (size_t)(c->slot + c->shift) * heads.slot_bytes;
  if (c->n_slots == p->shape.block_tokens) /* whole blocks are contiguous in memory */
    memmove(to.numbers, from.numbers, lls_form_bytes(shape, c->source_form));
  else
    copy_heads(&heads, from.numbers + first, to.numbers + target, c->n_slots);
  return 0;
}

int lls_cpu_pool_copy(struct lls_device *device, struct lls_pool *pool,
                      const struct lls_copy *copies, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    int rc = copy_slots(&lls_cpu(device)->kernels.int8, pool, &copies[i]);
    if (rc != 0)
      return rc;
  }
  return 0;
}

int lls_cpu_pool_read(struct lls_device *device, const struct lls_pool *pool,
                      uint32_t group, uint32_t block, void *to)
{
  (void)device;
  if (group >= lls_pool_groups(&pool->shape) ||
      !lls_block_fits(&pool->groups[group], false, LLS_FORM_NONE, block))
    return -EINVAL;
  memcpy(to, pool->device + block * pool->unit_bytes,
         lls_form_bytes(&pool->groups[group], LLS_FORM_NONE));
  return 0;
}

int lls_cpu_pool_write(struct lls_device *device, struct lls_pool *pool, uint32_t group,
                       uint32_t block, const void *from)
{
  (void)device;
  if (group >= lls_pool_groups(&pool->shape) ||
      !lls_block_fits(&pool->groups[group], false, LLS_FORM_NONE, block))
    return -EINVAL;
  memcpy(pool->device + block * pool->unit_bytes, from,
         lls_form_bytes(&pool->groups[group], LLS_FORM_NONE));
  return 0;
}

int lls_cpu_pool_pull(struct lls_device *device, struct lls_pool *pool,
                      struct lls_device *from, const struct lls_pool *from_pool,
                      const struct lls_pull *list, size_t n)
{
  (void)from;
  for (size_t i = 0; i < n; i++) {
    const struct lls_pull *c = &list[i];
    if (!lls_pull_source_fits(&from_pool->shape, c) ||
        !lls_pull_target_fits(&pool->shape, c))
      return -EINVAL;
    struct lls_pool_block from_block =
        block_at(from_pool, false, c->group, c->source_form, c->source);
    const char *source = from_block.numbers;
    const struct heads heads = heads_in(pool, c->group, c->source_form);
    char *target = pool->device + c->target * pool->unit_bytes;
    if (pool->groups[c->group].state > 0)
      memcpy(target, source, pool->groups[c->group].state);
    else if (lls_pull_is_int8(c))
      lls_cpu_widen(&lls_cpu(device)->kernels.int8, &pool->groups[c->group], from_block,
                    c->source_slot, target, c->target_slot, c->n_slots);
    else if (c->n_slots == pool->shape.block_tokens)
      memcpy(target, source, heads.n * heads.stride);
    else
      copy_heads(&heads, source + c->source_slot * heads.slot_bytes,
                 target + c->target_slot * heads.slot_bytes, c->n_slots);
  }
  return 0;
}

/* Copies n_slots slots of every head between the pool and the contiguous buffer `packed`
 * (out: pool to buffer). Returns the end of the packed data. */
static char *pack_heads(const struct heads *h, char *at, char *packed, uint32_t n_slots,
                        bool out)
{
  size_t bytes = n_slots * h->slot_bytes;
  for (size_t i = 0; i < h->n; i++, at += h->stride, packed += bytes)
    memcpy(out ? packed : at, out ? at : packed, bytes);
  return packed;
}

int lls_cpu_pool_pack(struct lls_device *device, const struct lls_pool *pool,
                      const struct lls_pull *list, size_t n, void *to)
{
  char *packed = to;
  for (size_t i = 0; i < n; i++) {
    const struct lls_pull *c = &list[i];
    if (!lls_pull_source_fits(&pool->shape, c))
      return -EINVAL;
    if (lls_pull_is_int8(c)) {
      lls_cpu_convert(&lls_cpu(device)->kernels.int8, &pool->groups[c->group],
                      block_at(pool, false, c->group, LLS_FORM_INT8, c->source),
                      int8_block(pool, c->group, packed));
      packed += lls_pulled_bytes(&pool->shape, c);
      continue;
    }
    const struct heads heads = heads_in(pool, c->group, c->source_form);
    char *at = pool->device + c->source * pool->unit_bytes;
    if (pool->groups[c->group].state > 0) {
      memcpy(packed, at, pool->groups[c->group].state);
      packed += pool->groups[c->group].state;
      continue;
    }
    packed = pack_heads(&heads, at + c->source_slot * heads.slot_bytes, packed,
                        c->n_slots, true);
  }
  return 0;
}

int lls_cpu_pool_unpack(struct lls_device *device, struct lls_pool *pool,
                        const struct lls_pull *list, size_t n, const void *from)
{
  char *packed = (char *)(uintptr_t)from; /* only read from */
  for (size_t i = 0; i < n; i++) {
    const struct lls_pull *c = &list[i];
    if (!lls_pull_target_fits(&pool->shape, c))
      return -EINVAL;
    char *at = pool->device + c->target * pool->unit_bytes;
    if (pool->groups[c->group].state > 0) {
      memcpy(at, packed, pool->groups[c->group].state);
      packed += pool->groups[c->group].state;
      continue;
    }
    if (lls_pull_is_int8(c)) {
      lls_cpu_widen(&lls_cpu(device)->kernels.int8, &pool->groups[c->group],
                    int8_block(pool, c->group, packed), c->source_slot, at,
                    c->target_slot, c->n_slots);
      packed += lls_pulled_bytes(&pool->shape, c);
      continue;
    }
    const struct heads heads = heads_in(pool, c->group, c->source_form);
    packed = pack_heads(&heads, at + c->target_slot * heads.slot_bytes, packed,
                        c->n_slots, false);
  }
  return 0;
}

/* ---- writing --------------------------------------------------------------------- */

uint32_t lls_pool_find(const struct lls_block_entry *list, uint32_t n, uint32_t token)
{
  uint32_t low = 0, high = n;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (list[middle].first_token <= token)
      low = middle;
    else
      high = middle;
  }
  return low;
}

struct writing {
  const struct lls_cpu_device *device;
  const float *qkv; /* (n_rows, columns) */
  size_t columns, k_column, v_column;
  uint32_t group, layer;
};

void lls_pool_write_slot(const struct lls_cpu_device *d, struct lls_pool_units units,
                         const float *row, const struct lls_block_entry *e,
                         uint32_t token)
{
  const struct lls_pool *p = d->pool;
  const struct lls_pool_shape *shape = &p->groups[units.group];
  char *to = units.base + e->block * units.unit_bytes +
             lls_pool_slot_offset(p, units.group, e, token);
  for (uint32_t head = 0; head < shape->kv_heads; head++) {
    if (shape->element == LLS_BF16)
      d->kernels.rows.to_bf16(row, shape->head_dim, (uint16_t *)to);
    else
      memcpy(to, row, p->slot_bytes[units.group]);
    row += shape->head_dim;
    to += p->head_bytes[units.group];
  }
}

static void write_rows(const struct writing *w, const struct lls_step_sequence *s,
                       size_t begin, size_t end)
{
  const struct lls_pool *p = w->device->pool;
  struct lls_pool_units k = lls_pool_units(p, s, false, w->group, w->layer, 0);
  struct lls_pool_units v = lls_pool_units(p, s, true, w->group, w->layer, 0);
  uint32_t token = s->context + (uint32_t)(begin - s->first_row);
  const struct lls_block_entry *e =
      s->kv.entries + lls_pool_find(s->kv.entries, s->kv.n, token);
  for (size_t row = begin; row < end; row++, token++) {
    const float *at = w->qkv + row * w->columns;
    while (token >= e->first_token + e->count)
      e++;
    lls_pool_write_slot(w->device, k, at + w->k_column, e, token);
    if (!p->shape.latent)
      lls_pool_write_slot(w->device, v, at + w->v_column, e, token);
  }
}

static void write_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct writing *w = arg;
  const struct lls_device_step *step = w->device->step;
  size_t begin, end;
  lls_cpu_share(step->n_rows, 1, thread, n_threads, &begin, &end);
  while (begin < end) {
    const struct lls_step_sequence *s =
        lls_step_group(step, w->group) + step->sequence[begin];
    size_t past = s->first_row + s->n_rows;
    past = past < end ? past : end;
    if (s->absorbed) {
      begin = past;
      continue;
    }
    write_rows(w, s, begin, past);
    begin = past;
  }
}

/* Bytes of a call: rows x kv_heads x head_dim x 2 x (4 read + element written). */
void lls_cpu_cache_write(struct lls_device *device,
                         const struct lls_attention_shape *shape, uint32_t layer,
                         const void *qkv)
{
  struct lls_cpu_device *d = lls_cpu(device);
  size_t k_column = (size_t)shape->heads * shape->head_dim;
  size_t kv = (size_t)shape->kv_heads * shape->head_dim;
  struct writing w = {.device = d,
                      .qkv = qkv,
                      .columns = lls_qkv_width(shape),
                      .k_column = k_column,
                      .v_column = k_column + kv,
                      .group = shape->group,
                      .layer = layer};
  lls_cpu_run_rows(d, write_task, &w, d->step->n_rows, 2 * kv);
}
