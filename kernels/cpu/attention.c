/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of a whole batch. The batch is cut into items, each some rows of one
 * sequence; threads take (item, KV head) pairs one after the other.
 *
 * An item is at most 128 queries (rows x q heads of a KV head), so that a tile of K and V
 * is widened to f32 once for many queries. A sequence's tokens are taken in chunks of
 * 1,024, each with a softmax state of its own, merged in token order. So several
 * threads can share a long context where there are fewer items than threads. The chunks
 * are the same whether they are shared or not, so a row's result depends neither on the
 * batch around it, nor on how its prompt was cut, nor on the number of threads.
 */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/pool.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>

#define CHUNK_TOKENS 1024
/* bytes of each thread for the states of shared rows */
#define PARTS_BYTES     ((size_t)512 << 10)
#define FEW_QUERIES     16
#define ITEM_COST_FIXED 16 /* the fixed cost of widening K and V, in queries */

/* Some rows of a sequence, and the chunks of tokens that any of these rows sees. */
struct rows {
  const struct lls_step_sequence *sequence;
  uint32_t first, n; /* rows of the sequence in this step */
  /* n = 1: the tokens that the row attends to; NULL: all that it sees */
  const uint32_t *chosen;
  uint32_t first_chunk, past_chunk;
};

/* The work that a thread takes at a time: all chunks of some rows, or some of their
 * chunks (shared), whose states are merged at the end. */
struct item {
  struct rows rows;
  uint32_t first_chunk, past_chunk;
  bool shared;
  size_t parts; /* if shared: index in run.parts of the states of the rows' chunks */
};

struct run {
  struct lls_cpu_device *device;
  struct lls_attention_shape shape;
  uint32_t layer, group, stride;
  /* (KV head, part of its q heads) pairs, which threads take; and parts of a KV head */
  uint32_t kv_parts, splits;
  const float *qkv; /* (n_rows, columns) */
  size_t columns;
  float *out; /* (n_rows, heads head_dim) */
  void (*attend)(const struct lls_attention_task *, uint32_t begin, uint32_t end,
                 const struct lls_attention_state *out, void *scratch);
  struct item *items; /* (n_items) */
  uint32_t n_items;
  float *parts; /* (parts_size) states (chunks, kv_heads) of shared rows */
  size_t parts_used, parts_size;
  atomic_uint next; /* the next (item, KV head) to take */
};

/* ---- states ---------------------------------------------------------------------- */

static size_t state_floats(uint32_t queries, uint32_t stride)
{
  return queries * (size_t)(stride + 2);
}

static struct lls_attention_state state_at(float *at, uint32_t queries, uint32_t stride)
{
  return (struct lls_attention_state){
      .values = at,
      .max = at + (size_t)queries * stride,
      .sum = at + (size_t)queries * stride + queries,
  };
}

/* Adds a later chunk's state (FlashAttention, section 3.1). */
static void merge(const struct lls_attention_state *into,
                  const struct lls_attention_state *later, uint32_t queries,
                  uint32_t stride)
{
  for (uint32_t i = 0; i < queries; i++) {
    float max = into->max[i] > later->max[i] ? into->max[i] : later->max[i];
    float a = exp2f(into->max[i] - max), b = exp2f(later->max[i] - max);
    float *x = into->values + (size_t)i * stride;
    const float *y = later->values + (size_t)i * stride;
    for (uint32_t d = 0; d < stride; d++)
      x[d] = x[d] * a + y[d] * b;
    into->max[i] = max;
    into->sum[i] = into->sum[i] * a + later->sum[i] * b;
  }
}

/* Returns the factor that normalises a query's values: 1 / the sum of its weights. A
 * sink counts as one more token of value 0, so only its weight joins the sum. */
static float worth(const struct run *r, uint32_t head, float max, float sum)
{
  if (r->shape.sinks == NULL)
    return 1 / sum;
  float sink = r->shape.sinks[head] * 1.44269504f, top = max > sink ? max : sink;
  float decay = exp2f(max - top);
  return decay / (sum * decay + exp2f(sink - top));
}

static void write_out(const struct run *r, const struct rows *rows, uint32_t head,
                      const struct lls_attention_state *s)
{
  uint32_t head_dim = r->shape.head_dim;
  for (uint32_t i = 0; i < rows->n * r->group; i++) {
    size_t row = rows->sequence->first_row + rows->first + i / r->group;
    uint32_t q_head = head * r->group + i % r->group;
    float *out = r->out + (row * r->shape.heads + q_head) * (size_t)head_dim;
    float part = worth(r, q_head, s->max[i], s->sum[i]);
    for (uint32_t d = 0; d < head_dim; d++)
      out[d] = s->values[(size_t)i * r->stride + d] * part;
  }
}

/* ---- running --------------------------------------------------------------------- */

struct lls_kv_list lls_cpu_kv_list(const struct lls_cpu_device *d,
                                   const struct lls_attention_shape *a, uint32_t layer,
                                   uint32_t head, const struct lls_step_sequence *s,
                                   bool is_v)
{
  const struct lls_pool *p = d->pool;
  const struct lls_pool_shape *shape = &p->groups[a->group];
  struct lls_pool_units units = lls_pool_units(p, s, is_v, a->group, layer, head);
  size_t index = (size_t)layer * shape->kv_heads + head;
  size_t side = lls_side_numbers(shape), scales = lls_scale_bytes(shape);
  bool int8 = lls_pool_has_int8(&p->shape, false) && !s->scratch;
  bool second = is_v && !shape->latent;
  const char *numbers = p->device + (second ? side : 0);
  const char *steps =
      p->device + lls_form_sides(shape, LLS_FORM_INT8) * side + (second ? scales : 0);
  return (struct lls_kv_list){
      .base = units.base,
      .unit_bytes = units.unit_bytes,
      .slot_bytes = p->slot_bytes[a->group],
      .int8 = int8 ? numbers + index * shape->block_tokens * shape->head_dim : NULL,
      .scales = int8 ? steps + index * 2 * shape->head_dim * sizeof(uint16_t) : NULL,
      .head_dim = shape->head_dim,
      .block_tokens = shape->block_tokens,
      .entries = s->kv.entries,
      .n_entries = s->kv.n,
  };
}

static struct lls_kv_list list_of(const struct run *r, uint32_t head,
                                  const struct rows *rows, bool is_v)
{
  struct lls_kv_list list =
      lls_cpu_kv_list(r->device, &r->shape, r->layer, head, rows->sequence, is_v);
  list.chosen = rows->chosen;
  return list;
}

/* The oldest token that the row at a position sees. */
static uint32_t oldest_of(const struct run *r, uint32_t position)
{
  uint32_t window = r->shape.window;
  if (window != 0 && r->shape.chunked)
    return position - position % window;
  return window != 0 && position >= window ? position + 1 - window : 0;
}

static struct lls_attention_task task_of(const struct run *r, const struct rows *rows,
                                         uint32_t head)
{
  const struct lls_step_sequence *s = rows->sequence;
  size_t row = s->first_row + rows->first;
  return (struct lls_attention_task){
      .q = r->qkv + row * r->columns + (size_t)head * r->group * r->shape.head_dim,
      .q_stride = r->columns,
      .n_rows = rows->n,
      .group = r->group,
      .head_dim = r->shape.head_dim,
      .first_position =
          rows->chosen != NULL ? r->shape.n_chosen - 1 : s->context + rows->first,
      .scale = r->shape.scale,
      .soft_cap = r->shape.soft_cap,
      .slopes =
          r->shape.slopes != NULL ? r->shape.slopes + (size_t)head * r->group : NULL,
      .window = r->shape.chunked ? 0 : r->shape.window,
      .oldest = r->shape.chunked ? oldest_of(r, s->context + rows->first) : 0,
      .bf16 = r->device->pool->shape.element == LLS_BF16,
      .k = list_of(r, head / r->splits, rows, false),
      .v = list_of(r, head / r->splits, rows, true),
  };
}

static void attend_chunk(const struct run *r, const struct lls_attention_task *t,
                         uint32_t chunk, const struct lls_attention_state *s,
                         void *scratch)
{
  r->attend(t, chunk * CHUNK_TOKENS, (chunk + 1) * CHUNK_TOKENS, s, scratch);
}

static struct lls_attention_state part_at(const struct run *r, const struct item *item,
                                          uint32_t head, uint32_t chunk)
{
  uint32_t queries = item->rows.n * r->group;
  size_t index = (size_t)(chunk - item->rows.first_chunk) * r->kv_parts + head;
  return state_at(r->parts + item->parts + index * state_floats(queries, r->stride),
                  queries, r->stride);
}

static void run_shared(const struct run *r, const struct item *item, uint32_t head,
                       void *scratch)
{
  struct lls_attention_task task = task_of(r, &item->rows, head);
  for (uint32_t c = item->first_chunk; c < item->past_chunk; c++) {
    struct lls_attention_state s = part_at(r, item, head, c);
    attend_chunk(r, &task, c, &s, scratch);
  }
}

static void run_whole(const struct run *r, const struct item *item, uint32_t head,
                      void *scratch)
{
  uint32_t queries = item->rows.n * r->group;
  struct lls_attention_task task = task_of(r, &item->rows, head);
  float *room = (float *)((char *)scratch + LLS_ATTENTION_SCRATCH);
  struct lls_attention_state sum = state_at(room, queries, r->stride);
  room += state_floats(queries, r->stride);
  struct lls_attention_state part = state_at(room, queries, r->stride);
  attend_chunk(r, &task, item->first_chunk, &sum, scratch);
  for (uint32_t c = item->first_chunk + 1; c < item->past_chunk; c++) {
    attend_chunk(r, &task, c, &part, scratch);
    merge(&sum, &part, queries, r->stride);
  }
  write_out(r, &item->rows, head, &sum);
}

static void attention_task(void *arg, unsigned thread, unsigned n_threads)
{
  (void)n_threads;
  struct run *r = arg;
  void *scratch = lls_cpu_scratch(r->device, thread);
  uint32_t heads = r->kv_parts, n = r->n_items * heads;
  for (;;) {
    uint32_t i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    if (i >= n)
      return;
    const struct item *item = &r->items[i / heads];
    if (item->shared)
      run_shared(r, item, i % heads, scratch);
    else
      run_whole(r, item, i % heads, scratch);
  }
}

/* Merges the states of shared rows on one thread: such rows are few. */
static void merge_parts(const struct run *r)
{
  for (const struct item *item = r->items; item < r->items + r->n_items; item++) {
    if (!item->shared || item->first_chunk != item->rows.first_chunk)
      continue;
    for (uint32_t head = 0; head < r->kv_parts; head++) {
      struct lls_attention_state sum = part_at(r, item, head, item->first_chunk);
      for (uint32_t c = item->first_chunk + 1; c < item->rows.past_chunk; c++) {
        struct lls_attention_state part = part_at(r, item, head, c);
        merge(&sum, &part, item->rows.n * r->group, r->stride);
      }
      write_out(r, &item->rows, head, &sum);
    }
  }
}

/* ---- sharing out ----------------------------------------------------------------- */

/* Returns a row that attends to chosen tokens. */
static struct rows row_of_chosen(const struct run *r, const struct lls_step_sequence *s,
                                 uint32_t row)
{
  size_t n = r->shape.n_chosen;
  return (struct rows){
      .sequence = s,
      .first = row,
      .n = 1,
      .chosen = r->shape.chosen + (s->first_row + row) * n,
      .past_chunk = (uint32_t)((n - 1) / CHUNK_TOKENS + 1),
  };
}

/* Returns the rows, from `first` on, that together make the queries of one item. Rows of
 * two of the model's chunks, which see different tokens, are in two items. */
static struct rows rows_from(const struct run *r, const struct lls_step_sequence *s,
                             uint32_t first)
{
  uint32_t most = LLS_ATTENTION_QUERIES / r->group, n = s->n_rows - first;
  uint32_t position = s->context + first, window = r->shape.window;
  if (r->shape.chosen != NULL && position >= r->shape.n_chosen)
    return row_of_chosen(r, s, first);
  if (r->shape.chosen != NULL && most > r->shape.n_chosen - position)
    most = r->shape.n_chosen - position;
  if (r->shape.chunked && most > window - position % window)
    most = window - position % window;
  n = n < most ? n : most;
  return (struct rows){
      .sequence = s,
      .first = first,
      .n = n,
      .first_chunk = oldest_of(r, position) / CHUNK_TOKENS,
      .past_chunk = (position + n - 1) / CHUNK_TOKENS + 1,
  };
}

/* Estimates the work of some rows for one head, in queries x tokens. */
static uint64_t cost(const struct run *r, const struct rows *rows)
{
  uint64_t tokens = (uint64_t)rows->sequence->context + rows->first + rows->n;
  uint64_t seen = (uint64_t)r->shape.window + rows->n;
  if (rows->chosen != NULL)
    tokens = r->shape.n_chosen;
  if (r->shape.window != 0 && seen < tokens)
    tokens = seen;
  return (rows->n * r->group + ITEM_COST_FIXED) * tokens;
}

/* Calls add for the rows of every item of the batch. */
static void each_rows(struct run *r,
                      void (*add)(struct run *, const struct rows *, uint64_t *),
                      uint64_t *value)
{
  const struct lls_device_step *step = r->device->step;
  const struct lls_step_sequence *s = lls_step_group(step, r->shape.group);
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    struct rows rows;
    uint32_t n_rows = s[i].absorbed ? 0 : s[i].n_rows;
    for (uint32_t row = 0; row < n_rows; row += rows.n) {
      rows = rows_from(r, &s[i], row);
      add(r, &rows, value);
    }
  }
}

static void add_cost(struct run *r, const struct rows *rows, uint64_t *total)
{
  *total += cost(r, rows);
}

/* Adds one item, or splits the rows' chunks into several of at most `grain` work each,
 * if run.parts has space for their states. */
static void add_items(struct run *r, const struct rows *rows, uint64_t *grain)
{
  uint64_t chunks = rows->past_chunk - rows->first_chunk, n = cost(r, rows) / *grain + 1;
  size_t floats = chunks * r->kv_parts * state_floats(rows->n * r->group, r->stride);
  n = n < chunks ? n : chunks;
  if (floats > r->parts_size - r->parts_used)
    n = 1;
  for (uint64_t i = 0; i < n; i++)
    r->items[r->n_items++] = (struct item){
        .rows = *rows,
        .first_chunk = rows->first_chunk + (uint32_t)(chunks * i / n),
        .past_chunk = rows->first_chunk + (uint32_t)(chunks * (i + 1) / n),
        .shared = n > 1,
        .parts = r->parts_used,
    };
  r->parts_used += n > 1 ? floats : 0;
}

/* Builds the items; none costs more than half of a thread's fair share. */
static void share_out(struct run *r)
{
  uint64_t total = 0, grain;
  each_rows(r, add_cost, &total);
  grain = total * r->kv_parts / (2 * (uint64_t)r->device->n_threads) + 1;
  each_rows(r, add_items, &grain);
}

/* Returns in how many parts the q heads of a KV head are taken: as many as give each
 * thread work, but with at least FEW_QUERIES each, since each part widens K and V again.
 * A latent has one KV head for all heads. */
static uint32_t splits_of(const struct lls_cpu_device *d,
                          const struct lls_attention_shape *s)
{
  uint32_t group = s->heads / s->kv_heads, splits = 1;
  uint64_t pairs = (uint64_t)d->step->n_rows * s->kv_heads;
  while (pairs * splits < 2 * (uint64_t)d->n_threads && group % (2 * splits) == 0 &&
         group / (2 * splits) >= FEW_QUERIES)
    splits *= 2;
  return splits;
}

/* ---- the operation --------------------------------------------------------------- */

/* Space for all items: each has a row of its own, or is one of at most 2 x threads
 * parts. */
static size_t items_bytes(size_t rows, size_t threads)
{
  return (rows + 2 * threads) * sizeof(struct item);
}

size_t lls_cpu_attention_scratch(void)
{
  size_t state = state_floats(LLS_ATTENTION_QUERIES, LLS_HEAD_DIM_MAX) * sizeof(float);
  return LLS_ATTENTION_SCRATCH + 2 * state;
}

size_t lls_cpu_attention_shared(size_t max_rows, size_t threads)
{
  return items_bytes(max_rows, threads) + threads * PARTS_BYTES;
}

static int check_shape(struct lls_cpu_device *d, const struct lls_attention_shape *s,
                       uint32_t layer)
{
  const struct lls_pool_shape *p = &d->pool->groups[s->group];
  if (s->kv_heads != p->kv_heads || s->head_dim != p->head_dim || layer >= p->layers ||
      s->latent != p->latent)
    lls_cpu_step_fail(d, -EINVAL, "the cache was made for another shape");
  else if (s->head_dim > LLS_HEAD_DIM_MAX || s->heads % s->kv_heads != 0 ||
           s->heads / s->kv_heads > LLS_ATTENTION_QUERIES)
    lls_cpu_step_fail(d, -ENOTSUP,
                      "attention of %u heads over %u of %u dims: at most %u heads can "
                      "share one, of at most %u dims",
                      s->heads, s->kv_heads, s->head_dim, LLS_ATTENTION_QUERIES,
                      LLS_HEAD_DIM_MAX);
  return d->status;
}

void lls_cpu_attention(struct lls_device *device, const struct lls_attention_shape *shape,
                       uint32_t layer, const void *qkv, void *out)
{
  struct lls_cpu_device *d = lls_cpu(device);
  if (check_shape(d, shape, layer) != 0)
    return;
  const struct lls_cpu_attention_kernels *k = &d->kernels.attention;
  uint32_t splits = splits_of(d, shape);
  struct run r = {
      .device = d,
      .shape = *shape,
      .layer = layer,
      .group = shape->heads / shape->kv_heads / splits,
      .splits = splits,
      .kv_parts = shape->kv_heads * splits,
      .stride = lls_attention_stride(shape->head_dim),
      .qkv = qkv,
      .columns = lls_qkv_width(shape),
      .out = out,
      .attend = shape->head_dim % 8 != 0             ? k->attend_any
                : d->pool->shape.element == LLS_BF16 ? k->attend_bf16
                                                     : k->attend,
      .parts = d->shared,
      .parts_size = d->n_threads * PARTS_BYTES / sizeof(float),
      .items = (struct item *)((char *)d->shared + d->n_threads * PARTS_BYTES),
  };
  share_out(&r);
  lls_cpu_run(d->threads, attention_task, &r);
  if (r.parts_used > 0)
    merge_parts(&r);
}
