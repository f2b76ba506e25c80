/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the vtable: each checks its call and records it (ops.h). */
#include "kernels/cuda/device.h"
#include "kernels/cuda/ops.h"

#include <errno.h>
#include <string.h>

/* ---- over ranks ----------------------------------------------------------------- */

static void all_reduce(struct lls_device *device, void *x, uint32_t n_rows,
                       uint32_t columns)
{
  struct lls_cuda_all_reduce *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_ALL_REDUCE)->all_reduce;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->x = x;
}

static void all_reduce_f32(struct lls_device *device, float *x, uint32_t n_rows,
                           uint32_t columns)
{
  all_reduce(device, x, n_rows, columns);
  lls_cuda_op_last(lls_cuda(device))->all_reduce.f32 = 1;
}

static void gather_columns(struct lls_device *device, const float *part, uint32_t n_rows,
                           uint32_t columns, float *y)
{
  struct lls_cuda_gather_columns *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_GATHER_COLUMNS)->gather_columns;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->part = part;
  a->y = y;
}

/* ---- rows ----------------------------------------------------------------------- */

/* Checks ids. An id beyond the table would read foreign memory, so the step is
 * refused. */
static bool in_table(struct lls_cuda_device *d, const struct lls_cuda_table *table,
                     const int32_t *ids, int32_t offset)
{
  for (uint32_t i = 0; i < d->step->n_rows; i++) {
    int64_t id = (int64_t)ids[i] + offset;
    if ((uint64_t)id >= table->rows) {
      lls_cuda_step_fail(d, -EINVAL, "row %u wants entry %lld of a table of %zu", i,
                         (long long)id, table->rows);
      return false;
    }
  }
  return true;
}

static void add_embed(struct lls_cuda_device *d, const struct lls_cuda_table *table,
                      bool by_position, int32_t offset, float scale, void *x)
{
  const int32_t *ids = by_position ? d->step->positions : d->step->tokens;
  if (d->step->n_rows == 0 || !in_table(d, table, ids, offset))
    return;
  struct lls_cuda_embed *a = &lls_cuda_op_add(d, LLS_CUDA_EMBED)->embed;
  a->n_rows = lls_cuda_padded(d->step->n_rows);
  a->columns = (uint32_t)table->columns;
  a->by_position = by_position;
  a->offset = offset;
  a->scale = scale;
  a->add = by_position;
  a->table = table->data;
  a->x = x;
}

static void embed(struct lls_device *device, const void *table, float scale, void *x)
{
  add_embed(lls_cuda(device), table, false, 0, scale, x);
}

static void embed_positions(struct lls_device *device, const void *table, int32_t offset,
                            void *x)
{
  add_embed(lls_cuda(device), table, true, offset, 1, x);
}

static void norm(struct lls_device *device, enum lls_norm_kind kind, const void *x,
                 const float *weight, const float *bias, float epsilon, uint32_t n_rows,
                 uint32_t columns, void *y)
{
  struct lls_cuda_norm *a = &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_NORM)->norm;
  a->kind = kind;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = a->stride = columns;
  a->parts = 1;
  a->epsilon = epsilon;
  a->weight = weight;
  a->bias = bias;
  a->x = x;
  a->y = y;
}

/* Adds the norm of one part: q is part 0, k is part 1, v is part 2. */
static void add_qk_norm(struct lls_cuda_device *d,
                        const struct lls_attention_shape *shape,
                        const struct lls_qk_norm_shape *norm_shape, void *qkv, int which,
                        enum lls_cuda_squares use)
{
  struct lls_cuda_norm *a = &lls_cuda_op_add(d, LLS_CUDA_NORM)->norm;
  uint32_t heads = which == 0 ? shape->heads : shape->kv_heads;
  size_t first = which == 0 ? 0 : shape->heads + (which == 1 ? 0 : shape->kv_heads);
  a->kind = LLS_NORM_RMS;
  a->n_rows = lls_cuda_padded(d->step->n_rows);
  a->columns = norm_shape->whole ? heads * shape->head_dim : shape->head_dim;
  a->parts = norm_shape->whole ? 1 : heads;
  a->stride = (uint32_t)lls_qkv_width(shape);
  a->epsilon = norm_shape->epsilon;
  a->weight = which == 0 ? norm_shape->q : which == 1 ? norm_shape->k : norm_shape->v;
  a->y = (char *)qkv + first * shape->head_dim * lls_dtype_bytes(lls_cuda_numbers(d));
  a->x = a->y;
  a->use = use;
  a->ranks = lls_cuda_n_ranks(d);
  a->squares = use == LLS_CUDA_SQUARES_OWN ? NULL : d->squares + which;
}

static void norm_qk(struct lls_device *device, const struct lls_attention_shape *shape,
                    const struct lls_qk_norm_shape *norm_shape, void *qkv)
{
  struct lls_cuda_device *d = lls_cuda(device);
  enum lls_cuda_squares use = LLS_CUDA_SQUARES_OWN;
  if (norm_shape->whole && lls_cuda_n_ranks(d) > 1) {
    use = LLS_CUDA_SQUARES_TAKE;
    for (int which = 0; which < 2; which++)
      add_qk_norm(d, shape, norm_shape, qkv, which, LLS_CUDA_SQUARES_GIVE);
    all_reduce_f32(device, d->squares, d->step->n_rows, 2);
  }
  int parts = lls_row_kv_heads(shape) == 0 ? 1 : norm_shape->v == NULL ? 2 : 3;
  for (int which = 0; which < parts; which++)
    add_qk_norm(d, shape, norm_shape, qkv, which, use);
}

static struct lls_cuda_linear *add_linear(struct lls_device *device,
                                          const struct lls_weight *weight, const void *x,
                                          uint32_t n_rows, void *y)
{
  struct lls_cuda_linear *a = &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_LINEAR)->linear;
  a->weight = weight;
  a->outputs = (uint32_t)weight->outputs;
  a->x = x;
  a->y = y;
  a->n_rows = lls_cuda_padded(n_rows);
  return a;
}

static void linear(struct lls_device *device, const struct lls_weight *weight,
                   const void *x, uint32_t n_rows, enum lls_linear_store store, void *y)
{
  add_linear(device, weight, x, n_rows, y)->add = store == LLS_STORE_ADD;
}

static void logits(struct lls_device *device, const struct lls_weight *weight,
                   const void *x, uint32_t n_rows, float *y)
{
  add_linear(device, weight, x, n_rows, y)->f32 = 1;
}

/* Returns the number of rows that an activation of x has. Rows of experts, which the last
 * record made or changed, lie sorted between those that pad the step. */
static uint32_t rows_of(struct lls_cuda_device *d, const void *x, uint32_t n_rows)
{
  const struct lls_cuda_op *last = lls_cuda_op_last(d);
  if (last != NULL && last->kind == LLS_CUDA_LINEAR_EXPERTS &&
      last->linear_experts.y == x)
    return last->linear_experts.entries;
  if (last != NULL && last->kind == LLS_CUDA_CODES_EXPERTS && last->codes_experts.y == x)
    return last->codes_experts.entries;
  if (last != NULL && last->kind == LLS_CUDA_ADAPT && last->adapt.rows == NULL &&
      last->adapt.y == x)
    return last->adapt.all;
  return lls_cuda_padded(n_rows);
}

/* If the last record is the linear layer that computes x, lets it apply the ReLU,
 * too. */
static bool relu_on_the_way(struct lls_cuda_device *d, const void *x, uint32_t n_rows,
                            uint32_t columns)
{
  struct lls_cuda_op *last = lls_cuda_op_last(d);
  if (last == NULL || last->kind != LLS_CUDA_LINEAR || last->linear.y != x ||
      last->linear.add || last->linear.f32 || last->linear.n_rows != n_rows ||
      last->linear.weight->outputs != columns)
    return false;
  last->linear.relu = 1;
  return true;
}

static void activate(struct lls_device *device, enum lls_activation kind, void *x,
                     uint32_t n_rows, uint32_t columns)
{
  struct lls_cuda_device *d = lls_cuda(device);
  n_rows = rows_of(d, x, n_rows);
  if (kind == LLS_ACT_RELU && relu_on_the_way(d, x, n_rows, columns))
    return;
  struct lls_cuda_activate *a = &lls_cuda_op_add(d, LLS_CUDA_ACTIVATE)->activate;
  a->kind = kind;
  a->n_rows = n_rows;
  a->columns = columns;
  a->x = x;
  a->y = x;
}

static void gated(struct lls_device *device, enum lls_activation kind, const void *x,
                  uint32_t n_rows, uint32_t columns, void *y)
{
  struct lls_cuda_activate *a =
      &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_ACTIVATE)->activate;
  a->kind = kind;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->gated = 1;
  a->x = x;
  a->y = y;
}

static void add(struct lls_device *device, const void *x, uint32_t n_rows,
                uint32_t columns, void *y)
{
  struct lls_cuda_add *a = &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_ADD)->add;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->x = x;
  a->y = y;
}

/* ---- attention --------------------------------------------------------------------- */

static struct lls_cuda_op *add_rope_write(struct lls_cuda_device *d,
                                          const struct lls_attention_shape *shape,
                                          const void *qkv)
{
  struct lls_cuda_op *op = lls_cuda_op_add(d, LLS_CUDA_ROPE_WRITE);
  struct lls_cuda_rope_write *a = &op->rope_write;
  op->pool = d->pool;
  a->n_rows = lls_cuda_padded(d->step->n_rows);
  a->heads = shape->heads;
  a->kv_heads = lls_row_kv_heads(shape);
  a->v_heads = shape->latent ? 0 : a->kv_heads;
  a->head_dim = shape->head_dim;
  a->angles = d->angles;
  a->qkv = (void *)qkv; /* only rope writes to it */
  return op;
}

/* Discards the graphs if the frequencies, which they contain, have changed. */
static void check_frequencies(struct lls_cuda_device *d, int place,
                              const struct lls_rope_shape *r)
{
  float *known = d->frequency[place];
  size_t bytes = r->rotary_dims / 2 * sizeof *known;
  if (bytes == 0 || memcmp(known, r->inverse_frequency, bytes) == 0)
    return;
  lls_cuda_ops_forget(d);
  memcpy(known, r->inverse_frequency, bytes);
}

/* Returns the index of this rope's angles; if no entry is free, the last one is
 * replaced. */
static int rope_place(const struct lls_cuda_device *d, const struct lls_rope_shape *r)
{
  int i = 0;
  while (i < LLS_CUDA_ROPES - 1 && d->ropes[i].rotary_dims > 0 &&
         !lls_cuda_same_rope(&d->ropes[i], r))
    i++;
  return i;
}

static void rope(struct lls_device *device, const struct lls_attention_shape *shape,
                 const struct lls_rope_shape *rope_shape, void *qkv)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (rope_shape->rotary_dims > LLS_CUDA_ROTARY_MAX ||
      rope_shape->first + rope_shape->rotary_dims > shape->head_dim) {
    lls_cuda_step_fail(d, -EINVAL, "rope over %u of %u dims; at most %u are supported",
                       rope_shape->rotary_dims, shape->head_dim, LLS_CUDA_ROTARY_MAX);
    return;
  }
  if (shape->latent) /* V is what does not rotate */
    d->latent_rank = rope_shape->first;
  struct lls_cuda_op *op = add_rope_write(d, shape, qkv);
  op->rope_write.pairs = rope_shape->rotary_dims / 2;
  op->rope_write.turned = rope_shape->first;
  int place = rope_place(d, rope_shape);
  op->rope_write.angles = d->angles + (size_t)place *
                                          (d->options.max_rows + LLS_CUDA_MOST_PADDING) *
                                          LLS_CUDA_ROTARY_MAX;
  op->make_angles = !lls_cuda_same_rope(&d->ropes[place], rope_shape);
  if (op->make_angles)
    check_frequencies(d, place, rope_shape);
  op->inverse_frequency = rope_shape->inverse_frequency;
  op->attention_factor = rope_shape->attention_factor;
  d->ropes[place] = *rope_shape;
}

/* Checks that the shape is the one that the pool was made for. */
static bool check_shape(struct lls_cuda_device *d, const struct lls_attention_shape *s,
                        uint32_t layer)
{
  if (d->pool == NULL) {
    lls_cuda_step_fail(d, -EINVAL, "the step has no cache");
    return false;
  }
  bool is_group = s->group < lls_pool_groups(&d->pool->shape);
  const struct lls_pool_shape *p = &d->pool->groups[is_group ? s->group : 0];
  if (!is_group || s->kv_heads != p->kv_heads || s->head_dim != p->head_dim ||
      layer >= p->layers || s->latent != p->latent)
    lls_cuda_step_fail(d, -EINVAL, "the cache was made for another shape");
  else if (s->head_dim > LLS_CUDA_HEAD_MAX || s->heads % s->kv_heads != 0)
    lls_cuda_step_fail(d, -ENOTSUP, "attention of %u heads over %u of %u dims", s->heads,
                       s->kv_heads, s->head_dim);
  return d->status == 0;
}

static void cache_write(struct lls_device *device,
                        const struct lls_attention_shape *shape, uint32_t layer,
                        const void *qkv)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (!check_shape(d, shape, layer))
    return;
  struct lls_cuda_op *op = lls_cuda_op_last(d);
  if (op == NULL || op->kind != LLS_CUDA_ROPE_WRITE || op->rope_write.write ||
      op->rope_write.qkv != qkv || op->rope_write.heads != shape->heads)
    op = add_rope_write(d, shape, qkv);
  op->rope_write.write = 1;
  op->rope_write.group = shape->group;
  op->rope_write.layer = layer;
}

static void attention(struct lls_device *device, const struct lls_attention_shape *shape,
                      uint32_t layer, const void *qkv, void *out)
{
  struct lls_cuda_device *d = lls_cuda(device);
  if (!check_shape(d, shape, layer) || d->step->n_rows == 0)
    return;
  struct lls_cuda_attention a;
  memset(&a, 0, sizeof a);
  a.n_rows = lls_cuda_padded(d->step->n_rows);
  a.heads = shape->heads;
  a.kv_heads = shape->kv_heads;
  a.head_dim = shape->head_dim;
  a.window = shape->window;
  a.chunked = shape->chunked;
  a.columns = (uint32_t)lls_qkv_width(shape);
  a.rank = shape->latent ? d->latent_rank : 0;
  a.soft_cap = shape->soft_cap;
  a.sinks = shape->sinks;
  a.slopes = shape->slopes;
  a.group = shape->group;
  a.layer = layer;
  a.scale = shape->scale;
  a.qkv = qkv;
  a.out = out;
  lls_cuda_plan_attention(d, &a);
  struct lls_cuda_op *op = lls_cuda_op_add(d, LLS_CUDA_ATTENTION);
  op->pool = d->pool;
  op->attention = a;
}

static void cap_logits(struct lls_device *device, float *logits_, uint32_t n_rows,
                       uint32_t vocab, float cap)
{
  struct lls_cuda_cap *a = &lls_cuda_op_add(lls_cuda(device), LLS_CUDA_CAP)->cap;
  a->n = (size_t)n_rows * vocab;
  a->cap = cap;
  a->x = logits_;
}

static void gather(struct lls_device *device, const void *x, const uint32_t *rows,
                   uint32_t n_rows, uint32_t columns, void *y)
{
  struct lls_cuda_device *d = lls_cuda(device);
  const uint32_t *at = lls_cuda_step_rows(d, rows, n_rows);
  if (at == NULL || n_rows == 0)
    return;
  struct lls_cuda_gather *a = &lls_cuda_op_add(d, LLS_CUDA_GATHER)->gather;
  a->n_rows = lls_cuda_padded(n_rows);
  a->columns = columns;
  a->rows = at;
  a->x = x;
  a->y = y;
}

const struct lls_device_ops lls_cuda_vtable = {
    .name = "cuda",
    .destroy = lls_cuda_destroy,
    .describe = lls_cuda_describe,
    .identify = lls_cuda_identify,
    .memory = lls_cuda_memory,
    .alloc = lls_cuda_alloc,
    .release = lls_cuda_release,
    .weight_create = lls_cuda_weight_create,
    .weight_destroy = lls_cuda_weight_destroy,
    .weight_bytes = lls_cuda_weight_bytes,
    .vector_create = lls_cuda_vector_create,
    .table_create = lls_cuda_table_create,
    .table_destroy = lls_cuda_table_destroy,
    .pool_create = lls_cuda_pool_create,
    .pool_destroy = lls_cuda_pool_destroy,
    .pool_copy = lls_cuda_pool_copy,
    .pool_pull = lls_cuda_pool_pull,
    .pool_pack = lls_cuda_pool_pack,
    .pool_unpack = lls_cuda_pool_unpack,
    .piece_write = lls_cuda_piece_write,
    .piece_read = lls_cuda_piece_read,
#ifdef LLS_NCCL
    .links = &lls_cuda_link_ops,
#endif
    .step_begin = lls_cuda_step_begin,
    .step_end = lls_cuda_step_end,
    .refusal = lls_cuda_refusal,
    .embed = embed,
    .embed_positions = embed_positions,
    .norm = norm,
    .linear = linear,
    .logits = logits,
    .activate = activate,
    .gated = gated,
    .add = add,
    .norm_qk = norm_qk,
    .rope = rope,
    .cache_write = cache_write,
    .attention = attention,
    .gather = gather,
    .all_reduce = all_reduce,
    .gather_columns = gather_columns,
    .cap_logits = cap_logits,
    .latent_rows = lls_cuda_latent_rows,
    .latent_values = lls_cuda_latent_values,
    .xielu = lls_cuda_xielu,
    .grow_queries = lls_cuda_grow_queries,
    .gate_rows = lls_cuda_gate_rows,
    .scale = lls_cuda_scale,
    .gate_inputs = lls_cuda_gate_inputs,
    .embed_layer = lls_cuda_embed_layer,
    .predict = lls_cuda_predict,
    .correct = lls_cuda_correct,
    .match_size = lls_cuda_match_size,
    .cut_gates = lls_cuda_cut_gates,
    .sample = lls_cuda_sample,
    .download = lls_cuda_download,
    .chosen = lls_cuda_chosen,
    .experts_create = lls_cuda_experts_create,
    .experts_destroy = lls_cuda_experts_destroy,
    .route = lls_cuda_route_rows,
    .gather_routed = lls_cuda_gather_routed,
    .linear_experts = lls_cuda_linear_experts_op,
    .gated_experts = lls_cuda_gated_experts,
    .combine = lls_cuda_combine_rows,
    .conv = lls_cuda_record_conv,
    .delta = lls_cuda_record_delta,
    .space = lls_cuda_record_space,
    .norm_gated = lls_cuda_record_norm_gated,
    .gate_columns = lls_cuda_record_gate_columns,
    .adapt = lls_cuda_adapt_rows,
    .adapt_experts = lls_cuda_adapt_experts,
    .adapter_write = lls_cuda_adapter_write,
    .hidden_write = lls_cuda_hidden_write,
    .restore = lls_cuda_restore,
};
