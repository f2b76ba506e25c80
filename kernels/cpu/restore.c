/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hidden form: a token's X, the input of the layer's q, k, v products, is cached
 * instead of its K and V, and these are computed again in each step (Apt-Serve, section
 * 4.1).
 *
 * Tokens of all sequences are restored together, LLS_RESTORE_ROWS at a time, so that the
 * products have many rows whatever the batch. A row of a product does not depend on the
 * other rows (linear.h), so K and V equal those of the KV form, bit for bit if X is
 * kept in f32.
 *
 * Each tensor-parallel rank keeps its part of X, as long as its part of K, and the
 * ranks gather the parts before the product: the hidden form is half the size of the KV
 * form on every rank, and costs one gather of X a layer.
 *
 * Bytes and operations of a call: tokens x hidden x element read, twice that written;
 * 2 x tokens x hidden x 2 kv columns operations.
 */
#include "core/ranks/ranks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/pool.h"

#include <errno.h>
#include <string.h>

/* A walk over the tokens to restore, sequence by sequence. */
struct walk {
  uint32_t sequence, token;
};

struct restoring {
  struct lls_cpu_device *device;
  const struct lls_rope_shape *rope;
  uint32_t layer, n_rows, columns; /* n_rows: rows of this round; columns: KV columns */
  struct walk rows[LLS_RESTORE_ROWS];
};

/* The entry of a list that contains a token. */
static const struct lls_block_entry *entry_of(const struct lls_step_list *list,
                                              uint32_t token)
{
  return list->entries + lls_pool_find(list->entries, list->n, token);
}

/* Units that hold X are the cache's own; K and V may be restored to scratch units. */
static struct lls_pool_units x_units(const struct lls_pool *p, uint32_t layer)
{
  return (struct lls_pool_units){p->device + lls_pool_head_offset(p, 0, layer, 0),
                                 p->unit_bytes, 0};
}

/* ---- reading X ---------------------------------------------------------------- */

static void widen(const uint16_t *from, uint32_t n, float *to)
{
  for (uint32_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)from[i] << 16;
    memcpy(to + i, &bits, sizeof bits);
  }
}

void lls_pool_read_x(const struct lls_pool *p, uint32_t layer,
                     const struct lls_step_list *list, uint32_t token, float *to)
{
  const struct lls_block_entry *e = entry_of(list, token);
  struct lls_pool_units units = x_units(p, layer);
  const char *from =
      units.base + e->block * units.unit_bytes + lls_pool_slot_offset(p, 0, e, token);
  uint32_t head_dim = p->shape.head_dim;
  for (uint32_t head = 0; head < p->shape.kv_heads; head++) {
    if (p->shape.element == LLS_BF16)
      widen((const uint16_t *)from, head_dim, to);
    else
      memcpy(to, from, p->slot_bytes[0]);
    from += p->head_bytes[0];
    to += head_dim;
  }
}

static void read_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct restoring *r = arg;
  const struct lls_pool *p = r->device->pool;
  size_t begin, end;
  lls_cpu_share(r->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    const struct walk *w = &r->rows[i];
    lls_pool_read_x(p, r->layer, &r->device->step->sequences[w->sequence].hidden,
                    w->token, p->restored_x + i * r->columns);
  }
}

/* ---- writing K and V ---------------------------------------------------------- */

static void rotate(const struct restoring *r, uint32_t token, float *k)
{
  const struct lls_pool *p = r->device->pool;
  size_t half = r->rope->rotary_dims / 2;
  const float *cosine = p->angles + (size_t)token * r->rope->rotary_dims;
  for (uint32_t head = 0; head < p->shape.kv_heads; head++, k += p->shape.head_dim)
    r->device->kernels.rows.rotate(cosine, cosine + half, half, k, k + half);
}

static void write_task(void *arg, unsigned thread, unsigned n_threads)
{
  const struct restoring *r = arg;
  const struct lls_pool *p = r->device->pool;
  size_t begin, end;
  lls_cpu_share(r->n_rows, 1, thread, n_threads, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    const struct walk *w = &r->rows[i];
    const struct lls_step_sequence *s = &r->device->step->sequences[w->sequence];
    const struct lls_block_entry *e = entry_of(&s->kv, w->token);
    float *k = p->restored + i * 2 * r->columns;
    if (r->rope->rotary_dims > 0)
      rotate(r, w->token, k);
    lls_pool_write_slot(r->device, lls_pool_units(p, s, false, 0, r->layer, 0), k, e,
                        w->token);
    lls_pool_write_slot(r->device, lls_pool_units(p, s, true, 0, r->layer, 0),
                        k + r->columns, e, w->token);
  }
}

/* ---- the operations ----------------------------------------------------------- */

/* Collects the next tokens; false if there are none left. */
static bool next_rows(struct restoring *r, struct walk *at)
{
  const struct lls_device_step *step = r->device->step;
  r->n_rows = 0;
  while (at->sequence < step->n_sequences && r->n_rows < LLS_RESTORE_ROWS) {
    if (at->token < step->sequences[at->sequence].n_restored) {
      r->rows[r->n_rows++] = *at;
      at->token++;
    } else {
      *at = (struct walk){.sequence = at->sequence + 1};
    }
  }
  return r->n_rows > 0;
}

/* Computes the angles of all positions up to the step's longest one, once each. */
static void make_angles(const struct restoring *r)
{
  struct lls_pool *p = r->device->pool;
  uint32_t most = 0;
  for (uint32_t i = 0; i < r->device->step->n_sequences; i++) {
    uint32_t n = r->device->step->sequences[i].n_restored;
    most = n > most ? n : most;
  }
  if (r->rope->rotary_dims == 0)
    return;
  for (; p->n_angles < most; p->n_angles++)
    lls_cpu_angles(r->rope, p->n_angles,
                   p->angles + (size_t)p->n_angles * r->rope->rotary_dims);
}

void lls_cpu_restore(struct lls_device *device, const struct lls_attention_shape *shape,
                     const struct lls_rope_shape *rope, uint32_t layer,
                     const struct lls_weight *qkv)
{
  struct lls_cpu_device *d = lls_cpu(device);
  struct lls_pool *p = d->pool;
  struct restoring r = {.device = d, .rope = rope, .layer = layer};
  struct walk at = {0};
  size_t first = (size_t)shape->heads * shape->head_dim;
  if (p->scratch == NULL || first % LLS_PANEL != 0) {
    lls_cpu_step_fail(d, -ENOTSUP, "this pool was made without room for a hidden cache");
    return;
  }
  r.columns = shape->kv_heads * shape->head_dim;
  make_angles(&r);
  while (next_rows(&r, &at)) {
    lls_cpu_run_rows(d, read_task, &r, r.n_rows, r.columns);
    if (p->whole_x != p->restored_x)
      lls_cpu_gather_to_all(d, p->restored_x, r.n_rows, qkv->columns, p->whole_x);
    lls_cpu_linear_part(device, qkv, first, 2 * (size_t)r.columns, p->whole_x, r.n_rows,
                        p->restored);
    lls_cpu_run_rows(d, write_task, &r, r.n_rows, 2 * (size_t)r.columns);
  }
}

void lls_cpu_hidden_write(struct lls_device *device,
                          const struct lls_attention_shape *shape, uint32_t layer,
                          const void *h)
{
  const struct lls_cpu_device *d = lls_cpu(device);
  const struct lls_ranks *ranks = d->options.ranks;
  size_t columns = (size_t)shape->kv_heads * shape->head_dim;
  size_t stride = columns * (ranks != NULL ? ranks->size : 1);
  const float *mine = (const float *)h + columns * (ranks != NULL ? ranks->rank : 0);
  struct lls_pool_units units = x_units(d->pool, layer);
  for (uint32_t i = 0; i < d->step->n_sequences; i++) {
    const struct lls_step_sequence *s = &d->step->sequences[i];
    bool hidden = s->scratch || s->absorbed;
    for (uint32_t row = 0; hidden && row < s->n_rows; row++) {
      uint32_t token = s->context + row;
      lls_pool_write_slot(d, units, mine + (s->first_row + row) * stride,
                          entry_of(&s->hidden, token), token);
    }
  }
}
