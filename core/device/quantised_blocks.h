/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of quantised types (quantised.h): a function for each type, which unpacks one
 * block. The layouts are those of ggml-common.h, little endian.
 */
#ifndef LLS_DEVICE_QUANTISED_BLOCKS_H
#define LLS_DEVICE_QUANTISED_BLOCKS_H

#include "core/device/numbers.h"
#include "core/device/quantised.h"

/* The groups of a block, unpacked. Types without offsets leave `offset` alone. */
struct lls_groups {
  int8_t *codes;
  float *scale, *offset;
};

static inline uint16_t lls_u16_at(const uint8_t *p)
{
  return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t lls_u32_at(const uint8_t *p)
{
  return lls_u16_at(p) | (uint32_t)lls_u16_at(p + 2) << 16;
}

static inline float lls_half_at(const uint8_t *p)
{
  return lls_f16_to_f32(lls_u16_at(p));
}

/* Codes of two and three bits (quantised_small.c). */
void lls_read_q2_k(const uint8_t *, const struct lls_groups *);
void lls_read_q3_k(const uint8_t *, const struct lls_groups *);
/* Codes of four bits that stand for the numbers of a list. */
void lls_read_iq4_nl(const uint8_t *, const struct lls_groups *);
void lls_read_iq4_xs(const uint8_t *, const struct lls_groups *);
/* -1, 0 and 1: five in a byte, and four. */
void lls_read_tq1_0(const uint8_t *, const struct lls_groups *);
void lls_read_tq2_0(const uint8_t *, const struct lls_groups *);

/* Eight or four numbers at a time are an entry of a grid (quantised_grids.c). */
void lls_read_iq1_s(const uint8_t *, const struct lls_groups *);
void lls_read_iq1_m(const uint8_t *, const struct lls_groups *);
void lls_read_iq2_xxs(const uint8_t *, const struct lls_groups *);
void lls_read_iq2_xs(const uint8_t *, const struct lls_groups *);
void lls_read_iq2_s(const uint8_t *, const struct lls_groups *);
void lls_read_iq3_xxs(const uint8_t *, const struct lls_groups *);
void lls_read_iq3_s(const uint8_t *, const struct lls_groups *);

/* Returns the scale of an IQ1_M block, which is spread over the block. */
float lls_iq1_m_scale(const uint8_t *);

/* The numbers that codes stand for, 16 each; unused places are 0. */
extern const int8_t lls_values_q3_k[16], lls_values_iq4[16], lls_values_tq[16],
    lls_values_iq1[16], lls_values_iq2[16], lls_values_iq3_xxs[16], lls_values_iq3_s[16];

/* Grids: an entry has eight numbers of two bits, or four of four bits, the first in the
 * lowest bits; each is a place in the type's list of magnitudes. */
extern const uint16_t lls_grid_iq1[2048], lls_grid_iq2_xxs[256], lls_grid_iq2_xs[512],
    lls_grid_iq2_s[1024], lls_grid_iq3_xxs[256], lls_grid_iq3_s[512];

#endif
