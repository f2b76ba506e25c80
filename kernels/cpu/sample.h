/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of logits with its scratch memory, which the files of sampling share:
 *
 *   sample.c         penalties, log probabilities, the draw
 *   sample_filter.c  min_p, top_k and top_p in one search, for most rows
 *   sample_chain.c   filters one after the other, for rows with further samplers
 */
#ifndef LLS_KERNELS_CPU_SAMPLE_H
#define LLS_KERNELS_CPU_SAMPLE_H

#include "core/device/sampling.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ops.h"

/* a lower temperature would only overflow, so it is taken as greedy */
#define LLS_CPU_GREEDY_BELOW 1e-5f

struct lls_cpu_candidate {
  float p; /* its weight, or another number that candidates are ordered by */
  int32_t id;
};

struct lls_cpu_sample_row {
  const struct lls_cpu_row_kernels *kernels;
  const struct lls_sampling *params;
  size_t vocab;
  float *logits;                    /* (vocab) */
  float *raw;                       /* (vocab) the unmodified logits */
  float *p;                         /* (vocab) weights; the likeliest token's is 1 */
  struct lls_cpu_candidate *chosen; /* (vocab) */
  uint32_t *count; /* (vocab) occurrences in the history; all 0 between rows */
};

/* Returns true if `a` comes before `b`: by falling weight, then by id. */
static inline bool lls_cpu_candidate_before(struct lls_cpu_candidate a,
                                            struct lls_cpu_candidate b)
{
  return a.p > b.p || (a.p == b.p && a.id < b.id);
}

/* Inserts a token into the n best so far, which out->top_token has by falling value. */
static inline void lls_cpu_keep_best(struct lls_sampled *out, uint32_t n, int32_t token,
                                     float value)
{
  uint32_t i = out->n_top < n ? out->n_top++ : n - 1;
  for (; i > 0 && out->top_logprob[i - 1] < value; i--) {
    out->top_token[i] = out->top_token[i - 1];
    out->top_logprob[i] = out->top_logprob[i - 1];
  }
  out->top_token[i] = token;
  out->top_logprob[i] = value;
}

/*
 * Returns how many of n candidates, taken in order, it takes for their mass (mass, by
 * id) or, if mass is NULL, their count to reach `target`. These become the first ones
 * in c, and the last of them is in its place. Returns n if the target is not reached.
 */
size_t lls_cpu_select_until(struct lls_cpu_candidate *c, size_t n, const float *mass,
                            double target);

/* Gathers candidates with weights of at least `least`, enough for their mass or count to
 * reach `target` if all would; *found is their mass. */
size_t lls_cpu_gather_until(const struct lls_cpu_sample_row *r, float least, bool mass,
                            double target, double *found);

/* Leaves the tokens that pass min_p, top_k and top_p in `chosen`, by id; total is the
 * mass of all tokens. */
size_t lls_cpu_sample_filter(const struct lls_cpu_sample_row *r, double total);

/* Draws a token by the chain of filters; a finite logit exists. Sets out->token,
 * out->surprise and, with drawn_logprobs, the log probabilities. */
void lls_cpu_sample_chain(const struct lls_cpu_sample_row *r, struct lls_sampled *out);

#endif
