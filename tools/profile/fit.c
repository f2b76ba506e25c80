/* SPDX-License-Identifier: Apache-2.0 */
/* Fits rates to measured steps; see fit.h. */
#include "tools/profile/fit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/fit.h"

/* Indices of the terms; the points of the curve follow. */
enum { STEP, SEQUENCE, TOKEN, PAIR, CACHED, CURVE };

struct fitting {
  const struct lls_cost_shape *shape;
  const struct lls_profile *like; /* profile of the kind of device, or NULL */
  /* the rows of its points are set, their times are unknown */
  struct lls_profile_curve curve;
  /* values of the last round; they decide which side of each max counts */
  double pair_ns, cached_ns;
  struct lls_fit fit;
};

/* Chooses powers of two up to the largest step, close enough for linear
 * interpolation. */
static void choose_points(struct lls_profile_curve *c, uint32_t max_rows)
{
  *c = (struct lls_profile_curve){.n = 1, .rows = {1}};
  while (c->n < LLS_PROFILE_POINTS && c->rows[c->n - 1] < max_rows) {
    c->rows[c->n] = fmin(2 * c->rows[c->n - 1], max_rows);
    c->n++;
  }
}

/* The curve's unknowns are its first point and the increments of the other points. None
 * can be negative, so more rows never cost less. */
static void add_curve(const struct lls_profile_curve *c, double rows, double millions,
                      double *x)
{
  if (rows <= 0)
    return;
  x[CURVE] += millions;
  for (uint32_t i = 1; i < c->n && rows > c->rows[i - 1]; i++) {
    double at = (rows - c->rows[i - 1]) / (c->rows[i] - c->rows[i - 1]);
    x[CURVE + i] += millions * fmin(at, 1);
  }
}

static void terms(const struct fitting *f, const struct lls_shape *s,
                  double x[LLS_FIT_MAX])
{
  double rows = 0, drawn = 0;
  memset(x, 0, LLS_FIT_MAX * sizeof *x);
  for (uint32_t i = 0; i < s->n; i++) {
    double t = s->parts[i].tokens, c = s->parts[i].context;
    double pairs = t * (c + (t + 1) / 2);
    bool reading = t == 1 || (c + t) * f->cached_ns > pairs * f->pair_ns;
    x[PAIR] += reading ? 0 : pairs;
    x[CACHED] += reading ? c + t : 0;
    rows += t;
    drawn += s->parts[i].drawn;
  }
  x[STEP] = 1;
  x[SEQUENCE] = s->n;
  x[TOKEN] = drawn;
  add_curve(&f->curve, rows, f->shape->all_weights / 1e6, x);
  add_curve(&f->curve, drawn, f->shape->picked_weights / 1e6, x);
}

/* Adds a known value of one term as a step that consists of this term alone. An error
 * of `of` weighs as much as an error of a tenth in the time of a measured step. */
static void add_known(struct fitting *f, uint32_t term, double value, double of)
{
  const double weight = 0.1;
  double x[LLS_FIT_MAX] = {0};
  if (of <= 0)
    return;
  x[term] = weight / of;
  lls_fit_add(&f->fit, x, weight * value / of, 1);
}

/* Adds the profile of the device's kind: a value for each term and, for each point of
 * the curve, the roofline. */
static void add_kind(struct fitting *f)
{
  struct lls_cost_rates r;
  lls_cost_rates_init(&r, f->like, f->shape);
  add_known(f, STEP, r.fixed_ns, r.fixed_ns);
  add_known(f, SEQUENCE, r.sequence_ns, r.sequence_ns);
  add_known(f, PAIR, r.pair_ns, r.pair_ns);
  add_known(f, CACHED, r.cached_ns, r.cached_ns);
  double before = 0;
  for (uint32_t i = 0; i < f->curve.n; i++) {
    double ns = fmax(r.read_ns, r.multiply_ns * f->curve.rows[i]);
    add_known(f, CURVE + i, ns - before, ns);
    before = ns;
  }
}

static int solve(struct fitting *f, const struct lls_profile_point *m, size_t n)
{
  lls_fit_reset(&f->fit, CURVE + f->curve.n);
  for (size_t i = 0; i < n; i++) {
    double x[LLS_FIT_MAX];
    terms(f, &m[i].shape, x);
    for (uint32_t k = 0; k < f->fit.n; k++)
      x[k] /= m[i].ns; /* relative errors */
    lls_fit_add(&f->fit, x, 1, 1);
  }
  if (f->like != NULL)
    add_kind(f);
  int rc = lls_fit_solve(&f->fit);
  f->pair_ns = f->fit.coefficients[PAIR];
  f->cached_ns = f->fit.coefficients[CACHED];
  return rc;
}

static double share(double reached, double peak)
{
  double s = peak > 0 && reached > 0 ? reached / peak : 1;
  return s > 1 ? 1 : s < 1e-6 ? 1e-6 : s;
}

/* Datasheet numbers are the best rates seen; the efficiencies are the ratios of the
 * average to them. */
static void fill_rates(const struct fitting *f, struct lls_profile *p)
{
  const struct lls_profile_curve *c = &p->projection;
  const struct lls_cost_shape *s = f->shape;
  double read = 1e6 * s->weight_bytes / c->ns[0]; /* in GB/s */
  double cache = f->cached_ns > 0 ? s->token_bytes / f->cached_ns : 0;
  double multiply = 0; /* GFLOP/s of products */
  for (uint32_t i = 0; i < c->n; i++)
    multiply = fmax(multiply, 2 * c->rows[i] * 1e6 / c->ns[i]);
  double pairs = f->pair_ns > 0 ? s->pair_flops / f->pair_ns : 0;
  p->device.bandwidth = fmax(fmax(read, cache), f->like ? f->like->device.bandwidth : 0);
  p->device.matrix =
      fmax(fmax(multiply, pairs) / 1e3, f->like ? f->like->device.matrix : 0);
  p->efficiency.weights = share(read, p->device.bandwidth);
  p->efficiency.cache = share(cache, p->device.bandwidth);
  p->efficiency.matrix = share(multiply / 1e3, p->device.matrix);
  p->efficiency.prefill_attention = share(pairs / 1e3, p->device.matrix);
  p->efficiency.one_sequence = 1;
  p->efficiency.restore = 1;
}

/* If the fit attributed a small step's weights to the fixed time of a step, their time
 * is raised to the largest step's time a row: no small step multiplies faster. */
static void fill_curve(const struct fitting *f, struct lls_profile_curve *out)
{
  double ns = 0;
  *out = f->curve;
  for (uint32_t i = 0; i < out->n; i++) {
    ns += f->fit.coefficients[CURVE + i];
    out->ns[i] = ns;
  }
  double row_ns = fmax(ns, 1e-3) / out->rows[out->n - 1];
  for (uint32_t i = 0; i < out->n; i++)
    out->ns[i] = fmax(out->ns[i], row_ns * out->rows[i]);
}

int lls_profile_fit(const struct lls_profile_point *m, size_t n,
                    const struct lls_cost_shape *shape, uint32_t max_rows,
                    const struct lls_profile *like, struct lls_profile *out,
                    struct lls_error *err)
{
  struct fitting f = {.shape = shape, .like = like};
  const int rounds = 8;
  choose_points(&f.curve, max_rows);
  int rc = n > 0 ? 0 : -ENODATA;
  for (int i = 0; rc == 0 && i < rounds; i++)
    rc = solve(&f, m, n);
  if (rc < 0)
    return lls_fail(err, rc, "nothing was measured: give it more --time");
  fill_curve(&f, &out->projection);
  fill_rates(&f, out);
  const double *c = f.fit.coefficients;
  out->overhead = (struct lls_profile_overhead){.step = llround(c[STEP]),
                                                .sequence = llround(c[SEQUENCE]),
                                                .token = llround(c[TOKEN])};
  return 0;
}

double lls_shape_ns(const struct lls_cost_rates *rates, const struct lls_shape *shape)
{
  struct lls_cost_load load = {0};
  for (uint32_t i = 0; i < shape->n; i++) {
    lls_cost_add(rates, &load, shape->parts[i].tokens, shape->parts[i].context);
    load.drawn += shape->parts[i].drawn;
  }
  return lls_cost_step_ns(rates, &load);
}

void lls_profile_steps_free(struct lls_profile_steps *steps)
{
  for (size_t i = 0; i < steps->n; i++)
    free(steps->points[i].shape.parts);
  free(steps->points);
}
