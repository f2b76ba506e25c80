/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predictors: how long an answer will be.
 *
 * predict is called on the step thread when a request arrives, before the scheduler's
 * on_arrival. A predictor that needs more than a few microseconds returns -EINPROGRESS,
 * works on a thread of its own, and delivers the result by host->predicted(ticket,
 * ...). Until then schedulers see the contents of *out: a prior, or LLS_PREDICTED_NOT
 * if it was not set. When a new predictor takes over in a reload, predict is called
 * again for requests that have no prediction, or only a prior.
 *
 * The core refuses, counts and logs a prediction whose source is unknown, whose
 * confidence is not in 0..1, or whose low is above its high. It cuts lengths to the
 * engine's context.
 *
 * Each request for which this instance called predict gets exactly one call at its end:
 * observe if the answer ended by itself, on_end otherwise, in the step that ended it. A
 * predictor releases its data for the ticket there. A predictor that took over in a
 * reload, or to whose instance a request was handed over, also gets calls for requests
 * that it has not predicted.
 */
#ifndef LLMSERVE_PREDICTOR_H
#define LLMSERVE_PREDICTOR_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The prompt to predict from; borrowed, like everything it points to. */
struct lls_prompt {
  uint32_t size;
  uint32_t n_tokens;
  uint32_t max_new_tokens;
  uint32_t request_class; /* enum lls_class */
  const int32_t *tokens;  /* (n_tokens) */
  const char *text;       /* UTF-8: the text as sent, or the text of the ids that were
                           * sent; or NULL */
  size_t text_bytes;
  const char *label; /* the client's request id or "" */
  uint64_t id;       /* the request's id: the ticket */
  uint32_t tenant;   /* number of the fairness key, 0 if none; a trace has any */
  int32_t priority;  /* lower first, 0 by default */
  /* version 1 ends here */
};

enum lls_predictor_flags {
  LLS_PREDICTOR_PREDICTS = 1, /* returns lengths: all predictors except `none` */
};

/* Required unless marked optional. */
struct lls_predictor_vtable {
  uint32_t api_version;
  uint32_t size;

  /* [main] params and failures as for a scheduler (scheduler.h). destroy joins the
   * predictor's threads: none of them may call the host afterwards. */
  int (*create)(const struct lls_host *, const void *params, void **self);
  void (*destroy)(void *self);
  uint32_t (*flags)(void *self); /* enum lls_predictor_flags */
  /* [step] Returns 0; -ENOENT: no prediction; -EINPROGRESS: the prediction follows,
   * under this ticket, which is the request's id. */
  int (*predict)(void *self, uint64_t ticket, const struct lls_prompt *,
                 struct lls_prediction *out);

  /* All callbacks below are optional. */

  /* [step] A scheduler calls it through host->overrun: the request has emitted as many
   * tokens as predicted, and continues. */
  int (*overrun)(void *self, const struct lls_request *, struct lls_prediction *out);
  /* [step] The request ended by itself after `length` tokens. */
  void (*observe)(void *self, const struct lls_prompt *, uint32_t length);
  /* [step] Like a scheduler's (scheduler.h). */
  void (*stats)(void *self, const struct lls_sink *);
  /* [main] Between two steps. Sets new parameters without reloading the plugin; after a
   * failure nothing has changed. */
  int (*reconfigure)(void *self, const void *params);
  /* A pair: state that a new version of the same predictor takes over in a reload. */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);
  /* [step] The request ended after `length` tokens, but not by itself; enum
   * lls_finish_reason: CANCELLED, CAPACITY, REJECTED, ERROR; or NONE if it was handed
   * over to another instance, whose predictor gets the calls from then on. `length` may
   * be 0. It is a lower bound of the answer's length, not an observation of it. */
  void (*on_end)(void *self, const struct lls_prompt *, uint32_t length, uint32_t reason);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
