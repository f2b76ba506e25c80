/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks quantised to INT8 and widened again: every level gives the same bits as the
 * generic kernels, for values of all sizes, infinities and NaN.
 */
#include "t/kernel/fixture.h"

#include "kernels/cpu/cpu.h"
#include "core/device/numbers.h"

#define MOST_SLOTS 33
#define MOST_DIMS  80

struct head {
  char numbers[MOST_SLOTS * MOST_DIMS * sizeof(float)];
  uint8_t codes[MOST_SLOTS * MOST_DIMS];
  uint16_t scales[2 * MOST_DIMS];
};

static float any_float(void)
{
  static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-30f, -3e-6f};
  switch (random_bits() % 8) {
  case 0:
    return odd[random_bits() % (sizeof odd / sizeof *odd)];
  case 1:
    return lls_bits_to_f32(random_bits()); /* of any exponent */
  default:
    return random_activation();
  }
}

static void fill(struct head *h, bool bf16, bool tame)
{
  for (size_t i = 0; i < (size_t)MOST_SLOTS * MOST_DIMS; i++) {
    float x = tame ? random_activation() : any_float();
    uint16_t half = lls_f32_to_bf16(x);
    memcpy(h->numbers + i * (bf16 ? sizeof half : sizeof x),
           bf16 ? (void *)&half : (void *)&x, bf16 ? sizeof half : sizeof x);
  }
}

static struct lls_int8_head view(struct head *h, bool bf16, uint32_t slots, uint32_t dims)
{
  return (struct lls_int8_head){.numbers = h->numbers,
                                .codes = h->codes,
                                .scales = h->scales,
                                .bf16 = bf16,
                                .n_slots = slots,
                                .dims = dims};
}

static void same_bits(struct lls_device *device)
{
  const struct lls_cpu_int8_kernels *k = &lls_cpu(device)->kernels.int8;
  static struct head here, plain;
  for (uint32_t round = 0; round < 400; round++) {
    bool bf16 = round % 2;
    uint32_t slots = random_between(1, MOST_SLOTS), dims = random_between(1, MOST_DIMS);
    fill(&here, bf16, round % 4 < 2);
    plain = here;
    struct lls_int8_head a = view(&here, bf16, slots, dims);
    struct lls_int8_head b = view(&plain, bf16, slots, dims);
    k->quantise(&a, 0, dims);
    lls_cpu_int8_quantise(&b, 0, dims);
    assert_memory_equal(here.scales, plain.scales, sizeof here.scales);
    assert_memory_equal(here.codes, plain.codes, sizeof here.codes);
    k->widen(&a, 0, dims);
    lls_cpu_int8_widen(&b, 0, dims);
    assert_memory_equal(here.numbers, plain.numbers, sizeof here.numbers);
  }
}

static void test_same_bits(void **state)
{
  (void)state;
  each_level(1, 16, 256, same_bits);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
