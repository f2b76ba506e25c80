/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the parameters of a request, once they are read, for the step loop, and checks
 * them together with its grammar. */
#include <stdlib.h>
#include <string.h>

#include "core/api/api_params.h"
#include "core/instance/lists.h"
#include "text/grammar/text_search.h"

int64_t lls_api_params_answer(const struct lls_api_params *params, int64_t room)
{
  bool given = params->max_tokens != LLS_UNSET;
  int64_t wanted = given ? params->max_tokens : params->default_tokens;
  return wanted < room ? wanted : room;
}

bool lls_api_params_scores(const struct lls_api_params *params, uint32_t *logprobs)
{
  int64_t echoed = params->echo ? params->logprobs : LLS_UNSET;
  int64_t most = echoed > params->prompt_logprobs ? echoed : params->prompt_logprobs;
  *logprobs = most > 0 ? (uint32_t)most : 0;
  return most != LLS_UNSET;
}

static struct lls_more_sampling more_sampling(const struct lls_api_params *params)
{
  struct lls_more_sampling more = {
      .top_n_sigma = (float)params->top_n_sigma,
      .typical_p = (float)params->typical_p,
      .xtc_probability = (float)params->xtc_probability,
      .xtc_threshold = (float)params->xtc_threshold,
      .dynatemp_range = (float)params->dynatemp_range,
      .dynatemp_exponent = (float)params->dynatemp_exponent,
      .mirostat = (uint32_t)params->mirostat,
      .mirostat_tau = (float)params->mirostat_tau,
      .mirostat_eta = (float)params->mirostat_eta,
      .mirostat_mu = 2 * (float)params->mirostat_tau,
      .has_order = params->has_order,
      .n_order = params->n_order,
      .drawn_logprobs = params->drawn_logprobs && params->logprobs != LLS_UNSET,
  };
  memcpy(more.order, params->order, sizeof more.order);
  return more;
}

struct lls_dry lls_api_params_dry(const struct lls_api_params *params)
{
  bool off = params->without_dry || params->dry_last_n == 0;
  return (struct lls_dry){
      .multiplier = off ? 0 : (float)params->dry_multiplier,
      .base = (float)params->dry_base,
      .allowed_length = (uint32_t)params->dry_allowed_length,
      .last_n = params->dry_last_n < UINT32_MAX ? (uint32_t)params->dry_last_n : 0,
  };
}

struct lls_sampling lls_api_params_sampling(const struct lls_api_params *params)
{
  struct lls_sampling sampling;
  bool penalised = params->penalty_last_n != 0 && !params->without_penalties;
  int64_t last_n = params->penalty_last_n;
  sampling = (struct lls_sampling){
      .temperature = (float)params->temperature,
      .top_p = (float)params->top_p,
      .min_p = (float)params->min_p,
      .top_k = (int32_t)params->top_k,
      .repetition_penalty = penalised ? (float)params->repetition_penalty : 1,
      .presence_penalty = penalised ? (float)params->presence_penalty : 0,
      .frequency_penalty = penalised ? (float)params->frequency_penalty : 0,
      .penalty_last_n = last_n < UINT32_MAX ? (uint32_t)last_n : 0,
      .more = more_sampling(params),
      .n_named = params->n_logprob_ids,
      .want_logprob = params->logprobs != LLS_UNSET,
      .n_logprobs = params->logprobs > 0 ? (uint32_t)params->logprobs : 0,
      .bias = params->bias,
      .n_bias = (uint32_t)params->n_bias,
      .allowed = params->allowed,
  };
  memcpy(sampling.named, params->logprob_ids, sizeof sampling.named);
  return sampling;
}

int lls_api_params_meet(const struct lls_api_params *params, struct lls_grammar *grammar,
                        struct lls_api_error *error)
{
  const struct lls_submission lists = {.sampling = lls_api_params_sampling(params),
                                       .bad_words = params->bad_words,
                                       .n_bad_words = (uint32_t)params->n_bad_words};
  if (grammar == NULL || !lls_lists_have_base(&lists))
    return 0;
  uint32_t vocabulary = lls_grammar_vocabulary(grammar)->size;
  uint32_t *allowed = malloc(lls_mask_words(vocabulary) * sizeof *allowed);
  if (allowed == NULL)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  lls_lists_fill_base(&lists, vocabulary, allowed);
  int found = lls_grammar_find_text(grammar, allowed);
  free(allowed);
  if (found < 0)
    return lls_api_fail(error, 503, NULL, NULL, "out of memory");
  return found > 0
             ? 0
             : lls_api_fail(error, 400, NULL, params->structured.param,
                            "no text that '%s' asks for consists of the tokens that "
                            "allowed_token_ids, bad_words and logit_bias (-100) "
                            "leave: loosen one of them",
                            params->structured.param);
}
