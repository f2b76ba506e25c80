/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AccelGen's selection of requests: memory demands, the worked examples of SELECT and
 * Algorithm 1, and the invariants of every selection.
 */
#include "t/tap.h"

#include "plugins/schedulers/accelgen/accelgen.h"
#include "t/dice.h"

#define MS    INT64_C(1000000)
#define BLOCK 32

static void test_memory(void **state)
{
  (void)state;
  assert_int_equal(accelgen_memory(100, 0, BLOCK), 128);
  assert_int_equal(accelgen_memory(502, 0, BLOCK), 512);
  assert_int_equal(accelgen_memory(500, 10, BLOCK), 512);
  assert_int_equal(accelgen_memory(8, 10, BLOCK), 0);
  assert_int_equal(accelgen_memory(1, 5, BLOCK), 0);
  assert_int_equal(accelgen_memory(1, 0, BLOCK), 32);
}

#define MOST 8

static struct accelgen_pool pool_of(struct accelgen_option *options, uint32_t n,
                                    uint32_t tokens, uint32_t memory)
{
  return (struct accelgen_pool){.options = options,
                                .n = n,
                                .tokens = tokens,
                                .memory = memory,
                                .block_tokens = BLOCK,
                                .token_scale = 1,
                                .kv_scale = 1,
                                .one_at_a_time = true};
}

/* Expects picks such as "L1:737/768 s2:330/352": requests with their tokens and
 * memory. */
static void expect_picks(struct accelgen_pool *p, const char *expected)
{
  static const char *const names[] = {"s1", "s2", "tg", "L1", "L2"};
  struct accelgen_pick pick;
  char text[256] = "";
  size_t n = 0;
  while (accelgen_select(p, &pick)) {
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%u/%u", n > 0 ? " " : "",
                          names[pick.option.id], pick.tokens, pick.memory);
    accelgen_selected(p, &pick);
  }
  assert_string_equal(text, expected);
}

static void test_select_example(void **state)
{
  (void)state;
  static const struct accelgen_option all[] = {
      {.id = 0, .slack = 300 * MS, .tokens = 200},
      {.id = 1, .slack = 350 * MS, .tokens = 330},
      {.id = 2, .slack = 310 * MS, .tokens = 1},
      {.id = 3, .slack = 400 * MS, .tokens = 6000, .cut = true, .exclusive = true},
      {.id = 4, .slack = 500 * MS, .tokens = 9000, .cut = true, .exclusive = true},
  };
  static const struct {
    uint32_t tokens, memory;
    const char *picks;
  } examples[] = {{737, 4096, "L1:737/768"},
                  {737, 640, "L1:640/640"},
                  {737, 256, "L1:256/256"},
                  {0, 4096, ""},
                  {300, 0, ""}};
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    struct accelgen_option options[5];
    memcpy(options, all, sizeof all);
    struct accelgen_pool p = pool_of(options, 5, examples[i].tokens, examples[i].memory);
    expect_picks(&p, examples[i].picks);
  }
  /* without long prompts: the largest that fits, then those that fit in addition */
  struct accelgen_option options[5];
  memcpy(options, all, sizeof all);
  struct accelgen_pool p = pool_of(options, 3, 550, 4096);
  expect_picks(&p, "s2:330/352 s1:200/224 tg:1/32");
}

static struct accelgen_option random_option(struct dice *d, uint32_t i)
{
  struct accelgen_option o = {.id = i, .slack = dice(d, 0, 2000) * MS};
  uint32_t kind = dice(d, 0, 9);
  o.before = dice(d, 0, 5) == 0 ? BLOCK * dice(d, 1, 40) : 0;
  o.slots = kind < 3 || kind > 7 ? dice(d, 0, 3) : 0;
  o.tokens = kind < 3 ? 1 : dice(d, 1, kind < 8 ? 2000 : 20000);
  o.cut = kind >= 8;
  o.started = o.cut && dice(d, 0, 2) == 0;
  o.exclusive = o.cut && !o.started && dice(d, 0, 1);
  return o;
}

/* No further request fits in the remaining budget. */
static void expect_nothing_fits(const struct accelgen_pool *p,
                                const struct accelgen_option *o)
{
  uint32_t b = BLOCK, x = o->cut ? 1 : o->tokens;
  if (p->under_way > 0 && o->cut && !o->started)
    return;
  assert_true(x > p->tokens || o->before + accelgen_memory(x, o->slots, b) > p->memory);
}

static void test_selections(void **state)
{
  (void)state;
  struct dice d = {2};
  uint64_t picks = 0;
  for (int run = 0; run < 5000; run++) {
    struct accelgen_option all[MOST], options[MOST];
    uint32_t n = dice(&d, 0, MOST), begun = 0;
    bool picked[MOST] = {false};
    for (uint32_t i = 0; i < n; i++)
      options[i] = all[i] = random_option(&d, i);
    struct accelgen_pool p =
        pool_of(options, n, dice(&d, 0, 1500), BLOCK * dice(&d, 0, 200));
    uint32_t tokens = p.tokens, memory = p.memory;
    struct accelgen_pick pick;
    while (accelgen_select(&p, &pick)) {
      const struct accelgen_option *o = &all[pick.option.id];
      assert_true(pick.tokens > 0 && pick.tokens <= tokens && pick.memory <= memory);
      assert_int_equal(pick.memory,
                       o->before + accelgen_memory(pick.tokens, o->slots, BLOCK));
      assert_true(o->cut ? pick.tokens <= o->tokens : pick.tokens == o->tokens);
      assert_false(picked[o->id]);
      picked[o->id] = true;
      begun += o->exclusive || (o->cut && !o->started && pick.tokens < o->tokens);
      begun -= begun > 0 && o->started && pick.tokens == o->tokens;
      accelgen_selected(&p, &pick);
      tokens -= pick.tokens;
      memory -= pick.memory;
      assert_true(tokens == p.tokens && memory == p.memory);
      picks++;
    }
    assert_true(begun <= 1);
    for (uint32_t i = 0; i < n; i++)
      if (!picked[i])
        expect_nothing_fits(&p, &all[i]);
  }
  assert_true(picks > 5000);
}

/* ---- Algorithm 1 ------------------------------------------------------------------- */

static void expect_out(uint32_t tokens, uint32_t units, const char *expected)
{
  struct lls_pol_heap heap;
  struct accelgen_member m[6];
  char text[64] = "";
  assert_int_equal(lls_pol_heap_init(&heap, 6), 0);
  for (uint32_t i = 0; i < 4; i++)
    m[i] = (struct accelgen_member){
        .slack = 20 * i * MS, .id = i, .tokens = 1, .memory = 32 * (i + 1)};
  m[4] =
      (struct accelgen_member){.slack = 10 * MS, .id = 9, .tokens = 400, .memory = 416};
  m[5] =
      (struct accelgen_member){.slack = 50 * MS, .id = 10, .tokens = 380, .memory = 384};
  accelgen_literal(m, 6, tokens, units, &heap);
  for (uint32_t i = 0; i < 6; i++)
    if (m[i].out)
      strcat(text, (const char *const[]){"r0 ", "r1 ", "r2 ", "r3 ", "u1 ", "u2 "}[i]);
  assert_string_equal(text, expected);
  lls_pol_heap_free(&heap);
}

static void test_literal_example(void **state)
{
  (void)state;
  expect_out(768, 1200, "r3 u2 ");
  expect_out(900, 1000, "r3 ");
  expect_out(900, 2000, "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_select_example),
      cmocka_unit_test(test_selections),
      cmocka_unit_test(test_literal_example),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
