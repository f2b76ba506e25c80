/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of states in a pool beside blocks of K and V: random copies between the tiers,
 * pulls between two pools, and packed blocks, as on the CPU to the byte. A state fills
 * its last unit in part.
 */
#include "t/kernel/pair.h"

#define BLOCKS     6 /* in each tier */
#define UNITS      3 /* of a state */
#define STATE      320
#define HOST_UNITS (BLOCKS * UNITS)
#define N_COPIES   24

/* Units of 128 bytes in f32: a block of K and V has two. */
static const struct lls_pool_shape pool_shape = {.layers = 1,
                                                 .kv_heads = 1,
                                                 .head_dim = 8,
                                                 .block_tokens = 4,
                                                 .element = LLS_F32,
                                                 .device_units = BLOCKS * UNITS,
                                                 .host_units = HOST_UNITS,
                                                 .n_groups = 2,
                                                 .group_layers = {1, 2},
                                                 .group_state = {0, STATE}};

struct states { /* the bytes of all blocks on a device */
  uint8_t bytes[BLOCKS][STATE];
};

static struct lls_pool *open_pool(struct lls_device *d)
{
  struct lls_pool *pool;
  assert_int_equal(lls_unit_bytes(&pool_shape), 128);
  assert_int_equal(lls_group_units(&pool_shape, 1, LLS_FORM_STATE), UNITS);
  assert_int_equal(d->ops->pool_create(d, &pool_shape, &pool, NULL), 0);
  return pool;
}

static struct lls_pull pull_of(uint32_t source, uint32_t target)
{
  return (struct lls_pull){.source = source * UNITS,
                           .target = target * UNITS,
                           .source_form = LLS_FORM_STATE,
                           .group = 1};
}

/* Writes, or reads, all blocks of the device through pinned memory. */
static void move_states(struct lls_device *d, struct lls_pool *pool, bool in,
                        struct states *s)
{
  void *packed;
  struct lls_pull all[BLOCKS];
  for (uint32_t i = 0; i < BLOCKS; i++)
    all[i] = pull_of(i, i);
  assert_int_equal(d->ops->alloc(d, LLS_MEMORY_PINNED, sizeof *s, &packed), 0);
  memcpy(packed, s, sizeof *s);
  assert_int_equal(in ? d->ops->pool_unpack(d, pool, all, BLOCKS, packed)
                      : d->ops->pool_pack(d, pool, all, BLOCKS, packed),
                   0);
  memcpy(s, packed, sizeof *s);
  d->ops->release(d, LLS_MEMORY_PINNED, packed);
}

/* Waits for copies as a step does. */
static void pass_step(struct lls_device *d, struct lls_pool *pool)
{
  const struct lls_device_step nothing = {0};
  assert_int_equal(d->ops->step_begin(d, pool, &nothing), 0);
  pair_end(d);
}

static struct lls_copy copy_of(bool from_host, bool to_host, uint32_t source,
                               uint32_t target)
{
  return (struct lls_copy){.source_tier = from_host ? LLS_TIER_HOST : LLS_TIER_DEVICE,
                           .target_tier = to_host ? LLS_TIER_HOST : LLS_TIER_DEVICE,
                           .group = 1,
                           .source_form = LLS_FORM_STATE,
                           .target_form = LLS_FORM_STATE,
                           .source = source * UNITS,
                           .target = target * UNITS};
}

/* First all blocks to the host, as neighbours; then copies at random. */
static uint32_t make_copies(struct lls_copy *list)
{
  uint32_t n = 0;
  for (; n < BLOCKS; n++)
    list[n] = copy_of(false, true, n, n);
  for (; n < N_COPIES; n++) {
    uint32_t way = random_between(0, 2), target = random_between(0, BLOCKS - 1);
    uint32_t source = (target + random_between(1, BLOCKS - 1)) % BLOCKS;
    list[n] = copy_of(way == 1, way == 2, source, target);
  }
  return n;
}

static void check_states(const char *what, const struct states *got,
                         const struct states *wanted)
{
  for (uint32_t i = 0; i < BLOCKS; i++)
    if (memcmp(got->bytes[i], wanted->bytes[i], STATE) != 0)
      fail_msg("%s: block %u differs", what, i);
}

/* Copies within a device's pool, then pulls of all blocks into another one: two
 * neighbours, the rest in another order. */
static void copy_and_pull(struct lls_device *d, const struct lls_copy *list, uint32_t n,
                          struct states *copied, struct states *pulled)
{
  struct lls_pool *pool = open_pool(d), *other = open_pool(d);
  const struct lls_pull pulls[] = {pull_of(0, 2), pull_of(1, 3), pull_of(5, 0),
                                   pull_of(2, 4), pull_of(3, 1), pull_of(4, 5)};
  struct lls_copy outside = copy_of(false, false, 0, BLOCKS);
  move_states(d, pool, true, copied);
  assert_int_equal(d->ops->pool_copy(d, pool, list, n), 0);
  assert_int_equal(d->ops->pool_copy(d, pool, &outside, 1), -EINVAL);
  pass_step(d, pool);
  move_states(d, pool, false, copied);
  assert_int_equal(d->ops->pool_pull(d, other, d, pool, pulls, BLOCKS), 0);
  pass_step(d, other);
  move_states(d, other, false, pulled);
  d->ops->pool_destroy(d, other);
  d->ops->pool_destroy(d, pool);
}

static void copies(const struct pair *p)
{
  struct lls_copy list[N_COPIES];
  struct states first, copied[2], pulled[2];
  for (int turn = 0; turn < 10; turn++) {
    uint32_t n = make_copies(list);
    for (size_t i = 0; i < sizeof first; i++)
      (&first.bytes[0][0])[i] = (uint8_t)random_bits();
    copied[0] = copied[1] = first;
    copy_and_pull(p->cpu, list, n, &copied[0], &pulled[0]);
    copy_and_pull(p->cuda, list, n, &copied[1], &pulled[1]);
    check_states("copies", &copied[1], &copied[0]);
    check_states("pulls", &pulled[1], &pulled[0]);
    assert_memory_equal(pulled[1].bytes[0], copied[1].bytes[5], STATE);
  }
}

static void test_copies(void **state)
{
  (void)state;
  each_pair(LLS_F32, 64, copies);
}

int main(void)
{
  const struct CMUnitTest tests[] = {{"copies of states", test_copies, NULL, NULL, NULL}};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
