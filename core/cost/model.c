/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the time of a step; model.h has every formula. */
#include "core/base/least.h"
#include "core/cost/model.h"

#include <llmserve/host.h>

#include <math.h>
#include <string.h>

/* ---- shape -------------------------------------------------------------------- */

/* Numbers that a layer multiplies of a pair of tokens, half of them for the score. A
 * latent is key and value in one, and its rotated part is of a key only. */
static double query_columns(const struct lls_model_config *c, uint32_t layer)
{
  double head = lls_layer_head_dim(c, layer);
  if (!lls_layer_attends(c, layer))
    return 0;
  return c->heads * (c->latent.rank > 0 ? (head + c->latent.rank) / 2 : head);
}

/* Numbers that a layer caches of a token. */
static double cached_columns(const struct lls_model_config *c, uint32_t layer)
{
  if (!lls_layer_attends(c, layer))
    return 0;
  double heads = c->layer[layer].shares ? 0 : lls_layer_kv_heads(c, layer);
  return heads * lls_layer_head_dim(c, layer) * (c->latent.rank > 0 ? 1 : 2);
}

static double output_weights(const struct lls_model_config *c, uint32_t layer)
{
  return (double)c->hidden * lls_mix_width(c, layer);
}

/* Numbers of a layer's weights behind attention's output that every row needs. */
static double mlp_weights(const struct lls_model_config *c, uint32_t layer)
{
  bool mixture = c->layer[layer].mixture;
  if (c->layer[layer].no_mlp)
    return 0;
  double matrices = c->gated ? 3 : 2, columns = 0;
  if (mixture)
    columns = c->mixture.experts + matrices * c->mixture.shared + 2.0 * c->mixture.latent;
  if (!mixture || c->mixture.beside)
    columns += matrices * lls_layer_ffn(c, layer);
  return c->hidden * (columns + 2.0 * c->layer_inputs + 2.0 * c->laurel + c->streams.n);
}

/* Operations of a row on the state of a layer. */
static double fold_operations(const struct lls_recurrent_config *r,
                              enum lls_layer_mix mix)
{
  double each = 0;
  if (mix == LLS_MIX_DELTA)
    each = 8;
  else if (mix == LLS_MIX_SPACE || mix == LLS_MIX_BESIDE)
    each = 6;
  return each * r->value_heads * r->key_dim * r->value_dim;
}

void lls_cost_shape_init(struct lls_cost_shape *s, const struct lls_model_config *c,
                         double weight_bytes, double cache_bytes, uint32_t ranks)
{
  uint32_t last = c->layers - 1;
  const struct lls_recurrent_config *r = &c->recurrent;
  double attending = 0, states = 0, folds = 0; /* layers, bytes, operations of a row */
  double q = 0, qkv = 0, cached = 0, plain = 0, mixtures = 0;
  for (uint32_t i = 0; i < c->layers; i++) {
    q += query_columns(c, i);
    qkv += (double)lls_mix_numbers(c, i);
    states += (double)lls_mix_state(c, i) * sizeof(float);
    attending += lls_layer_attends(c, i);
    folds += fold_operations(r, c->layer[i].mix);
    cached += cached_columns(c, i);
    plain += i < last ? output_weights(c, i) + mlp_weights(c, i) : 0;
    mixtures += c->layer[i].mixture;
  }
  double output = output_weights(c, last), mlp = mlp_weights(c, last);
  plain += (double)c->layers * c->hidden * c->layer_inputs;
  double width = c->mixture.latent > 0 ? c->mixture.latent : c->hidden;
  double streams = (double)lls_stream_numbers(c);
  double ends = c->embed_dim == c->hidden ? 0 : (double)c->hidden * c->embed_dim;
  *s = (struct lls_cost_shape){
      .ranks = ranks,
      .stages = 1,
      .layers = c->layers,
      .hidden = c->hidden,
      .all_weights = qkv + plain + ends + streams,
      .picked_weights = output + mlp + ends + streams + (double)c->vocab * c->embed_dim,
      .kv_weights = c->hidden * cached,
      .expert_weights =
          mixtures * c->mixture.experts * (c->gated ? 3.0 : 2.0) * width * c->mixture.ffn,
      .experts = c->mixture.experts,
      .active = c->mixture.active,
      .weight_bytes = weight_bytes,
      .pair_flops = 4 * q,
      .absorb_flops = 4 * attending * c->hidden * c->heads,
      .score_bytes = attending * c->heads * weight_bytes,
      .token_bytes = cached * cache_bytes,
      .state_bytes = states,
      .fold_flops = folds,
      .row_bytes = c->hidden * weight_bytes,
      .sums = c->parallel_residual ? 1 : 2,
  };
  for (uint32_t i = 0; i < c->layers; i++) {
    s->window = lls_most_f64(s->window, c->layer[i].window);
    s->windowed += c->layer[i].window > 0;
  }
  s->windowed /= lls_most_f64(attending, 1);
}

double lls_cost_weight_bytes(const struct lls_cost_shape *s)
{
  return (s->all_weights + s->picked_weights + s->expert_weights) * s->weight_bytes;
}

/* ---- rates -------------------------------------------------------------------- */

static double byte_ns(double gigabytes_per_s)
{
  return gigabytes_per_s > 0 ? 1 / gigabytes_per_s : 0;
}

void lls_cost_rates_init(struct lls_cost_rates *r, const struct lls_profile *p,
                         const struct lls_cost_shape *s)
{
  const struct lls_profile_efficiency *e = &p->efficiency;
  const double million = 1e6;
  double bandwidth = p->device.bandwidth;       /* GB/s = bytes per ns */
  double flops_per_ns = p->device.matrix * 1e3; /* TFLOP/s */
  double share = 1 / s->ranks, link_share = share / s->stages, hops = s->stages - 1;
  double reduces = s->ranks > 1 ? s->sums * s->layers : 0;
  *r = (struct lls_cost_rates){
      .fixed_ns = (double)p->overhead.step + s->layers * (double)p->overhead.layer,
      .sequence_ns = (double)p->overhead.sequence +
                     2 * s->state_bytes * share / (bandwidth * e->cache),
      .row_ns = (double)p->overhead.row +
                s->fold_flops * share / (flops_per_ns * e->prefill_attention),
      .token_ns = (double)p->overhead.token,
      .all_weights = s->all_weights / million * share,
      .picked_weights = s->picked_weights / million * share,
      .kv_weights = s->kv_weights / million * share / e->restore,
      .absorb_weights = s->kv_weights / million * share,
      .expert_weights = s->expert_weights / million * share,
      .experts = s->experts,
      .active = s->active,
      .read_ns = million * s->weight_bytes / (bandwidth * e->weights),
      .multiply_ns = million * 2 / (flops_per_ns * e->matrix),
      .curve = p->projection,
      .pair_ns = s->pair_flops * share / (flops_per_ns * e->prefill_attention),
      .absorb_ns =
          e->absorb > 0 ? s->absorb_flops * share / (flops_per_ns * e->absorb) : 0,
      .cached_ns = s->token_bytes * share / (bandwidth * e->cache),
      .reduce_ns = reduces * (double)p->peer_link.latency,
      .reduce_row_ns =
          reduces * 2 * (1 - share) * s->row_bytes * byte_ns(p->peer_link.bandwidth),
      .stages = s->stages,
      .hop_ns = hops * (double)p->peer_link.latency,
      .hop_row_ns = hops * s->row_bytes * byte_ns(p->peer_link.bandwidth),
      .host_byte_ns = byte_ns(p->host_link.bandwidth) * link_share,
      .peer_byte_ns = byte_ns(p->peer_link.bandwidth) * link_share,
      .device_byte_ns = 2 / bandwidth * link_share, /* read and written */
      .host_latency_ns = (double)p->host_link.latency,
      .peer_latency_ns = (double)p->peer_link.latency,
      .window = s->window,
      .windowed = s->windowed,
  };
  double moved = 2 * (1 - share) * byte_ns(p->peer_link.bandwidth);
  if (s->ranks > 1)
    r->absorb_reduce_ns = 3 * s->layers * (double)p->peer_link.latency;
  r->score_ns = moved * s->score_bytes;
  r->absorb_row_ns = r->score_ns * s->hidden;
  r->longest_ns = r->cached_ns / e->one_sequence;
  r->tail_ns = r->longest_ns * e->tail;
}

/* Returns f for a million weights: linear between two measured points, proportional to
 * the rows beyond the last point. */
static double million_ns(const struct lls_cost_rates *r, double rows)
{
  const struct lls_profile_curve *c = &r->curve;
  if (c->n == 0)
    return lls_most_f64(r->read_ns, r->multiply_ns * rows);
  if (rows <= c->rows[0])
    return c->ns[0];
  uint32_t i = 1;
  while (i < c->n && c->rows[i] < rows)
    i++;
  if (i == c->n)
    return c->ns[i - 1] * rows / c->rows[i - 1];
  double at = (rows - c->rows[i - 1]) / (c->rows[i] - c->rows[i - 1]);
  return c->ns[i - 1] + at * (c->ns[i] - c->ns[i - 1]);
}

/* Returns E m f: the time of the experts that `rows` rows use, each with its share of
 * rows. */
static double experts_ns(const struct lls_cost_rates *r, double rows)
{
  if (r->expert_weights <= 0 || rows <= 0)
    return 0;
  double met = 1 - pow(1 - r->active / r->experts, rows);
  return r->expert_weights * met * million_ns(r, rows * r->active / (r->experts * met));
}

/* ---- a step ------------------------------------------------------------------- */

/* Returns how many of the tokens a layer sees, as a mean over the layers. */
static double in_window(const struct lls_cost_rates *r, double tokens)
{
  double beyond = tokens > r->window ? tokens - r->window : 0;
  return tokens - r->windowed * beyond;
}

void lls_cost_add(const struct lls_cost_rates *r, struct lls_cost_load *load,
                  uint32_t tokens, uint32_t context)
{
  double x = tokens, c = in_window(r, context);
  load->sequences++;
  load->rows += x;
  if (tokens == 1) {
    load->cached += c + 1;
    load->longest = lls_most_f64(load->longest, c + 1);
    return;
  }
  double pairs = x * in_window(r, context + (x + 1) / 2);
  load->chunk_ns += lls_most_f64(pairs * r->pair_ns, (c + x) * r->cached_ns);
}

void lls_cost_absorb(struct lls_cost_load *load, uint32_t tokens, uint32_t context)
{
  double x = tokens, c = context;
  load->absorbed += x * (c + (x + 1) / 2);
  load->absorbed_rows += x;
  load->absorbed_tokens += c + x;
}

/* Returns the extra cost of reading X, beyond the K and V that were counted. */
static double absorbed_ns(const struct lls_cost_rates *r,
                          const struct lls_cost_load *load)
{
  double more = load->absorbed * r->absorb_ns - load->absorbed_tokens * r->cached_ns;
  if (load->absorbed <= 0)
    return 0;
  return r->absorb_weights * million_ns(r, load->absorbed_rows) + lls_most_f64(more, 0) +
         r->absorb_reduce_ns + r->absorb_row_ns * load->absorbed_rows +
         r->score_ns * load->absorbed;
}

/* Returns the load of one part of a step; a pipeline of stages has several parts under
 * way. */
static struct lls_cost_load part_of(const struct lls_cost_rates *r,
                                    const struct lls_cost_load *whole)
{
  double parts = r->stages < whole->sequences ? r->stages : whole->sequences;
  struct lls_cost_load p = *whole;
  if (parts <= 1)
    return p;
  p.sequences /= parts;
  p.rows /= parts;
  p.drawn /= parts;
  p.restored /= parts;
  p.absorbed /= parts;
  p.absorbed_rows /= parts;
  p.absorbed_tokens /= parts;
  p.chunk_ns /= parts;
  p.cached /= parts;
  return p;
}

double lls_cost_step_ns(const struct lls_cost_rates *r, const struct lls_cost_load *whole)
{
  const struct lls_cost_load part = part_of(r, whole), *load = &part;
  double ns = r->fixed_ns + load->sequences * r->sequence_ns + load->rows * r->row_ns +
              load->drawn * r->token_ns;
  if (load->rows > 0)
    ns += r->all_weights * million_ns(r, load->rows) + experts_ns(r, load->rows) +
          r->reduce_ns + r->reduce_row_ns * load->rows + r->hop_ns +
          r->hop_row_ns * load->rows;
  if (load->drawn > 0)
    ns += r->picked_weights * million_ns(r, load->drawn);
  if (load->restored > 0)
    ns += r->kv_weights * million_ns(r, load->restored);
  ns += load->chunk_ns + absorbed_ns(r, load) +
        lls_most_f64(load->cached * r->cached_ns + load->longest * r->tail_ns,
                     load->longest * r->longest_ns);
  return ns * (1 + r->error);
}

double lls_cost_copy_ns(const struct lls_cost_rates *r, uint32_t link, double bytes,
                        double n)
{
  double each = link == LLS_LINK_HOST ? r->host_byte_ns : r->peer_byte_ns;
  double latency = link == LLS_LINK_HOST ? r->host_latency_ns : r->peer_latency_ns;
  if (bytes <= 0)
    return 0;
  return each > 0 ? n * latency + bytes * each : LLS_NEVER;
}
