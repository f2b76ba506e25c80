/* SPDX-License-Identifier: Apache-2.0 */
/* The tile registers and what the instructions do with them (tiles.h). */
#include "t/amx/tiles.h"

#include "core/device/numbers.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TILES     8
#define ROWS      16
#define ROW_BYTES 64

struct tile {
  uint8_t rows, row_bytes;
  uint8_t data[ROWS][ROW_BYTES];
};

/* The state that each thread of a CPU with AMX has. */
static _Thread_local struct {
  bool configured;
  struct tile tile[TILES];
} registers;

static void fault(const char *why, int tile)
{
  fprintf(stderr, "emulated AMX: %s (tile %d)\n", why, tile);
  abort();
}

static struct tile *configured(int i)
{
  if (!registers.configured)
    fault("no configuration is loaded", i);
  if (i < 0 || i >= TILES || registers.tile[i].rows == 0)
    fault("the tile is not configured", i);
  return &registers.tile[i];
}

void lls_amx_loadconfig(const void *config)
{
  const uint8_t *bytes = config;
  if (bytes[0] != 1)
    fault("the palette is not 1", 0);
  memset(&registers, 0, sizeof registers);
  registers.configured = true;
  for (int i = 0; i < TILES; i++) {
    uint16_t row_bytes;
    memcpy(&row_bytes, bytes + 16 + 2 * i, sizeof row_bytes);
    uint8_t rows = bytes[48 + i];
    if (row_bytes > ROW_BYTES || rows > ROWS || (row_bytes == 0) != (rows == 0))
      fault("the configuration has no such shape", i);
    registers.tile[i].rows = rows;
    registers.tile[i].row_bytes = (uint8_t)row_bytes;
  }
}

void lls_amx_release(void)
{
  memset(&registers, 0, sizeof registers);
}

void lls_amx_zero(int i)
{
  memset(configured(i)->data, 0, sizeof registers.tile[i].data);
}

void lls_amx_load(int i, const void *from, size_t stride)
{
  struct tile *t = configured(i);
  memset(t->data, 0, sizeof t->data);
  for (size_t r = 0; r < t->rows; r++)
    memcpy(t->data[r], (const char *)from + r * stride, t->row_bytes);
}

void lls_amx_store(int i, void *to, size_t stride)
{
  const struct tile *t = configured(i);
  for (size_t r = 0; r < t->rows; r++)
    memcpy((char *)to + r * stride, t->data[r], t->row_bytes);
}

/* C (m, n) += A (m, k) B (k, n), k in words of four bytes. */
static void check_shapes(int c, int a, int b)
{
  const struct tile *tc = configured(c), *ta = configured(a), *tb = configured(b);
  if (c == a || c == b || a == b)
    fault("a product's tiles are not three", c);
  if (ta->rows != tc->rows || tb->row_bytes != tc->row_bytes ||
      ta->row_bytes != tb->rows * 4 || tc->row_bytes % 4 != 0)
    fault("a product's shapes do not fit", c);
}

static int32_t word_at(const struct tile *t, size_t row, size_t i)
{
  int32_t word;
  memcpy(&word, t->data[row] + 4 * i, sizeof word);
  return word;
}

void lls_amx_dpbssd(int c, int a, int b)
{
  check_shapes(c, a, b);
  struct tile *tc = &registers.tile[c];
  const struct tile *ta = &registers.tile[a], *tb = &registers.tile[b];
  for (size_t m = 0; m < tc->rows; m++) {
    for (size_t n = 0; n < tc->row_bytes / 4u; n++) {
      int32_t sum = word_at(tc, m, n);
      for (size_t k = 0; k < ta->row_bytes; k++)
        sum += (int8_t)ta->data[m][k] * (int8_t)tb->data[k / 4][4 * n + k % 4];
      memcpy(tc->data[m] + 4 * n, &sum, sizeof sum);
    }
  }
}

static float half_at(const uint8_t *bytes)
{
  uint16_t half;
  memcpy(&half, bytes, sizeof half);
  return lls_bf16_to_f32(half);
}

/* The odd numbers of pairs are added up apart from the even ones, as the CPU does it. */
void lls_amx_dpbf16ps(int c, int a, int b)
{
  check_shapes(c, a, b);
  struct tile *tc = &registers.tile[c];
  const struct tile *ta = &registers.tile[a], *tb = &registers.tile[b];
  for (size_t m = 0; m < tc->rows; m++) {
    for (size_t n = 0; n < tc->row_bytes / 4u; n++) {
      float sum[2] = {0, 0}, all;
      for (size_t k = 0; k < ta->row_bytes / 2u; k++)
        sum[k % 2] +=
            half_at(ta->data[m] + 2 * k) * half_at(tb->data[k / 2] + 4 * n + k % 2 * 2);
      memcpy(&all, tc->data[m] + 4 * n, sizeof all);
      all += sum[0] + sum[1];
      memcpy(tc->data[m] + 4 * n, &all, sizeof all);
    }
  }
}
