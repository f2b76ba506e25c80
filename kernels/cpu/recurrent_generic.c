/* SPDX-License-Identifier: Apache-2.0 */
/* The recurrent kernels in plain C, with sums and functions in double: the reference. */
#include "kernels/cpu/recurrent.h"

#include <math.h>
#include <string.h>

static double sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
  return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* Element i of row `row`. */
static double input(const struct lls_row_input *x, size_t row, size_t i)
{
  return (double)x->at[row * x->stride + i];
}

/* ---- the short convolution ------------------------------------------------------- */

/* window (width): the channel's newest inputs; [width - 1] is this row's. */
static double convolve(const struct lls_short_conv *c, const float *window,
                       size_t channel)
{
  double sum = c->bias == NULL ? 0 : (double)c->bias[channel];
  for (size_t j = 0; j < c->width; j++)
    sum += (double)c->weight[j * c->channels + channel] * (double)window[j];
  return c->silu ? sum * sigmoid(sum) : sum;
}

static void conv_channel(const struct lls_short_conv *c,
                         const struct lls_recurrent_span *s, size_t channel)
{
  float window[LLS_CONV_WIDTH] = {0};
  const size_t old = c->width - 1;
  for (size_t j = 0; j < old; j++)
    window[j + 1] = s->from == NULL ? 0 : s->from[j * c->channels + channel];
  for (size_t row = s->first_row; row < s->first_row + s->n_rows; row++) {
    memmove(window, window + 1, old * sizeof *window);
    window[old] = c->x.at[row * c->x.stride + channel];
    if (c->before.at != NULL)
      window[old] *= c->before.at[row * c->before.stride + channel];
    double y = convolve(c, window, channel);
    if (c->after.at != NULL)
      y *= input(&c->after, row, channel);
    c->y.at[row * c->y.stride + channel] = (float)y;
  }
  for (size_t j = 0; j < old; j++)
    s->to[j * c->channels + channel] = window[j + 1];
}

static void conv(const struct lls_short_conv *c, const struct lls_recurrent_span *s,
                 size_t begin, size_t end)
{
  for (size_t channel = begin; channel < end; channel++)
    conv_channel(c, s, channel);
}

/* ---- the gated delta rule -------------------------------------------------------- */

static void normalise(const struct lls_row_input *x, size_t row, size_t head, size_t n,
                      double epsilon, double scale, double *y)
{
  double squares = 0;
  for (size_t i = 0; i < n; i++)
    squares += input(x, row, head * n + i) * input(x, row, head * n + i);
  for (size_t i = 0; i < n; i++)
    y[i] = input(x, row, head * n + i) / sqrt(squares + epsilon) * scale;
}

struct delta_row {
  double k[LLS_RECURRENT_DIM], q[LLS_RECURRENT_DIM];
  double decay, beta;
};

static void read_delta_row(const struct lls_gated_delta *d, size_t row, uint32_t head,
                           struct delta_row *r)
{
  uint32_t key_head = lls_delta_key_head(d, head);
  normalise(&d->k, row, key_head, d->key_dim, (double)d->epsilon, 1, r->k);
  normalise(&d->q, row, key_head, d->key_dim, (double)d->epsilon, (double)d->scale, r->q);
  double dt = softplus(input(&d->a, row, head) + (double)d->dt_bias[head]);
  r->decay = exp((double)d->rate[head] * dt);
  r->beta = sigmoid(input(&d->b, row, head));
}

/* Folds v into a column of the state, whose elements are `stride` apart; returns the
 * output. */
static double delta_column(const struct delta_row *r, size_t n, size_t stride, double v,
                           float *state)
{
  double known = 0, out = 0;
  for (size_t i = 0; i < n; i++)
    known += r->k[i] * r->decay * (double)state[i * stride];
  double change = r->beta * (v - known);
  for (size_t i = 0; i < n; i++) {
    double s = r->decay * (double)state[i * stride] + r->k[i] * change;
    out += r->q[i] * s;
    state[i * stride] = (float)s;
  }
  return out;
}

static void delta(const struct lls_gated_delta *d, const struct lls_recurrent_span *s,
                  uint32_t head, size_t begin, size_t end)
{
  const size_t columns = d->value_dim;
  float *state = lls_cpu_begin_state(s, head, d->key_dim, columns, begin, end);
  struct delta_row r;
  for (size_t row = s->first_row; row < s->first_row + s->n_rows; row++) {
    read_delta_row(d, row, head, &r);
    float *out = d->out.at + row * d->out.stride + head * columns;
    for (size_t i = begin; i < end; i++)
      out[i] = (float)delta_column(&r, d->key_dim, columns,
                                   input(&d->v, row, head * columns + i), state + i);
  }
}

/* ---- the state space ------------------------------------------------------------- */

struct space_row {
  const float *b, *c; /* (state_dim) */
  double dt, decay;
};

static struct space_row read_space_row(const struct lls_state_space *p, size_t row,
                                       uint32_t head)
{
  size_t group = head / (p->heads / p->groups);
  double dt = softplus(input(&p->dt, row, head) + (double)p->dt_bias[head]);
  dt = fmin(fmax(dt, (double)p->dt_min), (double)p->dt_max);
  return (struct space_row){p->b.at + row * p->b.stride + group * p->state_dim,
                            p->c.at + row * p->c.stride + group * p->state_dim, dt,
                            exp((double)p->rate[head] * dt)};
}

static double space_column(const struct space_row *r, size_t n, size_t stride, double x,
                           float *state)
{
  double out = 0;
  for (size_t i = 0; i < n; i++) {
    double s = r->decay * (double)state[i * stride] + (double)r->b[i] * (r->dt * x);
    out += (double)r->c[i] * s;
    state[i * stride] = (float)s;
  }
  return out;
}

static void space(const struct lls_state_space *p, const struct lls_recurrent_span *s,
                  uint32_t head, size_t begin, size_t end)
{
  const size_t columns = p->head_dim;
  const double skip = p->d == NULL ? 0 : (double)p->d[head];
  float *state = lls_cpu_begin_state(s, head, p->state_dim, columns, begin, end);
  for (size_t row = s->first_row; row < s->first_row + s->n_rows; row++) {
    struct space_row r = read_space_row(p, row, head);
    float *out = p->out.at + row * p->out.stride + head * columns;
    for (size_t i = begin; i < end; i++) {
      double x = input(&p->x, row, head * columns + i);
      double y = space_column(&r, p->state_dim, columns, x, state + i);
      out[i] = (float)(y + skip * x);
    }
  }
}

/* ---- the gated norm -------------------------------------------------------------- */

static void norm_group(const struct lls_gated_norm *g, const float *x, const float *gate,
                       const float *weight, float *y)
{
  double squares = 0;
  for (size_t i = 0; i < g->columns; i++) {
    double z = (double)gate[i], factor = g->gate_first ? z * sigmoid(z) : 1;
    squares += (double)x[i] * factor * ((double)x[i] * factor);
  }
  double root = sqrt(squares / (double)g->columns + (double)g->epsilon);
  for (size_t i = 0; i < g->columns; i++) {
    double z = (double)gate[i];
    y[i] = (float)((double)x[i] * z * sigmoid(z) / root * (double)weight[i]);
  }
}

static void norm(const struct lls_gated_norm *g, uint32_t row)
{
  for (size_t i = 0; i < g->groups; i++)
    norm_group(g, g->x.at + row * g->x.stride + i * g->columns,
               g->gate.at + row * g->gate.stride + i * g->columns,
               g->weight + i * g->weight_stride,
               g->y.at + row * g->y.stride + i * g->columns);
}

void lls_cpu_recurrent_generic(struct lls_cpu_recurrent_kernels *k)
{
  *k = (struct lls_cpu_recurrent_kernels){
      .conv = conv, .delta = delta, .space = space, .norm = norm};
}
