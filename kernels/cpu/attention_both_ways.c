/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of encoders: every row sees all rows of its sequence in the step, or those
 * less than a window before and after it.
 *
 * It uses the kernels of attention.c, which read K and V through a list of blocks. Here
 * one block is the whole sequence: its rows of qkv, `columns` floats apart. A causal
 * row at position p sees tokens 0..p; so all rows of a task get the position of the
 * sequence's last token, where the range of tokens ends. With a window w, a row gets its
 * own position plus w - 1 and a causal window of 2 w - 1, which ends w - 1 tokens after
 * it and begins as many before it.
 */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#include <errno.h>
#include <stdatomic.h>

struct run {
  struct lls_cpu_device *device;
  struct lls_attention_shape shape;
  uint32_t group, stride;
  const float *qkv; /* (n_rows, columns) */
  size_t columns;
  float *out; /* (n_rows, heads head_dim) */
  void (*attend)(const struct lls_attention_task *, uint32_t begin, uint32_t end,
                 const struct lls_attention_state *out, void *scratch);
  atomic_uint next; /* the next (sequence, KV head) to take */
};

/* Returns a head's K or V vectors as a list of one block that begins at `first`. */
static struct lls_kv_list rows_as_list(const struct run *r, const float *first,
                                       const struct lls_block_entry *entry)
{
  return (struct lls_kv_list){
      .base = (const char *)first,
      .slot_bytes = r->columns * sizeof(float),
      .block_tokens = entry->count,
      .entries = entry,
      .n_entries = 1,
  };
}

static void write_out(const struct run *r, size_t first_row, uint32_t n_rows,
                      uint32_t head, const struct lls_attention_state *s)
{
  uint32_t head_dim = r->shape.head_dim;
  for (uint32_t i = 0; i < n_rows * r->group; i++) {
    size_t column = (head * r->group + i % r->group) * (size_t)head_dim;
    float *out = r->out + (first_row + i / r->group) * r->shape.heads * head_dim + column;
    float part = 1 / s->sum[i];
    for (uint32_t d = 0; d < head_dim; d++)
      out[d] = s->values[(size_t)i * r->stride + d] * part;
  }
}

/* Returns the numbers of a KV head's first query for row `first`'s distance 0 to token
 * 0. */
static const float *relative_of(const struct run *r, uint32_t head, uint32_t first)
{
  size_t columns = lls_relative_columns(r->shape.reach);
  return r->shape.relative + head * r->group * columns + r->shape.reach - first;
}

/* Computes all rows of a sequence for one KV head, as many at a time as a kernel
 * accepts. */
static void run_head(const struct run *r, const struct lls_step_sequence *s,
                     uint32_t head, char *scratch)
{
  uint32_t n = s->n_rows, most = LLS_ATTENTION_QUERIES / r->group;
  const float *rows = r->qkv + s->first_row * r->columns;
  const float *k = rows + (r->shape.heads + (size_t)head) * r->shape.head_dim;
  const struct lls_block_entry all = {.count = (uint16_t)n};
  float *room = (float *)(scratch + LLS_ATTENTION_SCRATCH);
  const struct lls_attention_state state = {
      .values = room,
      .max = room + (size_t)LLS_ATTENTION_QUERIES * r->stride,
      .sum = room + (size_t)LLS_ATTENTION_QUERIES * (r->stride + 1),
  };
  struct lls_attention_task task = {
      .q_stride = r->columns,
      .group = r->group,
      .head_dim = r->shape.head_dim,
      .first_position = n - 1,
      .scale = r->shape.scale,
      .relative_columns = lls_relative_columns(r->shape.reach),
      .k = rows_as_list(r, k, &all),
      .v = rows_as_list(r, k + (size_t)r->shape.kv_heads * r->shape.head_dim, &all),
  };
  uint32_t window = r->shape.window;
  for (uint32_t first = 0; first < n; first += task.n_rows) {
    task.n_rows = most < n - first ? most : n - first;
    if (window > 0 && window <= n) {
      task.first_position = first + window - 1;
      task.window = 2 * window - 1;
    }
    if (r->shape.relative != NULL)
      task.relative = relative_of(r, head, first);
    task.q = rows + first * r->columns + (size_t)head * r->group * r->shape.head_dim;
    r->attend(&task, 0, n, &state, scratch);
    write_out(r, s->first_row + (size_t)first, task.n_rows, head, &state);
  }
}

static void heads_task(void *arg, unsigned thread, unsigned n_threads)
{
  (void)n_threads;
  struct run *r = arg;
  const struct lls_device_step *step = r->device->step;
  uint32_t heads = r->shape.kv_heads, n = step->n_sequences * heads;
  for (;;) {
    uint32_t i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    if (i >= n)
      return;
    if (step->sequences[i / heads].n_rows > 0)
      run_head(r, &step->sequences[i / heads], i % heads,
               lls_cpu_scratch(r->device, thread));
  }
}

static int check(struct lls_cpu_device *d, const struct lls_attention_shape *s)
{
  if (s->head_dim > LLS_HEAD_DIM_MAX || s->heads / s->kv_heads > LLS_ATTENTION_QUERIES)
    lls_cpu_step_fail(d, -ENOTSUP, "attention of heads of %u dims: at most %u",
                      s->head_dim, LLS_HEAD_DIM_MAX);
  uint32_t most = UINT16_MAX;
  if (s->relative != NULL && s->reach < most)
    most = s->reach + 1;
  for (uint32_t i = 0; i < d->step->n_sequences; i++)
    if (d->step->sequences[i].n_rows > most)
      lls_cpu_step_fail(d, -ENOTSUP, "a text of %u tokens: this encoder takes up to %u",
                        d->step->sequences[i].n_rows, most);
  return d->status;
}

void lls_cpu_attention_both_ways(struct lls_device *device,
                                 const struct lls_attention_shape *shape, const void *qkv,
                                 void *out)
{
  struct lls_cpu_device *d = lls_cpu(device);
  if (check(d, shape) != 0)
    return;
  const struct lls_cpu_attention_kernels *k = &d->kernels.attention;
  struct run r = {
      .device = d,
      .shape = *shape,
      .group = shape->heads / shape->kv_heads,
      .stride = lls_attention_stride(shape->head_dim),
      .qkv = qkv,
      .columns = lls_qkv_width(shape),
      .out = out,
      .attend = shape->head_dim % 8 != 0 ? k->attend_any : k->attend,
  };
  lls_cpu_run(d->threads, heads_task, &r);
}
