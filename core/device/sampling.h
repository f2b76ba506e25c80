/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the next token is sampled from logits: a request's parameters, and the result.
 * The order is that of vLLM: the grammar's mask, penalties and logit_bias, temperature,
 * min_p, top_k, top_p, sampling. Log probabilities are those of the unmodified logits,
 * before all of these: with a mask they do not add up to 1 over the allowed tokens.
 *
 * A row with one of the further samplers (lls_sampling_is_chain) passes a chain of
 * filters instead: top_n_sigma, temperature (static or dynamic), min_p, top_k, top_p,
 * typical_p, XTC, in this order or in the row's own. Mirostat takes the place of all
 * filters but the temperature.
 *
 * The result depends on (seed, index) only, never on the batch: the random number of
 * output token `index` is a counter-based hash of both (lls_sampling_uniform), so a
 * request's text does not depend on other requests in its steps, on chunking or on
 * preemption.
 */
#ifndef LLS_DEVICE_SAMPLING_H
#define LLS_DEVICE_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lls_logit_bias {
  int32_t token;
  float bias;
};

#define LLS_MAX_LOGPROBS 20

enum lls_filter {
  LLS_FILTER_TOP_N_SIGMA,
  LLS_FILTER_TEMPERATURE,
  LLS_FILTER_MIN_P,
  LLS_FILTER_TOP_K,
  LLS_FILTER_TOP_P,
  LLS_FILTER_TYPICAL_P,
  LLS_FILTER_XTC,
  LLS_FILTERS
};

/* Samplers beyond vLLM's; all are off where the struct is zero. */
struct lls_more_sampling {
  float top_n_sigma; /* keeps logits within so many standard deviations of the largest */
  float typical_p;   /* mass of the tokens whose surprise is closest to the entropy */
  float xtc_probability, xtc_threshold;
  float dynatemp_range; /* the temperature is within this distance of `temperature` */
  float dynatemp_exponent;
  uint32_t mirostat; /* 1 or 2: the algorithm of that version */
  float mirostat_tau, mirostat_eta;
  float mirostat_mu;          /* the state between tokens; begins as 2 tau */
  uint32_t n_order;           /* 0: the default order, with all filters */
  uint8_t order[LLS_FILTERS]; /* (n_order) enum lls_filter; others are off */
  bool has_order;             /* the order counts even if it is empty */
  bool drawn_logprobs; /* log probabilities are those of the distribution drawn from */
};

struct lls_sampling {
  float temperature;        /* 0 = greedy: the largest logit, lowest id on a tie */
  float top_p;              /* 1 = off */
  float min_p;              /* 0 = off */
  int32_t top_k;            /* 0 or less = off */
  float repetition_penalty; /* 1 = off; divides positive, multiplies negative logits */
  float presence_penalty;   /* 0 = off */
  float frequency_penalty;  /* 0 = off */
  uint32_t penalty_last_n;  /* tokens of the text that the penalties count; 0: all */
  struct lls_more_sampling more;
  uint64_t seed;
  uint32_t index;      /* index of the output token, from 0; set for every step */
  uint32_t n_logprobs; /* number of top alternatives requested, 0..LLS_MAX_LOGPROBS */
  /* (n_named) tokens that are the alternatives in place of the likeliest ones, of rows
   * that are sampled; a device without a chain of filters has none */
  int32_t named[LLS_MAX_LOGPROBS];
  uint32_t n_named;
  bool want_logprob;
  const int32_t *banned; /* (n_banned) tokens not to sample: those that would end the
                          * text before min_tokens */
  uint32_t n_banned;
  /* NULL, or one bit per token of the vocabulary (bit t % 32 of word t / 32): only
   * tokens whose bit is set are sampled; read while sampling is set up, before
   * step_end */
  const uint32_t *allowed;
  const int32_t *history; /* (n_history) prompt and output so far, for the penalties */
  uint32_t n_history, n_prompt;
  const struct lls_logit_bias *bias; /* (n_bias) */
  uint32_t n_bias;
  bool scored;    /* nothing is sampled: the result is the probability of `target`, as
                   * for want_logprob */
  int32_t target; /* a token of the vocabulary */
};

#define LLS_NO_NUMBER (-1) /* the token if no allowed token's logit is a number */

struct lls_sampled {
  int32_t token; /* token id; LLS_NO_NUMBER if the logits were not numbers, as from a
                    damaged model */
  float logprob; /* logprob of token by the unmodified logits, if requested */
  uint32_t rank; /* rank of a scored token: 1 + number of likelier tokens; 0 for a sampled
                    token */
  float surprise; /* with mirostat: -log2 of the token's probability in the draw */
  uint32_t n_top;
  int32_t top_token[LLS_MAX_LOGPROBS];
  float top_logprob[LLS_MAX_LOGPROBS];
};

/* Returns the number of words in a mask with one bit per token. */
static inline size_t lls_mask_words(uint32_t vocabulary)
{
  return ((size_t)vocabulary + 31) / 32;
}

/* Returns true if there is a mask and it excludes the token. */
static inline bool lls_sampling_masks(const struct lls_sampling *s, uint32_t token)
{
  return s->allowed != NULL && (s->allowed[token / 32] >> (token % 32) & 1) == 0;
}

/* Returns true if the row passes a chain of filters, which not every device has. */
static inline bool lls_sampling_is_chain(const struct lls_sampling *s)
{
  const struct lls_more_sampling *m = &s->more;
  return m->top_n_sigma > 0 || (m->typical_p > 0 && m->typical_p < 1) ||
         (m->xtc_probability > 0 && m->xtc_threshold <= 0.5f) || m->dynatemp_range > 0 ||
         m->mirostat != 0 || m->has_order || m->drawn_logprobs;
}

/* Moves mirostat's state by a token that was drawn: a token of more surprise than tau
 * narrows the next draw, one of less widens it. */
static inline void lls_sampling_observe(struct lls_sampling *s,
                                        const struct lls_sampled *drawn)
{
  struct lls_more_sampling *m = &s->more;
  if (m->mirostat != 0)
    m->mirostat_mu -= m->mirostat_eta * (drawn->surprise - m->mirostat_tau);
}

/* Copies the used part: most results have no alternatives, which are nine tenths of
 * it. */
static inline void lls_sampled_copy(struct lls_sampled *to,
                                    const struct lls_sampled *from)
{
  to->token = from->token;
  to->logprob = from->logprob;
  to->rank = from->rank;
  to->surprise = from->surprise;
  to->n_top = from->n_top;
  for (uint32_t i = 0; i < from->n_top; i++) {
    to->top_token[i] = from->top_token[i];
    to->top_logprob[i] = from->top_logprob[i];
  }
}

/* Returns a uniform number in [0, 1) with 53 bits; splitmix64 over (seed, index). */
static inline double lls_sampling_uniform(uint64_t seed, uint32_t index)
{
  uint64_t z = seed + UINT64_C(0x9E3779B97F4A7C15) * ((uint64_t)index + 1);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  z ^= z >> 31;
  return (double)(z >> 11) * 0x1p-53;
}

#endif
