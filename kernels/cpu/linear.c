/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops around the tiles of linear_*.c, the same for every ISA level and format.
 *
 * Rows are taken in blocks of the kernel's row_block. All threads pack a block's rows of
 * x together (shared memory), then each multiplies them by its own panels:
 *
 *   few rows (one group)   A tile runs over all inputs: the weights stream by once.
 *   more rows              The loops are: blocks of panels, LLS_DEPTH inputs, panels,
 *                          groups. The panel's piece (16 KiB in bf16) stays in L1 while
 *                          all groups use it. The block's x (96 x 512 f32 = 192 KiB, AMX
 *                          512 x 512 bf16 = 512 KiB) and the sums (96 KiB, AMX 512 KiB)
 *                          stay in L2 while all panels use them.
 *
 * The weights come from memory once for every row block: at 2 TFLOP/s and 512 rows of
 * bf16 that is 4 GB/s, at 96 rows it would be 21. The order of additions does not depend
 * on any of this (linear.h).
 */
#include <errno.h>

#include "core/base/least.h"
#include "kernels/cpu/codes.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

#define AHEAD 2048 /* bytes of a stream prefetched ahead of its use; bench/linear */
/* parts that a thread's share is cut into: a late thread loses at most one */
#define TURNS       4
#define TILE_PANELS 4 /* panels of the widest tile */

struct product {
  struct lls_cpu_device *device;
  const struct lls_linear_kernel *kernel; /* the kernel whose tiles multiply */
  /* the kernel that expands panels for `kernel`, or NULL */
  const struct lls_linear_kernel *expands;
  const struct lls_weight *weight;
  const float *x; /* (n_rows, x_stride) */
  size_t x_stride;
  float *y; /* (n_rows, rows of the weight) */
  size_t y_stride;
  size_t n_rows; /* rows of this pass, at most row_block */
  bool many;     /* more than one group: groups share a panel while it is cached */
  size_t row_units, groups;
  size_t sum_stride; /* floats from one panel's sums to the next */
  bool add;
  char *packed; /* (groups, group_bytes) */
  size_t group_bytes;
};

/* Returns the bytes of a panel of `inputs` inputs; so also the offset of an input in
 * it. */
static size_t panel_bytes(enum lls_packed packed, size_t inputs)
{
  return lls_packed_codes(packed) ? lls_codes_at(packed, inputs)
                                  : inputs * LLS_PANEL * lls_packed_bytes(packed);
}

/* Returns the first row of group g; for g = groups: the number of rows. */
static size_t group_row(const struct product *p, size_t g)
{
  return lls_least_size(p->row_units * g / p->groups * p->kernel->row_unit, p->n_rows);
}

/* Returns the number of pack_task's items for one group: pieces of LLS_DEPTH inputs. */
static size_t pieces_of(const struct lls_weight *w)
{
  return (w->inputs + LLS_DEPTH - 1) / LLS_DEPTH;
}

static void pack_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct product *p = arg;
  const struct lls_weight *w = p->weight;
  size_t pieces = pieces_of(w), begin, end;
  lls_cpu_share(p->groups * pieces, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    size_t g = i / pieces, k = i % pieces * LLS_DEPTH;
    size_t first = group_row(p, g), last = group_row(p, g + 1);
    char *out = p->packed + g * p->group_bytes;
    out += p->kernel->skip(last - first, k) * p->kernel->x_bytes;
    p->kernel->pack(p->x + first * p->x_stride + k, p->x_stride, last - first,
                    lls_least_size(LLS_DEPTH, w->columns - k),
                    lls_least_size(LLS_DEPTH, w->inputs - k), out);
  }
}

/* Scales the sums of a block of panels, adds the bias and writes them to y. */
static void finish(const struct product *p, const float *sums, size_t first_panel,
                   size_t n_panels)
{
  const struct lls_weight *w = p->weight;
  size_t first = first_panel * LLS_PANEL;
  const struct lls_finish f = {
      .sums = sums,
      .sum_stride = p->sum_stride,
      .rows = p->n_rows,
      .outputs = lls_least_size(n_panels * LLS_PANEL, w->rows - first),
      .scale = w->scale != NULL ? w->scale + first : NULL,
      .bias = w->bias != NULL ? w->bias + first : NULL,
      .add = p->add,
      .y = p->y + first,
      .y_stride = p->y_stride,
  };
  p->kernel->finish(&f);
}

/* A block of panels, and the range of inputs that is being multiplied. */
struct block {
  size_t first, n; /* range of panels */
  size_t k, n_k;   /* range of inputs */
  float *sums;     /* (n, sum_stride) */
  char *expanded;  /* (panels of a tile, ...) panels that the kernel has expanded */
};

/* Memory to prefetch, a part in each turn. */
struct wanted {
  const char *at;
  size_t lines, each; /* lines in all, and in each turn */
};

static struct wanted wanted(const char *at, size_t bytes, size_t turns)
{
  size_t lines = (bytes + 63) / 64;
  return (struct wanted){at, lines, (lines + turns - 1) / turns};
}

static struct lls_ahead turn_of(const struct wanted *w, size_t turn)
{
  size_t first = lls_least_size(w->lines, turn * w->each);
  return (struct lls_ahead){w->at + first * 64,
                            lls_least_size(w->each, w->lines - first)};
}

/* Returns the first input, and *n the number, of the range multiplied after the
 * block's: the following inputs or, after the last, the first inputs of the next
 * block's panels. */
static size_t next_inputs(const struct product *p, const struct block *b, size_t *n)
{
  size_t past = b->k + b->n_k < p->weight->inputs ? b->k + b->n_k : 0;
  *n = lls_least_size(LLS_DEPTH, p->weight->inputs - past);
  return past;
}

/* The panels that follow those of the tile at i. All groups together prefetch them. */
static void next_panels(const struct product *p, const struct block *b, size_t i,
                        struct wanted out[LLS_AHEAD - 1])
{
  const struct lls_weight *w = p->weight;
  size_t k = b->k, n_k = b->n_k;
  size_t next = i + p->kernel->panels;
  if (next >= b->n) {
    k = next_inputs(p, b, &n_k);
    next = k > 0 ? 0 : b->n;
  }
  for (size_t j = 0; j < LLS_AHEAD - 1; j++) {
    size_t panel = lls_least_size(b->first + next + j, w->panels - 1);
    const char *at = w->data + panel * w->panel_bytes + panel_bytes(w->packed, k);
    out[j] = wanted(at, panel_bytes(w->packed, n_k), p->groups);
  }
}

/* The place of the block's inputs in the packed x of a group of `rows` rows. */
struct group_x {
  size_t rows, at; /* rows; bytes from the beginning of the group */
  /* the part of the next x that one tile prefetches, in the first group */
  struct lls_ahead next;
};

/* All panels of the block together prefetch the next inputs of x. */
static struct group_x group_x(const struct product *p, const struct block *b, size_t i,
                              size_t rows)
{
  const struct lls_linear_kernel *kernel = p->kernel;
  size_t n, k = next_inputs(p, b, &n);
  struct wanted x = wanted(p->packed + kernel->skip(rows, k) * kernel->x_bytes,
                           kernel->skip(rows, n) * kernel->x_bytes,
                           (b->n + kernel->panels - 1) / kernel->panels);
  return (struct group_x){.rows = rows,
                          .at = kernel->skip(rows, b->k) * kernel->x_bytes,
                          .next = turn_of(&x, i / kernel->panels)};
}

/* Multiplies all groups with the panels of one tile, from the block's i-th panel on. */
static void multiply_groups(const struct product *p, const struct block *b, size_t i,
                            struct lls_tile *tile)
{
  bool spread = p->kernel->spread && p->many;
  struct wanted panels[LLS_AHEAD - 1];
  struct group_x x = {0};
  if (spread)
    next_panels(p, b, i, panels);
  for (size_t g = 0, begin = 0; g < p->groups; g++) {
    size_t end = group_row(p, g + 1);
    if (x.rows != end - begin)
      x = group_x(p, b, i, end - begin);
    tile->rows = x.rows;
    tile->x = p->packed + g * p->group_bytes + x.at;
    tile->x_next = (const char *)tile->x + p->group_bytes;
    tile->sums = b->sums + i * tile->sum_stride + begin * LLS_PANEL;
    begin = end;
    if (spread) {
      tile->ahead[0] = (struct lls_ahead){x.next.at + g * p->group_bytes, x.next.lines};
      for (size_t j = 0; j < LLS_AHEAD - 1; j++)
        tile->ahead[1 + j] = turn_of(&panels[j], g);
    }
    p->kernel->tile(tile);
    tile->lead = 0; /* the first group has prefetched all of the next panel */
  }
}

/* Expands the panels of a tile into the thread's scratch, behind the sums, and
 * prefetches the next panels meanwhile. */
static void expand(const struct product *p, const struct block *b, struct lls_tile *tile)
{
  const struct lls_weight *w = p->weight;
  size_t past = tile->panels * tile->panel_bytes;
  size_t bytes = panel_bytes(p->expands->expanded, b->n_k);
  for (size_t i = 0; i < tile->panels; i++) {
    const char *panel = tile->weight + i * tile->panel_bytes;
    p->expands->expand(panel, b->n_k, w->table, panel + past, b->expanded + i * bytes);
  }
  tile->weight = b->expanded;
  tile->panel_bytes = bytes;
  tile->lead = 0;
}

static void multiply_block(const struct product *p, const struct block *b)
{
  const struct lls_weight *w = p->weight;
  size_t input_bytes = w->panel_bytes / w->inputs, before = panel_bytes(w->packed, b->k);
  struct lls_tile tile = {
      .inputs = b->n_k,
      .table = w->table,
      .more = b->k > 0,
      .sum_stride = p->sum_stride,
      .stream_ahead = p->kernel->stream_ahead,
  };
  size_t lead = p->many ? b->n_k : lls_least_size(b->n_k, AHEAD / input_bytes);
  if (p->many && p->kernel->spread)
    lead = 0;
  size_t step = p->many ? p->kernel->panels : b->n;
  for (size_t i = 0; i < b->n; i += step) {
    tile.panels = lls_least_size(step, b->n - i);
    tile.panel_bytes = w->panel_bytes;
    tile.lead = lead;
    tile.weight = w->data + (b->first + i) * w->panel_bytes + before;
    if (p->expands != NULL)
      expand(p, b, &tile);
    multiply_groups(p, b, i, &tile);
  }
}

/* Multiplies all rows by panels [begin, end), at most LLS_PANEL_BLOCK, in a thread's
 * scratch. */
static void multiply_panels(const struct product *p, size_t begin, size_t end,
                            float *sums)
{
  size_t inputs = p->weight->inputs, depth = p->many ? LLS_DEPTH : inputs;
  struct block b = {.first = begin, .n = end - begin, .sums = sums};
  b.expanded = (char *)(sums + LLS_PANEL_BLOCK * p->sum_stride);
  for (b.k = 0; b.k < inputs; b.k += depth) {
    b.n_k = lls_least_size(depth, inputs - b.k);
    multiply_block(p, &b);
  }
  finish(p, sums, begin, end - begin);
}

static void product_task(void *arg, unsigned thread, unsigned n_threads)
{
  (void)n_threads;
  const struct product *p = arg;
  size_t begin, end;
  if (p->kernel->begin != NULL)
    p->kernel->begin();
  while (lls_cpu_take(p->device->threads, thread, &begin, &end))
    multiply_panels(p, begin, end, lls_cpu_scratch(p->device, thread));
  if (p->kernel->end != NULL)
    p->kernel->end();
}

/* Returns the number of panels that a thread takes at a time: whole tiles, and TURNS
 * such parts in a thread's share. */
static size_t grain_of(size_t panels, unsigned n_threads)
{
  size_t grain = panels / (n_threads * TURNS) / TILE_PANELS * TILE_PANELS;
  return grain < TILE_PANELS ? TILE_PANELS : lls_least_size(grain, LLS_PANEL_BLOCK);
}

/* Chooses the kernels for n_rows: those of the weight's own format if the rows are
 * few. */
static void choose_kernels(struct product *p)
{
  const struct lls_linear_kernel *of = p->device->kernels.linear.of;
  const struct lls_linear_kernel *own = &of[p->weight->packed];
  p->many = p->n_rows > own->max_rows;
  p->expands = p->many && p->n_rows > own->own_rows && own->expand != NULL ? own : NULL;
  p->kernel = p->expands != NULL ? &of[own->expanded] : own;
}

/* Divides at most row_block rows into groups. */
static void divide_rows(struct product *p)
{
  choose_kernels(p);
  const struct lls_linear_kernel *kernel = p->kernel;
  p->groups = (p->n_rows + kernel->max_rows - 1) / kernel->max_rows;
  p->row_units = (p->n_rows + kernel->row_unit - 1) / kernel->row_unit;
  p->group_bytes = kernel->skip(kernel->max_rows, p->weight->inputs) * kernel->x_bytes;
  p->sum_stride = p->row_units * kernel->row_unit * LLS_PANEL;
}

static void multiply_rows(struct lls_cpu_device *d, struct product *p)
{
  const struct lls_weight *w = p->weight;
  divide_rows(p);
  const struct lls_linear_kernel *kernel = p->kernel;
  p->packed = d->shared;
  if (p->n_rows == 1 && kernel->x_bytes == sizeof(float) && w->inputs == w->columns)
    p->packed = (char *)(uintptr_t)p->x; /* only read from */
  else
    lls_cpu_run(d->threads, pack_task, p);
  lls_cpu_divide(d->threads, w->panels, grain_of(w->panels, d->n_threads));
  lls_cpu_run(d->threads, product_task, p);
}

/* y: (n_rows, y_stride), beginning at the part's first output. */
static void multiply_part(struct lls_cpu_device *d, const struct lls_weight *w,
                          const float *x, size_t n_rows, bool add, float *y,
                          size_t y_stride)
{
  size_t block = d->kernels.linear.of[w->packed].row_block;
  for (size_t row = 0; row < n_rows; row += block) {
    struct product p = {
        .device = d,
        .weight = w,
        .x = x + row * w->columns,
        .x_stride = w->columns,
        .y = y + row * y_stride,
        .y_stride = y_stride,
        .n_rows = lls_least_size(block, n_rows - row),
        .add = add,
    };
    multiply_rows(d, &p);
  }
}

static void multiply(struct lls_cpu_device *d, const struct lls_weight *w, const float *x,
                     size_t n_rows, bool add, float *y)
{
  size_t outputs = 0;
  for (const struct lls_weight *part = w; part != NULL; part = part->next)
    outputs += part->rows;
  for (const struct lls_weight *part = w; part != NULL; part = part->next) {
    multiply_part(d, part, x, n_rows, add, y, outputs);
    y += part->rows;
  }
}

/* Bytes of the sums, and of the panels that a kernel expands. */
static size_t sums_scratch(const struct lls_cpu_linear_kernels *kernels)
{
  size_t rows = 0, expanded = 0;
  for (int i = 0; i < LLS_N_PACKED; i++) {
    const struct lls_linear_kernel *k = &kernels->of[i];
    rows = lls_most_size(rows, k->row_block);
    if (k->expand != NULL)
      expanded = lls_most_size(expanded, k->panels * panel_bytes(k->expanded, LLS_DEPTH));
  }
  return LLS_PANEL_BLOCK * rows * LLS_PANEL * sizeof(float) + expanded;
}

size_t lls_cpu_linear_shared(const struct lls_cpu_linear_kernels *kernels,
                             size_t max_columns)
{
  size_t inputs = (max_columns + LLS_CODES_STEP - 1) / LLS_CODES_STEP * LLS_CODES_STEP;
  size_t bytes = 0;
  for (int i = 0; i < LLS_N_PACKED; i++) {
    const struct lls_linear_kernel *k = &kernels->of[i];
    size_t groups = k->row_block / k->max_rows;
    bytes = lls_most_size(bytes, groups * k->skip(k->max_rows, inputs) * k->x_bytes);
  }
  return bytes;
}

void lls_cpu_linear(struct lls_device *device, const struct lls_weight *w, const void *x,
                    uint32_t n_rows, enum lls_linear_store store_as, void *y)
{
  multiply(lls_cpu(device), w, x, n_rows, store_as == LLS_STORE_ADD, y);
}

void lls_cpu_logits(struct lls_device *device, const struct lls_weight *w, const void *x,
                    uint32_t n_rows, float *y)
{
  multiply(lls_cpu(device), w, x, n_rows, false, y);
}

void lls_cpu_linear_part(struct lls_device *device, const struct lls_weight *w,
                         size_t first, size_t n_outputs, const float *x, uint32_t n_rows,
                         float *y)
{
  size_t end = first + n_outputs, base = 0;
  for (; w != NULL; base += w->rows, w = w->next) {
    size_t from = lls_most_size(first, base), to = lls_least_size(end, base + w->rows);
    if (from >= to)
      continue;
    struct lls_weight part = *w;
    part.rows = to - from;
    part.panels = (part.rows + LLS_PANEL - 1) / LLS_PANEL;
    part.data += (from - base) / LLS_PANEL * w->panel_bytes;
    part.scale = w->scale != NULL ? w->scale + (from - base) : NULL;
    part.bias = w->bias != NULL ? w->bias + (from - base) : NULL;
    multiply_part(lls_cpu(device), &part, x, n_rows, false, y + (from - first),
                  n_outputs);
  }
}

/* ---- a matrix for each head -------------------------------------------------------- */

struct heads {
  struct lls_cpu_device *device;
  const struct lls_cpu_heads *of;
  size_t n_rows;
};

/* Bytes before the packed rows in a thread's scratch, which begins with the sums. */
static size_t before_packed(const struct lls_cpu_linear_kernels *kernels)
{
  return (sums_scratch(kernels) + 63) & ~(size_t)63;
}

size_t lls_cpu_linear_scratch(const struct lls_cpu_linear_kernels *kernels)
{
  return before_packed(kernels) + lls_cpu_linear_shared(kernels, LLS_HEAD_DIM_MAX);
}

/* Multiplies all columns of the product's rows on the calling thread. */
static void multiply_alone(struct product *p, void *scratch)
{
  const struct lls_weight *w = p->weight;
  divide_rows(p);
  pack_task(p, 0, 1);
  if (p->kernel->begin != NULL)
    p->kernel->begin();
  for (size_t i = 0; i < w->panels; i += LLS_PANEL_BLOCK)
    multiply_panels(p, i, lls_least_size(i + LLS_PANEL_BLOCK, w->panels), scratch);
  if (p->kernel->end != NULL)
    p->kernel->end();
}

static void multiply_head(const struct heads *h, uint32_t head, void *scratch)
{
  const struct lls_cpu_linear_kernels *kernels = &h->device->kernels.linear;
  const struct lls_cpu_heads *of = h->of;
  const float *x = of->x + head * of->x_head;
  float *y = of->y + head * of->y_head;
  const struct lls_weight *w = of->weights[head];
  for (; w != NULL; y += w->rows, w = w->next) {
    size_t block = kernels->of[w->packed].row_block;
    for (size_t row = 0; row < h->n_rows; row += block) {
      struct product p = {
          .device = h->device,
          .weight = w,
          .x = x + row * of->x_stride,
          .x_stride = of->x_stride,
          .y = y + row * of->y_stride,
          .y_stride = of->y_stride,
          .n_rows = lls_least_size(block, h->n_rows - row),
          .packed = (char *)scratch + before_packed(kernels),
      };
      multiply_alone(&p, scratch);
    }
  }
}

static void heads_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct heads *h = arg;
  size_t begin, end;
  lls_cpu_share(h->of->heads, 1, thread, n_threads, &begin, &end);
  for (size_t head = begin; head < end; head++)
    multiply_head(h, (uint32_t)head, lls_cpu_scratch(h->device, thread));
}

void lls_cpu_linear_heads(struct lls_cpu_device *d, const struct lls_cpu_heads *of,
                          size_t n_rows)
{
  struct heads h = {d, of, n_rows};
  size_t inputs = of->heads > 0 ? of->weights[0]->columns : 0;
  if (inputs > LLS_HEAD_DIM_MAX)
    lls_cpu_step_fail(d, -ENOTSUP,
                      "heads' matrices of %zu inputs: at most %d are supported", inputs,
                      LLS_HEAD_DIM_MAX);
  else if (n_rows > 0)
    lls_cpu_run(d->threads, heads_task, &h);
}
