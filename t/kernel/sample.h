/* SPDX-License-Identifier: Apache-2.0 */
/* Draws from given logits on a device, for the tests of sampling. */
#ifndef LLS_KERNEL_SAMPLE_H
#define LLS_KERNEL_SAMPLE_H

#include "t/kernel/fixture.h"

#include "core/device/sampling.h"

#define MAX_VOCAB 5003
#define MAX_ROWS  64

static inline struct lls_sampling plain(void)
{
  return (struct lls_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
}

/* One draw of each params over the same logits. */
static inline void sample_rows(struct lls_device *device, const float *logits,
                               uint32_t vocab, const struct lls_sampling *params,
                               uint32_t n, struct lls_sampled *out)
{
  const struct lls_sampling *each[MAX_ROWS];
  float *copy = malloc(n * vocab * sizeof *copy);
  for (uint32_t i = 0; i < n; i++) {
    memcpy(copy + i * vocab, logits, vocab * sizeof *copy);
    each[i] = &params[i];
  }
  const struct lls_device_step step = {0};
  assert_int_equal(device->ops->step_begin(device, NULL, &step), 0);
  device->ops->sample(device, copy, n, vocab, each, out);
  assert_int_equal(device->ops->step_end(device, NULL), 0);
  free(copy);
}

static inline int32_t sample_one(struct lls_device *device, const float *logits,
                                 uint32_t vocab, struct lls_sampling params)
{
  struct lls_sampled out;
  sample_rows(device, logits, vocab, &params, 1, &out);
  return out.token;
}

#endif
