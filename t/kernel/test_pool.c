/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between and inside the tiers of a pool, byte by byte, and where they end. */
#include "t/kernel/fixture.h"

#include "kernels/cpu/pool.h"

#define DEVICE_UNITS 5
#define HOST_UNITS   3
#define BLOCK_TOKENS 4

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

/* The same pool, kept by other means: one vector of head_dim at a time. */
static void copy_slowly(const struct lls_pool *p, char *device, char *host,
                        const struct lls_copy *c)
{
  const char *from = c->kind == LLS_COPY_HOST_TO_DEVICE ? host : device;
  char *to = c->kind == LLS_COPY_DEVICE_TO_HOST ? host : device;
  size_t vector = shape.head_dim * 2;
  for (size_t head = 0; head < shape.layers * shape.kv_heads; head++) {
    for (size_t slot = c->slot; slot < (size_t)c->slot + c->n_slots; slot++) {
      size_t at = (head * BLOCK_TOKENS + slot) * vector;
      memmove(to + c->target * p->unit_bytes + at, from + c->source * p->unit_bytes + at,
              vector);
    }
  }
}

static struct lls_copy random_copy(void)
{
  struct lls_copy c = {.kind = (uint8_t)random_between(0, 2)};
  c.slot = (uint16_t)random_between(0, BLOCK_TOKENS);
  c.n_slots = (uint16_t)random_between(0, BLOCK_TOKENS - c.slot);
  if (random_bits() % 2)
    c.slot = 0, c.n_slots = BLOCK_TOKENS;
  c.source =
      random_bits() % (c.kind == LLS_COPY_HOST_TO_DEVICE ? HOST_UNITS : DEVICE_UNITS);
  c.target =
      random_bits() % (c.kind == LLS_COPY_DEVICE_TO_HOST ? HOST_UNITS : DEVICE_UNITS);
  return c;
}

/* Lists of copies, each of which may read what one before it wrote. */
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
      {.kind = LLS_COPY_DEVICE_TO_HOST, .n_slots = 1, .source = DEVICE_UNITS},
      {.kind = LLS_COPY_DEVICE_TO_HOST, .n_slots = 1, .target = HOST_UNITS},
      {.kind = LLS_COPY_HOST_TO_DEVICE, .n_slots = 1, .source = HOST_UNITS},
      {.kind = LLS_COPY_HOST_TO_DEVICE, .n_slots = 1, .target = DEVICE_UNITS},
      {.kind = LLS_COPY_DEVICE_TO_DEVICE, .n_slots = 1, .source = UINT32_MAX},
      {.kind = LLS_COPY_DEVICE_TO_DEVICE, .n_slots = 1, .target = DEVICE_UNITS},
      {.kind = LLS_COPY_DEVICE_TO_DEVICE, .n_slots = BLOCK_TOKENS + 1},
      {.kind = LLS_COPY_DEVICE_TO_DEVICE, .slot = BLOCK_TOKENS, .n_slots = 1},
      {.kind = LLS_COPY_DEVICE_TO_DEVICE, .slot = UINT16_MAX, .n_slots = UINT16_MAX},
      {.kind = 3, .n_slots = 1},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(f->device->ops->pool_copy(f->device, f->pool, &bad[i], 1), -EINVAL);
}

static void test_no_host_tier(void **state)
{
  struct fixture *f = *state;
  struct lls_pool_shape small = shape;
  struct lls_pool *pool;
  small.host_units = 0;
  assert_int_equal(f->device->ops->pool_create(f->device, &small, &pool, NULL), 0);
  const struct lls_copy out = {.kind = LLS_COPY_DEVICE_TO_HOST, .n_slots = 1};
  const struct lls_copy in = {.kind = LLS_COPY_HOST_TO_DEVICE, .n_slots = 1};
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

/* Both tiers are zero when new: a scheduler's bug must not show another's text. */
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
      cmocka_unit_test_setup_teardown(test_copies_outside, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_host_tier, setup, teardown),
      cmocka_unit_test_setup_teardown(test_refused_shapes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_new_blocks_are_empty, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
