/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three parts of Gemma 3n's graph. AltUp (arXiv 2301.13310): a token has several hidden
 * states, the streams. A layer predicts all of them from all of them, computes with the
 * first one as x, and corrects all by what x has become. LAUREL (arXiv 2411.07501): a
 * low-rank product beside attention. And gates of an MLP of which only those far above
 * their mean stay.
 *
 * Streams are buffers of their own instead of columns of one row, so that products and
 * norms work on each as on x.
 */
#include "core/engine/forward.h"

/* ---- buffers ---------------------------------------------------------------------- */

size_t lls_engine_stream_numbers(const struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  size_t rows = lls_engine_padded_rows(e->options.max_tokens) +
                lls_engine_padded_rows(e->max_logit_rows);
  return rows * c->streams.n * c->hidden;
}

int lls_engine_make_streams(struct lls_engine *e)
{
  const struct lls_model_config *c = &e->config;
  struct lls_activations *act = &e->act;
  size_t number = lls_dtype_bytes(e->device->activation_type);
  size_t rows = lls_engine_padded_rows(e->options.max_tokens);
  size_t numbers = lls_engine_stream_numbers(e);
  if (numbers == 0)
    return 0;
  int rc = e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE, numbers * number,
                                 &act->streams);
  if (rc < 0)
    return rc;
  char *all = act->streams;
  act->picked_streams = all + rows * c->streams.n * c->hidden * number;
  return e->device->ops->alloc(e->device, LLS_MEMORY_DEVICE,
                               rows * c->streams.n * sizeof *act->stream_scores,
                               (void **)&act->stream_scores);
}

/* Returns the streams in a buffer that has room for `rows` rows of each, and for those
 * that pad them. */
static struct lls_streams streams_in(const struct lls_engine *e, void *buffer,
                                     size_t rows)
{
  const struct lls_model_config *c = &e->config;
  size_t bytes = lls_engine_padded_rows(rows) * c->hidden *
                 lls_dtype_bytes(e->device->activation_type);
  struct lls_streams streams = {.n = c->streams.n};
  for (uint32_t i = 0; i < streams.n; i++)
    streams.x[i] = (char *)buffer + i * bytes;
  return streams;
}

/* ---- AltUp ------------------------------------------------------------------------ */

static void multiply(const struct lls_forward *s, const struct lls_weight *w,
                     const void *x, void *y)
{
  s->ops->linear(s->device, w, x, s->n_rows, LLS_STORE_SET, y);
}

void lls_engine_split_streams(struct lls_forward *s, float scale)
{
  const struct lls_engine *e = s->e;
  const struct lls_weights *w = &e->weights;
  if (e->config.streams.n == 0)
    return;
  s->streams = streams_in(e, e->act.streams, e->options.max_tokens);
  void *const *x = s->streams.x;
  s->ops->embed(s->device, w->embedding, scale, x[0]);
  for (uint32_t i = 1; i < s->streams.n; i++) {
    multiply(s, w->stream_in[i], x[0], x[i]);
    s->ops->match_size(s->device, x[0], s->n_rows, e->config.hidden, x[i]);
  }
}

/* Computes the scores by which streams are mixed, from x or from the first stream. */
static void compute_scores(const struct lls_forward *s, uint32_t layer, const void *x)
{
  const struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  s->ops->norm(s->device, LLS_NORM_RMS, x, w->stream_norm, NULL, e->config.norm_epsilon,
               s->n_rows, e->config.hidden, e->act.h);
  s->ops->logits(s->device, w->stream_router, e->act.h, s->n_rows, e->act.stream_scores);
}

void lls_engine_predict_streams(struct lls_forward *s, uint32_t layer)
{
  const struct lls_engine *e = s->e;
  if (s->streams.n == 0)
    return;
  compute_scores(s, layer, s->streams.x[0]);
  s->ops->predict(s->device, &s->streams, e->act.stream_scores,
                  e->weights.layers[layer].stream_predict, s->n_rows, e->config.hidden,
                  s->x);
}

void lls_engine_pick_streams(struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  struct lls_streams picked = streams_in(e, e->act.picked_streams, e->max_logit_rows);
  for (uint32_t i = 0; i < picked.n; i++)
    s->ops->gather(s->device, s->streams.x[i], e->logit_rows, e->n_logit_rows,
                   e->config.hidden, picked.x[i]);
  s->streams = picked;
}

void lls_engine_correct_streams(const struct lls_forward *s, uint32_t layer)
{
  const struct lls_engine *e = s->e;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  if (s->streams.n == 0)
    return;
  compute_scores(s, layer, s->x);
  s->ops->correct(s->device, &s->streams, e->act.stream_scores, w->stream_correct,
                  w->stream_scale, s->x, s->n_rows, e->config.hidden, e->act.h);
}

/* Sums up in `wide`: the size of the first stream is needed until the end. */
void lls_engine_join_streams(struct lls_forward *s)
{
  const struct lls_engine *e = s->e;
  void *const *x = s->streams.x;
  uint32_t n = s->streams.n, hidden = e->config.hidden;
  if (n == 0)
    return;
  for (uint32_t i = 1; i < n; i++) {
    void *y = i == 1 ? e->act.wide : e->act.h;
    multiply(s, e->weights.stream_out[i], x[i], y);
    s->ops->match_size(s->device, x[0], s->n_rows, hidden, y);
    if (i > 1)
      s->ops->add(s->device, y, s->n_rows, hidden, e->act.wide);
  }
  s->ops->add(s->device, e->act.wide, s->n_rows, hidden, x[0]);
  s->ops->scale(s->device, 1 / (float)n, s->n_rows, hidden, x[0]);
  s->x = x[0];
}

/* ---- in a layer ------------------------------------------------------------------- */

void lls_engine_add_laurel(const struct lls_forward *s, uint32_t layer, const void *h)
{
  const struct lls_engine *e = s->e;
  const struct lls_model_config *c = &e->config;
  const struct lls_layer_weights *w = &e->weights.layers[layer];
  void *y = e->act.wide;
  if (c->laurel == 0)
    return;
  multiply(s, w->laurel_down, h, e->act.narrow);
  multiply(s, w->laurel_up, e->act.narrow, y);
  s->ops->norm(s->device, LLS_NORM_RMS, y, w->laurel_norm.weight, NULL, c->norm_epsilon,
               s->n_rows, c->hidden, y);
  s->ops->add(s->device, y, s->n_rows, c->hidden, s->x);
  s->ops->add(s->device, h, s->n_rows, c->hidden, s->x);
}

void lls_engine_cut_gates(const struct lls_forward *s, uint32_t layer)
{
  const struct lls_engine *e = s->e;
  const struct lls_layer_config *kind = &e->config.layer[layer];
  uint32_t columns = lls_layer_ffn(&e->config, layer);
  if (!kind->cuts_gates)
    return;
  s->ops->cut_gates(s->device, kind->gate_cut, lls_layer_ffn(&e->model, layer), s->n_rows,
                    columns, e->act.wide);
}
