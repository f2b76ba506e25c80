/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads weights: finds each tensor by the architecture's names, checks its shape
 * against config.json, and has the device pack it. Query, key and value become one
 * matrix, gate and up another, since one wide product is faster than two or three
 * narrow ones.
 *
 * Memory. The estimate made before the first tensor counts the numbers of all matrices
 * in the format asked for. What the device really allocates (padding, another type that
 * it multiplies faster) is known after the first layer, so the check is repeated then,
 * and a model that does not fit is refused before it has displaced other processes'
 * memory.
 */
#include "core/engine/weights.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/least.h"
#include "core/engine/tensor_loader.h"
#include "core/model/checkpoint.h"
#include "core/device/quantised.h"
#include "core/device/tensor.h"

/* ---- memory --------------------------------------------------------------------- */

static size_t mlp_numbers(const struct lls_model_config *c, uint32_t layer)
{
  const struct lls_mixture_config *m = &c->mixture;
  size_t matrices = c->gated ? 3 : 2, width = m->latent > 0 ? m->latent : c->hidden;
  size_t plain = lls_layer_ffn(c, layer) * matrices * c->hidden;
  if (c->layer[layer].no_mlp)
    return 0;
  if (!c->layer[layer].mixture)
    return plain;
  return (m->beside ? plain : 0) + matrices * width * m->experts * m->ffn +
         c->hidden *
             (m->experts + m->shared * matrices + m->shared_gate + 2 * (size_t)m->latent);
}

static size_t layer_numbers(const struct lls_model_config *c, uint32_t layer)
{
  size_t attention =
      lls_mix_numbers(c, layer) + (size_t)c->hidden * lls_mix_width(c, layer);
  size_t beside = 3 * (size_t)c->layer_inputs + c->streams.n + 2 * (size_t)c->laurel;
  return attention + mlp_numbers(c, layer) + c->hidden * beside;
}

static size_t layers_numbers(const struct lls_model_config *c)
{
  size_t layers = 0;
  for (uint32_t i = 0; i < c->layers; i++)
    layers += layer_numbers(c, i);
  return layers;
}

/* Returns the numbers of what a layer that guesses has outside of it. */
static size_t joined_numbers(const struct lls_model_config *c)
{
  const struct lls_eagle_config *e = &c->eagle;
  if (e->rows == 0)
    return 2 * (size_t)c->hidden * c->hidden;
  return c->hidden * (LLS_EAGLE_LAYERS * (size_t)e->hidden + lls_qkv_columns(c, 0) +
                      (e->own_head ? e->rows : 0));
}

static size_t total_numbers(const struct lls_model_config *whole,
                            const struct lls_shard *shard)
{
  struct lls_model_config c = *whole;
  lls_shard_config(shard, &c);
  size_t projections = c.embed_dim == c.hidden ? 0 : 2 * (size_t)c.hidden * c.embed_dim;
  size_t layers = layers_numbers(&c), ends = 2 * lls_stream_numbers(&c);
  if (c.joins)
    return layers + joined_numbers(&c);
  size_t head = c.encoder ? 0 : shard->vocab.n * c.embed_dim;
  return layers + head + projections + ends;
}

static size_t whole_numbers(const struct lls_model_config *c)
{
  struct lls_shard all;
  return lls_shard_make(c, NULL, &all, NULL) == 0 ? total_numbers(c, &all) : 0;
}

size_t lls_weights_bytes_of(const struct lls_model_config *other,
                            const struct lls_weights *w,
                            const struct lls_model_config *config)
{
  size_t numbers = lls_most_size(whole_numbers(config), 1);
  return (size_t)((double)w->bytes / (double)numbers * (double)whole_numbers(other));
}

/* ---- matrices -------------------------------------------------------------------- */

static int load_one(struct lls_loader *l, int layer, const char *name,
                    struct lls_range rows, struct lls_range columns, bool bias,
                    struct lls_weight **out)
{
  const struct lls_part part = {name, rows};
  return lls_loader_matrix(l, layer, &part, 1, columns, bias, out);
}

/* ---- the whole ------------------------------------------------------------------ */

/* Finds the rows of gate and of up, in tensors of their own or in one. */
static void find_gate_up(const struct lls_loader *l, struct lls_range ffn,
                         struct lls_part out[2])
{
  const struct lls_tensor_names *n = l->names;
  size_t width = ffn.whole;
  const char *both = n->stacked_up != NULL ? n->stacked_up : n->stacked_up_gate;
  size_t gate_first = n->stacked_up != NULL ? 0 : width;
  out[0] = (struct lls_part){n->gate, ffn};
  out[1] = (struct lls_part){n->up, ffn};
  if (both == NULL)
    return;
  out[0] = (struct lls_part){both, lls_range_after(ffn, gate_first, 2 * width)};
  out[1] = (struct lls_part){both, lls_range_after(ffn, width - gate_first, 2 * width)};
}

static int load_mlp(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  struct lls_range ffn = lls_shard_ffn(l->shard, c, (uint32_t)layer);
  struct lls_range hidden = lls_range_all(c->hidden);
  struct lls_part gate_up[2];
  find_gate_up(l, ffn, gate_up);
  int rc = c->gated ? lls_loader_matrix(l, layer, gate_up, 2, hidden, c->mlp_bias, &w->up)
                    : load_one(l, layer, l->names->up, ffn, hidden, c->mlp_bias, &w->up);
  if (rc == 0 && c->xielu)
    rc = lls_loader_xielu(l, layer, &w->xielu);
  if (rc < 0)
    return rc;
  return load_one(l, layer, l->names->down, hidden, ffn, c->mlp_bias || c->down_bias,
                  &w->down);
}

/* Loads the norms of q and k. Norms over the whole width are cut like the heads they
 * scale. */
static int load_qk_norms(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  uint32_t at = (uint32_t)layer, head_dim = lls_layer_head_dim(c, at);
  struct lls_range q = lls_range_all(head_dim), k = q;
  if (c->qk_norm == LLS_QK_NORM_WHOLE) {
    q = lls_range_times(l->shard->heads, head_dim);
    k = lls_range_times(lls_shard_kv_heads(l->shard, c, at), head_dim);
  }
  int rc = 0;
  if (c->qk_norm_plain) {
    rc = lls_loader_constant(l, head_dim, 1, &w->q_norm.weight);
    return rc < 0 ? rc : lls_loader_constant(l, head_dim, 1, &w->k_norm.weight);
  }
  rc = lls_loader_norm_part(l, layer, l->names->q_norm, q, &w->q_norm);
  if (rc < 0 || c->layer[layer].shares)
    return rc;
  return lls_loader_norm_part(l, layer, l->names->k_norm, k, &w->k_norm);
}

static int load_norms(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_tensor_names *names = l->names;
  const struct lls_layer_config *kind = &l->config->layer[layer];
  int rc = kind->plain_input || kind->mix == LLS_MIX_NONE
               ? 0
               : lls_loader_norm(l, layer, names->attention_norm, &w->attention_norm);
  float factor = l->config->factors.mlp_input;
  if (rc == 0 && factor > 0)
    rc = lls_loader_scaled(l, layer, names->mlp_norm, ".weight", l->config->hidden,
                           factor, &w->mlp_norm.weight);
  else if (rc == 0 && !kind->no_mlp)
    rc = lls_loader_norm(l, layer, names->mlp_norm, &w->mlp_norm);
  if (rc == 0 && l->config->norm_place == LLS_NORM_BOTH)
    rc = lls_loader_norm(l, layer, names->attention_output_norm,
                         &w->attention_output_norm);
  if (rc == 0 && l->config->norm_place == LLS_NORM_BOTH)
    rc = lls_loader_norm(l, layer, names->mlp_output_norm, &w->mlp_output_norm);
  if (!lls_layer_attends(l->config, (uint32_t)layer))
    return rc;
  if (rc == 0 && l->config->qk_norm != LLS_QK_NORM_NONE)
    rc = load_qk_norms(l, layer, w);
  if (rc == 0 && l->config->attention_sinks && !kind->no_sinks)
    rc = lls_loader_vector(l, layer, names->sinks, l->shard->heads, &w->sinks);
  return rc;
}

/* Loads the part of a layer by which rows see the tokens before them. */
static int load_mix(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  int rc = 0;
  if (lls_mix_state(c, (uint32_t)layer) > 0)
    rc = lls_loader_recurrent(l, layer, w);
  if (rc < 0 || !lls_layer_attends(c, (uint32_t)layer))
    return rc;
  rc = c->latent.rank > 0 ? lls_loader_latent(l, layer, w)
       : c->output_gate   ? lls_loader_gated_qkv(l, layer, &w->qkv, &w->gates)
                          : lls_loader_qkv(l, layer, &w->qkv);
  if (rc == 0 && c->value_dim > 0 && !l->source->dummy)
    return lls_loader_filled_output(l, layer, &w->output);
  return rc < 0 ? rc
                : load_one(l, layer, l->names->output, lls_range_all(c->hidden),
                           lls_range_times(l->shard->heads,
                                           lls_attended_columns(c, (uint32_t)layer) /
                                               c->heads),
                           c->output_bias, &w->output);
}

static int load_layer(struct lls_loader *l, int layer, struct lls_layer_weights *w)
{
  const struct lls_model_config *c = l->config;
  int rc = load_norms(l, layer, w);
  if (rc == 0 && c->layer[layer].mix != LLS_MIX_NONE)
    rc = load_mix(l, layer, w);
  bool mlp = !c->layer[layer].no_mlp, mixture = c->layer[layer].mixture;
  if (rc == 0 && mlp && mixture)
    rc = lls_loader_mixture(l, layer, w);
  if (rc == 0 && mlp && (!mixture || c->mixture.beside))
    rc = load_mlp(l, layer, w);
  if (rc == 0)
    rc = lls_loader_layer_inputs(l, layer, w);
  if (rc == 0)
    rc = lls_loader_streams(l, layer, w);
  if (rc == 0 && l->w->file != NULL)
    lls_checkpoint_drop_pages(l->w->file);
  return rc;
}

/* Writes the head's name without ".weight": a tied head is the embedding. So is that of
 * a headless model, whose logits no request reads. */
static void head_name(const struct lls_loader *l, char *name, size_t size)
{
  const struct lls_tensor_names *n = l->names;
  char full[128];
  if (l->config->tied_embeddings || l->config->headless) {
    snprintf(name, size, "%s%s", l->prefix, n->embedding);
    return;
  }
  snprintf(full, sizeof full, "%s.weight", n->head);
  bool plain = n->head_prefix == NULL || l->w->file == NULL ||
               lls_checkpoint_has(l->w->file, full);
  snprintf(name, size, "%s%s", plain ? "" : n->head_prefix, n->head);
}

static int load_head(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  const struct lls_range *part = &l->shard->vocab;
  char name[128], full[144];
  struct lls_tensor_view v, bias;
  head_name(l, name, sizeof name);
  snprintf(full, sizeof full, "%s.weight", name);
  int rc = lls_loader_view_named(l, full, c->vocab, c->embed_dim, &v);
  snprintf(full, sizeof full, "%s.bias", name);
  if (rc == 0 && c->head_bias)
    rc = lls_loader_view_named(l, full, 1, c->vocab, &bias);
  if (rc < 0)
    return rc;
  v = lls_view_rows(&v, part->first, part->n);
  if (c->head_bias)
    bias = lls_view_rows(&bias, part->first, part->n);
  return lls_loader_pack(l, &v, c->head_bias ? &bias : NULL, 1, &l->w->head);
}

/* Loads the row whose product with a row of x is the score, whole on each rank. */
static int load_score(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  const struct lls_score_config *s = &c->score;
  char name[128], full[144];
  struct lls_tensor_view v;
  if (s->rows == 0)
    return 0;
  if (l->names->score != NULL)
    snprintf(name, sizeof name, "%s", l->names->score);
  else
    head_name(l, name, sizeof name);
  snprintf(full, sizeof full, "%s.weight", name);
  int rc = lls_loader_view_named(l, full, s->rows, c->hidden, &v);
  if (rc < 0)
    return rc;
  float *row = calloc(2, c->hidden * sizeof *row);
  if (row == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  lls_tensor_read_row(&v, (size_t)s->yes, row);
  if (s->no >= 0)
    lls_tensor_read_row(&v, (size_t)s->no, row + c->hidden);
  for (uint32_t i = 0; i < c->hidden; i++)
    row[i] -= row[c->hidden + i];
  v = (struct lls_tensor_view){.data = row,
                               .dtype = LLS_F32,
                               .rows = 1,
                               .columns = c->hidden,
                               .row_stride = c->hidden};
  rc = lls_loader_pack(l, &v, NULL, 1, &l->w->score);
  free(row);
  return rc;
}

/* Loads the parts of a decoder outside its layers. */
static int load_ends(struct lls_loader *l)
{
  const struct lls_model_config *c = l->config;
  struct lls_weights *w = l->w;
  int rc = lls_loader_table(l, l->names->embedding, c->vocab, lls_range_all(c->embed_dim),
                            &w->embedding);
  if (rc == 0 && c->rope.dims == 0 && l->names->positions != NULL)
    rc = lls_loader_table(l, l->names->positions,
                          (size_t)c->max_context + c->position_offset,
                          lls_range_all(c->hidden), &w->positions);
  if (rc == 0 && l->names->embedding_norm != NULL)
    rc = lls_loader_norm(l, LLS_NO_LAYER, l->names->embedding_norm, &w->embedding_norm);
  if (rc == 0 && c->alibi > 0)
    rc = lls_loader_slopes(l);
  if (rc == 0 && c->v_norm)
    rc = lls_loader_constant(l, lls_most_of_layers(c, lls_layer_head_dim), 1, &w->v_norm);
  if (rc == 0 && c->layer_inputs > 0)
    rc = lls_loader_scaled(l, LLS_NO_LAYER, l->names->inputs_norm, ".weight",
                           c->layer_inputs, sqrtf(0.5f), &w->inputs_norm);
  if (rc == 0)
    rc = lls_loader_stream_ends(l);
  if (rc == 0 && c->embed_dim != c->hidden)
    rc = load_one(l, LLS_NO_LAYER, l->names->project_in, lls_range_all(c->hidden),
                  lls_range_all(c->embed_dim), false, &w->project_in);
  if (rc == 0 && c->embed_dim != c->hidden)
    rc = load_one(l, LLS_NO_LAYER, l->names->project_out, lls_range_all(c->embed_dim),
                  lls_range_all(c->hidden), false, &w->project_out);
  if (rc == 0 && c->final_norm)
    rc = lls_loader_final_norm(l, &w->final_norm);
  if (rc == 0)
    rc = load_head(l);
  if (rc == 0)
    rc = load_score(l);
  if (rc == 0 && w->file != NULL)
    lls_checkpoint_drop_pages(w->file);
  return rc;
}

static int load_outside(struct lls_loader *l)
{
  if (l->config->joins)
    return lls_loader_joined_ends(l);
  return l->config->encoder ? lls_loader_encoder_ends(l) : load_ends(l);
}

/* Finds the prefix of tensor names: some checkpoints leave out the outermost part. */
static const char *find_prefix(const struct lls_loader *l)
{
  const struct lls_tensor_names *names = l->names;
  for (size_t i = 0; l->w->file != NULL && i < 4 && names->prefixes[i] != NULL; i++) {
    char name[128];
    snprintf(name, sizeof name, "%s%s.weight", names->prefixes[i], names->embedding);
    if (lls_checkpoint_has(l->w->file, name))
      return names->prefixes[i];
  }
  return names->prefixes[0];
}

static int load_all(struct lls_loader *l)
{
  const struct lls_weights_source *source = l->source;
  if (!source->dummy) {
    int rc = lls_checkpoint_open(source->folder, &l->w->file, l->err);
    if (rc < 0)
      return rc;
  }
  l->prefix = find_prefix(l);
  l->w->layers = calloc(l->config->layers, sizeof *l->w->layers);
  if (l->w->layers == NULL)
    return lls_fail(l->err, -ENOMEM, "out of memory");
  l->w->n_layers = l->config->layers;

  int rc = lls_loader_check_memory(
      l, lls_weight_number_bytes(source->format, l->config->dtype));
  for (uint32_t i = 0; rc == 0 && i < l->w->n_layers; i++) {
    rc = load_layer(l, (int)i, &l->w->layers[i]);
    if (rc == 0 && i == 0)
      rc = lls_loader_check_memory(l, (double)l->w->bytes / (double)l->done);
  }
  if (rc < 0)
    return rc;
  return load_outside(l);
}

int lls_weights_load(struct lls_weights *w, const struct lls_weights_source *source,
                     const struct lls_model_config *config, const struct lls_shard *shard,
                     struct lls_device *device, struct lls_error *err)
{
  struct lls_shard all;
  int rc = shard == NULL ? lls_shard_make(config, NULL, &all, err) : 0;
  shard = shard == NULL ? &all : shard;
  *w = (struct lls_weights){0};
  if (rc < 0)
    return rc;
  struct lls_loader loader = {
      .w = w,
      .source = source,
      .config = config,
      .shard = shard,
      .names =
          config->joins ? config->architecture->heads : &config->architecture->tensors,
      .device = device,
      .total = total_numbers(config, shard),
      .err = err,
  };
  size_t total;
  rc = device->ops->memory(device, &total, &loader.available);
  if (source->sharers > 1)
    loader.available /= source->sharers;
  if (rc == 0)
    rc = load_all(&loader);
  if (rc < 0)
    lls_weights_unload(w, device);
  return rc;
}

static void unload_matrix(struct lls_device *device, struct lls_weight *w)
{
  if (w != NULL)
    device->ops->weight_destroy(device, w);
}

static void unload_vector(struct lls_device *device, float *vector)
{
  if (vector != NULL)
    device->ops->release(device, LLS_MEMORY_DEVICE, vector);
}

static void unload_norm(struct lls_device *device, struct lls_norm_weights *norm)
{
  unload_vector(device, norm->weight);
  unload_vector(device, norm->bias);
}

static void unload_table(struct lls_device *device, void *table)
{
  if (table != NULL)
    device->ops->table_destroy(device, table);
}

static void unload_latent(struct lls_device *device, struct lls_latent_weights *w)
{
  unload_matrix(device, w->query_down);
  unload_matrix(device, w->down);
  unload_matrix(device, w->index_query);
  unload_matrix(device, w->index_key);
  unload_matrix(device, w->index_weights);
  unload_norm(device, &w->query_norm);
  unload_norm(device, &w->norm);
  unload_norm(device, &w->index_norm);
  if (w->keys != NULL)
    device->ops->experts_destroy(device, w->keys);
  if (w->values != NULL)
    device->ops->experts_destroy(device, w->values);
}

static void unload_recurrent(struct lls_device *device, struct lls_recurrent_weights *w)
{
  float *const vectors[] = {w->conv, w->conv_bias, w->rate, w->dt_bias, w->skip, w->norm};
  for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
    if (vectors[i] != NULL)
      device->ops->release(device, LLS_MEMORY_DEVICE, vectors[i]);
}

static void unload_streams(struct lls_device *device, struct lls_layer_weights *w)
{
  unload_vector(device, w->stream_norm);
  unload_vector(device, w->stream_predict);
  unload_vector(device, w->stream_correct);
  unload_vector(device, w->stream_scale);
  unload_norm(device, &w->laurel_norm);
  unload_matrix(device, w->stream_router);
  unload_matrix(device, w->laurel_down);
  unload_matrix(device, w->laurel_up);
}

static void unload_layer(struct lls_device *device, struct lls_layer_weights *w)
{
  unload_norm(device, &w->attention_norm);
  unload_norm(device, &w->mlp_norm);
  unload_norm(device, &w->attention_output_norm);
  unload_norm(device, &w->mlp_output_norm);
  unload_norm(device, &w->q_norm);
  unload_norm(device, &w->k_norm);
  unload_norm(device, &w->inputs_output_norm);
  unload_norm(device, &w->mixture_norm);
  unload_norm(device, &w->mixture_output_norm);
  unload_norm(device, &w->beside_output_norm);
  unload_vector(device, w->router_norm);
  unload_vector(device, w->expert_factor);
  unload_vector(device, w->sinks);
  unload_table(device, w->inputs_table);
  unload_matrix(device, w->inputs_projection);
  unload_matrix(device, w->inputs_gate);
  unload_matrix(device, w->inputs_up);
  unload_streams(device, w);
  unload_matrix(device, w->qkv);
  unload_matrix(device, w->gates);
  unload_recurrent(device, &w->recurrent);
  unload_matrix(device, w->output);
  unload_matrix(device, w->up);
  unload_matrix(device, w->down);
  unload_matrix(device, w->router);
  unload_matrix(device, w->space_rows);
  unload_matrix(device, w->space_steps);
  unload_matrix(device, w->space_output);
  unload_matrix(device, w->mixture_in);
  unload_matrix(device, w->mixture_out);
  unload_matrix(device, w->shared_up);
  unload_matrix(device, w->shared_down);
  unload_matrix(device, w->shared_score);
  unload_latent(device, &w->latent);
  unload_vector(device, w->router_bias);
  if (w->expert_up != NULL)
    device->ops->experts_destroy(device, w->expert_up);
  if (w->expert_down != NULL)
    device->ops->experts_destroy(device, w->expert_down);
}

void lls_weights_unload(struct lls_weights *w, struct lls_device *device)
{
  for (uint32_t i = 0; i < w->n_layers; i++)
    unload_layer(device, &w->layers[i]);
  free(w->layers);
  unload_norm(device, &w->final_norm);
  unload_norm(device, &w->embedding_norm);
  unload_vector(device, w->relative);
  unload_vector(device, w->slopes);
  unload_vector(device, w->v_norm);
  unload_vector(device, w->inputs_norm);
  for (size_t i = 0; i < LLS_MAX_STREAMS; i++) {
    unload_matrix(device, w->stream_in[i]);
    unload_matrix(device, w->stream_out[i]);
  }
  unload_matrix(device, w->project_in);
  unload_matrix(device, w->project_out);
  for (size_t i = 0; i < 2; i++) {
    unload_matrix(device, w->join[i]);
    unload_norm(device, &w->join_norm[i]);
  }
  unload_matrix(device, w->entry);
  free(w->tokens);
  if (w->borrows_embedding)
    w->embedding = NULL;
  if (w->borrows_head)
    w->head = NULL;
  unload_matrix(device, w->head);
  unload_matrix(device, w->pooler);
  unload_norm(device, &w->pooler_norm);
  unload_matrix(device, w->mean);
  unload_matrix(device, w->score);
  unload_table(device, w->embedding);
  unload_table(device, w->positions);
  free(w->positions_and_types);
  lls_checkpoint_close(w->file);
  *w = (struct lls_weights){0};
}
