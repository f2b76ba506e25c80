/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over the hidden form itself. Where nothing turns K, K = Wk x + bk and
 * V = Wv x + bv are linear in a token's X, so
 *
 *   q.(Wk x + bk) = (Wk^T q).x + c         c is the same for all tokens: softmax drops it
 *   sum p (Wv x + bv) = Wv (sum p x) + bv  for the weights p add up to 1
 *
 * and a row meets cached tokens without their K and V. With H heads and d numbers in X
 * that is 4 d H operations a token and layer, where restoring K and V takes 4 d d
 * (restore.c): head_dim times fewer for one row, as many for head_dim rows of a sequence.
 * No K or V is written anywhere.
 *
 * LLS_ABSORB_ROWS rows are taken at a time, so that the rows of Wk and Wv are read once
 * for them. A head of a row belongs to one thread, its tokens are taken in order in tiles
 * whose size only the model decides: results depend neither on the batch nor on the
 * number of threads.
 *
 * Ranks have some heads' Wk and Wv each, and some columns of every token's X. A rank
 * makes Wk^T q of its heads, all get them, and each meets its columns of X with all
 * heads; the scores are added up over the ranks, and the sums of X put together from
 * their columns. What goes between ranks for a row is 2 H d numbers and H a token, where
 * gathering X takes d a token: less as soon as a row has more than some 2 H tokens behind
 * it.
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

#define TILE_FLOATS 65536 /* of a thread's scratch: X of some tokens, or a panel */
#define INPUTS      2048  /* of a panel at a time */
#define STRIDE      (INPUTS + 16) /* from row to row of it: in L1 not all of one set */

_Static_assert(TILE_FLOATS * sizeof(float) <= LLS_ATTENTION_SCRATCH,
               "a thread's scratch");
_Static_assert(INPUTS *LLS_PANEL <= TILE_FLOATS, "a panel in a tile");

struct absorbed_row {
  const struct lls_step_sequence *sequence;
  uint32_t row;       /* of the step */
  uint32_t tokens;    /* that it sees, its own included */
  size_t first_score; /* of its (all heads, tokens) */
};

struct absorbing {
  struct lls_cpu_device *device;
  const struct lls_weight *qkv;
  const float *rows; /* (rows of the step, columns of qkv) */
  float *out;        /* (rows of the step, heads head_dim) */
  float scale;
  uint32_t layer, heads, head_dim, hidden;
  uint32_t all_heads, first_head; /* of all ranks; where this one's begin */
  uint32_t share;                 /* numbers of X that are here */
  uint32_t n_rows;
  size_t n_scores;
  struct absorbed_row at[LLS_ABSORB_ROWS];
};

/* A head's vector of X's size, of all ranks' heads: Wk^T q, and later sum p x. */
static float *vector_of(const struct absorbing *a, uint32_t row, uint32_t head)
{
  return a->device->pool->absorbed + ((size_t)row * a->all_heads + head) * a->hidden;
}

/* Wk^T q of a head of this rank, before the others have it. */
static float *own_query(const struct absorbing *a, uint32_t row, uint32_t head)
{
  return a->device->pool->absorbed_part + ((size_t)row * a->heads + head) * a->hidden;
}

/* This rank's columns of sum p x. */
static float *own_sum(const struct absorbing *a, uint32_t row, uint32_t head)
{
  return a->device->pool->absorbed_part + ((size_t)row * a->all_heads + head) * a->share;
}

/* A head's scores of the tokens, and later their weights. */
static float *scores_of(const struct absorbing *a, uint32_t row, uint32_t head)
{
  const struct absorbed_row *r = &a->at[row];
  return a->device->pool->scores + r->first_score + (size_t)head * r->tokens;
}

/* The LLS_PANEL rows of a panel, n inputs of each from `first` on; (LLS_PANEL, STRIDE).
 * Inputs come in twos, `first` is even. */
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

/* The first panel of a head's K (part 1) or V (2); K's and V's heads are as many as q's.
 */
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
    lls_pool_read_x(a->device->pool, a->layer, a->at[h->row].sequence->table, first + i,
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

/* So many tokens stay in L1 while the heads pass: 32 KiB, but eight tokens at least. */
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

/* Calls `use` for this thread's part of all rows' heads, those of a row together. */
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

/* The next rows from `*sequence`, `*row` on; false if there are none. */
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
