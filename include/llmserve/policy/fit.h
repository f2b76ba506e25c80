/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens of one sequence fit into how many units, for schedulers that compare
 * amounts before they reserve.
 *
 * A sequence has a block in each group of layers. In FULL groups it takes another one
 * for every block of tokens. What it holds in groups with a window, or with a state,
 * stops growing: a long sequence has a fixed part. So n blocks of tokens take
 *
 *     min(first_units n, fixed_units + block_units n)
 *
 * units. The three numbers come from the engine's groups at first, and then from the
 * cache's need of 1, 64 and 65 blocks.
 *
 * Whether memory suffices is decided by reserving it, never by these functions.
 */
#ifndef LLS_POL_FIT_H
#define LLS_POL_FIT_H

#include <llmserve/scheduler.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_fit {
  uint32_t block_tokens;
  uint32_t first_units;  /* that a sequence's first block takes; 1 or more */
  uint32_t block_units;  /* that each block of a long sequence takes; 0: it has stopped */
  uint32_t fixed_units;  /* that a long sequence holds besides */
  uint32_t growth_units; /* that the next block may take: block_units, or first_units */
};

/* Begins with the engine's groups, as if blocks had one token until lls_pol_fit_look. */
void lls_pol_fit_init(struct lls_pol_fit *, const struct lls_engine_caps *);
/* Asks the cache about the first waiting request, if there is one. */
void lls_pol_fit_look(struct lls_pol_fit *, const struct lls_step_view *);

/* Returns the units that a sequence of `tokens` tokens takes. */
uint32_t lls_pol_fit_units(const struct lls_pol_fit *, uint64_t tokens);
/* Returns the most tokens, of whole blocks, that fit; UINT32_MAX: any number. */
uint32_t lls_pol_fit_tokens(const struct lls_pol_fit *, uint32_t units);

#ifdef __cplusplus
}
#endif

#endif
