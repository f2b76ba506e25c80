/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of Q4_0 and Q8_0 that are packed straight into panels have the bits that the
 * general way gives them, and are left to it where their scales do not allow that. */
#include "t/tap.h"

#include "core/device/numbers.h"
#include "core/device/quantised.h"
#include "kernels/cpu/codes_pack.h"

#include <math.h>
#include <string.h>

#define COLUMNS 96 /* a record and a half */
#define BLOCKS  (COLUMNS / 32)
#define BYTES   34 /* of a block of Q8_0, the longer one */

static uint32_t random_state = 1;

static uint8_t random_byte(void)
{
  random_state = random_state * 1664525 + 1013904223;
  return (uint8_t)(random_state >> 24);
}

struct panel {
  struct lls_weight weight;
  _Alignas(64) char data[4096];
  float scale[LLS_PANEL];
};

static void clear(struct panel *p, enum lls_packed packed)
{
  memset(p, 0, sizeof *p);
  p->weight = (struct lls_weight){.packed = packed,
                                  .rows = 1,
                                  .columns = COLUMNS,
                                  .panels = 1,
                                  .inputs = 2 * LLS_CODES_STEP,
                                  .panel_bytes = lls_codes_at(packed, 2 * LLS_CODES_STEP),
                                  .data = p->data,
                                  .scale = p->scale};
  assert_true(p->weight.panel_bytes <= sizeof p->data);
}

/* Packs a row with these scales both ways, as the second row of a view. Returns whether
 * it could be packed directly. */
static bool pack_both(enum lls_dtype type, const float scales[BLOCKS])
{
  static struct panel direct, general;
  static float scratch[1024];
  uint8_t data[1 + 2 * BLOCKS * BYTES]; /* unaligned */
  const size_t block = lls_dtype_row_bytes(type, 32), row = BLOCKS * block;
  const enum lls_packed packed = type == LLS_Q4_0 ? LLS_PACKED_CODES4 : LLS_PACKED_CODES8;
  for (size_t i = 0; i < sizeof data; i++)
    data[i] = random_byte();
  for (size_t i = 0; i < BLOCKS; i++) {
    uint16_t half = lls_f32_to_f16(scales[i]);
    memcpy(data + 1 + row + i * block, &half, sizeof half);
  }
  const struct lls_tensor_view view = {.data = data + 1,
                                       .dtype = type,
                                       .rows = 2,
                                       .columns = COLUMNS,
                                       .row_stride = COLUMNS};
  assert_true(lls_codes_scratch(COLUMNS) <= sizeof scratch);
  assert_int_equal(lls_codes_packed(&view), packed);
  for (size_t output = 0; output < LLS_PANEL; output += 5) {
    clear(&direct, packed);
    clear(&general, packed);
    if (!lls_codes_pack_directly(&direct.weight, output, &view, 1)) {
      assert_memory_equal(direct.data, general.data, sizeof direct.data);
      return false;
    }
    lls_codes_pack(&general.weight, output, &view, 1, scratch);
    assert_memory_equal(direct.data, general.data, sizeof direct.data);
    assert_memory_equal(direct.scale, general.scale, sizeof direct.scale);
  }
  return true;
}

static void test_ordinary_rows_have_the_same_bits(void **state)
{
  (void)state;
  static const float rows[][BLOCKS] = {
      {0.01f, 0.005f, 0.003f}, {-0.01f, 0.02f, -0.0099f}, {1, 1, 1},
      {0.01f, 0, -0.0f},       {16384, 32752, 1e-4f},     {6.2e-5f, 6.2e-5f, 6.2e-5f},
      {0.1f, 5e-6f, -6e-8f}, /* normal, and two that are subnormal */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_true(pack_both(LLS_Q4_0, rows[i]));
    assert_true(pack_both(LLS_Q8_0, rows[i]));
  }
}

static void test_other_rows_are_left_alone(void **state)
{
  (void)state;
  static const float rows[][BLOCKS] = {
      {0.01f, INFINITY, 0.003f}, {0.01f, 0.02f, NAN}, {32768, 1, 1}, {0, 0, 0},
      {5e-6f, 0, -6e-8f},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_false(pack_both(LLS_Q4_0, rows[i]));
    assert_false(pack_both(LLS_Q8_0, rows[i]));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ordinary_rows_have_the_same_bits),
      cmocka_unit_test(test_other_rows_are_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
