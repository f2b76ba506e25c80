/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drafters: guesses of an answer's next tokens.
 *
 * The engine computes the guesses (drafts) of a request in one step together with the
 * request's own pending token, and draws a token for each. Drafts are accepted as long
 * as each equals the token drawn in its place, so the answer is the same with any
 * drafter and without one: a bad drafter costs time alone.
 *
 * draft is called on the step thread between two steps, once for each request that
 * decodes on the device, after its newest token was appended. The core stores the
 * guesses in the request's view (drafts, draft_odds), where the scheduler reads them; it
 * plans how many of them are verified (lls_plan_item.drafts). The core drops all guesses
 * of a request when its sequence grows.
 *
 * The core cuts guesses at the first id that is not in the model's vocabulary, and
 * counts and logs that as a breach; it cuts odds to 0..1. All calls of
 * draft between two steps share [plugins] draft_budget: requests whose turn comes after
 * the budget is spent get no guesses in this step, and as long as earlier calls have
 * used more than their budgets together the core makes no call.
 *
 * The core calls no drafter if the engine verifies no guesses (engine->max_drafts is 0)
 * or the scheduler plans none (LLS_USES_DRAFTS in its caps); it logs this at the start.
 */
#ifndef LLMSERVE_DRAFTER_H
#define LLMSERVE_DRAFTER_H

#include <llmserve/host.h>
#include <llmserve/plugin.h>
#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The draft model is a small model with the same tokens ([plugins] draft_model), which
 * the core runs between two steps: a drafter computes nothing on a device. Its guesses
 * are candidates, of which draft takes what it likes. A drafter with `wants` says of each
 * request how many it wants, and then one pass of the draft model makes the first of them
 * for all requests, another one the second, and so on. The passes share draft_budget
 * (auto: the time of the step before), apart from the calls of draft; where it does not
 * suffice there are fewer candidates.
 */

/* The cost of candidates of a request, for `wants`. Times are estimates. */
struct lls_draft_work {
  uint32_t size;
  uint32_t max;      /* most candidates */
  int64_t step_ns;   /* of a step of all requests that decode, without guesses */
  int64_t verify_ns; /* more, if it verifies a guess of each of them */
  int64_t pass_ns;   /* of a pass for all of them; 0: there was none yet */
  /* until the draft model has computed the request's text, as after a long prompt; 0: it
   * has computed all but the newest tokens */
  int64_t behind_ns;
  /* version 1 ends here */
};

/* Where draft writes; the memory is the core's. */
struct lls_draft {
  uint32_t size;
  uint32_t max;    /* most tokens: engine->max_drafts, or fewer at an answer's end */
  int32_t *tokens; /* (max) the next tokens after those of the request, in order */
  /* (max) of each token's acceptance if those before it are accepted, 0..1; the core has
   * set all to 0.5, which stands for unknown */
  float *odds;
  /* (n_candidates) what the draft model guesses, and the probability that it gives each.
   * They are drawn with the request's own sampling and seed. 0 without `wants`. */
  uint32_t n_candidates;
  const int32_t *candidates;
  const float *candidate_odds;
  /* version 1 ends here */
};

enum lls_drafter_flags {
  LLS_DRAFTER_DRAFTS = 1, /* guesses tokens: all drafters except `none` */
};

/* Required unless marked optional. */
struct lls_drafter_vtable {
  uint32_t api_version;
  uint32_t size;

  /* [main] params and failures as for a scheduler (scheduler.h). host->engine->max_drafts
   * is the most tokens that draft can ever write. */
  int (*create)(const struct lls_host *, const void *params, void **self);
  void (*destroy)(void *self);
  uint32_t (*flags)(void *self); /* enum lls_drafter_flags */
  /* [step] Returns how many tokens it wrote, at most out->max; 0: no guess. A negative
   * errno counts as no guess, too. */
  int (*draft)(void *self, const struct lls_request *, struct lls_draft *out);

  /* All callbacks below are optional. */

  /* [step] Called before the first draft of a request: when it arrives, after it was
   * handed over from another instance, and for each living request after a reload, also
   * if state was imported. Long prompts take time to read: draft may do so a part at a
   * time. */
  void (*on_arrival)(void *self, const struct lls_request *);
  /* [step] A step verified `drafted` of the request's guesses, at least 1, and accepted
   * the first `accepted` of them, 0..drafted. The answer has the accepted tokens and the
   * one drawn after them. */
  void (*verified)(void *self, const struct lls_request *, uint32_t drafted,
                   uint32_t accepted);
  /* [step] The request's handle ends here, once after each on_arrival. reason: enum
   * lls_finish_reason; NONE if the request was handed over to another instance. */
  void (*on_finish)(void *self, const struct lls_request *, uint32_t reason);
  /* [step] Like a scheduler's (scheduler.h). */
  void (*stats)(void *self, const struct lls_sink *);
  /* [main] Between two steps. Sets new parameters without reloading the plugin; after a
   * failure nothing has changed. */
  int (*reconfigure)(void *self, const void *params);
  /* A pair: what a new version of the same drafter takes over in a reload, such as what
   * it has learnt. */
  int (*export_state)(void *self, struct lls_blob *out);
  int (*import_state)(void *self, const struct lls_blob *);

  /* [step] Returns how many candidates of the draft model the next draft of the request
   * wants, at most work->max. Not called without a draft model, or where the calls of
   * other requests have spent draft_budget. */
  uint32_t (*wants)(void *self, const struct lls_request *,
                    const struct lls_draft_work *work);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
