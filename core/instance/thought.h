/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a thought: once the reasoning has `budget` tokens, the tokens of the
 * closing mark replace those that were drawn, and the model writes its answer.
 *
 * All state follows from the answer's tokens, so a request that moves to another
 * instance begins with none and finds it again.
 */
#ifndef LLS_INSTANCE_THOUGHT_H
#define LLS_INSTANCE_THOUGHT_H

#include <stdbool.h>
#include <stdint.h>

#define LLS_THOUGHT_MARK 16 /* most tokens of a mark */

struct lls_thought {
  bool limited;
  uint32_t budget; /* tokens of reasoning, without the marks */
  /* the marks around the reasoning; n_open is 0 if the prompt has opened it */
  uint32_t n_open, n_close;
  int32_t open[LLS_THOUGHT_MARK], close[LLS_THOUGHT_MARK];
};

struct lls_thought_state {
  struct lls_thought thought;
  uint32_t checked;  /* tokens of the answer in which marks were searched */
  uint32_t begun_at; /* tokens of the answer up to the opening mark */
  bool begun, ended; /* ended: or the model does not think */
};

/* Returns the token that must follow the n tokens of the answer, or -1 if any may. */
int32_t lls_thought_next(struct lls_thought_state *state, const int32_t *answer,
                         uint32_t n);

#endif
