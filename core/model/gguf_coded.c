/* SPDX-License-Identifier: Apache-2.0 */
/* See gguf_coded.h. */
#include "core/model/gguf_coded.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define GROUP       16 /* elements that share a scale */
#define GROUPS      (LLS_NVFP4_BLOCK / GROUP)
#define BLOCK_BYTES (GROUPS + LLS_NVFP4_BLOCK / 2)

size_t lls_gguf_coded_bytes(size_t rows, size_t columns)
{
  return sizeof(struct lls_coded) + rows * (columns / 2 + columns / GROUP);
}

/* Converts a group to pairs of neighbours. */
static void pair_up(const uint8_t *from, uint8_t *to)
{
  uint8_t codes[GROUP];
  for (int i = 0; i < GROUP / 2; i++) {
    codes[i] = from[i] & 15;
    codes[i + GROUP / 2] = from[i] >> 4;
  }
  for (int i = 0; i < GROUP / 2; i++)
    to[i] = (uint8_t)(codes[2 * i] | codes[2 * i + 1] << 4);
}

/* Scales have no sign, and the code that would be NaN is 0 in llama.cpp. */
static uint8_t scale_byte(uint8_t x)
{
  return (x & 0x7f) == 0x7f ? 0 : x & 0x7f;
}

/* Finds the number that multiplies the matrix; 1 if the file has none. Gemma 4's router
 * has its factors of experts under that name. */
static int find_factor(const struct lls_gguf *g, const struct lls_gguf_tensor *t,
                       int64_t expert, float *out, struct lls_error *err)
{
  char name[128];
  size_t length = strlen(t->name), suffix = strlen(".weight");
  bool of_router = expert >= 0 && strcmp(g->architecture->name, "gemma4") == 0;
  *out = 1;
  if (length <= suffix || length >= sizeof name || of_router)
    return 0;
  snprintf(name, sizeof name, "%.*s.scale", (int)(length - suffix), t->name);
  const struct lls_gguf_tensor *scale = lls_gguf_tensor(g, name);
  if (scale == NULL)
    return 0;
  size_t n = scale->bytes / sizeof(float), at = n > 1 && expert >= 0 ? (size_t)expert : 0;
  if (scale->dtype != LLS_F32 || at >= n || (n > 1 && expert < 0))
    return lls_fail(err, -EINVAL,
                    "%s: tensor %s should be one number of F32, or one for each expert",
                    g->files[0]->path, name);
  memcpy(out, scale->data + at * sizeof(float), sizeof *out);
  return 0;
}

int lls_gguf_make_coded(const struct lls_gguf *g, const struct lls_gguf_tensor *t,
                        int64_t expert, const void *blocks, size_t rows, size_t columns,
                        void *memory, struct lls_error *err)
{
  struct lls_coded *c = memory;
  const uint8_t *from = blocks;
  uint8_t *codes = (uint8_t *)(c + 1), *scales = codes + rows * columns / 2;
  *c = (struct lls_coded){.layout = LLS_CODED_FP4,
                          .bits = 4,
                          .rows = rows,
                          .columns = columns,
                          .group = GROUP,
                          .group_rows = 1,
                          .codes = codes,
                          .scales = scales,
                          .scale_type = LLS_CODED_SCALE_E4M3,
                          .divisor = 1};
  for (size_t i = 0; i < rows * (columns / LLS_NVFP4_BLOCK); i++, from += BLOCK_BYTES)
    for (size_t j = 0; j < GROUPS; j++) {
      *scales++ = scale_byte(from[j]);
      pair_up(from + GROUPS + j * GROUP / 2, codes);
      codes += GROUP / 2;
    }
  return find_factor(g, t, expert, &c->factor, err);
}
