/* SPDX-License-Identifier: Apache-2.0 */
/* Apt-Serve's greedy choice alone: the worked examples, and a comparison with brute
 * force. */
#include "t/tap.h"

#include "plugins/schedulers/apt/apt.h"

#define MOST 8

struct instance {
  struct greedy_problem p;
  struct candidate c[MOST];
  struct lls_pol_heap heap;
  uint32_t taken[MOST];
};

static void instance_init(struct instance *in)
{
  *in = (struct instance){.p = {.tokens = UINT32_MAX, .sequences = UINT32_MAX}};
  in->p.candidates = in->c;
  assert_int_equal(lls_pol_heap_init(&in->heap, MOST), 0);
}

static struct candidate *add(struct instance *in, double pending, uint32_t m)
{
  struct candidate *c = &in->c[in->p.n++];
  *c = (struct candidate){.pending = pending, .kv = m, .hidden = m / 2, .tokens = 1};
  return c;
}

static double gain_of(const struct greedy_problem *p, const struct candidate *c,
                      uint32_t form)
{
  if (form == LLS_FORM_NONE)
    return 0;
  return c->pending - (form == LLS_FORM_HIDDEN ? p->n_rho * c->kv : 0);
}

static uint32_t units_of(const struct candidate *c, uint32_t form)
{
  return form == LLS_FORM_NONE ? 0 : form == LLS_FORM_HIDDEN ? c->hidden : c->kv;
}

/* Best value over all of {none, KV, hidden}^n. */
static double optimum(const struct instance *in)
{
  uint32_t all = 1;
  double best = 0;
  for (uint32_t i = 0; i < in->p.n; i++)
    all *= 3;
  for (uint32_t code = 0; code < all; code++) {
    double value = 0;
    uint64_t units = 0;
    for (uint32_t i = 0, rest = code; i < in->p.n; i++, rest /= 3) {
      value += gain_of(&in->p, &in->c[i], rest % 3);
      units += units_of(&in->c[i], rest % 3);
    }
    if (units <= in->p.memory && value > best)
      best = value;
  }
  return best;
}

static struct greedy_solution solve(struct instance *in, bool skip)
{
  in->p.skip = skip;
  struct greedy_solution got = apt_greedy(&in->p, &in->heap, in->taken);
  double value = 0;
  uint64_t used = 0;
  for (uint32_t i = 0; i < in->p.n; i++) {
    if (!in->c[i].violated)
      value += gain_of(&in->p, &in->c[i], in->c[i].form);
    used += units_of(&in->c[i], in->c[i].form);
  }
  assert_true(used <= in->p.memory);
  assert_int_equal(used, got.used);
  assert_true(got.value > value - 1e-9);
  return got;
}

static void expect(struct instance *in, uint64_t memory, bool skip, const char *forms,
                   double value)
{
  in->p.memory = memory;
  struct greedy_solution got = solve(in, skip);
  char text[MOST + 1] = "";
  for (uint32_t i = 0; i < in->p.n; i++)
    text[i] = "-KH"[in->c[i].form];
  assert_string_equal(text, forms);
  assert_true(got.value > value - 1e-9 && got.value < value + 1e-9);
}

/* Spec, section 8, example A: b = 16, rho = 0.0005 s/unit, N = 20. */
static void test_example_a(void **state)
{
  (void)state;
  struct instance in;
  instance_init(&in);
  in.p.n_rho = 20 * 0.0005;
  add(&in, 0.90, 38);
  add(&in, 0.60, 6);
  add(&in, 0.20, 20);
  add(&in, 0.20, 64);
  add(&in, 0.05, 2);
  expect(&in, 200, false, "KKKKK", 1.95);
  expect(&in, 60, false, "KK--K", 1.55);
  expect(&in, 40, false, "HK--K", 1.17);
  expect(&in, 22, false, "-H--H", 0.57);
  expect(&in, 22, true, "-K--K", 0.65);
  lls_pol_heap_free(&in.heap);
}

/* B: the appendix taken literally would use 20 units of 10. */
static void test_example_b_and_c(void **state)
{
  (void)state;
  struct instance in;
  instance_init(&in);
  in.p.n_rho = 1e-4;
  add(&in, 0.02, 2);
  add(&in, 0.18, 20);
  expect(&in, 10, false, "-H", 0.178);
  in.p.n = 0;
  in.p.n_rho = 1; /* KV only: half of the optimum */
  add(&in, 0.0201, 2);
  add(&in, 1, 100);
  add(&in, 1, 100);
  expect(&in, 200, false, "KK-", 1.0201);
  assert_true(optimum(&in) == 2);
  lls_pol_heap_free(&in.heap);
}

/* D: hidden form is free; spare memory turns it into KV form, and newly arrived
 * requests get some, too. */
static void test_example_d(void **state)
{
  (void)state;
  struct instance in;
  instance_init(&in);
  add(&in, 0.5, 8);
  add(&in, 0.1, 4);
  add(&in, 0, 4);
  expect(&in, 6, false, "HH-", 0.6);
  expect(&in, 16, false, "KKK", 0.6);
  lls_pol_heap_free(&in.heap);
}

/* E: the request in violation comes last; with a value decayed to 0.4 of its 5 s it
 * comes first. */
static void test_example_e(void **state)
{
  (void)state;
  struct instance in;
  instance_init(&in);
  in.p.n_rho = 2e-5;
  in.p.eps = 1e-8;
  struct candidate *old = add(&in, 5, 20);
  add(&in, 0.3, 20);
  old->violated = true;
  expect(&in, 20, false, "-K", 0.3);
  expect(&in, 40, false, "KK", 0.3 + 20e-8);
  old->violated = false;
  old->pending = 0.4 * 5;
  in.p.n_rho = 1; /* without hidden form: one of them */
  expect(&in, 20, false, "K-", 2);
  lls_pol_heap_free(&in.heap);
}

static void test_caps(void **state)
{
  (void)state;
  struct instance in;
  instance_init(&in);
  for (int i = 0; i < 4; i++)
    add(&in, 1.0 - 0.1 * i, 4)->tokens = 100;
  in.p.tokens = 250;
  expect(&in, 100, true, "KK--", 1.9);
  in.p.tokens = 50; /* longer than any step: alone */
  expect(&in, 100, true, "K---", 1);
  in.p.tokens = UINT32_MAX;
  in.p.sequences = 3;
  expect(&in, 100, true, "KKK-", 2.7);
  lls_pol_heap_free(&in.heap);
}

/* ---- properties -------------------------------------------------------------------- */

static uint64_t random_state = 1;

static uint32_t between(uint32_t low, uint32_t high)
{
  random_state =
      random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return low + (uint32_t)((random_state >> 33) % (high - low + 1));
}

static void draw(struct instance *in)
{
  static const double rho[] = {0, 0.001, 0.003, 0.01};
  uint32_t n = between(1, 7);
  in->p.n = 0;
  in->p.n_rho = between(n, 40) * rho[between(0, 3)];
  in->p.memory = between(1, 60);
  for (uint32_t i = 0; i < n; i++)
    add(in, between(0, 2000) / 1000.0, 2 * between(1, 12));
}

/* V >= OPT / 2, skip >= break, and memory is never exceeded (checked in solve). */
static void test_half_of_the_optimum(void **state)
{
  (void)state;
  const uint32_t instances = 10000;
  struct instance in;
  instance_init(&in);
  double sum[2] = {0, 0}, worst[2] = {1, 1};
  for (uint32_t k = 0; k < instances; k++) {
    draw(&in);
    double best = optimum(&in), value[2];
    for (int skip = 0; skip < 2; skip++) {
      value[skip] = solve(&in, skip).value;
      double ratio = best > 0 ? value[skip] / best : 1;
      assert_true(2 * value[skip] >= best - 1e-9);
      assert_true(value[skip] <= best + 1e-9);
      sum[skip] += ratio;
      worst[skip] = ratio < worst[skip] ? ratio : worst[skip];
    }
    assert_true(value[1] >= value[0] - 1e-9);
  }
  print_message("# %u instances, value / optimum: break mean %.4f worst %.4f, skip mean "
                "%.4f worst %.4f\n",
                instances, sum[0] / instances, worst[0], sum[1] / instances, worst[1]);
  lls_pol_heap_free(&in.heap);
}

/* With memory growing by one unit at a time, and rho > 0: first all hidden increments,
 * then all upgrades, then requests in KV form alone. */
static void test_three_tiers(void **state)
{
  (void)state;
  struct instance in;
  instance_init(&in);
  for (uint32_t k = 0; k < 1000; k++) {
    draw(&in);
    in.p.n_rho = in.p.n_rho > 0 ? in.p.n_rho : 0.02;
    for (in.p.memory = 1; in.p.memory <= 170; in.p.memory++) {
      if (solve(&in, false).single_won)
        continue;
      bool hidden_left = false, first_left = false, low = false;
      for (uint32_t i = 0; i < in.p.n; i++) {
        const struct candidate *c = &in.c[i];
        bool permitted = c->pending * (c->kv - c->hidden) >= in.p.n_rho * c->kv * c->kv;
        hidden_left |= c->form == LLS_FORM_HIDDEN && permitted && c->kv <= in.p.memory;
        first_left |= c->form == LLS_FORM_NONE && permitted && c->kv <= in.p.memory;
        low |= c->form == LLS_FORM_KV && !permitted;
      }
      assert_false(low && (hidden_left || first_left));
    }
  }
  lls_pol_heap_free(&in.heap);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_example_a),   cmocka_unit_test(test_example_b_and_c),
      cmocka_unit_test(test_example_d),   cmocka_unit_test(test_example_e),
      cmocka_unit_test(test_caps),        cmocka_unit_test(test_half_of_the_optimum),
      cmocka_unit_test(test_three_tiers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
