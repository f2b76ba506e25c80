/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The analytical cost model against its formulas written out by hand for one model, and
 * profile files: good ones are read back as written, bad ones refused with the line.
 */
#include "t/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/cost/cost.h"
#include "core/cost/model.h"
#include "t/folder.h"

static struct lls_model_config read_model(const char *name)
{
  char path[128];
  struct lls_model_config config;
  struct lls_error err = {0};
  snprintf(path, sizeof path, "etc/profiles/models/%s", name);
  if (lls_model_config_read(source_path(path), &config, &err) < 0)
    fail_msg("%s", err.text);
  return config;
}

static struct lls_cost_shape shape_of(const char *name, uint32_t ranks)
{
  struct lls_model_config config = read_model(name);
  struct lls_cost_shape shape;
  lls_cost_shape_init(&shape, &config, 2, 2, ranks);
  return shape;
}

/* Round figures: 1 TB/s, 100 TFLOP/s, efficiencies of 1, no overhead. */
static struct lls_profile ideal(void)
{
  return (struct lls_profile){
      .device = {.name = NULL, .memory = 1 << 30, .bandwidth = 1000, .matrix = 100},
      .host_link = {.bandwidth = 10, .latency = 5000},
      .peer_link = {.bandwidth = 100, .latency = 1000},
      .efficiency = {1, 1, 1, 1, 1, 1, 1, 0, 0},
  };
}

static double step_ns(const struct lls_cost_rates *r, uint32_t n, uint32_t tokens,
                      uint32_t context)
{
  struct lls_cost_load load = {0};
  for (uint32_t i = 0; i < n; i++)
    lls_cost_add(r, &load, tokens, context);
  load.drawn = n;
  return lls_cost_step_ns(r, &load);
}

static void assert_close(double a, double b)
{
  if (fabs(a - b) > 1e-9 * fabs(b))
    fail_msg("%.12g is not %.12g", a, b);
}

/* OPT-13B caches 819,200 bytes a token; 40 layers of 12 d^2 and the head. */
static void test_shape_of_opt_13b(void **state)
{
  (void)state;
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  assert_close(s.token_bytes, 819200);
  assert_close(lls_cost_weight_bytes(&s), 2 * (40 * 12.0 * 5120 * 5120 + 50272 * 5120.0));
  assert_close(2 * s.kv_weights, 4.194304e9); /* FLOP to restore a token, Apt-Serve */
  struct lls_cost_shape yi = shape_of("yi-6b", 1);
  assert_close(yi.token_bytes, 2 * 32 * 4 * 128 * 2.0);
}

/* DeepSeek V3 has 671e9 weights and caches 576 numbers a layer and token; a row
 * multiplies 576 of them with each head's query, and adds up 512. */
static void test_shape_of_deepseek_v3(void **state)
{
  (void)state;
  struct lls_cost_shape s = shape_of("deepseek-v3", 1);
  assert_close(s.token_bytes, 61 * 576 * 2);
  assert_close(s.pair_flops, 61 * 128 * 2.0 * (576 + 512));
  double weights = lls_cost_weight_bytes(&s) / 2 + 129280 * 7168.0;
  assert_true(fabs(weights - 671e9) < 0.001 * 671e9);
  struct lls_cost_shape lite = shape_of("deepseek-v2-lite", 1);
  weights = lls_cost_weight_bytes(&lite) / 2 + 102400 * 2048.0;
  assert_true(fabs(weights - 15.7e9) < 0.005 * 15.7e9);
}

static void test_decode_reads_weights_and_cache(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  lls_cost_rates_init(&r, &p, &s);
  double weights = lls_cost_weight_bytes(&s) / 1000; /* bytes / (GB/s) = ns */
  assert_close(step_ns(&r, 1, 1, 999), weights + 1000 * 819200.0 / 1000);
  assert_close(step_ns(&r, 8, 1, 999), weights + 8 * 1000 * 819200.0 / 1000);
}

/* 512 rows: 2 FLOP for each weight and row; the head and the last layer compute one row
 * only. */
static void test_prefill_multiplies(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  lls_cost_rates_init(&r, &p, &s);
  double products = 2 * 512 * s.all_weights / 100e3;
  double head = s.picked_weights * 2 / 1000;
  double pairs = 512 * 256.0 + 512 * 513 / 2.0;
  double attention = 4 * 40 * 5120 * pairs / 100e3;
  assert_close(step_ns(&r, 1, 512, 256), products + head + attention);
}

static void test_straggler_bounds_attention(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  p.efficiency.one_sequence = 0.25;
  lls_cost_rates_init(&r, &p, &s);
  double token = 819200.0 / 1000, weights = lls_cost_weight_bytes(&s) / 1000;
  struct lls_cost_load load = {.drawn = 3};
  lls_cost_add(&r, &load, 1, 1999);
  lls_cost_add(&r, &load, 1, 99);
  lls_cost_add(&r, &load, 1, 99);
  assert_close(lls_cost_step_ns(&r, &load), weights + 4 * 2000 * token);
  for (int i = 0; i < 3; i++)
    lls_cost_add(&r, &load, 1, 1999);
  load.drawn = 6;
  assert_close(lls_cost_step_ns(&r, &load), weights + 8200 * token);
  /* half of its time comes after the others */
  p.efficiency.tail = 0.5;
  lls_cost_rates_init(&r, &p, &s);
  assert_close(lls_cost_step_ns(&r, &load), weights + (8200 + 2 * 2000) * token);
}

/* AlignedServe, figure 3: 64 groups of 64 prompts of 10, 70, ..., 3790 tokens. If only
 * the longest prompt counts, running one group at a time takes half of the time of 64
 * steps with one prompt of each group: 3790 / 1900. */
static void test_like_lengths_take_half_of_the_time(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  double aligned = 0;
  struct lls_cost_load mixed = {0};
  p.efficiency.one_sequence = 1e-3; /* small enough for the sums not to matter */
  lls_cost_rates_init(&r, &p, &s);
  for (uint32_t i = 0; i < 64; i++) {
    struct lls_cost_load group = {0};
    for (uint32_t k = 0; k < 64; k++)
      lls_cost_add(&r, &group, 1, 10 + 60 * i - 1);
    lls_cost_add(&r, &mixed, 1, 10 + 60 * i - 1);
    group.rows = group.sequences = 0; /* attention alone */
    aligned += lls_cost_step_ns(&r, &group);
  }
  mixed.rows = mixed.sequences = 0;
  assert_close(64 * lls_cost_step_ns(&r, &mixed) / aligned, 3790.0 / 1900);
}

/* Restoring multiplies by the weights of keys and values, in addition to the step; a
 * profile may state that it is faster. */
static void test_restore(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  for (int factor = 1; factor <= 4; factor *= 4) {
    p.efficiency.restore = factor;
    lls_cost_rates_init(&r, &p, &s);
    struct lls_cost_load load = {.drawn = 1}, with = {.drawn = 1, .restored = 3000};
    lls_cost_add(&r, &load, 1, 3000);
    lls_cost_add(&r, &with, 1, 3000);
    double more = 3000 * 2 * s.kv_weights / 100e3 / factor;
    assert_close(lls_cost_step_ns(&r, &with), lls_cost_step_ns(&r, &load) + more);
  }
}

/* Rows that attend to X directly read as many bytes as K and V, and the weights of both
 * again; operations count if they take longer. */
static void test_absorbed(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  lls_cost_rates_init(&r, &p, &s);
  assert_true(r.absorb_ns == 0); /* a profile enables it; otherwise X is restored */
  for (int slow = 0; slow < 2; slow++) {
    p.efficiency.absorb = slow ? 1e-3 : 1;
    lls_cost_rates_init(&r, &p, &s);
    struct lls_cost_load load = {.drawn = 1}, with = {.drawn = 1};
    lls_cost_add(&r, &load, 1, 2999);
    lls_cost_add(&r, &with, 1, 2999);
    lls_cost_absorb(&with, 1, 2999);
    double weights = s.kv_weights * 2 / 1e3; /* read once at 1 TB/s */
    double operations = 3000 * 4.0 * 40 * 5120 * 40 / 100e3 / p.efficiency.absorb;
    double bytes = 3000 * r.cached_ns;
    assert_true(slow == (operations > bytes));
    assert_close(lls_cost_step_ns(&r, &with) - lls_cost_step_ns(&r, &load),
                 weights + (slow ? operations - bytes : 0));
  }
}

/* Ranks divide weights, operations and bytes. For each of 40 heads a row's query and
 * sum of X, and a token's 40 scores, are exchanged in three collectives a layer. */
static void test_absorbed_by_ranks(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 2);
  struct lls_cost_load load = {.drawn = 1}, with = {.drawn = 1};
  struct lls_cost_rates r;
  p.efficiency.absorb = 1e-3;
  lls_cost_rates_init(&r, &p, &s);
  lls_cost_add(&r, &load, 1, 2999);
  lls_cost_add(&r, &with, 1, 2999);
  lls_cost_absorb(&with, 1, 2999);
  double weights = s.kv_weights * 2 / 1e3 / 2;
  double operations = 3000 * 4.0 * 40 * 5120 * 40 / 100e3 / 1e-3 / 2;
  double moved = 40 * 40 * 2 * (5120.0 + 3000) / 100; /* half a ring in both directions */
  assert_close(lls_cost_step_ns(&r, &with) - lls_cost_step_ns(&r, &load),
               weights + operations - 3000 * r.cached_ns + 3 * 40 * 1000 + moved);
}

/* Two ranks halve products and cache, and add all-reduces of half a ring each. */
static void test_ranks_share_and_reduce(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape one = shape_of("opt-13b", 1), two = shape_of("opt-13b", 2);
  struct lls_cost_rates r1, r2;
  lls_cost_rates_init(&r1, &p, &one);
  lls_cost_rates_init(&r2, &p, &two);
  double reduce = 80 * (1000 + 16 * 5120 * 2.0 / 100);
  assert_close(step_ns(&r2, 16, 1, 99), step_ns(&r1, 16, 1, 99) / 2 + reduce);
}

/* With two pipeline stages two halves of a step are under way; a single sequence passes
 * through both. */
static void test_stages_hold_parts(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape one = shape_of("opt-13b", 1), two = one;
  struct lls_cost_rates r1, r2;
  two.stages = 2;
  lls_cost_rates_init(&r1, &p, &one);
  lls_cost_rates_init(&r2, &p, &two);
  double row = 5120 * 2.0 / 100;
  assert_close(step_ns(&r2, 16, 1, 99), step_ns(&r1, 8, 1, 99) + 1000 + 8 * row);
  assert_close(step_ns(&r2, 2, 300, 0), step_ns(&r1, 1, 300, 0) + 1000 + 300 * row);
  assert_close(step_ns(&r2, 1, 1, 99), step_ns(&r1, 1, 1, 99) + 1000 + row);
  assert_close(lls_cost_copy_ns(&r2, LLS_LINK_PEER, 1e6, 0),
               lls_cost_copy_ns(&r1, LLS_LINK_PEER, 1e6, 0) / 2);
}

static void test_measured_curve_is_a_line_between_points(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  p.projection =
      (struct lls_profile_curve){.n = 3, .rows = {1, 9, 17}, .ns = {100, 180, 180}};
  lls_cost_rates_init(&r, &p, &s);
  r.cached_ns = r.longest_ns = 0;
  double all = s.all_weights / 1e6, picked = s.picked_weights / 1e6;
  assert_close(step_ns(&r, 1, 1, 10), 100 * (all + picked));
  assert_close(step_ns(&r, 5, 1, 10), 140 * (all + picked));
  assert_close(step_ns(&r, 13, 1, 10), 180 * (all + picked));
  assert_close(step_ns(&r, 34, 1, 10), 360 * (all + picked));
}

static void test_copies(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  lls_cost_rates_init(&r, &p, &s);
  assert_close(lls_cost_copy_ns(&r, LLS_LINK_HOST, 1e6, 3), 3 * 5000 + 1e5);
  assert_close(lls_cost_copy_ns(&r, LLS_LINK_PEER, 1e6, 1), 1000 + 1e4);
  assert_true(lls_cost_copy_ns(&r, LLS_LINK_HOST, 0, 1) == 0);
  p.host_link.bandwidth = 0;
  lls_cost_rates_init(&r, &p, &s);
  assert_true(lls_cost_copy_ns(&r, LLS_LINK_HOST, 1, 1) == LLS_NEVER);
}

/* The service answers from the rates, whatever steps were measured. */
static void test_service_starts_from_rates(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  struct lls_cost_model *m;
  lls_cost_rates_init(&r, &p, &s);
  assert_int_equal(lls_cost_model_create(&r, &m), 0);
  const struct lls_cost *cost = lls_cost_model_service(m);
  assert_close((double)cost->prefill_ns(cost->context, 512, 256),
               floor(step_ns(&r, 1, 512, 256)));
  assert_close((double)cost->decode_ns(cost->context, 1000, 2),
               2 * floor(step_ns(&r, 1, 1, 1001)));
  assert_int_equal(cost->transfer_ns(cost->context, 1000000, LLS_LINK_HOST), 105000);

  struct lls_iteration_shape shape = {.size = sizeof shape};
  lls_cost_model_observe(m, &shape, 1); /* measurements do not change promises */
  assert_close((double)cost->prefill_ns(cost->context, 512, 256),
               floor(step_ns(&r, 1, 512, 256)));
  lls_cost_model_destroy(m);
}

/* ---- files -------------------------------------------------------------------- */

static void path_in(const struct folder *f, char *path, size_t size)
{
  snprintf(path, size, "%s/p.ini", f->path);
}

static void test_written_profile_reads_back(void **state)
{
  char path[128];
  struct lls_profile p = ideal(), q;
  struct lls_error err = {0};
  char name[] = "a card";
  p.device.name = name;
  p.overhead.layer = 1234;
  p.projection = (struct lls_profile_curve){.n = 2, .rows = {1, 64}, .ns = {0.5, 3}};
  path_in(*state, path, sizeof path);
  assert_int_equal(lls_profile_write(path, &p, "test", &err), 0);
  if (lls_profile_read(path, &q, &err) < 0)
    fail_msg("%s", err.text);
  assert_string_equal(q.device.name, "a card");
  lls_profile_free(&q);
  p.device.name = NULL;
  assert_memory_equal(&p.device, &q.device, sizeof p.device);
  assert_memory_equal(&p.host_link, &q.host_link, sizeof p.host_link);
  assert_memory_equal(&p.efficiency, &q.efficiency, sizeof p.efficiency);
  assert_memory_equal(&p.overhead, &q.overhead, sizeof p.overhead);
  assert_memory_equal(&p.projection, &q.projection, sizeof p.projection);
}

static const char good[] = "[device]\nmemory = 1GiB\nbandwidth = 10\nmatrix = 1\n";

static void expect_error(const struct folder *f, const char *tail, const char *sentence)
{
  char path[128], text[1024], expected[512];
  struct lls_profile p;
  struct lls_error err = {0};
  snprintf(text, sizeof text, "%s%s", good, tail);
  folder_write_text(f, "p.ini", text);
  path_in(f, path, sizeof path);
  assert_true(lls_profile_read(path, &p, &err) < 0);
  snprintf(expected, sizeof expected, "%s:%s", path, sentence);
  if (strncmp(err.text, expected, strlen(expected)) != 0)
    fail_msg("expected \"%s...\", found \"%s\"", expected, err.text);
}

static void test_bad_profiles_are_refused_with_their_line(void **state)
{
  expect_error(*state, "[overheads]\n", "5: unknown section [overheads]");
  expect_error(*state, "[overhead]\nstp = 1ms\n", "6: unknown key 'stp' in [overhead]");
  expect_error(*state, "[overhead]\nstep = 1ms\nstep = 1ms\n", "7: [overhead] step");
  expect_error(*state, "[efficiency]\nmatrix = 2\n", "6: [efficiency] matrix");
  expect_error(*state, "[host_link]\nbandwidth = fast\n", "6: [host_link] bandwidth");
  expect_error(*state, "nonsense\n", "5: expected 'key = value'");
  expect_error(*state, "[projection]\nrows = 1 2\nns_per_million = 1\n",
               "5: [projection] has 2 rows and 1 times");
  expect_error(*state, "[projection]\nrows = 2 1\nns_per_million = 1 1\n",
               "5: [projection] rows: expected them in increasing order");
  expect_error(*state, "[projection]\nrows = 1 x\nns_per_million = 1 1\n",
               "5: [projection] expected at most");
  struct folder *f = *state;
  char path[128];
  struct lls_profile p;
  struct lls_error err = {0};
  folder_write_text(f, "p.ini", "[device]\nmemory = 1GiB\n");
  path_in(f, path, sizeof path);
  assert_int_equal(lls_profile_read(path, &p, &err), -EINVAL);
  assert_non_null(strstr(err.text, "p.ini:1: [device] needs the key 'bandwidth'"));
  assert_int_equal(lls_profile_read("/nonexistent", &p, &err), -ENOENT);
}

/* A single row reads the experts that it is sent to, many rows read all, none twice. */
static void test_active_experts_are_read(void **state)
{
  (void)state;
  struct lls_model_config c;
  struct lls_cost_shape s;
  struct lls_cost_rates r;
  struct lls_profile p = ideal();
  p.device.bandwidth = 1; /* byte a ns */
  p.device.matrix = 1e9;
  assert_int_equal(
      lls_model_config_read(source_path("t/data/models/qwen3-moe"), &c, NULL), 0);
  lls_cost_shape_init(&s, &c, 2, 2, 1);
  double experts = 2 * 8 * 3.0 * 64 * 24;
  assert_close(s.expert_weights, experts);
  lls_cost_rates_init(&r, &p, &s);
  struct lls_cost_load one = {.rows = 1}, many = {.rows = 1000};
  double rest = 2 * s.all_weights;
  assert_close(lls_cost_step_ns(&r, &one), rest + 2 * experts * 3 / 8);
  assert_close(lls_cost_step_ns(&r, &many), rest + 2 * experts);
}

/* The average context that a layer sees: all of it; 16 tokens in every layer; or 16 in
 * two of three layers. */
static void test_windows(void **state)
{
  (void)state;
  static const struct {
    uint32_t window[3];
    double seen; /* of 1,000 tokens */
  } cases[] = {
      {{0, 0, 0}, 1000}, {{16, 16, 16}, 16}, {{16, 0, 16}, (16 + 1000 + 16) / 3.0}};
  struct lls_profile p = ideal();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct lls_model_config c = read_model("llama-2-7b");
    struct lls_cost_shape shape;
    struct lls_cost_rates r;
    struct lls_cost_load load = {0};
    c.layers = 3;
    for (uint32_t layer = 0; layer < c.layers; layer++)
      c.layer[layer].window = cases[i].window[layer];
    lls_cost_shape_init(&shape, &c, 2, 2, 1);
    lls_cost_rates_init(&r, &p, &shape);
    lls_cost_add(&r, &load, 1, 1000);
    assert_close(load.cached, cases[i].seen + 1);
    load = (struct lls_cost_load){0};
    lls_cost_add(&r, &load, 1, 10);
    assert_close(load.cached, 11);
  }
}

static void test_shipped_profiles_and_models_read(void **state)
{
  (void)state;
  static const char *const cards[] = {"a100-40g", "a100-80g", "v100-32g",  "h100-80g",
                                      "h200",     "rtx4090",  "rtxpro6000"};
  static const char *const models[] = {
      "opt-2.7b",    "opt-6.7b",   "opt-13b",     "opt-30b",     "opt-66b",
      "opt-175b",    "llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3-8b",
      "llama-3-70b", "yi-6b",      "pythia-12b",  "qwen3-32b"};
  /* billions of weights in matrices, without embeddings that are only looked up */
  static const double billions[] = {2.65,  6.65, 12.84, 29.95, 65.7, 174.6, 6.61,
                                    12.85, 68.7, 7.50,  69.5,  5.80, 11.58, 31.98};
  for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
    char path[128];
    struct lls_profile p;
    struct lls_error err = {0};
    snprintf(path, sizeof path, "etc/profiles/%s.ini", cards[i]);
    if (lls_profile_read(source_path(path), &p, &err) < 0)
      fail_msg("%s", err.text);
    lls_profile_free(&p);
  }
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    struct lls_cost_shape s = shape_of(models[i], 1);
    double found = lls_cost_weight_bytes(&s) / 2e9;
    if (fabs(found - billions[i]) > 0.01 * billions[i])
      fail_msg("%s has %.3g billion numbers, expected %.3g", models[i], found,
               billions[i]);
  }
}

/* The first token in hidden form costs one more pass over the weights, further tokens
 * next to nothing. */
static void test_hidden_form_has_a_price_of_entry(void **state)
{
  (void)state;
  struct lls_cost_model *m;
  assert_int_equal(lls_cost_model_create(NULL, &m), 0);
  for (uint32_t k = 1; k <= 16; k++) {
    const uint32_t context = 128 * k;
    struct lls_iteration_shape shape = {
        .size = sizeof shape, .n_decodes = 1, .decode_context = &context};
    lls_cost_model_observe(m, &shape, 30000000 + 1000 * (int64_t)context);
    shape.hidden_tokens = context;
    lls_cost_model_observe(m, &shape, 34000000 + 1200 * (int64_t)context);
  }
  const struct lls_cost *service = lls_cost_model_service(m);
  struct lls_iteration_shape few = {.size = sizeof few, .hidden_tokens = 100}, many = few;
  many.hidden_tokens = 10100;
  int64_t more = service->iteration_ns(service->context, &many) -
                 service->iteration_ns(service->context, &few);
  assert_true(more > 1900000 && more < 2100000); /* 0.2 us each */
  lls_cost_model_destroy(m);
}

/* A row beyond the fourth takes as long as reading the weights for ten. */
static int64_t rows_ns(uint32_t rows)
{
  return 10000000 + 100000 * (int64_t)rows +
         (rows > 4 ? 1000000 * (int64_t)(rows - 4) : 0);
}

/* Prompts and one answer, of which no guess was verified. */
static void test_guesses_have_the_price_of_rows(void **state)
{
  (void)state;
  struct lls_cost_model *m;
  assert_int_equal(lls_cost_model_create(NULL, &m), 0);
  const uint32_t context = 100;
  struct lls_iteration_shape decode = {
      .size = sizeof decode, .n_decodes = 1, .decode_context = &context};
  for (uint32_t k = 0; k < 256; k++) {
    struct lls_chunk_shape chunk = {.tokens = 5 + k % 64};
    struct lls_iteration_shape prompt = {
        .size = sizeof prompt, .n_chunks = 1, .chunks = &chunk};
    bool is_prompt = k % 16 == 0;
    lls_cost_model_observe(m, is_prompt ? &prompt : &decode,
                           rows_ns(is_prompt ? chunk.tokens : 1));
  }
  const struct lls_cost *service = lls_cost_model_service(m);
  int64_t none = service->iteration_ns(service->context, &decode);
  decode.draft_tokens = 7;
  int64_t price = service->iteration_ns(service->context, &decode) - none;
  if (price < 2500000 || price > 8000000) /* 4.7 ms */
    fail_msg("7 guesses: %.3g ms", (double)price / 1e6);
  lls_cost_model_destroy(m);
}

static int64_t chunk_ns(const struct lls_cost_rates *r, uint32_t tokens)
{
  struct lls_cost_load load = {.drawn = 1};
  lls_cost_add(r, &load, tokens, 0);
  return (int64_t)lls_cost_step_ns(r, &load);
}

/* Fitted to prompts of at most 500 tokens, most of which take no longer than reading
 * the weights: its estimate for three times as many is not a line through these. */
static void test_short_steps_tell_of_long_ones(void **state)
{
  (void)state;
  struct lls_profile p = ideal();
  struct lls_cost_shape s = shape_of("opt-13b", 1);
  struct lls_cost_rates r;
  struct lls_cost_model *m;
  lls_cost_rates_init(&r, &p, &s);
  assert_int_equal(lls_cost_model_create(NULL, &m), 0);
  for (uint32_t k = 0; k < 192; k++) {
    uint32_t tokens = k % 8 < 7 ? 1 + k % 30 : 50 + 150 * (k / 8 % 4);
    struct lls_chunk_shape chunk = {.tokens = tokens};
    struct lls_iteration_shape one = {
        .size = sizeof one, .n_chunks = 1, .chunks = &chunk};
    lls_cost_model_observe(m, &one, chunk_ns(&r, tokens));
  }
  const struct lls_cost *service = lls_cost_model_service(m);
  double off = (double)service->prefill_ns(service->context, 1500, 0);
  off = off / (double)chunk_ns(&r, 1500) - 1;
  if (fabs(off) > 0.05)
    fail_msg("1500 tokens: off by %.3g", off);
  lls_cost_model_destroy(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shape_of_opt_13b),
      cmocka_unit_test(test_shape_of_deepseek_v3),
      cmocka_unit_test(test_decode_reads_weights_and_cache),
      cmocka_unit_test(test_prefill_multiplies),
      cmocka_unit_test(test_straggler_bounds_attention),
      cmocka_unit_test(test_like_lengths_take_half_of_the_time),
      cmocka_unit_test(test_restore),
      cmocka_unit_test(test_absorbed),
      cmocka_unit_test(test_absorbed_by_ranks),
      cmocka_unit_test(test_ranks_share_and_reduce),
      cmocka_unit_test(test_stages_hold_parts),
      cmocka_unit_test(test_hidden_form_has_a_price_of_entry),
      cmocka_unit_test(test_guesses_have_the_price_of_rows),
      cmocka_unit_test(test_short_steps_tell_of_long_ones),
      cmocka_unit_test(test_measured_curve_is_a_line_between_points),
      cmocka_unit_test(test_copies),
      cmocka_unit_test(test_service_starts_from_rates),
      IN_FOLDER(test_written_profile_reads_back),
      IN_FOLDER(test_bad_profiles_are_refused_with_their_line),
      cmocka_unit_test(test_active_experts_are_read),
      cmocka_unit_test(test_windows),
      cmocka_unit_test(test_shipped_profiles_and_models_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
