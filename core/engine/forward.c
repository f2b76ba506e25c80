/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forward pass, once for all architectures and devices. A layer is an attention and
 * an mlp branch on the residual stream x; see core/model/model_config.h for the
 * variations.
 *
 * All rows of a step go through the matrix products together, whichever sequence they
 * belong to; only attention knows about sequences. Rows that need no logits are dropped
 * in the last layer as soon as their keys and values are cached: in a prefill these are
 * all rows but one. Where tokens of a prompt are scored, all rows are kept and go
 * through the head a few at a time, because a row of logits is as wide as the
 * vocabulary. Pooled rows are kept too, and need no head, and so are all rows if a layer
 * that guesses reads them (joined.c).
 *
 * Encoders have whole texts as sequences, which attend both ways and leave nothing in
 * the cache.
 */
#include "core/engine/forward.h"

#include <math.h>

#include "core/device/numbers.h"

static void norm(const struct lls_forward *s, const struct lls_norm_weights *w,
                 const void *x, void *y)
{
  const struct lls_model_config *c = &s->e->config;
  s->ops->norm(s->device, c->norm, x, w->weight, w->bias, c->norm_epsilon, s->n_rows,
               c->hidden, y);
}

static void linear(const struct lls_forward *s, const struct lls_weight *w, const void *x,
                   enum lls_linear_store store, void *y)
{
  s->ops->linear(s->device, w, x, s->n_rows, store, y);
}

/* Returns the row of the first position; 0 for an encoder, whose table was cut at load.
 */
static int32_t position_offset(const struct lls_engine *e)
{
  return e->config.encoder ? 0 : (int32_t)e->config.position_offset;
}

static void embed(struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  const struct lls_weights *w = &e->weights;
  float scale = e->config.embedding_scale > 0 ? e->config.embedding_scale : 1;
  if (w->project_in != NULL) {
    s->ops->embed(s->device, w->embedding, scale, e->act.h);
    linear(s, w->project_in, e->act.h, LLS_STORE_SET, s->x);
  } else {
    s->ops->embed(s->device, w->embedding, scale, s->x);
  }
  if (w->positions != NULL)
    s->ops->embed_positions(s->device, w->positions, position_offset(e), s->x);
  if (w->embedding_norm.weight != NULL)
    norm(s, &w->embedding_norm, s->x, s->x);
  lls_engine_join(s);
  lls_engine_keep_embedding(s, scale);
  lls_engine_split_streams(s, scale);
}

/* Returns the input of a branch: the normed x, or x itself if the norm comes after the
 * branch. */
static const void *branch_input(const struct lls_forward *s,
                                const struct lls_norm_weights *w)
{
  enum lls_norm_place place = s->e->config.norm_place;
  if (place == LLS_NORM_SUM || place == LLS_NORM_OUTPUT)
    return s->x;
  norm(s, w, s->x, s->e->act.h);
  return s->e->act.h;
}

static void norm_qk(const struct lls_forward *s, const struct lls_layer_weights *w,
                    const struct lls_attention_shape *shape, void *qkv)
{
  const struct lls_model_config *c = &s->e->config;
  const struct lls_qk_norm_shape n = {.q = w->q_norm.weight,
                                      .k = w->k_norm.weight,
                                      .v = s->e->weights.v_norm,
                                      .epsilon = c->norm_epsilon,
                                      .whole = c->qk_norm == LLS_QK_NORM_WHOLE};
  s->ops->norm_qk(s->device, shape, &n, qkv);
}

/* Computes attention among the rows themselves into `attended`; nothing is cached. */
static void attend_both_ways(struct lls_forward *s, uint32_t layer)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_layer_config *kind = &e->config.layer[layer];
  const struct lls_rope_shape *rope = &e->ropes[kind->rope];
  struct lls_attention_shape shape = e->attention;
  void *qkv = e->act.wide;
  shape.window = kind->window;
  shape.relative = e->weights.relative;
  shape.reach = shape.relative != NULL ? lls_longest_text(&e->config) - 1 : 0;
  const void *h = kind->plain_input ? s->x : branch_input(s, &w->attention_norm);
  linear(s, w->qkv, h, LLS_STORE_SET, qkv);
  lls_engine_adapt(s, layer, LLS_ADAPTED_QKV, h, qkv);
  if (e->config.qk_norm != LLS_QK_NORM_NONE)
    norm_qk(s, w, &shape, qkv);
  if (rope->rotary_dims > 0)
    s->ops->rope(s->device, &shape, rope, qkv);
  s->ops->attention_both_ways(s->device, &shape, qkv, e->act.narrow);
  s->attended = e->act.narrow;
}

static struct lls_attention_shape shape_of(const struct lls_engine *e, uint32_t layer)
{
  struct lls_attention_shape shape = e->attention;
  shape.kv_heads = lls_layer_kv_heads(&e->config, layer);
  shape.head_dim = lls_layer_head_dim(&e->config, layer);
  shape.queries_alone = e->config.layer[layer].shares;
  shape.group = e->places[layer].group;
  shape.window = e->config.layer[layer].window;
  shape.chunked = e->config.layer[layer].chunked;
  shape.sinks = e->weights.layers[layer].sinks;
  shape.slopes = e->weights.slopes;
  return shape;
}

static bool norms_qk(const struct lls_engine *e, uint32_t layer)
{
  const struct lls_model_config *c = &e->config;
  bool rotates = e->ropes[c->layer[layer].rope].rotary_dims > 0;
  return c->qk_norm != LLS_QK_NORM_NONE && (!c->qk_norm_plain || rotates);
}

/* Computes q, k, v from h, caches k and v, and attends to the cache into `attended`. */
static void attend(struct lls_forward *s, uint32_t layer, const void *h)
{
  struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  const struct lls_layer_config *kind = &e->config.layer[layer];
  const struct lls_rope_shape *rope = &e->ropes[kind->rope];
  const struct lls_layer_place *place = &e->places[layer];
  const struct lls_attention_shape shape = shape_of(e, layer);
  void *qkv = e->act.wide;
  linear(s, w->qkv, h, LLS_STORE_SET, qkv);
  lls_engine_add_entry(s, qkv);
  lls_engine_adapt(s, layer, LLS_ADAPTED_QKV, h, qkv);
  if (e->scratch_used > 0 || e->attends_hidden)
    s->ops->hidden_write(s->device, &shape, place->index, h);
  if (e->restores)
    s->ops->restore(s->device, &shape, rope, place->index, w->qkv);
  bool normed = norms_qk(e, layer);
  bool last = normed && e->config.rope_before_norm;
  if (normed && !last)
    norm_qk(s, w, &shape, qkv);
  if (rope->rotary_dims > 0)
    s->ops->rope(s->device, &shape, rope, qkv);
  if (last)
    norm_qk(s, w, &shape, qkv);
  if (e->grows_queries && (!e->config.growth_unrotated || rope->rotary_dims == 0))
    s->ops->grow_queries(s->device, &shape, &e->config.growth, qkv);
  if (!kind->shares)
    s->ops->cache_write(s->device, &shape, place->index, qkv);
  s->ops->attention(s->device, &shape, place->index, qkv, e->act.narrow);
  if (e->attends_hidden)
    s->ops->attend_hidden(s->device, &shape, place->index, w->qkv, qkv, e->act.narrow);
  if (w->gates != NULL) { /* q, k and v are not needed any more */
    linear(s, w->gates, h, LLS_STORE_SET, e->act.wide);
    s->ops->gate_columns(s->device, e->act.wide, e->act.narrow, s->n_rows,
                         shape.heads * shape.head_dim);
  }
  s->attended = e->act.narrow;
}

static void attend_latent(struct lls_forward *s, uint32_t layer)
{
  struct lls_attention_shape shape = shape_of(s->e, layer);
  const void *h = branch_input(s, &s->e->weights.layers[layer].attention_norm);
  lls_engine_attend_latent(s, layer, &shape, h);
}

static void attend_input(struct lls_forward *s, uint32_t layer, const void *h)
{
  lls_engine_add_laurel(s, layer, h);
  attend(s, layer, h);
}

static void attend_by_kind(struct lls_forward *s, uint32_t layer)
{
  const struct lls_model_config *c = &s->e->config;
  if (c->encoder)
    attend_both_ways(s, layer);
  else if (c->latent.rank > 0)
    attend_latent(s, layer);
  else
    attend_input(s, layer, branch_input(s, &s->e->weights.layers[layer].attention_norm));
}

/* Returns how a rank stores its share of a branch: the first rank adds it to x and the
 * other ranks overwrite x with it, so that the sum over ranks is x plus the branch. */
static enum lls_linear_store own_share(const struct lls_forward *s)
{
  return s->e->shard.rank == 0 ? LLS_STORE_ADD : LLS_STORE_SET;
}

/* Adds a state space to x, and computes attention from the same input. */
static void mix_both(struct lls_forward *s, uint32_t layer, const void *h)
{
  const struct lls_model_config *c = &s->e->config;
  lls_engine_space(s, layer, h);
  linear(s, s->e->weights.layers[layer].space_output, s->attended, own_share(s), s->x);
  attend(s, layer, h);
  lls_engine_scale(s, c->factors.attended, lls_attended_columns(c, layer),
                   s->e->act.narrow);
}

/* Computes the part of a layer by which rows see the tokens before them into
 * `attended`. */
static void mix_tokens(struct lls_forward *s, uint32_t layer)
{
  const struct lls_norm_weights *norm_of = &s->e->weights.layers[layer].attention_norm;
  switch (s->e->config.layer[layer].mix) {
  case LLS_MIX_ATTENTION:
    attend_by_kind(s, layer);
    return;
  case LLS_MIX_SHORT_CONV:
    lls_engine_convolve(s, layer, branch_input(s, norm_of));
    return;
  case LLS_MIX_DELTA:
    lls_engine_delta(s, layer, branch_input(s, norm_of));
    return;
  case LLS_MIX_SPACE:
    lls_engine_space(s, layer, branch_input(s, norm_of));
    return;
  case LLS_MIX_BESIDE:
    mix_both(s, layer, branch_input(s, norm_of));
    return;
  case LLS_MIX_NONE:
    return;
  }
}

/* The MLP of a layer that is no mixture. */
static void add_plain_mlp(const struct lls_forward *s, uint32_t layer, const void *input,
                          enum lls_linear_store store, void *y)
{
  const void *inner = lls_engine_mlp_inner(s, layer, input);
  linear(s, s->e->weights.layers[layer].down, inner, store, y);
  lls_engine_adapt(s, layer, LLS_ADAPTED_DOWN, inner, y);
}

/* The product at the end of attention. */
static void add_attended(const struct lls_forward *s, uint32_t layer,
                         enum lls_linear_store store, void *y)
{
  linear(s, s->e->weights.layers[layer].output, s->attended, store, y);
  lls_engine_adapt(s, layer, LLS_ADAPTED_OUTPUT, s->attended, y);
}

/* The destination of a branch's last product: x, added to it; or h, which the branch
 * has already read, if the output is normed before it is added to x. */
struct target {
  void *y;
  enum lls_linear_store store;
};

static struct target branch_target(const struct lls_forward *s)
{
  enum lls_norm_place place = s->e->config.norm_place;
  if (place == LLS_NORM_INPUT || place == LLS_NORM_SUM)
    return (struct target){s->x, own_share(s)};
  return (struct target){s->e->act.h, LLS_STORE_SET};
}

/* Ends a branch: sums it over ranks, then applies the norms that come after the branch,
 * and adds it to x if it is not in x yet. */
static void branch_end(const struct lls_forward *s, const struct target *t,
                       const struct lls_norm_weights *own,
                       const struct lls_norm_weights *output)
{
  enum lls_norm_place place = s->e->config.norm_place;
  lls_engine_sum_shares(s, t->y);
  if (place == LLS_NORM_SUM)
    norm(s, own, s->x, s->x);
  if (place == LLS_NORM_INPUT || place == LLS_NORM_SUM)
    return;
  norm(s, place == LLS_NORM_BOTH ? output : own, t->y, t->y);
  s->ops->add(s->device, t->y, s->n_rows, s->e->config.hidden, s->x);
}

/* Adds attention and mlp where both read the same x: the mlp's input is normed before
 * attention's output is added, and one sum over ranks serves both. */
static void add_parallel_branches(const struct lls_forward *s, uint32_t layer)
{
  const void *input = branch_input(s, &s->e->weights.layers[layer].mlp_norm);
  add_attended(s, layer, own_share(s), s->x);
  add_plain_mlp(s, layer, input, LLS_STORE_ADD, s->x);
  lls_engine_sum_shares(s, s->x);
}

static void add_mlp(const struct lls_forward *s, uint32_t layer, const struct target *t)
{
  const struct lls_model_config *c = &s->e->config;
  const struct lls_layer_weights *w = &s->e->weights.layers[layer];
  bool mixture = c->layer[layer].mixture;
  if (mixture && c->mixture.beside) {
    lls_engine_mix_beside(s, layer, t->y);
    norm(s, &w->mlp_output_norm, t->y, t->y);
    s->ops->add(s->device, t->y, s->n_rows, c->hidden, s->x);
    return;
  }
  const void *input = branch_input(s, &w->mlp_norm);
  if (mixture)
    lls_engine_mix(s, layer, input, t->store, t->y);
  else
    add_plain_mlp(s, layer, input, t->store, t->y);
  branch_end(s, t, &w->mlp_norm, &w->mlp_output_norm);
}

/* Adds the layer's branches to x, of which one may be missing. */
static void add_branches(const struct lls_forward *s, uint32_t layer)
{
  const struct lls_layer_weights *w = &s->e->weights.layers[layer];
  const struct lls_layer_config *kind = &s->e->config.layer[layer];
  struct target t = branch_target(s);
  if (s->e->config.parallel_residual) {
    add_parallel_branches(s, layer);
    return;
  }
  if (kind->mix != LLS_MIX_NONE) {
    bool added = kind->mix == LLS_MIX_BESIDE; /* x has the other share already */
    add_attended(s, layer, added ? LLS_STORE_ADD : t.store, t.y);
    branch_end(s, &t, &w->attention_norm, &w->attention_output_norm);
    lls_engine_scale(s, s->e->config.laurel > 0 ? (float)M_SQRT1_2 : 0,
                     s->e->config.hidden, s->x);
  }
  if (!kind->no_mlp)
    add_mlp(s, layer, &t);
  lls_engine_correct_streams(s, layer);
  lls_engine_add_layer_input(s, layer);
  if (s->e->config.layer_scalars)
    s->ops->scale(s->device, w->scalar, s->n_rows, s->e->config.hidden, s->x);
}

/* Drops all rows that need no logits, in the last layer. The other one of `wide` and
 * `narrow` is free here, since q, k, v are no longer needed. */
static void keep_wanted_rows(struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  const struct lls_model_config *c = &e->config;
  void *to = s->attended == e->act.wide ? e->act.narrow : e->act.wide;
  LLS_CHECK(e->n_logit_rows <= e->max_logit_rows);
  s->ops->gather(s->device, s->x, e->logit_rows, e->n_logit_rows, c->hidden,
                 e->act.picked);
  if (c->layer[c->layers - 1].mix != LLS_MIX_NONE)
    s->ops->gather(s->device, s->attended, e->logit_rows, e->n_logit_rows,
                   lls_mix_width(c, c->layers - 1), to);
  s->attended = to;
  lls_engine_pick_layer_input(s);
  lls_engine_pick_streams(s);
  s->x = e->act.picked;
  s->n_rows = e->n_logit_rows;
  s->picked = true;
}

static void cap_logits(const struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  if (e->config.logit_cap > 0 && e->shard.rank == 0)
    s->ops->cap_logits(s->device, e->act.logits, s->n_rows, e->config.vocab,
                       e->config.logit_cap);
}

/* Sets all rows of a text to their mean, by attention whose scores are 0. */
static void average(struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  struct lls_attention_shape shape = e->attention;
  shape.heads = shape.kv_heads = e->model.heads;
  if (e->config.final_norm)
    norm(s, &e->weights.final_norm, s->x, s->x);
  linear(s, e->weights.mean, s->x, LLS_STORE_SET, e->act.wide);
  s->ops->attention_both_ways(s->device, &shape, e->act.wide, e->act.narrow);
  s->x = e->act.narrow;
}

/* Computes a cross-encoder's scores from the first row of each text. */
static const void *classify(const struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  const struct lls_weights *w = &e->weights;
  if (e->config.final_norm && w->mean == NULL)
    norm(s, &w->final_norm, s->x, s->x);
  linear(s, w->pooler, s->x, LLS_STORE_SET, e->act.h);
  s->ops->activate(s->device, e->config.classifier.activation, e->act.h, s->n_rows,
                   e->config.hidden);
  if (w->pooler_norm.weight != NULL)
    norm(s, &w->pooler_norm, e->act.h, e->act.h);
  linear(s, w->head, e->act.h, LLS_STORE_SET, e->act.projected);
  return e->act.projected;
}

/* Computes the rows that the head reads; returns the buffer they are in. */
static const void *output(const struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  const struct lls_weights *w = &e->weights;
  if (w->pooler != NULL)
    return classify(s);
  if (e->config.eagle.rows > 0) { /* its next guess is made of x as it is */
    norm(s, &w->final_norm, s->x, e->act.h);
    return e->act.h;
  }
  if (e->config.final_norm)
    norm(s, &w->final_norm, s->x, s->x);
  if (w->project_out == NULL)
    return s->x;
  linear(s, w->project_out, s->x, LLS_STORE_SET, e->act.projected);
  return e->act.projected;
}

static void head(const struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  const struct lls_weights *w = &e->weights;
  const void *x = output(s);
  if (!lls_engine_is_shared(e)) {
    s->ops->logits(s->device, w->head, x, s->n_rows, e->act.logits);
    lls_engine_spread_logits(s);
    cap_logits(s);
    return;
  }
  s->ops->logits(s->device, w->head, x, s->n_rows, e->act.part);
  s->ops->gather_columns(s->device, e->act.part, s->n_rows, e->config.vocab,
                         e->act.logits);
  cap_logits(s);
}

/* Returns a copy of the pass with only n of its rows, gathered into act.picked. */
static struct lls_forward pick(const struct lls_forward *all, const uint32_t *rows,
                               uint32_t n)
{
  const struct lls_engine *e = all->e;
  struct lls_forward picked = *all;
  LLS_CHECK(n <= e->max_logit_rows);
  all->ops->gather(all->device, all->x, rows, n, e->config.hidden, e->act.picked);
  picked.x = e->act.picked;
  picked.n_rows = n;
  return picked;
}

/* Computes all scores, at most max_logit_rows rows at a time. */
static void score(const struct lls_forward *all)
{
  struct lls_engine *e = all->e;
  for (uint32_t done = 0, n; done < e->n_score_rows; done += n) {
    uint32_t left = e->n_score_rows - done;
    n = left < e->max_logit_rows ? left : e->max_logit_rows;
    struct lls_forward some = pick(all, e->score_rows + done, n);
    head(&some);
    if (e->shard.rank > 0)
      continue;
    all->ops->sample(all->device, e->act.logits, n, e->config.vocab,
                     e->score_sampling + done, e->scores + done);
  }
}

/* Adds n vectors that were read back to the sums of their rows. */
static void add_up(const struct lls_engine *e, uint32_t first, uint32_t n)
{
  uint32_t columns = lls_engine_columns(e);
  const float *f32 = e->pooled;
  const uint16_t *bf16 = e->pooled;
  bool is_f32 = e->device->activation_type == LLS_F32;
  for (uint32_t i = 0; i < n; i++) {
    float *sum = e->pooled_sums[first + i];
    for (uint32_t c = 0; c < columns; c++) {
      size_t at = (size_t)i * columns + c;
      sum[c] += is_f32 ? f32[at] : lls_bf16_to_f32(bf16[at]);
    }
  }
}

/* Computes the vectors of pooled rows; a generator's scores are vectors of one number. */
static const void *pooled_vectors(const struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  const void *x = output(s);
  if (e->weights.score == NULL)
    return x;
  linear(s, e->weights.score, x, LLS_STORE_SET, e->act.projected);
  return e->act.projected;
}

/* Reads back the pooled rows and adds them up, on the first rank: every rank has all of
 * x. */
static void pool(const struct lls_forward *all)
{
  struct lls_engine *e = all->e;
  size_t row_bytes =
      lls_engine_columns(e) * (e->device->activation_type == LLS_F32 ? sizeof(float) : 2);
  for (uint32_t done = 0, n; done < e->n_pooled_rows; done += n) {
    uint32_t left = e->n_pooled_rows - done;
    n = left < e->max_logit_rows ? left : e->max_logit_rows;
    struct lls_forward some = pick(all, e->pooled_rows + done, n);
    const void *vectors = pooled_vectors(&some);
    if (e->shard.rank > 0)
      continue;
    all->ops->download(all->device, vectors, e->pooled, n * row_bytes);
    add_up(e, done, n);
  }
}

void lls_engine_forward(struct lls_engine *e)
{
  bool all_rows = e->n_score_rows > 0 || e->n_pooled_rows > 0 ||
                  (e->keeps_hidden && e->options.n_kept_layers == 0);
  struct lls_forward s = {
      .e = e,
      .ops = e->device->ops,
      .device = e->device,
      .x = e->act.x,
      .n_rows = e->step.n_rows,
  };
  uint32_t last = e->weights.n_layers - 1;
  embed(&s);
  for (uint32_t layer = e->device->is_empty ? last : 0; layer <= last; layer++) {
    lls_engine_keep_layer(&s, layer);
    lls_engine_make_layer_input(&s, layer);
    lls_engine_predict_streams(&s, layer);
    mix_tokens(&s, layer);
    if (layer == last && !all_rows)
      keep_wanted_rows(&s);
    if (s.n_rows > 0)
      add_branches(&s, layer);
  }
  lls_engine_join_streams(&s);
  lls_engine_keep_hidden(&s);
  if (e->weights.mean != NULL)
    average(&s);
  if (all_rows) {
    score(&s);
    pool(&s);
    s = pick(&s, e->logit_rows, e->n_logit_rows);
  }
  if (s.n_rows > 0)
    head(&s);
}
