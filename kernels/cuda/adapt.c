/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The products of LoRA adapters, as records. Which rows have which adapter, and where an
 * adapter's matrices are, are sent with the step's inputs in a buffer of their own. A
 * step with as many rows, adapters, ranks finds them at the same places, so that its
 * records are those of a graph. The buffer grows in the step that it is too small for:
 * what was recorded runs first, and graphs, which have addresses in it, are discarded.
 */
#include "core/device/numbers.h"
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <string.h>

#define RANKS_STEP 16 /* ranks are rounded up, so that few graphs differ by them */

static uint32_t most(uint32_t a, uint32_t b)
{
  return a > b ? a : b;
}

/* ---- data of the step -------------------------------------------------------------- */

/* Replaces the buffer by one with room for `bytes` more. */
static int grow(struct lls_cuda_device *d, size_t bytes)
{
  d->ops->in_pieces = true;
  lls_cuda_ops_flush(d);
  int rc = cudaStreamSynchronize(d->stream); /* kernels may be reading the buffer */
  if (rc != cudaSuccess)
    return -EIO;
  lls_cuda_ops_forget(d);
  d->adapted.n_lists = 0;
  return lls_cuda_inputs_begin(&d->adapted.inputs, d->adapted.inputs.capacity + bytes);
}

/* Makes room for `bytes` in the step's data. Returns false if the step has failed. */
static bool make_room(struct lls_cuda_device *d, size_t bytes)
{
  struct lls_cuda_inputs *in = &d->adapted.inputs;
  int rc = 0;
  if (!d->adapted.begun) {
    rc = lls_cuda_inputs_begin(in, 0);
    d->adapted.begun = true;
    d->adapted.n_lists = 0;
  }
  if (rc == 0 && in->capacity - in->used < bytes)
    rc = grow(d, bytes);
  if (rc < 0)
    lls_cuda_step_fail(d, rc, "no memory on the GPU for the adapters of a step");
  return d->status == 0;
}

static uint32_t count_rows(const struct lls_adapted_rows *groups, uint32_t n)
{
  uint32_t rows = 0;
  for (uint32_t i = 0; i < n; i++)
    rows += groups[i].n_rows;
  return rows;
}

static size_t list_bytes(const struct lls_cuda_device *d, uint32_t entries)
{
  return (lls_cuda_padded(entries) + (size_t)lls_cuda_padded(d->step->n_rows)) *
             sizeof(uint32_t) +
         32;
}

/* Writes the rows of all groups one after the other, and the group of each row. */
static void write_list(struct lls_cuda_device *d, const struct lls_adapted_rows *groups,
                       uint32_t n, struct lls_cuda_adapted_list *out)
{
  struct lls_cuda_inputs *in = &d->adapted.inputs;
  uint32_t padded = lls_cuda_padded(out->n), all = lls_cuda_padded(d->step->n_rows);
  uint32_t *rows = lls_cuda_inputs_take(in, padded * sizeof *rows, &out->rows_at);
  uint32_t *adapter_of =
      lls_cuda_inputs_take(in, all * sizeof *rows, &out->adapter_of_at);
  for (uint32_t i = 0; i < all; i++)
    adapter_of[i] = LLS_CUDA_NO_ADAPTER;
  for (uint32_t g = 0; g < n; g++)
    for (uint32_t i = 0; i < groups[g].n_rows; i++) {
      *rows++ = groups[g].rows[i];
      adapter_of[groups[g].rows[i]] = g;
    }
  for (uint32_t i = out->n; i < padded; i++)
    *rows++ = LLS_CUDA_NO_ROW;
}

/* Returns the list of these groups, which all products of a step share. There is room for
 * one. */
static const struct lls_cuda_adapted_list *
list_of(struct lls_cuda_device *d, const struct lls_adapted_rows *groups, uint32_t n)
{
  struct lls_cuda_adapted *a = &d->adapted;
  uint32_t rows = count_rows(groups, n);
  for (uint32_t i = 0; i < a->n_lists; i++)
    if (a->lists[i].of == groups->rows && a->lists[i].n == rows)
      return &a->lists[i];
  struct lls_cuda_adapted_list *new = &a->lists[a->n_lists % LLS_CUDA_ADAPTED_LISTS];
  a->n_lists += a->n_lists < LLS_CUDA_ADAPTED_LISTS;
  *new = (struct lls_cuda_adapted_list){.of = groups->rows, .n = rows};
  write_list(d, groups, n, new);
  return new;
}

/* Writes the groups' matrices; returns their address on the device. */
static const struct lls_cuda_adapter *
write_adapters(struct lls_cuda_device *d, const struct lls_adapted_rows *groups,
               uint32_t n)
{
  const struct lls_cuda_adapter *at;
  size_t bytes = lls_cuda_padded(n) * sizeof *at;
  struct lls_cuda_adapter *to = lls_cuda_inputs_take(&d->adapted.inputs, bytes, &at);
  for (uint32_t i = 0; i < n; i++) {
    to[i].scale = groups[i].scale;
    to[i].n_parts = groups[i].n_parts;
    memcpy(to[i].parts, groups[i].parts, sizeof to[i].parts);
  }
  return at;
}

/* ---- records ----------------------------------------------------------------------- */

/* Sets the sizes that all adapters fit, and how their numbers can be read. */
static void measure(const struct lls_adapted_rows *groups, uint32_t n, size_t number,
                    struct lls_cuda_adapt *a)
{
  uint32_t inputs = a->inputs, outputs = a->outputs, wide = 16 / (uint32_t)number;
  uintptr_t x = (uintptr_t)a->x, y = (uintptr_t)a->y;
  for (uint32_t g = 0; g < n; g++) {
    a->parts = most(a->parts, groups[g].n_parts);
    for (uint32_t i = 0; i < groups[g].n_parts; i++) {
      const struct lls_low_rank *p = &groups[g].parts[i];
      a->ranks = most(a->ranks, p->rank);
      a->columns = most(a->columns, p->outputs);
      inputs |= p->a_stride;
      outputs |= p->b_stride | p->first_output | p->outputs;
      x |= (uintptr_t)p->a;
      y |= (uintptr_t)p->b;
    }
  }
  a->ranks = (a->ranks + RANKS_STEP - 1) / RANKS_STEP * RANKS_STEP;
  a->wide_inputs = inputs % wide == 0 && x % 16 == 0;
  a->wide_outputs = outputs % 2 == 0 && y % (2 * number) == 0;
}

/* Returns how many entries a thread block gets: about as many as have the same matrices,
 * so that few blocks work on several of them in turn. */
static uint32_t tile_of(uint32_t entries, uint32_t matrices)
{
  uint32_t tile = 1;
  while (tile < LLS_CUDA_ADAPT_TILE && tile * matrices < entries)
    tile *= 2;
  return tile;
}

/* Fills what both operations share. Returns false if there is nothing to do. */
static bool begin(struct lls_cuda_device *d, const struct lls_adapted_rows *groups,
                  uint32_t n, struct lls_cuda_adapt *a)
{
  measure(groups, n, lls_dtype_bytes(lls_cuda_numbers(d)), a);
  uint32_t rows = count_rows(groups, n);
  if (a->parts == 0 || rows == 0 || d->status != 0)
    return false;
  if (a->ranks > LLS_CUDA_ADAPT_RANKS) {
    lls_cuda_step_fail(d, -EINVAL, "an adapter of rank %u: at most %u", a->ranks,
                       LLS_CUDA_ADAPT_RANKS);
    return false;
  }
  if (!make_room(d, list_bytes(d, rows) +
                        lls_cuda_padded(n) * sizeof(struct lls_cuda_adapter) + 16))
    return false;
  const struct lls_cuda_adapted_list *list = list_of(d, groups, n);
  a->rows = list->rows_at;
  a->adapter_of = list->adapter_of_at;
  a->adapters = write_adapters(d, groups, n);
  a->all = a->entries = lls_cuda_padded(rows);
  a->tile = tile_of(rows, n);
  return true;
}

static void set_buffers(struct lls_cuda_adapt *a, const void *x, uint32_t inputs,
                        float *t, void *y, uint32_t outputs)
{
  memset(a, 0, sizeof *a);
  a->inputs = inputs;
  a->outputs = outputs;
  a->x = x;
  a->t = t;
  a->y = y;
}

void lls_cuda_adapt_rows(struct lls_device *device, const struct lls_adapted_rows *groups,
                         uint32_t n_groups, const void *x, uint32_t inputs,
                         float *scratch, void *y, uint32_t outputs)
{
  struct lls_cuda_device *d = lls_cuda(device);
  struct lls_cuda_adapt a;
  set_buffers(&a, x, inputs, scratch, y, outputs);
  if (begin(d, groups, n_groups, &a))
    lls_cuda_op_add(d, LLS_CUDA_ADAPT)->adapt = a;
}

/* Rows that pad the step have entries too, but no adapter. */
void lls_cuda_adapt_experts(struct lls_device *device,
                            const struct lls_adapted_rows *groups, uint32_t n_groups,
                            const struct lls_route *route, uint32_t n_rows, const void *x,
                            uint32_t inputs, float *scratch, size_t room, void *y,
                            uint32_t outputs)
{
  struct lls_cuda_device *d = lls_cuda(device);
  struct lls_cuda_adapt a;
  set_buffers(&a, x, inputs, scratch, y, outputs);
  if (!begin(d, groups, n_groups, &a))
    return;
  uint32_t at_once = (uint32_t)(room / ((size_t)a.parts * a.ranks));
  a.rows = NULL;
  a.route_row = route->row;
  a.route_first = route->first;
  a.experts = route->experts;
  a.all = lls_cuda_padded(n_rows) * route->active;
  a.tile = tile_of(a.all, route->experts);
  for (; a.first < a.all; a.first += a.entries) {
    a.entries = a.all - a.first < at_once ? a.all - a.first : at_once;
    lls_cuda_op_add(d, LLS_CUDA_ADAPT)->adapt = a;
  }
}

/* ---- matrices ---------------------------------------------------------------------- */

/* Pinned memory is read by the GPU where it is. */
static void write_pinned(enum lls_dtype to_type, const float *from, size_t n, void *to)
{
  uint16_t *half = to;
  if (to_type == LLS_F32) {
    memcpy(to, from, n * sizeof *from);
    return;
  }
  for (size_t i = 0; i < n; i++)
    half[i] = lls_f32_to_bf16(from[i]);
}

int lls_cuda_adapter_write(struct lls_device *device, enum lls_memory memory,
                           const struct lls_adapter_numbers *parts, size_t n)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (memory != LLS_MEMORY_PINNED) {
    int rc = lls_cuda_use(d);
    return rc < 0 ? rc : lls_cuda_load_numbers(d, parts, n);
  }
  for (size_t i = 0; i < n; i++)
    write_pinned(lls_cuda_numbers(d), parts[i].from, parts[i].n, parts[i].to);
  return 0;
}
