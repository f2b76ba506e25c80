/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads query, key and value as one matrix, whichever way a folder stores them: three
 * tensors, one with all rows of q, then of k, then of v, or one with those of each
 * key-value head and its queries together. Where neighbouring dimensions of a head
 * rotate together, the rows of q and k are reordered here to the two halves that the
 * graph rotates; scores do not change by it, as both have the same order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/tensor.h"
#include "core/engine/tensor_loader.h"
#include "core/model/gguf.h"

/* Views of rows for the device, and of biases or none. */
struct pieces {
  struct lls_tensor_view *rows, *biases; /* (room) */
  size_t n, room;
  bool bias;
  float *numbers; /* (rows) biases that were moved one by one, or NULL */
  size_t n_numbers;
};

static int make_pieces(struct lls_loader *l, size_t room, bool bias, struct pieces *p)
{
  *p = (struct pieces){.room = room, .bias = bias};
  p->rows = calloc(2 * room, sizeof *p->rows);
  p->numbers = malloc(room * sizeof *p->numbers);
  if (p->rows == NULL || p->numbers == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  p->biases = p->rows + room;
  return 0;
}

static void free_pieces(struct pieces *p)
{
  free(p->rows);
  free(p->numbers);
}

/* Adds rows first.. of a tensor, and the same part of its bias. */
static void add_rows(struct pieces *p, const struct lls_tensor_view *rows,
                     const struct lls_tensor_view *bias, size_t first, size_t n)
{
  p->rows[p->n] = lls_view_rows(rows, first, n);
  if (p->bias)
    p->biases[p->n] = lls_view_rows(bias, first, n);
  p->n++;
}

static int pack_pieces(struct lls_loader *l, const struct pieces *p,
                       struct lls_weight **out)
{
  return lls_loader_pack(l, p->rows, p->bias ? p->biases : NULL, p->n, out);
}

/* ---- fused ------------------------------------------------------------------------ */

/* The fused tensor has, for each key-value head, its queries, the key and the value; the
 * device wants all q, all k, all v, of this rank's heads. */
static void regroup(const struct lls_loader *l, const struct lls_tensor_view *rows,
                    const struct lls_tensor_view *bias, struct pieces *p)
{
  const struct lls_model_config *c = l->config;
  const struct lls_range *heads = &l->shard->heads, *kv = &l->shard->kv_heads;
  size_t share = c->heads / c->kv_heads, group = share + 2, d = c->head_dim;
  for (size_t h = heads->first; h < heads->first + heads->n; h++)
    add_rows(p, rows, bias, (h / share * group + h % share) * d, d);
  for (size_t which = share; which < group; which++)
    for (size_t h = kv->first; h < kv->first + kv->n; h++)
      add_rows(p, rows, bias, (h * group + which) * d, d);
}

static int load_fused(struct lls_loader *l, int layer, struct lls_weight **out)
{
  const struct lls_model_config *c = l->config;
  const char *name = l->names->fused_qkv;
  uint32_t rows = lls_qkv_columns(c, (uint32_t)layer);
  struct lls_tensor_view weight, bias;
  struct pieces p;
  int rc = make_pieces(l, l->shard->heads.n + 2 * l->shard->kv_heads.n, c->qkv_bias, &p);
  if (rc == 0)
    rc = lls_loader_view(l, layer, name, ".weight", rows, c->hidden, &weight);
  if (rc == 0 && c->qkv_bias)
    rc = lls_loader_view(l, layer, name, ".bias", 1, rows, &bias);
  if (rc == 0) {
    regroup(l, &weight, &bias, &p);
    rc = pack_pieces(l, &p, out);
  }
  free_pieces(&p);
  return rc;
}

/* ---- parts ------------------------------------------------------------------------ */

/* Adds the rows of some heads one by one, in the order of the graph. */
static void add_paired(struct pieces *p, const struct lls_model_config *c,
                       const struct lls_tensor_view *rows,
                       const struct lls_tensor_view *bias, const float *numbers)
{
  for (size_t i = 0; i < rows->rows; i++) {
    size_t row = i / c->head_dim * c->head_dim;
    row += lls_unpaired_row(i % c->head_dim, c->rope.dims);
    p->rows[p->n] = lls_view_rows(rows, row, 1);
    if (p->bias) {
      float *number = &p->numbers[p->n_numbers++];
      *number = numbers[row];
      p->biases[p->n] = *bias;
      p->biases[p->n].data = number;
      p->biases[p->n].dtype = LLS_F32;
      p->biases[p->n].columns = p->biases[p->n].row_stride = 1;
    }
    p->n++;
  }
}

static int add_part(struct lls_loader *l, int layer, const struct lls_part *part,
                    bool paired, struct pieces *p)
{
  const struct lls_model_config *c = l->config;
  const struct lls_range *range = &part->rows;
  struct lls_tensor_view rows, bias = {0};
  float *numbers = NULL;
  int rc =
      lls_loader_view(l, layer, part->name, ".weight", range->whole, c->hidden, &rows);
  if (rc == 0 && p->bias)
    rc = lls_loader_view(l, layer, part->name, ".bias", 1, range->whole, &bias);
  if (rc < 0)
    return rc;
  if (!paired) {
    add_rows(p, &rows, &bias, range->first, range->n);
    return 0;
  }
  rows = lls_view_rows(&rows, range->first, range->n);
  if (p->bias) {
    bias = lls_view_rows(&bias, range->first, range->n);
    numbers = malloc(range->n * sizeof *numbers);
    if (numbers == NULL)
      return lls_fail(l->err, -ENOMEM, "out of memory");
    lls_tensor_read_row(&bias, 0, numbers);
  }
  add_paired(p, c, &rows, &bias, numbers);
  free(numbers);
  return 0;
}

/* Loads parts whose rows are in pairs. */
static int load_paired(struct lls_loader *l, int layer, const struct lls_part *parts,
                       struct lls_weight **out)
{
  struct pieces p;
  int rc = make_pieces(l, parts[0].rows.n + parts[1].rows.n + 1, l->config->qkv_bias, &p);
  for (int i = 0; rc == 0 && i < 3; i++)
    rc = add_part(l, layer, &parts[i], i < 2, &p);
  if (rc == 0)
    rc = pack_pieces(l, &p, out);
  free_pieces(&p);
  return rc;
}

/* ---- narrow values ---------------------------------------------------------------- */

/* Copies rows of v to the first rows of each head of head_dim, times value_scale; other
 * rows are 0, so that attention of equal sizes computes the same. */
static int fill_values(struct lls_loader *l, int layer, const struct lls_range *heads,
                       struct lls_tensor_view *out, float **numbers)
{
  const struct lls_model_config *c = l->config;
  size_t dim = c->value_dim, columns = c->hidden;
  float scale = c->value_scale > 0 ? c->value_scale : 1;
  struct lls_tensor_view v;
  int rc =
      lls_loader_view(l, layer, l->names->v, ".weight", heads->whole * dim, columns, &v);
  if (rc < 0)
    return rc;
  *out = (struct lls_tensor_view){.dtype = LLS_F32,
                                  .rows = heads->n * c->head_dim,
                                  .columns = columns,
                                  .row_stride = columns};
  out->data = *numbers = calloc(out->rows * columns, sizeof **numbers);
  if (*numbers == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  for (size_t i = 0; i < heads->n * dim; i++) {
    float *row = *numbers + (i / dim * c->head_dim + i % dim) * columns;
    lls_tensor_read_row(&v, heads->first * dim + i, row);
    for (size_t k = 0; k < columns; k++)
      row[k] *= scale;
  }
  return 0;
}

static int load_narrow(struct lls_loader *l, int layer, const struct lls_part *parts,
                       struct lls_weight **out)
{
  struct lls_range heads = lls_shard_kv_heads(l->shard, l->config, (uint32_t)layer);
  struct pieces p;
  float *numbers = NULL;
  int rc = make_pieces(l, 3, false, &p);
  for (int i = 0; rc == 0 && i < 2; i++)
    rc = add_part(l, layer, &parts[i], false, &p);
  if (rc == 0)
    rc = fill_values(l, layer, &heads, &p.rows[2], &numbers);
  p.n = 3;
  if (rc == 0)
    rc = pack_pieces(l, &p, out);
  free(numbers);
  free_pieces(&p);
  return rc;
}

/* The columns of a head are filled up as the rows of v are. */
int lls_loader_filled_output(struct lls_loader *l, int layer, struct lls_weight **out)
{
  const struct lls_model_config *c = l->config;
  const struct lls_range *heads = &l->shard->heads;
  size_t dim = c->value_dim, width = heads->n * c->head_dim;
  struct lls_tensor_view v;
  int rc = lls_loader_view(l, layer, l->names->output, ".weight", c->hidden,
                           heads->whole * dim, &v);
  if (rc < 0)
    return rc;
  float *row = calloc(heads->whole * dim, sizeof *row);
  float *numbers = calloc((size_t)c->hidden * width, sizeof *numbers);
  struct lls_tensor_view filled = {.data = numbers,
                                   .dtype = LLS_F32,
                                   .rows = c->hidden,
                                   .columns = width,
                                   .row_stride = width};
  for (size_t i = 0; row != NULL && numbers != NULL && i < c->hidden; i++) {
    lls_tensor_read_row(&v, i, row);
    for (size_t h = 0; h < heads->n; h++)
      memcpy(numbers + i * width + h * c->head_dim, row + (heads->first + h) * dim,
             dim * sizeof *row);
  }
  rc = row != NULL && numbers != NULL ? lls_loader_pack(l, &filled, NULL, 1, out)
                                      : lls_fail(l->err, -ENOMEM, "out of memory");
  free(row);
  free(numbers);
  return rc;
}

/* EAGLE-3's q, k and v: the columns of the embedding come before those of the hidden
 * row. */
static int load_half(struct lls_loader *l, int layer, const struct lls_part *parts,
                     size_t half, struct lls_weight **out)
{
  size_t hidden = l->config->hidden;
  const struct lls_range columns = {half * hidden, hidden, 2 * hidden};
  return lls_loader_matrix(l, layer, parts, 3, columns, half > 0 && l->config->qkv_bias,
                           out);
}

int lls_loader_qkv(struct lls_loader *l, int layer, struct lls_weight **out)
{
  const struct lls_tensor_names *names = l->names;
  const char *stacked = names->stacked_qkv;
  if (names->fused_qkv != NULL && !l->source->dummy && lls_is_gguf(l->source->folder))
    stacked = names->fused_qkv; /* the converter has sorted its rows */
  else if (names->fused_qkv != NULL)
    return load_fused(l, layer, out);
  const struct lls_model_config *c = l->config;
  uint32_t at = (uint32_t)layer, head_dim = lls_layer_head_dim(c, at);
  struct lls_range heads = lls_range_times(l->shard->heads, head_dim);
  struct lls_range kv = lls_range_times(lls_shard_kv_heads(l->shard, c, at), head_dim);
  const char *v = c->layer[layer].v_is_k ? names->k : names->v;
  struct lls_part parts[] = {{names->q, heads}, {names->k, kv}, {v, kv}};
  for (size_t i = 0, before = 0; stacked != NULL && i < 3; i++) {
    size_t rows = parts[i].rows.whole;
    parts[i] = (struct lls_part){
        stacked, lls_range_after(parts[i].rows, before, lls_qkv_columns(c, at))};
    before += rows;
  }
  if (c->eagle.rows > 0) {
    int rc = load_half(l, layer, parts, 0, &l->w->entry);
    return rc < 0 ? rc : load_half(l, layer, parts, 1, out);
  }
  if (c->value_dim > 0 && !l->source->dummy)
    return load_narrow(l, layer, parts, out);
  if (c->paired_rope && c->rope.dims > 0)
    return load_paired(l, layer, parts, out);
  return lls_loader_matrix(l, layer, parts, c->layer[layer].shares ? 1 : 3,
                           lls_range_all(c->hidden), c->qkv_bias, out);
}

/* ---- gated ------------------------------------------------------------------------ */

/* Adds every second part of head_dim rows of q: the queries, or the gates between. */
static int add_every_second(struct lls_loader *l, int layer, bool gates, struct pieces *p)
{
  const struct lls_range *heads = &l->shard->heads;
  size_t d = l->config->head_dim, all = 2 * heads->whole * d;
  struct lls_tensor_view rows, bias = {0};
  int rc =
      lls_loader_view(l, layer, l->names->q, ".weight", all, l->config->hidden, &rows);
  if (rc == 0 && p->bias)
    rc = lls_loader_view(l, layer, l->names->q, ".bias", 1, all, &bias);
  for (size_t h = heads->first; rc == 0 && h < heads->first + heads->n; h++)
    add_rows(p, &rows, &bias, (2 * h + gates) * d, d);
  return rc;
}

int lls_loader_gated_qkv(struct lls_loader *l, int layer, struct lls_weight **qkv,
                         struct lls_weight **gates)
{
  const struct lls_model_config *c = l->config;
  struct lls_range kv = lls_range_times(l->shard->kv_heads, c->head_dim);
  const struct lls_part parts[] = {{l->names->k, kv}, {l->names->v, kv}};
  struct pieces p;
  int rc = make_pieces(l, l->shard->heads.n + 2, c->qkv_bias, &p);
  if (rc == 0)
    rc = add_every_second(l, layer, false, &p);
  for (int i = 0; rc == 0 && i < 2; i++)
    rc = add_part(l, layer, &parts[i], false, &p);
  if (rc == 0)
    rc = pack_pieces(l, &p, qkv);
  p.n = 0;
  if (rc == 0)
    rc = add_every_second(l, layer, true, &p);
  if (rc == 0)
    rc = pack_pieces(l, &p, gates);
  free_pieces(&p);
  return rc;
}
