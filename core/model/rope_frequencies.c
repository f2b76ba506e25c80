/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The angle per position of each rotated pair of dimensions.
 *
 *   plain   theta^(-2i/dims)                        RoFormer, arXiv 2104.09864, eq. 15
 *   linear  plain / factor                          arXiv 2306.15595
 *   llama3  long waves / factor, short ones unchanged, blended by wavelength between
 *   yarn    the same, blended by the pair's number  arXiv 2309.00071, section 3.2
 *   long    plain / a factor for each pair          arXiv 2402.13753
 *   proportional  plain, of the first pairs; the others do not turn       Gemma 4
 *
 * LongRoPE has two lists of factors: for contexts up to the original one, and for
 * longer ones. Keys are cached rotated, so all requests of a server use the same list:
 * the one for long contexts if the server's longest context needs it.
 */
#include <math.h>

#include "core/model/model_config.h"

static double llama3_scaled(const struct lls_rope_config *rope, double frequency)
{
  /* waves in the original context */
  double waves = rope->original_context * frequency / (2 * M_PI);
  if (waves >= rope->high_frequency) /* Llama 4 has one number for both limits */
    return frequency;
  if (waves < rope->low_frequency)
    return frequency / rope->factor;
  double kept =
      (waves - rope->low_frequency) / (rope->high_frequency - rope->low_frequency);
  return kept * frequency + (1 - kept) * frequency / rope->factor;
}

/* Returns the pair that makes `turns` turns in the original context. */
static double yarn_pair(const struct lls_rope_config *rope, double turns)
{
  return rope->dims * log(rope->original_context / (turns * 2 * M_PI)) /
         (2 * log(rope->theta));
}

static double yarn_scaled(const struct lls_rope_config *rope, uint32_t pair,
                          double frequency)
{
  double low = yarn_pair(rope, rope->beta_fast), high = yarn_pair(rope, rope->beta_slow);
  if (rope->truncate) {
    low = floor(low);
    high = ceil(high);
  }
  low = fmax(low, 0);
  high = fmin(high, rope->dims - 1);
  double divided = (pair - low) / (high > low ? high - low : 0.001);
  divided = fmin(fmax(divided, 0), 1);
  return (1 - divided) * frequency + divided * frequency / rope->factor;
}

void lls_rope_frequencies(const struct lls_rope_config *rope, uint32_t context,
                          float *inverse_frequency)
{
  const float *factors =
      context > rope->original_context ? rope->long_factors : rope->short_factors;
  for (uint32_t i = 0; i < rope->dims / 2; i++) {
    double frequency = pow(rope->theta, -2.0 * i / rope->dims);
    switch (rope->scaling) {
    case LLS_ROPE_PLAIN:
      break;
    case LLS_ROPE_LINEAR:
      frequency /= rope->factor;
      break;
    case LLS_ROPE_LLAMA3:
      frequency = llama3_scaled(rope, frequency);
      break;
    case LLS_ROPE_YARN:
      frequency = yarn_scaled(rope, i, frequency);
      break;
    case LLS_ROPE_LONG:
      frequency /= (double)factors[i];
      break;
    case LLS_ROPE_PROPORTIONAL:
      frequency =
          i < (uint32_t)(rope->share * rope->dims / 2) ? frequency / rope->factor : 0;
      break;
    }
    inverse_frequency[i] = (float)frequency;
  }
}
