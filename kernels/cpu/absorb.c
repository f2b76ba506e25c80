/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention computed on the hidden form directly. Without rotary embedding, K = Wk x +
 * bk and V = Wv x + bv are linear in a token's X, so
 *
 *   q.(Wk x + bk) = (Wk^T q).x + c         c is the same for all tokens: softmax drops it
 *   sum p (Wv x + bv) = Wv (sum p x) + bv  for the weights p add up to 1
 *
 * so a row attends to cached tokens without their K and V. With H heads and a hidden
 * size of d this takes 4 d H operations a token and layer; restoring K and V takes 4 d
 * d (restore.c). That is head_dim times fewer for one row, and equally many for
 * head_dim rows of a sequence. No K or V is written.
 *
 * LLS_ABSORB_ROWS rows are processed together, so that Wk and Wv are read once for all
 * of them. One thread computes a head of a row, and takes its tokens in order, in tiles
 * whose size depends on the model alone. So results depend neither on the batch nor on
 * the number of threads.
 *
 * Each tensor-parallel rank has Wk and Wv of some heads and some columns of every
 * token's X. A rank computes Wk^T q of its heads and sends it to all ranks; each rank
 * multiplies its columns of X with the vectors of all heads. The scores are summed over
 * the ranks, and sum p x is gathered from the ranks' columns. A row transfers 2 H d
 * values, and H for each cached token; gathering X takes d for each token, which is
 * more as soon as a row has over some 2 H cached tokens.
 *
 * Bytes and operations of a call: hidden x (hidden + hidden) weights read for each round
 * of rows; X of each row's tokens, twice where it is more than a tile; 4 x tokens x heads
 * x hidden operations and 4 x hidden x hidden for each row.
 */
#include "core/device/numbers.h"
#include "core/ranks/ranks.h"
#include "kernels/cpu/codes.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/pool.h"

#include <errno.h>
#include <string.h>

/* floats of a thread's scratch: a tile of X, or a weight panel */
#define TILE_FLOATS 65536
#define INPUTS      2048 /* inputs of a panel read at a time */
/* floats from row to row of a panel; padded to spread rows over L1 sets */
#define STRIDE (INPUTS + 16)

_Static_assert(TILE_FLOATS * sizeof(float) <= LLS_ATTENTION_SCRATCH,
               "a thread's scratch");
_Static_assert(INPUTS *LLS_PANEL <= TILE_FLOATS, "a panel in a tile");

struct absorbed_row {
  const struct lls_step_sequence *sequence;
  uint32_t row;       /* index in the step */
  uint32_t tokens;    /* tokens that the row attends to, its own included */
  size_t first_score; /* index of its first score in pool->scores; (all heads, tokens) */
};

struct absorbing {
  struct lls_cpu_device *device;
  const struct lls_weight *qkv;
  const float *rows; /* (rows of the step, columns of qkv) */
  float *out;        /* (rows of the step, heads head_dim) */
  float scale;
  uint32_t layer, heads, head_dim, hidden;
  uint32_t all_heads, first_head; /* heads of all ranks; this rank's first one */
  uint32_t share;                 /* columns of X that this rank holds */
  uint32_t n_rows;
  size_t n_scores;
  struct absorbed_row at[LLS_ABSORB_ROWS];
};

/* Returns a vector of `hidden` floats for one of all ranks' heads: first Wk^T q, later
 * sum p x. */
static float *vector_of(const struct absorbing *a, uint32_t row, uint32_t head)
{
  return a->device->pool->absorbed + ((size_t)row * a->all_heads + head) * a->hidden;
}

/* Wk^T q of a head of this rank, before it is gathered to all ranks. */
static float *own_query(const struct absorbing *a, uint32_t row, uint32_t head)
{
  return a->device->pool->absorbed_part + ((size_t)row * a->heads + head) * a->hidden;
}

/* This rank's columns of sum p x. */
static float *own_sum(const struct absorbing *a, uint32_t row, uint32_t head)
{
  return a->device->pool->absorbed_part + ((size_t)row * a->all_heads + head) * a->share;
}

/* Returns a head's scores of the tokens, and later their weights. */
static float *scores_of(const struct absorbing *a, uint32_t row, uint32_t head)
{
  const struct absorbed_row *r = &a->at[row];
  return a->device->pool->scores + r->first_score + (size_t)head * r->tokens;
}

/* Reads a panel's LLS_PANEL rows, n inputs of each from `first` on, into tile
 * (LLS_PANEL, STRIDE). `first` is even, since inputs are packed in pairs. */
static void read_panel(const struct absorbing *a, size_t panel, uint32_t first,
                       uint32_t n, float *tile)
{
  const struct lls_weight *w = a->qkv;
  const char *data = w->data + panel * w->panel_bytes;
  const float *f32 = (const float *)data + (size_t)first * LLS_PANEL;
  const uint16_t *half = (const uint16_t *)data + (size_t)first * LLS_PANEL;
  for (uint32_t i = 0; i < n; i++) {
    const uint16_t *pairs = half + (size_t)(i / 2) * 2 * LLS_PANEL + i % 2;
    float *out = tile + i;
    for (uint32_t lane = 0; lane < LLS_PANEL; lane++, out += STRIDE) {
      if (w->packed == LLS_PACKED_F32)
        *out = f32[i * LLS_PANEL + lane];
      else if (w->packed == LLS_PACKED_BF16)
        *out = lls_bf16_to_f32(pairs[2 * lane]);
      else
        *out = lls_f16_to_f32(half[i * LLS_PANEL + lane]);
    }
  }
}

/* Returns the panel where a head's K (part 1) or V (2) begins; K and V have as many
 * heads as q. */
static size_t first_panel(const struct absorbing *a, uint32_t part, uint32_t head)
{
  return ((size_t)part * a->heads + head) * a->head_dim / LLS_PANEL;
}

/* ---- queries: Wk^T q of each head ------------------------------------------------ */

static void query_panel(const struct absorbing *a, uint32_t head, uint32_t panel,
                        float *tile)
{
  const struct lls_cpu_row_kernels *k = &a->device->kernels.rows;
  for (uint32_t first = 0, n; first < a->hidden; first += n) {
    n = a->hidden - first < INPUTS ? a->hidden - first : INPUTS;
    read_panel(a, first_panel(a, 1, head) + panel, first, n, tile);
    for (uint32_t r = 0; r < a->n_rows; r++) {
      const float *q = a->rows + (size_t)a->at[r].row * a->qkv->rows;
      k->weigh(q + head * a->head_dim + panel * LLS_PANEL, tile, STRIDE, LLS_PANEL, n,
               own_query(a, r, head) + first);
    }
  }
}

static void queries_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct absorbing *a = arg;
  float *tile = lls_cpu_scratch(a->device, thread);
  size_t begin, end;
  lls_cpu_share(a->heads, 1, thread, n_threads, &begin, &end);
  for (uint32_t head = (uint32_t)begin; head < end; head++) {
    for (uint32_t r = 0; r < a->n_rows; r++)
      memset(own_query(a, r, head), 0, a->hidden * sizeof(float));
    for (uint32_t panel = 0; panel < a->head_dim / LLS_PANEL; panel++)
      query_panel(a, head, panel, tile);
  }
}

/* ---- scores, and sums of X ------------------------------------------------------- */

/* Some heads of a row, on one thread. */
struct heads {
  const struct absorbing *a;
  uint32_t row, first, end;
  float *tile; /* (tile_tokens, share) */
};

static void read_tile(const struct heads *h, uint32_t first, uint32_t n)
{
  const struct absorbing *a = h->a;
  for (uint32_t i = 0; i < n; i++)
    lls_pool_read_x(a->device->pool, a->layer, &a->at[h->row].sequence->hidden, first + i,
                    h->tile + (size_t)i * a->share);
}

static void score_tile(const struct heads *h, uint32_t first, uint32_t n)
{
  const struct absorbing *a = h->a;
  uint32_t column = a->first_head * a->head_dim;
  for (uint32_t head = h->first; head < h->end; head++)
    a->device->kernels.rows.dots(vector_of(a, h->row, head) + column, h->tile, a->share,
                                 n, a->share, scores_of(a, h->row, head) + first);
}

static void sum_tile(const struct heads *h, uint32_t first, uint32_t n)
{
  const struct absorbing *a = h->a;
  for (uint32_t head = h->first; head < h->end; head++)
    a->device->kernels.rows.weigh(scores_of(a, h->row, head) + first, h->tile, a->share,
                                  n, a->share, own_sum(a, h->row, head));
}

static void soften(const struct absorbing *a, uint32_t row, uint32_t head)
{
  const struct lls_cpu_row_kernels *k = &a->device->kernels.rows;
  float *scores = scores_of(a, row, head);
  uint32_t n = a->at[row].tokens;
  float part = (float)(1 / k->exp_sum(scores, k->max(scores, n), a->scale, n, scores));
  for (uint32_t i = 0; i < n; i++)
    scores[i] *= part;
}

/* Returns the number of tokens whose X stays in L1 while all heads use it: 32 KiB, but
 * at least 8 tokens. */
static uint32_t tile_tokens(uint32_t columns)
{
  uint32_t most = TILE_FLOATS / columns, near = TILE_FLOATS / 8 / columns;
  near = near < 8 ? 8 : near;
  return near < most ? near : most;
}

/* Calls `use` for each tile of the tokens that the heads' row sees. */
static void each_tile(const struct heads *h,
                      void (*use)(const struct heads *, uint32_t first, uint32_t n))
{
  uint32_t tokens = h->a->at[h->row].tokens, most = tile_tokens(h->a->share);
  for (uint32_t first = 0, n; first < tokens; first += n) {
    n = tokens - first < most ? tokens - first : most;
    read_tile(h, first, n);
    use(h, first, n);
  }
}

/* Calls `use` for this thread's share of all (row, head) pairs; heads of a row come
 * together. */
static void each_row(const struct absorbing *a, unsigned thread, unsigned n_threads,
                     void (*use)(const struct heads *))
{
  struct heads h = {.a = a, .tile = lls_cpu_scratch(a->device, thread)};
  size_t begin, end;
  lls_cpu_share((size_t)a->n_rows * a->all_heads, 1, thread, n_threads, &begin, &end);
  for (; begin < end; begin += h.end - h.first) {
    h.row = (uint32_t)(begin / a->all_heads);
    h.first = (uint32_t)(begin % a->all_heads);
    h.end = end - begin < a->all_heads - h.first ? h.first + (uint32_t)(end - begin)
                                                 : a->all_heads;
    use(&h);
  }
}

static void score_heads(const struct heads *h)
{
  each_tile(h, score_tile);
}

static void sum_heads(const struct heads *h)
{
  for (uint32_t head = h->first; head < h->end; head++) {
    soften(h->a, h->row, head);
    memset(own_sum(h->a, h->row, head), 0, h->a->share * sizeof(float));
  }
  each_tile(h, sum_tile);
}

static void scores_task(void *arg, unsigned thread, unsigned n_threads)
{
  each_row(arg, thread, n_threads, score_heads);
}

static void sums_task(void *arg, unsigned thread, unsigned n_threads)
{
  each_row(arg, thread, n_threads, sum_heads);
}

/* ---- outputs: Wv (sum p x) + bv of each head -------------------------------------- */

static void output_panel(const struct absorbing *a, uint32_t head, uint32_t panel,
                         float *tile)
{
  const struct lls_cpu_row_kernels *k = &a->device->kernels.rows;
  size_t at = first_panel(a, 2, head) + panel;
  float sums[LLS_ABSORB_ROWS][LLS_PANEL] = {0}, part[LLS_PANEL];
  for (uint32_t first = 0, n; first < a->hidden; first += n) {
    n = a->hidden - first < INPUTS ? a->hidden - first : INPUTS;
    read_panel(a, at, first, n, tile);
    for (uint32_t r = 0; r < a->n_rows; r++) {
      k->dots(vector_of(a, r, a->first_head + head) + first, tile, STRIDE, LLS_PANEL, n,
              part);
      k->add(part, LLS_PANEL, sums[r]);
    }
  }
  for (uint32_t r = 0; r < a->n_rows; r++) {
    float *out = a->out + ((size_t)a->at[r].row * a->heads + head) * a->head_dim;
    if (a->qkv->bias != NULL)
      k->add(a->qkv->bias + at * LLS_PANEL, LLS_PANEL, sums[r]);
    memcpy(out + panel * LLS_PANEL, sums[r], sizeof sums[r]);
  }
}

static void outputs_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct absorbing *a = arg;
  float *tile = lls_cpu_scratch(a->device, thread);
  size_t begin, end;
  lls_cpu_share(a->heads, 1, thread, n_threads, &begin, &end);
  for (uint32_t head = (uint32_t)begin; head < end; head++)
    for (uint32_t panel = 0; panel < a->head_dim / LLS_PANEL; panel++)
      output_panel(a, head, panel, tile);
}

/* ---- the operation --------------------------------------------------------------- */

bool lls_cpu_absorbs(const struct lls_device *device, const struct lls_weight *qkv,
                     uint32_t head_dim)
{
  (void)device;
  return !lls_packed_codes(qkv->packed) && qkv->next == NULL &&
         head_dim % LLS_PANEL == 0 && qkv->columns <= TILE_FLOATS;
}

/* Collects the next rows, from `*sequence`, `*row` on; false if there are none left. */
static bool next_rows(struct absorbing *a, uint32_t *sequence, uint32_t *row)
{
  const struct lls_device_step *step = a->device->step;
  a->n_rows = 0;
  a->n_scores = 0;
  while (*sequence < step->n_sequences && a->n_rows < LLS_ABSORB_ROWS) {
    const struct lls_step_sequence *s = &step->sequences[*sequence];
    if (s->absorbed && *row < s->n_rows) {
      const struct absorbed_row r = {s, s->first_row + *row, s->context + *row + 1,
                                     a->n_scores};
      a->at[a->n_rows++] = r;
      a->n_scores += (size_t)r.tokens * a->all_heads;
      ++*row;
    } else {
      ++*sequence;
      *row = 0;
    }
  }
  return a->n_rows > 0;
}

static void attend_rows(struct absorbing *a)
{
  struct lls_cpu_device *d = a->device;
  struct lls_pool *p = d->pool;
  bool alone = a->heads == a->all_heads;
  size_t vectors = (size_t)a->n_rows * a->all_heads;
  lls_cpu_run(d->threads, queries_task, a);
  if (!alone)
    lls_cpu_gather_to_all(d, p->absorbed_part, a->n_rows,
                          (size_t)a->all_heads * a->hidden, p->absorbed);
  lls_cpu_run(d->threads, scores_task, a);
  if (!alone)
    lls_cpu_sum(d, p->scores, a->n_scores);
  lls_cpu_run(d->threads, sums_task, a);
  if (!alone)
    lls_cpu_gather_to_all(d, p->absorbed_part, (uint32_t)vectors, a->hidden, p->absorbed);
  lls_cpu_run(d->threads, outputs_task, a);
}

void lls_cpu_attend_hidden(struct lls_device *device,
                           const struct lls_attention_shape *shape, uint32_t layer,
                           const struct lls_weight *qkv, const void *rows, void *out)
{
  struct lls_cpu_device *d = lls_cpu(device);
  const struct lls_ranks *ranks = d->options.ranks;
  uint32_t size = ranks != NULL ? ranks->size : 1;
  struct absorbing a = {.device = d,
                        .qkv = qkv,
                        .rows = rows,
                        .out = out,
                        .scale = shape->scale,
                        .layer = layer,
                        .heads = shape->heads,
                        .head_dim = shape->head_dim,
                        .hidden = (uint32_t)qkv->columns,
                        .all_heads = shape->heads * size,
                        .first_head = ranks != NULL ? shape->heads * ranks->rank : 0,
                        .share = (uint32_t)qkv->columns / size};
  uint32_t sequence = 0, row = 0;
  if (d->pool->absorbed == NULL || shape->heads != shape->kv_heads) {
    lls_cpu_step_fail(d, -ENOTSUP, "this pool was made without room for a hidden cache");
    return;
  }
  while (next_rows(&a, &sequence, &row))
    attend_rows(&a);
}
