/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = x W^T + b: the layout of a matrix in memory, and the kernels that an ISA level
 * provides.
 *
 * A matrix of (rows = outputs, columns = inputs) is cut into *panels* of 16 outputs. In a
 * panel the 16 outputs of one input lie together, so a product reads it once, from front
 * to back, whatever the number of rows of x. In bf16 two inputs of an output are
 * adjacent: AVX2 widens them with a shift and a mask, AVX-512-BF16 multiplies the pair,
 * and 16 pairs of inputs are a B tile of AMX. So one copy serves all three.
 *
 * x is first rearranged (`pack`) into *groups* of up to max_rows rows; a `tile` then
 * multiplies one group by one or a few panels over a range of inputs, adding to sums in
 * f32. LLS_DEPTH inputs are added up before they are added to the sums: a product of
 * many rows is cut there anyway, and the rounding error is smaller than that of one
 * long sum. All levels keep this rule: the sum of one output of one row is taken in the
 * same order whatever the number of rows and whichever group the row is in. So a row's
 * result is the same bit for bit in every batch, and a sequence's text does not depend
 * on the rest of the batch. A general matrix product does not guarantee this.
 */
#ifndef LLS_CPU_LINEAR_H
#define LLS_CPU_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLS_PANEL       16 /* outputs of a panel */
#define LLS_INPUT_ALIGN 32 /* inputs are padded with zeros to a multiple of this */
/* panels that a thread multiplies, and keeps the sums of, at once */
#define LLS_PANEL_BLOCK 16
/* inputs that are added up before they are added to the sums */
#define LLS_DEPTH 512

enum lls_packed {
  LLS_PACKED_F32,  /* (panels, inputs, 16) float */
  LLS_PACKED_F16,  /* (panels, inputs, 16) half */
  LLS_PACKED_BF16, /* (panels, inputs / 2, 16, 2) bf16 */
  /* Codes of 2 to 8 bits: codes.h. */
  LLS_PACKED_CODES8,
  LLS_PACKED_CODES4, /* a table of 16 values maps them to codes of CODES8 */
  LLS_PACKED_CODES4_OFFSET,
  LLS_PACKED_CODES5_OFFSET,
  LLS_PACKED_CODES4_BLOCK, /* like CODES*_OFFSET, with scales as in Q4_K and Q5_K */
  LLS_PACKED_CODES5_BLOCK,
  LLS_PACKED_CODES6,
  LLS_PACKED_CODES2_SHORT, /* like CODES4_BLOCK, but groups of 16: Q2_K */
  LLS_PACKED_LIST4_BLOCK,  /* CODES4 with scales of blocks */
  LLS_PACKED_LIST3_BLOCK,  /* the same with lists of at most 8 numbers */
  LLS_PACKED_LIST3_SHORT,  /* LIST3_BLOCK with groups of 16 */
  /* the format that those with an offset expand to for many rows */
  LLS_PACKED_CODES8_OFFSET,
  LLS_PACKED_CODES8_SHORT, /* the format that CODES6 expands to: groups of 16 */
  LLS_PACKED_WIDE8,        /* LIST4_BLOCK and LIST3_BLOCK expand to this, */
  LLS_PACKED_WIDE8_SHORT,  /* LIST3_SHORT to this */
  /* The formats that codes expand to on AMX: codes minus their zero. No weight is
   * stored in them. */
  LLS_PACKED_SIGNED8,
  LLS_PACKED_SIGNED8_WIDE, /* for scales that are no f16 */
  LLS_PACKED_SIGNED8_OFFSET,
  LLS_PACKED_SIGNED8_SHORT,
  LLS_N_PACKED
};

/* Returns the bytes of an element. Not for codes, which are stored in whole records
 * (lls_codes_at). */
static inline size_t lls_packed_bytes(enum lls_packed p)
{
  return p == LLS_PACKED_F32 ? 4 : 2;
}

struct lls_weight {
  enum lls_packed packed;
  size_t rows, columns;
  size_t panels, inputs;   /* rows / 16 rounded up; columns rounded up to the alignment */
  size_t panel_bytes;      /* bytes of one panel */
  char *data;              /* (panels, panel_bytes) */
  float *scale;            /* (panels, 16), codes only */
  float *bias;             /* (panels, 16), NULL if none */
  uint8_t table[16];       /* CODES4, LISTs: the CODES8 code of each of their codes */
  size_t bytes;            /* bytes of data, scale and bias together */
  struct lls_weight *next; /* the following rows, which have another format; NULL: none */
};

/* Memory to prefetch, since it will be used soon. */
struct lls_ahead {
  const char *at;
  size_t lines; /* cache lines of 64 bytes */
};

#define LLS_AHEAD 3 /* entries: x and two panels */

/*
 * One group times some panels over `inputs` inputs. If `more`, the products are added
 * to the sums of earlier inputs, else they replace them. A tile also prefetches.
 * Kernels that do not `spread`, and all kernels where the weights stream by once,
 * prefetch each stream `lead` inputs further on, and for its last `lead` inputs the
 * beginning of the following panels; if lead = 0, they prefetch x_next. Kernels that
 * spread prefetch `ahead`, evenly over the inputs.
 */
struct lls_tile {
  const char *weight; /* (inputs, 16) of the first panel */
  size_t panel_bytes; /* bytes from one panel to the next */
  size_t panels;
  const void *x;        /* the packed group, from the first of the tile's inputs on */
  size_t inputs;        /* a multiple of LLS_INPUT_ALIGN */
  size_t rows;          /* rows of the group */
  const uint8_t *table; /* the weight's table, for CODES4 and LISTs */
  bool more;
  float *sums;         /* (panels, sum_stride), each (rows up to row_unit, 16) */
  size_t sum_stride;   /* floats from one panel's sums to the next */
  size_t lead;         /* a multiple of LLS_INPUT_ALIGN, at most `inputs` */
  const char *x_next;  /* prefetched: as many bytes as the panel has */
  size_t stream_ahead; /* the kernel's stream_ahead */
  struct lls_ahead ahead[LLS_AHEAD];
};

/* y = sums * scale + bias; if `add`, y += sums * scale + bias. */
struct lls_finish {
  const float *sums; /* (outputs / 16 rounded up, sum_stride), each (rows, 16) */
  size_t sum_stride, rows, outputs;
  const float *scale, *bias; /* (outputs up to 16), NULL if none */
  bool add;
  float *y; /* (rows, y_stride) */
  size_t y_stride;
};

struct lls_linear_kernel {
  unsigned row_block; /* rows packed at a time, a multiple of max_rows and row_unit */
  unsigned max_rows;  /* most rows of a group */
  unsigned row_unit;  /* all groups but the last have a multiple of this many rows */
  /* bytes of an element of packed x. 4: f32, and a single row is used unpacked; 1: x is
   * in bytes, as `skip` counts */
  unsigned x_bytes;
  unsigned panels; /* panels that a tile multiplies at once where groups share them */
  bool spread;     /* tiles whose panels are shared by groups prefetch `ahead` */
  /* bytes that a tile of codes prefetches ahead where weights stream by */
  unsigned stream_ahead;
  /* Rearranges n_rows <= max_rows rows, `stride` elements apart, of which the first
   * `columns` inputs are given and the others are 0. out is where these inputs are in
   * the group. */
  void (*pack)(const float *x, size_t stride, size_t n_rows, size_t columns,
               size_t inputs, void *out);
  /* Elements of a packed group of n_rows before input k, a multiple of
   * LLS_INPUT_ALIGN. */
  size_t (*skip)(size_t n_rows, size_t k);
  void (*tile)(const struct lls_tile *);
  /* For more than own_rows rows: converts `inputs` of a panel to the format `expanded`,
   * whose kernel then packs x and multiplies, and prefetches `next` meanwhile. NULL:
   * panels are multiplied as they are. */
  void (*expand)(const char *panel, size_t inputs, const uint8_t *table, const char *next,
                 char *out);
  enum lls_packed expanded;
  unsigned own_rows; /* up to this many rows `expand` does not pay */
  void (*finish)(const struct lls_finish *);
  /* Called before and after a thread's tiles of one product; NULL: no call is needed. */
  void (*begin)(void), (*end)(void);
};

struct lls_cpu_linear_kernels {
  struct lls_linear_kernel of[LLS_N_PACKED];
};

#endif
