/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between and within the tiers of a pool, byte by byte, and their bounds. */
#include "t/kernel/fixture.h"

#include "core/device/numbers.h"
#include "kernels/cpu/pool.h"

#define BLOCK_UNITS  2 /* of a block in KV form */
#define DEVICE_UNITS 10
#define HOST_UNITS   6
#define BLOCK_TOKENS 4

#define NUMBERS (2 * 2 * 3 * BLOCK_TOKENS * 8) /* of a block's K and V */

static const struct lls_pool_shape shape = {
    .layers = 2,
    .kv_heads = 3,
    .head_dim = 8,
    .block_tokens = BLOCK_TOKENS,
    .element = LLS_BF16,
    .device_units = DEVICE_UNITS,
    .host_units = HOST_UNITS,
};

struct fixture {
  struct lls_device *device;
  struct lls_pool *pool;
};

static int setup(void **state)
{
  struct fixture *f = malloc(sizeof *f);
  f->device = create_device(NULL, 1, 8, 64);
  if (f->device->ops->pool_create(f->device, &shape, &f->pool, NULL) != 0)
    return -1;
  for (size_t i = 0; i < DEVICE_UNITS * f->pool->unit_bytes; i++)
    f->pool->device[i] = (char)random_bits();
  for (size_t i = 0; i < HOST_UNITS * f->pool->unit_bytes; i++)
    f->pool->host[i] = (char)random_bits();
  *state = f;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *f = *state;
  f->device->ops->pool_destroy(f->device, f->pool);
  f->device->ops->destroy(f->device);
  free(f);
  return 0;
}

/* A reference copy: one vector of head_dim at a time. */
static void copy_slowly(const struct lls_pool *p, char *device, char *host,
                        const struct lls_copy *c)
{
  const char *from = lls_copy_way(c) == LLS_COPY_HOST_TO_DEVICE ? host : device;
  char *to = lls_copy_way(c) == LLS_COPY_DEVICE_TO_HOST ? host : device;
  size_t vector = shape.head_dim * 2;
  for (size_t head = 0; head < 2 * shape.layers * shape.kv_heads; head++) {
    for (size_t slot = c->slot; slot < (size_t)c->slot + c->n_slots; slot++) {
      size_t here = (head * BLOCK_TOKENS + slot) * vector;
      size_t there = (head * BLOCK_TOKENS + slot + (size_t)c->shift) * vector;
      memmove(to + c->target * p->unit_bytes + there,
              from + c->source * p->unit_bytes + here, vector);
    }
  }
}

static uint32_t random_block(bool host)
{
  return random_bits() % ((host ? HOST_UNITS : DEVICE_UNITS) / BLOCK_UNITS) * BLOCK_UNITS;
}

static struct lls_copy random_copy(void)
{
  uint32_t way = random_between(0, 2);
  struct lls_copy c = {.source_tier = way == 1, .target_tier = way == 2};
  c.slot = (uint16_t)random_between(0, BLOCK_TOKENS);
  c.n_slots = (uint16_t)random_between(0, BLOCK_TOKENS - c.slot);
  if (random_bits() % 2)
    c.slot = 0, c.n_slots = BLOCK_TOKENS;
  c.source = random_block(lls_copy_way(&c) == LLS_COPY_HOST_TO_DEVICE);
  c.target = random_block(lls_copy_way(&c) == LLS_COPY_DEVICE_TO_HOST);
  if (lls_copy_way(&c) != LLS_COPY_DEVICE_TO_DEVICE || c.source != c.target)
    c.shift = (int16_t)(random_between(0, BLOCK_TOKENS - c.n_slots) - c.slot);
  return c;
}

/* Lists of copies, each of which may read what an earlier one wrote. */
static void test_copies(void **state)
{
  struct fixture *f = *state;
  size_t device_bytes = DEVICE_UNITS * f->pool->unit_bytes;
  size_t host_bytes = HOST_UNITS * f->pool->unit_bytes;
  char *device = malloc(device_bytes), *host = malloc(host_bytes);
  memcpy(device, f->pool->device, device_bytes);
  memcpy(host, f->pool->host, host_bytes);
  for (int round = 0; round < 200; round++) {
    struct lls_copy copies[5];
    for (int i = 0; i < 5; i++) {
      copies[i] = random_copy();
      copy_slowly(f->pool, device, host, &copies[i]);
    }
    assert_int_equal(f->device->ops->pool_copy(f->device, f->pool, copies, 5), 0);
    assert_memory_equal(f->pool->device, device, device_bytes);
    assert_memory_equal(f->pool->host, host, host_bytes);
  }
  free(device);
  free(host);
}

static void test_copies_outside(void **state)
{
  struct fixture *f = *state;
  static const struct lls_copy bad[] = {
      {.target_tier = LLS_TIER_HOST, .n_slots = 1, .source = DEVICE_UNITS},
      {.target_tier = LLS_TIER_HOST, .n_slots = 1, .target = HOST_UNITS},
      {.source_tier = LLS_TIER_HOST, .n_slots = 1, .source = HOST_UNITS},
      {.source_tier = LLS_TIER_HOST, .n_slots = 1, .target = DEVICE_UNITS},
      {.n_slots = 1, .source = UINT32_MAX},
      {.n_slots = 1, .target = DEVICE_UNITS},
      {.n_slots = BLOCK_TOKENS + 1},
      {.slot = BLOCK_TOKENS, .n_slots = 1},
      {.slot = UINT16_MAX, .n_slots = UINT16_MAX},
      {.target_tier = LLS_TIER_HOST, .slot = 2, .n_slots = 1, .shift = -3},
      {.source_tier = LLS_TIER_HOST, .n_slots = 2, .shift = BLOCK_TOKENS - 1},
      {.n_slots = 1, .shift = 1},
      {.source_tier = LLS_TIER_DISK, .n_slots = 1},
      {.source_tier = LLS_TIER_HOST, .target_tier = LLS_TIER_HOST, .n_slots = 1},
      {.group = 1, .n_slots = 1},
      {.source_form = LLS_FORM_FP8, .n_slots = 1},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(f->device->ops->pool_copy(f->device, f->pool, &bad[i], 1), -EINVAL);
}

static struct lls_pull random_pull(void)
{
  struct lls_pull c = {.source = random_block(false),
                       .target = random_block(false),
                       .source_form = LLS_FORM_KV,
                       .n_slots = (uint16_t)random_between(0, BLOCK_TOKENS)};
  c.source_slot = (uint16_t)random_between(0, BLOCK_TOKENS - c.n_slots);
  c.target_slot = (uint16_t)random_between(0, BLOCK_TOKENS - c.n_slots);
  return c;
}

static void pull_slowly(const struct lls_pool *from, char *to, const struct lls_pull *c)
{
  size_t vector = shape.head_dim * 2;
  for (size_t head = 0; head < 2 * shape.layers * shape.kv_heads; head++)
    for (size_t slot = 0; slot < c->n_slots; slot++)
      memcpy(to + c->target * lls_unit_bytes(&shape) +
                 (head * BLOCK_TOKENS + c->target_slot + slot) * vector,
             from->device + c->source * from->unit_bytes +
                 (head * BLOCK_TOKENS + c->source_slot + slot) * vector,
             vector);
}

/* Pulls from another device's pool, which must not change. */
static void test_pulls(void **state)
{
  struct fixture *f = *state;
  void *other_state;
  assert_int_equal(setup(&other_state), 0);
  struct fixture *other = other_state;
  size_t bytes = DEVICE_UNITS * f->pool->unit_bytes;
  char *here = malloc(bytes), *there = malloc(bytes);
  memcpy(here, f->pool->device, bytes);
  memcpy(there, other->pool->device, bytes);
  for (int round = 0; round < 200; round++) {
    struct lls_pull list[5];
    for (int i = 0; i < 5; i++) {
      list[i] = random_pull();
      pull_slowly(other->pool, here, &list[i]);
    }
    assert_int_equal(f->device->ops->pool_pull(f->device, f->pool, other->device,
                                               other->pool, list, 5),
                     0);
    assert_memory_equal(f->pool->device, here, bytes);
    assert_memory_equal(other->pool->device, there, bytes);
  }
  static const struct lls_pull bad[] = {
      {.n_slots = 1, .source = DEVICE_UNITS},
      {.n_slots = 1, .target = DEVICE_UNITS},
      {.n_slots = BLOCK_TOKENS + 1},
      {.n_slots = BLOCK_TOKENS, .source_slot = 1},
      {.n_slots = 1, .target_slot = BLOCK_TOKENS},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(f->device->ops->pool_pull(f->device, f->pool, other->device,
                                               other->pool, &bad[i], 1),
                     -EINVAL);
  free(here);
  free(there);
  teardown(&other_state);
}

/* A pool with int8 blocks, here of two units each: block 0, the same in int8 in units 4
 * and 5, widened from there in units 6 and 7. */
static struct lls_pool *quantised_pool(struct fixture *f)
{
  struct lls_pool_shape with_scales = shape;
  struct lls_pool *pool;
  with_scales.int8 = LLS_INT8_ALL;
  assert_int_equal(f->device->ops->pool_create(f->device, &with_scales, &pool, NULL), 0);
  uint16_t *numbers = (uint16_t *)(void *)pool->device;
  for (size_t i = 0; i < NUMBERS; i++)
    numbers[i] = lls_f32_to_bf16((float)random_between(-1000, 1000) / 100);
  const struct lls_copy there_and_back[] = {
      {.n_slots = BLOCK_TOKENS, .target = 4, .target_form = LLS_FORM_INT8},
      {.n_slots = BLOCK_TOKENS, .source = 4, .source_form = LLS_FORM_INT8, .target = 6},
  };
  assert_int_equal(f->device->ops->pool_copy(f->device, pool, there_and_back, 2), 0);
  return pool;
}

/* Pulls from a pool with scales to one without: equals widening at the source, then
 * copying. The packed form has the declared size. */
static void test_int8_pulls(void **state)
{
  struct fixture *f = *state;
  const struct lls_device_ops *ops = f->device->ops;
  struct lls_pool *from = quantised_pool(f);
  size_t bytes = DEVICE_UNITS * f->pool->unit_bytes;
  char *here = malloc(bytes);
  for (int round = 0; round < 200; round++) {
    struct lls_pull c = random_pull(), wide = c;
    c.source = 4;
    c.source_form = LLS_FORM_INT8;
    wide.source = 6;
    memcpy(here, f->pool->device, bytes);
    pull_slowly(from, here, &wide);
    if (round % 2 == 0) {
      assert_int_equal(ops->pool_pull(f->device, f->pool, f->device, from, &c, 1), 0);
    } else {
      size_t packed_bytes = lls_pulled_bytes(&shape, &c);
      assert_int_equal(packed_bytes, lls_form_bytes(&shape, LLS_FORM_INT8));
      char *packed = malloc(packed_bytes);
      assert_int_equal(ops->pool_pack(f->device, from, &c, 1, packed), 0);
      assert_int_equal(ops->pool_unpack(f->device, f->pool, &c, 1, packed), 0);
      free(packed);
    }
    assert_memory_equal(f->pool->device, here, bytes);
  }
  const struct lls_pull last = {.source = DEVICE_UNITS - 2,
                                .n_slots = 1,
                                .source_form = LLS_FORM_INT8},
                        outside = {.source = DEVICE_UNITS - 1,
                                   .n_slots = 1,
                                   .source_form = LLS_FORM_INT8};
  assert_int_equal(ops->pool_pull(f->device, f->pool, f->device, from, &last, 1), 0);
  assert_int_equal(ops->pool_pull(f->device, f->pool, f->device, from, &outside, 1),
                   -EINVAL);
  assert_int_equal(ops->pool_pull(f->device, from, f->device, f->pool, &last, 1),
                   -EINVAL); /* which has no int8 blocks */
  ops->pool_destroy(f->device, from);
  free(here);
}

static void test_no_host_tier(void **state)
{
  struct fixture *f = *state;
  struct lls_pool_shape small = shape;
  struct lls_pool *pool;
  small.host_units = 0;
  assert_int_equal(f->device->ops->pool_create(f->device, &small, &pool, NULL), 0);
  const struct lls_copy out = {.target_tier = LLS_TIER_HOST, .n_slots = 1};
  const struct lls_copy in = {.source_tier = LLS_TIER_HOST, .n_slots = 1};
  assert_int_equal(f->device->ops->pool_copy(f->device, pool, &out, 1), -EINVAL);
  assert_int_equal(f->device->ops->pool_copy(f->device, pool, &in, 1), -EINVAL);
  assert_int_equal(f->device->ops->pool_copy(f->device, pool, NULL, 0), 0);
  f->device->ops->pool_destroy(f->device, pool);
}

static void test_refused_shapes(void **state)
{
  struct fixture *f = *state;
  struct lls_pool_shape bad = shape;
  struct lls_pool *pool;
  struct lls_error err;
  bad.element = LLS_I8;
  assert_int_equal(f->device->ops->pool_create(f->device, &bad, &pool, &err), -ENOTSUP);
  bad = shape;
  bad.layers = 1u << 20, bad.block_tokens = 1u << 20, bad.device_units = UINT32_MAX;
  assert_int_equal(f->device->ops->pool_create(f->device, &bad, &pool, &err), -ENOMEM);
}

/* New device and host memory is zero: a block that is read before it is written reveals
 * nothing of an earlier process. */
static void test_new_blocks_are_empty(void **state)
{
  struct fixture *f = *state;
  struct lls_pool *pool;
  assert_int_equal(f->device->ops->pool_create(f->device, &shape, &pool, NULL), 0);
  for (size_t i = 0; i < DEVICE_UNITS * pool->unit_bytes; i++)
    assert_int_equal(pool->device[i], 0);
  for (size_t i = 0; i < HOST_UNITS * pool->unit_bytes; i++)
    assert_int_equal(pool->host[i], 0);
  f->device->ops->pool_destroy(f->device, pool);
}

/* ---- int8 -------------------------------------------------------------------------- */

static struct lls_pool *int8_pool(const struct fixture *f, enum lls_dtype element,
                                  uint32_t int8)
{
  struct lls_pool_shape s = shape;
  struct lls_pool *pool;
  s.element = element;
  s.int8 = int8;
  assert_int_equal(f->device->ops->pool_create(f->device, &s, &pool, NULL), 0);
  return pool;
}

static void put(struct lls_pool *p, uint32_t block, uint32_t i, float x)
{
  uint16_t half = lls_f32_to_bf16(x);
  char *numbers = p->device + block * p->unit_bytes;
  if (p->shape.element == LLS_F32)
    memcpy(numbers + i * sizeof x, &x, sizeof x);
  else
    memcpy(numbers + i * sizeof half, &half, sizeof half);
}

static float get(const struct lls_pool *p, uint32_t block, uint32_t i)
{
  const char *numbers = p->device + block * p->unit_bytes;
  float x;
  uint16_t half;
  if (p->shape.element == LLS_F32) {
    memcpy(&x, numbers + i * sizeof x, sizeof x);
    return x;
  }
  memcpy(&half, numbers + i * sizeof half, sizeof half);
  return lls_bf16_to_f32(half);
}

static int convert(const struct fixture *f, struct lls_pool *p, struct lls_copy c)
{
  c.n_slots = BLOCK_TOKENS;
  return f->device->ops->pool_copy(f->device, p, &c, 1);
}

/* A channel's values are all of one kind; channels rotate through the kinds. */
static float channel_number(uint32_t channel)
{
  switch (channel % 6) {
  case 0:
    return random_float();
  case 1:
    return 40 + random_float() / 100; /* large, and all nearly the same */
  case 2:
    return -3.0078125f; /* the same, and one that f16 has */
  case 3:
    return random_activation();
  case 4:
    return random_float() * 1e-6f;
  default:
    return random_float() * 60000;
  }
}

/* Checks |x - x'| <= step / 2 plus the rounding of x' to the cache's type. */
static void check_block(const struct lls_pool *p, const float *was,
                        const uint16_t *scales, uint32_t block)
{
  double rounding = p->shape.element == LLS_BF16 ? 0x1p-8 : 1e-6;
  for (uint32_t i = 0; i < NUMBERS; i++) {
    uint32_t head = i / (BLOCK_TOKENS * 8), channel = i % 8;
    double step = lls_f16_to_f32(scales[head * 16 + channel]), x = (double)was[i];
    double got = (double)get(p, block, i);
    if (fabs(got - x) > step * 0.50001 + rounding * fabs(x) + 1e-12)
      fail_msg("[%u] %.9g came back as %.9g, a step is %.9g", i, x, got, step);
  }
}

/* To the host and back in both ways: quantised before the copy, or during it. */
static void test_int8_is_within_half_a_step(void **state)
{
  const struct fixture *f = *state;
  for (int round = 0; round < 200; round++) {
    enum lls_dtype element = round % 2 ? LLS_BF16 : LLS_F32;
    struct lls_pool *p = int8_pool(f, element, LLS_INT8_ALL);
    uint32_t units = lls_form_units(&p->shape, LLS_FORM_INT8);
    uint32_t unit = random_between(2, DEVICE_UNITS - units);
    uint32_t on_host = random_between(0, HOST_UNITS - units);
    float was[NUMBERS];
    for (uint32_t i = 0; i < NUMBERS; i++) {
      put(p, 0, i, channel_number(i % 8 + i / (BLOCK_TOKENS * 8)));
      was[i] = get(p, 0, i);
    }
    assert_int_equal(
        convert(f, p, (struct lls_copy){.target = unit, .target_form = LLS_FORM_INT8}),
        0);
    assert_int_equal(convert(f, p,
                             (struct lls_copy){.target_tier = LLS_TIER_HOST,
                                               .target = on_host,
                                               .target_form = LLS_FORM_INT8}),
                     0);
    const char *there = p->host + on_host * p->unit_bytes;
    const uint16_t *scales = (const uint16_t *)(const void *)(there + NUMBERS);
    assert_memory_equal(there, p->device + unit * p->unit_bytes,
                        lls_form_bytes(&p->shape, LLS_FORM_INT8));
    assert_int_equal(convert(f, p,
                             (struct lls_copy){.source_tier = LLS_TIER_HOST,
                                               .source = on_host,
                                               .source_form = LLS_FORM_INT8}),
                     0);
    check_block(p, was, scales, 0);
    f->device->ops->pool_destroy(f->device, p);
  }
}

/* A block that is swapped out as INT8 comes back byte for byte, neighbours untouched. */
static void test_int8_swaps_keep_bytes(void **state)
{
  const struct fixture *f = *state;
  struct lls_pool *p = int8_pool(f, LLS_BF16, LLS_INT8_ALL);
  size_t bytes = DEVICE_UNITS * p->unit_bytes;
  char *expected = malloc(bytes);
  for (size_t i = 0; i < bytes; i++)
    p->device[i] = (char)random_bits();
  memcpy(expected, p->device, bytes);
  struct lls_copy out = {.target_tier = LLS_TIER_HOST,
                         .source = 3,
                         .target = 4,
                         .source_form = LLS_FORM_INT8,
                         .target_form = LLS_FORM_INT8};
  struct lls_copy in = out;
  in.source_tier = LLS_TIER_HOST, in.target_tier = LLS_TIER_DEVICE, in.source = 4,
  in.target = 8;
  assert_int_equal(convert(f, p, out), 0);
  assert_int_equal(convert(f, p, in), 0);
  memcpy(expected + 8 * p->unit_bytes, expected + 3 * p->unit_bytes,
         lls_form_bytes(&p->shape, LLS_FORM_INT8));
  assert_memory_equal(p->device, expected, bytes);
  free(expected);
  f->device->ops->pool_destroy(f->device, p);
}

/* No value causes writes out of bounds or a division by zero. */
static void test_int8_of_odd_numbers(void **state)
{
  const struct fixture *f = *state;
  struct lls_pool *p = int8_pool(f, LLS_F32, LLS_INT8_ALL);
  static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f, 0, -0.0f};
  for (uint32_t i = 0; i < NUMBERS; i++)
    put(p, 0, i, odd[random_bits() % (sizeof odd / sizeof *odd)]);
  const struct lls_copy c = {.target = 4, .target_form = LLS_FORM_INT8};
  assert_int_equal(convert(f, p, c), 0);
  const char *made = p->device + c.target * p->unit_bytes;
  const uint16_t *scales = (const uint16_t *)(const void *)(made + NUMBERS);
  for (size_t i = 0; i < lls_scale_bytes(&p->shape); i++) /* two sides, two bytes each */
    assert_true(isfinite(lls_f16_to_f32(scales[i])));
  f->device->ops->pool_destroy(f->device, p);
}

static void test_int8_refused(void **state)
{
  const struct fixture *f = *state;
  struct lls_pool *all = int8_pool(f, LLS_BF16, LLS_INT8_ALL);
  struct lls_pool *swapped = int8_pool(f, LLS_BF16, LLS_INT8_SWAPPED);
  uint32_t last = DEVICE_UNITS - lls_form_units(&all->shape, LLS_FORM_INT8);
  struct lls_copy c = {
      .target = last, .target_form = LLS_FORM_INT8, .n_slots = BLOCK_TOKENS};
  assert_int_equal(f->device->ops->pool_copy(f->device, all, &c, 1), 0);
  assert_int_equal(f->device->ops->pool_copy(f->device, swapped, &c, 1), -EINVAL);
  assert_int_equal(f->device->ops->pool_copy(f->device, f->pool, &c, 1), -EINVAL);
  c.n_slots = BLOCK_TOKENS - 1; /* blocks of INT8 are full */
  assert_int_equal(f->device->ops->pool_copy(f->device, all, &c, 1), -EINVAL);
  c.n_slots = BLOCK_TOKENS, c.target = last + 1;
  assert_int_equal(f->device->ops->pool_copy(f->device, all, &c, 1), -EINVAL);
  c.target = 0, c.target_form = LLS_FORM_FP8;
  assert_int_equal(f->device->ops->pool_copy(f->device, all, &c, 1), -EINVAL);
  c.target_tier = LLS_TIER_HOST, c.target_form = LLS_FORM_INT8;
  assert_int_equal(f->device->ops->pool_copy(f->device, swapped, &c, 1), 0);
  f->device->ops->pool_destroy(f->device, swapped);
  f->device->ops->pool_destroy(f->device, all);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
      cmocka_unit_test_setup_teardown(test_copies_outside, setup, teardown),
      cmocka_unit_test_setup_teardown(test_pulls, setup, teardown),
      cmocka_unit_test_setup_teardown(test_int8_pulls, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_host_tier, setup, teardown),
      cmocka_unit_test_setup_teardown(test_refused_shapes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_new_blocks_are_empty, setup, teardown),
      cmocka_unit_test_setup_teardown(test_int8_is_within_half_a_step, setup, teardown),
      cmocka_unit_test_setup_teardown(test_int8_swaps_keep_bytes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_int8_of_odd_numbers, setup, teardown),
      cmocka_unit_test_setup_teardown(test_int8_refused, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
