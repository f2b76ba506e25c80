/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device's clock and tokens, and its operations, which do nothing; see
 * sim.h.
 */
#include "config.h"

#include "kernels/sim/memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/sampling.h"

static void destroy(struct lls_device *device)
{
  free(device);
}

static void identify(struct lls_device *device, char *text, size_t size)
{
  snprintf(text, size, "sim: %s", lls_sim(device)->name);
}

static void describe(struct lls_device *device, char *text, size_t size)
{
  const struct lls_sim_device *d = lls_sim(device);
  snprintf(text, size, "sim: %s, %.1f GB memory, virtual time", d->name,
           (double)d->options.memory * 1e-9);
}

/* ---- time -------------------------------------------------------------------------- */

static int step_begin(struct lls_device *device, struct lls_pool *pool,
                      const struct lls_device_step *step)
{
  (void)pool;
  struct lls_sim_device *d = lls_sim(device);
  d->step = step;
  d->drawn = 0;
  return 0;
}

static double compute_ns(const struct lls_sim_device *d)
{
  const struct lls_cost_rates *rates = &d->options.rates;
  const struct lls_device_step *step = d->step;
  struct lls_cost_load load = {.drawn = d->drawn};
  for (uint32_t i = 0; i < step->n_sequences; i++) {
    const struct lls_step_sequence *s = &step->sequences[i];
    lls_cost_add(rates, &load, s->n_rows, s->context);
    load.restored += s->n_restored;
    if (s->absorbed)
      lls_cost_absorb(&load, s->n_rows, s->context);
  }
  return step->n_rows > 0 ? lls_cost_step_ns(rates, &load) + (double)d->options.plan_ns
                          : 0;
}

static int step_end(struct lls_device *device, struct lls_error *err)
{
  (void)err;
  struct lls_sim_device *d = lls_sim(device);
  double compute = compute_ns(d);
  double whole = d->before_ns + fmax(compute, fmax(d->async_ns, d->peer_ns));
  int64_t ns = d->next_step_ns >= 0 ? d->next_step_ns : llround(whole);
  d->next_step_ns = -1;
  d->now_ns += ns;
  d->totals.steps++;
  d->totals.rows += d->step->n_rows;
  d->totals.sequences += d->step->n_sequences;
  d->totals.busy_ns += ns;
  d->totals.copy_ns += llround(d->before_ns + d->async_ns + d->peer_ns);
  d->totals.waited_ns += llround(whole - compute);
  d->before_ns = d->async_ns = d->peer_ns = 0;
  d->step = NULL;
  return 0;
}

int64_t lls_sim_now(void *device)
{
  return lls_sim(device)->now_ns;
}

void lls_sim_advance(struct lls_device *device, int64_t until_ns)
{
  struct lls_sim_device *d = lls_sim(device);
  if (until_ns > d->now_ns)
    d->now_ns = until_ns;
}

void lls_sim_next_step(struct lls_device *device, int64_t ns)
{
  lls_sim(device)->next_step_ns = ns;
}

void lls_sim_totals(const struct lls_device *device, struct lls_sim_totals *out)
{
  *out = ((const struct lls_sim_device *)device)->totals;
}

/* ---- tokens ------------------------------------------------------------------------ */

static void logits(struct lls_device *device, const struct lls_weight *weight,
                   const void *x, uint32_t n_rows, float *y)
{
  (void)weight;
  (void)x;
  (void)y;
  lls_sim(device)->drawn += n_rows;
}

/* Returns the first allowed token of the mask, from `token` on, wrapping around. */
static int32_t allowed_token(const struct lls_sampling *s, uint32_t vocab, int32_t token)
{
  for (uint32_t i = 0; i < vocab; i++) {
    uint32_t t = ((uint32_t)token + i) % vocab;
    if (!lls_sampling_masks(s, t))
      return (int32_t)t;
  }
  return token;
}

/* Returns a token other than eos: splitmix64 of the output's length and index. */
static int32_t other_token(uint64_t seed, uint32_t index, uint32_t vocab, int32_t eos)
{
  double uniform = lls_sampling_uniform(seed, index);
  uint32_t step = 1 + (uint32_t)(uniform * (vocab - 1));
  return (int32_t)(((uint32_t)eos + step) % vocab);
}

int32_t lls_sim_token(uint64_t seed, uint32_t index, uint32_t vocab, int32_t eos)
{
  return index + (uint64_t)1 >= seed ? eos : other_token(seed, index, vocab, eos);
}

static void sample(struct lls_device *device, float *logit_rows, uint32_t n_rows,
                   uint32_t vocab, const struct lls_sampling *const *params,
                   struct lls_sampled *out)
{
  (void)logit_rows;
  int32_t eos = lls_sim(device)->options.eos;
  for (uint32_t i = 0; i < n_rows; i++) {
    const struct lls_sampling *s = params[i];
    bool last = s->index + (uint64_t)1 >= s->seed && s->n_banned == 0;
    int32_t drawn = last ? eos : other_token(s->seed, s->index, vocab, eos);
    drawn = allowed_token(s, vocab, drawn);
    out[i] = (struct lls_sampled){.token = s->scored ? s->target : drawn};
  }
}

/* Logits, which are not computed, are all equal. */
static void download(struct lls_device *device, const void *from, void *to, size_t bytes)
{
  (void)device;
  (void)from;
  memset(to, 0, bytes);
}

/* ---- operations that do nothing ---------------------------------------------------- */

static void embed(struct lls_device *device, const void *table, float scale, void *x)
{
  (void)device, (void)table, (void)scale, (void)x;
}

static void embed_positions(struct lls_device *device, const void *table, int32_t offset,
                            void *x)
{
  (void)device, (void)table, (void)offset, (void)x;
}

static void norm(struct lls_device *device, enum lls_norm_kind kind, const void *x,
                 const float *weight, const float *bias, float epsilon, uint32_t n_rows,
                 uint32_t columns, void *y)
{
  (void)device, (void)kind, (void)x, (void)weight, (void)bias, (void)epsilon;
  (void)n_rows, (void)columns, (void)y;
}

static void norm_qk(struct lls_device *device, const struct lls_attention_shape *shape,
                    const struct lls_qk_norm_shape *weights, void *qkv)
{
  (void)device, (void)shape, (void)weights, (void)qkv;
}

static void linear(struct lls_device *device, const struct lls_weight *weight,
                   const void *x, uint32_t n_rows, enum lls_linear_store store, void *y)
{
  (void)device, (void)weight, (void)x, (void)n_rows, (void)store, (void)y;
}

static void activate(struct lls_device *device, enum lls_activation kind, void *x,
                     uint32_t n_rows, uint32_t columns)
{
  (void)device, (void)kind, (void)x, (void)n_rows, (void)columns;
}

static void gated(struct lls_device *device, enum lls_activation kind, const void *x,
                  uint32_t n_rows, uint32_t columns, void *y)
{
  (void)device, (void)kind, (void)x, (void)n_rows, (void)columns, (void)y;
}

static void add(struct lls_device *device, const void *x, uint32_t n_rows,
                uint32_t columns, void *y)
{
  (void)device, (void)x, (void)n_rows, (void)columns, (void)y;
}

static void rope(struct lls_device *device, const struct lls_attention_shape *attention,
                 const struct lls_rope_shape *shape, void *qkv)
{
  (void)device, (void)attention, (void)shape, (void)qkv;
}

static void xielu(struct lls_device *device, const struct lls_xielu *parameters, void *x,
                  uint32_t n_rows, uint32_t columns)
{
  (void)device, (void)parameters, (void)x, (void)n_rows, (void)columns;
}

static void grow_queries(struct lls_device *device,
                         const struct lls_attention_shape *shape,
                         const struct lls_query_growth *growth, void *qkv)
{
  (void)device, (void)shape, (void)growth, (void)qkv;
}

static void embed_layer(struct lls_device *device, const void *table, float factor,
                        void *x)
{
  (void)device, (void)table, (void)factor, (void)x;
}

static void gate_inputs(struct lls_device *device, enum lls_activation activation,
                        const void *y, uint32_t n_rows, uint32_t columns, void *x)
{
  (void)device, (void)activation, (void)y, (void)n_rows, (void)columns, (void)x;
}

static void predict(struct lls_device *device, const struct lls_streams *streams,
                    const float *scores, const float *numbers, uint32_t n_rows,
                    uint32_t columns, void *x)
{
  (void)device, (void)streams, (void)scores, (void)numbers, (void)n_rows, (void)columns,
      (void)x;
}

static void correct(struct lls_device *device, const struct lls_streams *streams,
                    const float *scores, const float *numbers, const float *factors,
                    const void *x, uint32_t n_rows, uint32_t columns, void *y)
{
  (void)device, (void)streams, (void)scores, (void)numbers, (void)factors, (void)x,
      (void)n_rows, (void)columns, (void)y;
}

static void match_size(struct lls_device *device, const void *like, uint32_t n_rows,
                       uint32_t columns, void *x)
{
  (void)device, (void)like, (void)n_rows, (void)columns, (void)x;
}

static void cut_gates(struct lls_device *device, float factor, uint32_t whole,
                      uint32_t n_rows, uint32_t columns, void *x)
{
  (void)device, (void)factor, (void)whole, (void)n_rows, (void)columns, (void)x;
}

static void scale(struct lls_device *device, float factor, uint32_t n_rows,
                  uint32_t columns, void *x)
{
  (void)device, (void)factor, (void)n_rows, (void)columns, (void)x;
}

static void gate_rows(struct lls_device *device, const float *scores, void *x,
                      uint32_t n_rows, uint32_t columns)
{
  (void)device, (void)scores, (void)x, (void)n_rows, (void)columns;
}

static void adapt(struct lls_device *device, const struct lls_adapted_rows *groups,
                  uint32_t n_groups, const void *x, uint32_t inputs, float *scratch,
                  void *y, uint32_t outputs)
{
  (void)device, (void)groups, (void)n_groups, (void)x, (void)inputs, (void)scratch,
      (void)y, (void)outputs;
}

static void conv(struct lls_device *device, const struct lls_conv_shape *shape, void *x,
                 void *y)
{
  (void)device, (void)shape, (void)x, (void)y;
}

static void delta(struct lls_device *device, const struct lls_delta_shape *shape,
                  const void *rows, const void *gates, void *out)
{
  (void)device, (void)shape, (void)rows, (void)gates, (void)out;
}

static void space(struct lls_device *device, const struct lls_space_shape *shape,
                  const void *rows, const void *steps, void *out)
{
  (void)device, (void)shape, (void)rows, (void)steps, (void)out;
}

static void norm_gated(struct lls_device *device,
                       const struct lls_gated_norm_shape *shape, const void *rows,
                       uint32_t n_rows, void *y)
{
  (void)device, (void)shape, (void)rows, (void)n_rows, (void)y;
}

static void gate_columns(struct lls_device *device, const void *gates, void *x,
                         uint32_t n_rows, uint32_t columns)
{
  (void)device, (void)gates, (void)x, (void)n_rows, (void)columns;
}

static void cache_write(struct lls_device *device,
                        const struct lls_attention_shape *shape, uint32_t layer,
                        const void *qkv)
{
  (void)device, (void)shape, (void)layer, (void)qkv;
}

static void latent_rows(struct lls_device *device, const struct lls_latent_shape *shape,
                        const struct lls_experts *keys, const void *q, const void *kv,
                        void *rows)
{
  (void)device, (void)shape, (void)keys, (void)q, (void)kv, (void)rows;
}

static void latent_values(struct lls_device *device, const struct lls_latent_shape *shape,
                          const struct lls_experts *values, const void *x, void *y)
{
  (void)device, (void)shape, (void)values, (void)x, (void)y;
}

static void choose(struct lls_device *device, const struct lls_attention_shape *shape,
                   const struct lls_index_shape *index, uint32_t layer, const void *q,
                   const void *weights, uint32_t *tokens)
{
  (void)device, (void)shape, (void)index, (void)layer, (void)q, (void)weights,
      (void)tokens;
}

static void attention(struct lls_device *device, const struct lls_attention_shape *shape,
                      uint32_t layer, const void *qkv, void *out)
{
  (void)device, (void)shape, (void)layer, (void)qkv, (void)out;
}

static void attention_both_ways(struct lls_device *device,
                                const struct lls_attention_shape *shape, const void *qkv,
                                void *out)
{
  (void)device, (void)shape, (void)qkv, (void)out;
}

static void hidden_write(struct lls_device *device,
                         const struct lls_attention_shape *shape, uint32_t layer,
                         const void *h)
{
  (void)device, (void)shape, (void)layer, (void)h;
}

static void restore(struct lls_device *device, const struct lls_attention_shape *shape,
                    const struct lls_rope_shape *turns, uint32_t layer,
                    const struct lls_weight *qkv)
{
  (void)device, (void)shape, (void)turns, (void)layer, (void)qkv;
}

static bool absorbs(const struct lls_device *device, const struct lls_weight *qkv,
                    uint32_t head_dim)
{
  (void)qkv, (void)head_dim;
  return ((const struct lls_sim_device *)device)->options.rates.absorb_ns > 0;
}

static void attend_hidden(struct lls_device *device,
                          const struct lls_attention_shape *shape, uint32_t layer,
                          const struct lls_weight *qkv, const void *rows, void *out)
{
  (void)device, (void)shape, (void)layer, (void)qkv, (void)rows, (void)out;
}

static void gather(struct lls_device *device, const void *x, const uint32_t *rows,
                   uint32_t n_rows, uint32_t columns, void *y)
{
  (void)device, (void)x, (void)rows, (void)n_rows, (void)columns, (void)y;
}

/* Experts: only their size matters, which is counted when they are packed. */
struct lls_experts {
  uint32_t n;
  struct lls_weight *weights[];
};

static int experts_create(struct lls_device *device, struct lls_weight *const *weights,
                          uint32_t n, struct lls_experts **out, struct lls_error *err)
{
  struct lls_experts *e = malloc(sizeof *e + n * sizeof *e->weights);
  for (uint32_t i = 0; e == NULL && i < n; i++)
    lls_sim_weight_destroy(device, weights[i]);
  if (e == NULL)
    return lls_fail(err, -ENOMEM, "no memory for %u experts", n);
  e->n = n;
  memcpy(e->weights, weights, n * sizeof *weights);
  *out = e;
  return 0;
}

static void experts_destroy(struct lls_device *device, struct lls_experts *e)
{
  for (uint32_t i = 0; i < e->n; i++)
    lls_sim_weight_destroy(device, e->weights[i]);
  free(e);
}

static void route(struct lls_device *device, const float *scores, uint32_t n_rows,
                  bool normalise, const struct lls_route *out)
{
  (void)device, (void)scores, (void)n_rows, (void)normalise, (void)out;
}

static void gather_routed(struct lls_device *device, const struct lls_route *r,
                          const void *x, uint32_t n_rows, uint32_t columns, void *y)
{
  (void)device, (void)r, (void)x, (void)n_rows, (void)columns, (void)y;
}

static void linear_experts(struct lls_device *device, const struct lls_experts *e,
                           const struct lls_route *r, const void *x, uint32_t n_rows,
                           void *y)
{
  (void)device, (void)e, (void)r, (void)x, (void)n_rows, (void)y;
}

static void gated_experts(struct lls_device *device, const struct lls_route *r,
                          enum lls_activation kind, const void *x, uint32_t n_rows,
                          uint32_t columns, void *y)
{
  (void)device, (void)r, (void)kind, (void)x, (void)n_rows, (void)columns, (void)y;
}

static void combine(struct lls_device *device, const struct lls_route *r, const void *x,
                    uint32_t n_rows, uint32_t columns, enum lls_linear_store store,
                    void *y)
{
  (void)device, (void)r, (void)x, (void)n_rows, (void)columns, (void)store, (void)y;
}

static void cap_logits(struct lls_device *device, float *logits, uint32_t n_rows,
                       uint32_t vocab, float cap)
{
  (void)device, (void)logits, (void)n_rows, (void)vocab, (void)cap;
}

/* ---- the whole --------------------------------------------------------------------- */

static const struct lls_device_ops ops = {
    .name = "sim",
    .has_filter_chain = true,
    .destroy = destroy,
    .describe = describe,
    .identify = identify,
    .memory = lls_sim_memory,
    .host_memory = lls_sim_host_memory,
    .alloc = lls_sim_alloc,
    .release = lls_sim_release,
    .weight_create = lls_sim_weight_create,
    .weight_destroy = lls_sim_weight_destroy,
    .weight_bytes = lls_sim_weight_bytes,
    .vector_create = lls_sim_vector_create,
    .table_create = lls_sim_table_create,
    .table_destroy = lls_sim_table_destroy,
    .pool_create = lls_sim_pool_create,
    .pool_destroy = lls_sim_pool_destroy,
    .pool_copy = lls_sim_pool_copy,
    .pool_pull = lls_sim_pool_pull,
    .step_begin = step_begin,
    .step_end = step_end,
    .embed = embed,
    .embed_positions = embed_positions,
    .norm = norm,
    .linear = linear,
    .logits = logits,
    .activate = activate,
    .gated = gated,
    .add = add,
    .xielu = xielu,
    .grow_queries = grow_queries,
    .gate_rows = gate_rows,
    .adapt = adapt,
    .embed_layer = embed_layer,
    .gate_inputs = gate_inputs,
    .predict = predict,
    .correct = correct,
    .match_size = match_size,
    .cut_gates = cut_gates,
    .scale = scale,
    .conv = conv,
    .delta = delta,
    .space = space,
    .norm_gated = norm_gated,
    .gate_columns = gate_columns,
    .norm_qk = norm_qk,
    .rope = rope,
    .cache_write = cache_write,
    .latent_rows = latent_rows,
    .latent_values = latent_values,
    .choose = choose,
    .attention = attention,
    .attention_both_ways = attention_both_ways,
    .gather = gather,
    .cap_logits = cap_logits,
    .sample = sample,
    .download = download,
    .experts_create = experts_create,
    .experts_destroy = experts_destroy,
    .route = route,
    .gather_routed = gather_routed,
    .linear_experts = linear_experts,
    .gated_experts = gated_experts,
    .combine = combine,
    .hidden_write = hidden_write,
    .restore = restore,
    .absorbs = absorbs,
    .attend_hidden = attend_hidden,
};

int lls_sim_device_create(const struct lls_sim_options *options, struct lls_device **out,
                          struct lls_error *err)
{
  struct lls_sim_device *d = calloc(1, sizeof *d);
  if (d == NULL)
    return lls_fail(err, -ENOMEM, "no memory for the simulated device");
  d->base = (struct lls_device){
      .ops = &ops,
      .activation_type = LLS_BF16,
      .has_int8 = true,
      .is_empty = true,
      .extras = LLS_EXTRA_ALL,
  };
  d->options = *options;
  d->next_step_ns = -1;
  snprintf(d->name, sizeof d->name, "%s", options->name != NULL ? options->name : "sim");
  d->options.name = d->name;
  *out = &d->base;
  return 0;
}

static int create_empty(const struct lls_device_options *unused, struct lls_device **out,
                        struct lls_error *err)
{
  (void)unused;
  const struct lls_sim_options options = {.memory = UINT64_C(1) << 50, .name = "empty"};
  return lls_sim_device_create(&options, out, err);
}

const struct lls_device_module lls_empty_device = {
    .size = sizeof(struct lls_device_module),
    .ops_size = sizeof(struct lls_device_ops),
    .options_size = sizeof(struct lls_device_options),
    .version = PACKAGE_VERSION,
    .name = "empty",
    .create = create_empty,
};
