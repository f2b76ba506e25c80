/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile registers of AMX, for the files *_amx.c: eight, each of up to 16 rows of 64
 * bytes. A product of two, C += A B, takes 16 cycles; loading a tile takes 8.
 *
 *   A  16 rows, 32 bf16 or 64 int8 of the inner dimension
 *   B  16 pairs or quads of the inner dimension, of 16 columns
 *   C  16 rows by 16 columns, f32 or int32
 */
#ifndef LLS_CPU_AMX_H
#define LLS_CPU_AMX_H

#include "kernels/cpu/simd.h"

#define TILE_ROWS  16
#define TILE_BYTES 1024
#define TILE_DEPTH 32 /* bf16 elements of the inner dimension */

/* The compiler does not know that tile instructions read and write memory, and takes the
 * configuration for 8 bytes instead of 64 (gcc 12). */
#define SETTLE_MEMORY(p) __asm__ volatile("" : : "r"(p) : "memory")

struct amx_shape {
  uint8_t rows, row_bytes;
};

static inline void amx_configure(const struct amx_shape shapes[8])
{
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } __attribute__((aligned(64))) config = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    config.row_bytes[i] = shapes[i].row_bytes;
    config.rows[i] = shapes[i].rows;
  }
  SETTLE_MEMORY(&config);
  _tile_loadconfig(&config);
}

/* Configures all eight tiles at their full size. */
static inline void amx_begin(void)
{
  const struct amx_shape whole = {TILE_ROWS, 64};
  amx_configure((const struct amx_shape[8]){whole, whole, whole, whole, whole, whole,
                                            whole, whole});
}

static inline void amx_end(void)
{
  _tile_release();
}

#endif
