/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of prompts beside decodes (Sarathi-Serve): a step continues prompts that were
 * begun, then lets in others, first come, first served, as long as the scheduler has
 * tokens for them. Memory for a whole prompt is reserved with its first piece.
 */
#ifndef LLS_POL_PIECES_H
#define LLS_POL_PIECES_H

#include <llmserve/policy/step.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lls_pol_pieces { /* what a scheduler gives the prompts of a step */
  void *context;
  /* Returns how many of a request's `pending` tokens the step computes; 0: the step has
   * no room for more prompts. */
  uint32_t (*size)(void *context, const struct lls_pol_step *, const struct lls_request *,
                   uint32_t pending);
  /* Optional: called for each piece that is planned. */
  void (*planned)(void *context, const struct lls_request *, uint32_t pending,
                  uint32_t tokens);
  uint32_t max_seqs; /* most requests on the device */
};

/* Plans the next piece of order[i], a prompt that was begun. */
void lls_pol_pieces_go_on(const struct lls_pol_pieces *, struct lls_pol_step *,
                          uint32_t i);
/* Lets in preempted requests if there are any, else waiting ones, in the view's order,
 * until one has to wait; none in a plan that preempts. */
void lls_pol_pieces_let_in(const struct lls_pol_pieces *, struct lls_pol_step *);

#ifdef __cplusplus
}
#endif

#endif
