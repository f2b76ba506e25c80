/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predictors: how long an answer will be.
 *
 * predict is called when a request arrives, before the scheduler hears of it, by the
 * thread that steps: a predictor that needs more than a few microseconds returns
 * -EINPROGRESS, works on a thread of its own and answers through host->predicted(ticket,
 * ...). Until then schedulers see what it left in *out, a prior, or LLS_PREDICTED_NOT if
 * it left nothing. A predictor that takes over in a reload is asked once more for those
 * that have no prediction, or a prior.
 *
 * The core refuses, counts and logs a prediction whose source is unknown, whose
 * confidence is not in 0..1, or whose low is above its high. It cuts lengths to the
 * engine's context.
 *
 * Of each request that this instance was asked about it hears the end, once: observe if
 * the answer ended by itself, on_end if it did not, in the step that ended it. What a
 * predictor keeps by ticket it lets go there. One that took over in a reload, or to whose
 * instance a request was handed over, also hears of some that it was not asked about.
 */
#ifndef LLMSERVE_PREDICTOR_H
#define LLMSERVE_PREDICTOR_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The prompt that a prediction is made from; borrowed, like all it points to. */
struct lls_prompt {
  uint32_t size;
  uint32_t n_tokens;
  uint32_t max_new_tokens;
  uint32_t request_class; /* enum lls_class */
  const int32_t *tokens;  /* (n_tokens) */
  const char *text;       /* UTF-8: as sent, or what sent ids stand for; or NULL */
  size_t text_bytes;
  const char *label; /* the client's request id or "" */
  uint64_t id;       /* of the request: the ticket */
  uint32_t tenant;   /* number of the fairness key, 0 if none; a trace has any */
  int32_t priority;  /* lower first, 0 by default */
  /* version 1 ends here */
};

enum lls_predictor_flags {
  LLS_PREDICTOR_PREDICTS = 1, /* ever gives a length: all but `none` */
};

/* Required unless marked optional. */
struct lls_predictor_vtable {
  uint32_t api_version;
  uint32_t size;

  /* [main] params and failures as for a scheduler (scheduler.h). destroy joins the
   * predictor's threads: none of them may call the host after it. */
  int (*create)(const struct lls_host *, const void *params, void **self);
  void (*destroy)(void *self);
  uint32_t (*flags)(void *self); /* enum lls_predictor_flags */
  /* [step] 0; -ENOENT: can't tell; -EINPROGRESS: later, under this ticket, which is the
   * request's id. */
  int (*predict)(void *self, uint64_t ticket, const struct lls_prompt *,
                 struct lls_prediction *out);

  /* All that follow are optional. */

  /* [step] A scheduler asks, through host->overrun: as many tokens are out as were
   * predicted, and the answer goes on. */
  int (*overrun)(void *self, const struct lls_request *, struct lls_prediction *out);
  /* [step] The request ended by itself after `length` tokens. */
  void (*observe)(void *self, const struct lls_prompt *, uint32_t length);
  /* [step] As a scheduler's (scheduler.h). */
  void (*stats)(void *self, const struct lls_sink *);
  /* [main] Between two steps. New parameters without a new plugin; a failure leaves
   * everything as it was. */
  int (*reconfigure)(void *self, const void *params);
  /* A pair: what a new version of the same predictor takes over in a reload. */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);
  /* [step] The request ended after `length` tokens, but not by itself; enum
   * lls_finish_reason: CANCELLED, CAPACITY, REJECTED, ERROR, or NONE where it was handed
   * over to another instance, whose predictor hears the rest. `length` may be 0. The
   * answer would have been at least so long: it is no observation of its length. */
  void (*on_end)(void *self, const struct lls_prompt *, uint32_t length, uint32_t reason);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
