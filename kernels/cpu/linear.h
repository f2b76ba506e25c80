/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = x W^T + b: how a matrix lies in memory and what an ISA level has to provide.
 *
 * A matrix of (rows = outputs, columns = inputs) is cut into *panels* of 16 outputs. In a
 * panel the 16 outputs of one input lie together, so a product reads it once, from front
 * to back, whatever the number of rows of x. bf16 keeps two inputs of an output side by
 * side: on AVX2 a shift and a mask make f32 of them, AVX-512-BF16 multiplies the pair,
 * and 16 pairs of inputs are a B tile of AMX, so that one copy serves all three.
 *
 * x is first rearranged (`pack`) into *groups* of up to max_rows rows; a `tile` then
 * multiplies one group by one or a few panels over a range of inputs, adding to sums in
 * f32. It adds up LLS_DEPTH inputs at a time before they join the sums: that is where a
 * product of many rows is cut anyway, and it rounds less than one long sum. All levels
 * keep this rule: the sum of one output of one row is taken in the same order whatever
 * the number of rows and whichever group the row is in. So a row's result
 * is the same bit for bit in every batch, which is what makes a sequence's text
 * independent of its company; a general matrix product does not promise that.
 */
#ifndef LLS_CPU_LINEAR_H
#define LLS_CPU_LINEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLS_PANEL       16  /* outputs of a panel */
#define LLS_INPUT_ALIGN 32  /* inputs are padded with zeros to a multiple of this */
#define LLS_PANEL_BLOCK 16  /* panels that a thread takes, and keeps sums of, at once */
#define LLS_DEPTH       512 /* inputs that are added up before they join the sums */

enum lls_packed {
  LLS_PACKED_F32,  /* (panels, inputs, 16) float */
  LLS_PACKED_F16,  /* (panels, inputs, 16) half */
  LLS_PACKED_BF16, /* (panels, inputs / 2, 16, 2) bf16 */
  /* Codes of so many bits: codes.h. */
  LLS_PACKED_CODES8,
  LLS_PACKED_CODES4, /* a table of 16 numbers makes those of CODES8 of them */
  LLS_PACKED_CODES4_OFFSET,
  LLS_PACKED_CODES5_OFFSET,
  LLS_PACKED_CODES4_BLOCK, /* as the OFFSET ones, scales as Q4_K and Q5_K have them */
  LLS_PACKED_CODES5_BLOCK,
  LLS_PACKED_CODES6,
  LLS_PACKED_CODES8_OFFSET, /* what those with an offset become for many rows */
  LLS_PACKED_CODES8_SHORT,  /* what CODES6 becomes: groups of 16 */
  /* All of them become these on AMX: codes less their zero. No weight is packed so. */
  LLS_PACKED_SIGNED8,
  LLS_PACKED_SIGNED8_OFFSET,
  LLS_PACKED_SIGNED8_SHORT,
  LLS_N_PACKED
};

/* Bytes of a number; of codes there are whole records only. */
static inline size_t lls_packed_bytes(enum lls_packed p)
{
  return p == LLS_PACKED_F32 ? 4 : 2;
}

struct lls_weight {
  enum lls_packed packed;
  size_t rows, columns;
  size_t panels, inputs;   /* rows / 16 rounded up; columns rounded up to the alignment */
  size_t panel_bytes;      /* of one panel */
  char *data;              /* (panels, panel_bytes) */
  float *scale;            /* (panels, 16), codes only */
  float *bias;             /* (panels, 16), NULL if none */
  uint8_t table[16];       /* CODES4: what its codes are in CODES8 */
  size_t bytes;            /* of all three */
  struct lls_weight *next; /* the rows that follow, in another format; NULL: none */
};

/* Memory that will be wanted soon. */
struct lls_ahead {
  const char *at;
  size_t lines; /* of 64 bytes */
};

#define LLS_AHEAD 3 /* x and two panels */

/*
 * One group times some panels over `inputs` inputs. Before: the sums of earlier inputs if
 * `more`, else anything. Meanwhile memory is asked for ahead. Where the weights stream by
 * once, and by kernels that don't `spread`: each stream `lead` inputs further on, and for
 * its last `lead` inputs the beginning of the panels that follow; lead = 0: x_next
 * instead. By kernels that spread: what `ahead` says, evenly over the inputs.
 */
struct lls_tile {
  const char *weight; /* (inputs, 16) of the first panel */
  size_t panel_bytes; /* from one panel to the next */
  size_t panels;
  const void *x;        /* the group, from the first of these inputs on */
  size_t inputs;        /* a multiple of LLS_INPUT_ALIGN */
  size_t rows;          /* of the group */
  const uint8_t *table; /* CODES4's */
  bool more;
  float *sums;         /* (panels, sum_stride), each (rows up to row_unit, 16) */
  size_t sum_stride;   /* floats from one panel's sums to the next */
  size_t lead;         /* a multiple of LLS_INPUT_ALIGN, at most `inputs` */
  const char *x_next;  /* as many bytes as the panel has */
  size_t stream_ahead; /* the kernel's */
  struct lls_ahead ahead[LLS_AHEAD];
};

/* y = sums * scale + bias, or y += that. */
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
  unsigned max_rows;  /* of a group */
  unsigned row_unit;  /* all groups but the last are multiples of this */
  unsigned x_bytes; /* of an element of packed x; 4: f32, and one row is packed as it is;
                     * 1: bytes, which skip counts */
  unsigned panels;  /* that a tile takes at once where groups share them */
  bool spread;      /* groups that share panels ask for `ahead` */
  unsigned stream_ahead; /* bytes that a tile of codes asks for where weights stream by */
  /* Rearranges n_rows <= max_rows rows, `stride` elements apart, for inputs of which the
   * first `columns` are given and the others 0; out is the group's place for them. */
  void (*pack)(const float *x, size_t stride, size_t n_rows, size_t columns,
               size_t inputs, void *out);
  /* Elements of a group of n_rows before input k, a multiple of LLS_INPUT_ALIGN. */
  size_t (*skip)(size_t n_rows, size_t k);
  void (*tile)(const struct lls_tile *);
  /* For more rows than max_rows: makes `inputs` of a panel anew as `expanded` has them,
   * whose kernel then packs x and multiplies; asks for the lines of `next` meanwhile.
   * NULL: panels are multiplied as they are. */
  void (*expand)(const char *panel, size_t inputs, const uint8_t *table, const char *next,
                 char *out);
  enum lls_packed expanded;
  unsigned own_rows; /* up to so many are not worth `expand` */
  void (*finish)(const struct lls_finish *);
  /* Around a thread's tiles of one product; NULL: nothing to do. */
  void (*begin)(void), (*end)(void);
};

struct lls_cpu_linear_kernels {
  struct lls_linear_kernel of[LLS_N_PACKED];
};

#endif
