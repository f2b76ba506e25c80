/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step loops of the instances, as the rest of the daemon sees them: submit a request,
 * get its tokens as events, cancel it, drain, look at the numbers. Which instance has a
 * request is nobody's business here: it is given to the least loaded one that takes
 * arrivals (mixed or prefill), and schedulers may hand it over.
 *
 * Several threads meet here. [main] is the libuv thread: it owns connections and text.
 * [step] is an instance's own thread: it owns its request table, its plugins and its
 * engine. They share an inbox an instance (submissions, cancels, control) and one
 * delivery of events (mailbox.h), each behind a mutex that is held for a few pointer
 * moves; a step thread wakes main through the `wake` callback (uv_async_send).
 *
 * Invariants: every submission that returned 0 gets exactly one LLS_EVENT_FINISHED, after
 * all its tokens, whatever fails; after that its owner is never mentioned again.
 */
#ifndef LLS_LOOP_LOOP_H
#define LLS_LOOP_LOOP_H

#include <llmserve/types.h>

#include "core/base/error.h"
#include "core/config/limits.h"
#include "core/cost/cost.h"
#include "core/device/sampling.h"
#include "core/loop/block_keys.h"
#include "core/model/pooling.h"
#include "core/obs/metrics.h"
#include "core/plugin/kinds.h"

#define LLS_POLICY_NAME_MAX 64

struct lls_loop;
struct lls_loop_prepared;
struct lls_loop_policy_stats;
struct lls_snapshot;
struct lls_live;
struct lls_life;

struct lls_grammar;
struct lls_channel;

struct lls_submission {
  const int32_t *tokens; /* (n_tokens), n_tokens >= 1; copied */
  uint32_t n_tokens;
  const char *text; /* the prompt as text for the predictor, or NULL; copied */
  size_t text_bytes;
  const char *label; /* the client's request id or NULL; copied */
  /* history and banned are the loop's business; bias and allowed are copied */
  struct lls_sampling sampling;
  /* NULL, or what the answer keeps to; the request takes a reference of its own. Compiled
   * for the model's vocabulary and its end-of-sequence tokens. */
  struct lls_grammar *grammar;
  uint32_t max_new_tokens;    /* 1..; cut to what the context has room for; 0 with
                                 pooling, and only then */
  uint32_t min_new_tokens;    /* no stop token is drawn before that many */
  const int32_t *stop_tokens; /* (n_stop_tokens) besides the model's own; copied */
  uint32_t n_stop_tokens;
  /* (n_bad_words) what the answer never has: of each word how many tokens it has, 1..,
   * and then they; copied */
  const int32_t *bad_words;
  uint32_t n_bad_words;
  bool ignore_eos;
  bool score_prompt;       /* events tell how likely the prompt's tokens were */
  uint32_t score_logprobs; /* alternatives of each */
  uint32_t pooling; /* enum lls_pooling: NONE, LAST, CLS, or MEAN, which leaves a sum; of
                     * an encoder not NONE */
  uint32_t second_text;   /* lls_engine_sequence.second_text */
  uint32_t request_class; /* enum lls_class */
  int32_t priority;
  uint32_t tenant;
  const char *tenant_name; /* NULL: none; copied */
  /* (salt_bytes) requests find each other's prefixes where this is equal; or, without
   * any, what it has become in another process (block_keys.h, the root) */
  const void *salt;
  size_t salt_bytes;
  struct lls_key salted;
  struct lls_slo slo; /* LLS_NEVER where unset */
  void *owner;        /* comes back in every event */
  int64_t arrival_ns; /* when it came, for a load that knows better; 0 = now */
};

enum lls_event_kind { LLS_EVENT_TOKEN, LLS_EVENT_FINISHED };

struct lls_event {
  uint32_t kind;   /* enum lls_event_kind */
  uint32_t reason; /* FINISHED: enum lls_finish_reason */
  uint64_t request;
  void *owner;
  struct lls_sampled token; /* TOKEN */
  bool hidden_token;        /* TOKEN: a stop token, counted but not shown */
  /* TOKEN: (n_forced) tokens that came with it, since nothing else could follow; valid as
   * long as the request's events are */
  const int32_t *forced;
  uint32_t n_forced;
  /* TOKEN, with score_prompt: (prompt tokens), the first one empty; valid as long as
   * the request's events are */
  const struct lls_sampled *prompt_scores;
  uint32_t n_prompt_scores; /* of them that came with this token */
  /* of the prompt, found in the cache when the request first ran: not computed */
  uint32_t shared_tokens;
  /* FINISHED */
  bool lost;             /* with ERROR: the process that had it is gone (lls_loop_lost) */
  bool no_number;        /* with ERROR: the model's logits were not numbers */
  int32_t grammar_error; /* with ERROR: -errno of the answer's grammar, or 0 */
  uint32_t prompt_tokens, generated_tokens, preemptions;
  int64_t arrival_ns, first_scheduled_ns, first_token_ns, finished_ns;
  struct lls_prediction prediction;
  const float *pooled; /* (lls_engine_vector_columns) with pooling, of a request that
                          ended with LENGTH; valid in the callback */
  const struct lls_life *life; /* its phases (life.h), or NULL; likewise */
  struct lls_live *live;       /* of the loop: freed by it when the callback returns */
};

struct lls_policy_status {
  char name[LLS_POLICY_NAME_MAX]; /* as in the log */
  uint64_t refusals;              /* requests it has refused since it took over */
  uint64_t breaches;              /* answers its contract excludes, likewise */
};

/* A snapshot taken at the end of each step; for /metrics, /health and tests. */
struct lls_loop_status {
  uint64_t arrived;                 /* requests */
  uint64_t handed_over, taken_over; /* to and from other instances */
  uint64_t handed_bytes;            /* of cache that came with these */
  int64_t handed_ns; /* that it took from other processes, of each request, summed */
  uint32_t offered;  /* by others, and not taken yet */
  uint64_t steps, plans_refused, plans_late, items_refused;
  uint32_t waiting, running, preempted;
  uint32_t device_units_total, device_units_free, host_units_total, host_units_free;
  uint64_t prompt_tokens, generated_tokens, shared_tokens; /* counters */
  uint64_t forced_tokens; /* of the generated ones, those that were not drawn */
  uint64_t grammar_work;  /* units of it (compiled_grammar.h), for answers' next tokens */
  uint64_t postponed_draws; /* steps in which a request drew nothing for its sake */
  uint64_t preempted_recompute, preempted_swap;
  uint64_t displaced; /* requests that lost slots to others, and with them their place */
  /* of requests that ended by themselves, with a prediction: how many, and by how many
   * tokens the predictions were off, all together */
  uint64_t predicted, prediction_error;
  uint64_t copied_bytes;
  uint64_t finished[LLS_FINISH_ERROR + 1]; /* by enum lls_finish_reason */
  uint64_t reload_recomputed; /* requests a reload made to be prefilled again */
  int64_t plan_ns_sum, step_ns_sum, device_ns_sum;
  uint64_t batch_tokens_sum, batch_sequences_sum;
  struct lls_histogram plan_seconds, step_tokens; /* of each step */
  struct lls_cost_accuracy estimates;             /* of the last steps' time */
  /* tokens in the cache by enum lls_form; of preempted sequences too */
  uint64_t cached_on_device[LLS_FORM_HIDDEN + 1], cached_on_host[LLS_FORM_HIDDEN + 1];
  struct {
    LLS_EACH_KIND_OF(struct lls_policy_status);
  } policies;
  bool fallen_back; /* the built-in order is in charge */
  bool draining;
  char fallback_reason[LLS_ERROR_MAX];
};

struct lls_cost_rates;
struct lls_engine;
struct lls_log;
struct lls_plugin_module;

/* A plugin with its bound parameters; both stay valid until lls_loop_destroy. */
struct lls_loop_policy {
  const struct lls_plugin_module *module;
  const void *params;
};

/* One of each; in a reload a policy without a module stays as it is. */
struct lls_loop_policies {
  LLS_EACH_KIND_OF(struct lls_loop_policy);
};

struct lls_step_report;
struct lls_step_view;

/* Counts at the end of a step, for an observer. */
struct lls_loop_census {
  uint32_t waiting, running, preempted; /* requests; preempted: moving ones too */
  uint32_t offered;                     /* by other instances, and not taken yet */
  uint64_t cached_tokens;               /* of running ones, on the device */
  uint32_t device_units_total, device_units_free;
  int64_t plan_ns; /* of the plan call, by the plan clock */
};

/*
 * An observer of decisions that takes no part: the simulator's report, the
 * decision log. Called on the step thread; must not call the loop. NULL = not interested.
 */
struct lls_loop_observer {
  void *context;
  void (*on_arrival)(void *context, const struct lls_request *); /* prediction set */
  /* The plan that is carried out; `own`: the scheduler's, not the built-in order's. */
  void (*on_plan)(void *context, const struct lls_step_view *, const struct lls_plan *,
                  bool own);
  void (*on_step)(void *context, const struct lls_step_report *,
                  const struct lls_loop_census *);
  void (*on_finish)(void *context, const struct lls_request *); /* finish_reason is set */
};

struct lls_loop_instance {
  struct lls_engine *engine; /* used by its step thread alone from create to destroy */
  uint32_t role;             /* enum lls_role */
  void *clock_context;       /* where each has a clock of its own, else the options' */
  /* [step] first thing on its thread; NULL: nothing to do */
  void (*begin)(void *context, uint32_t index);
  void *begin_context;
};

/* Where prefixes of prompts are kept from one start to the next (kept_prompts.h). */
struct lls_loop_prompts {
  const char *folder;  /* copied; NULL: none */
  uint64_t most_bytes; /* of each instance; 0 = none are kept */
};

/* [any] Compiles what lls_grammar_key gave in another process. */
typedef int (*lls_loop_grammar)(void *context, const char *key, size_t n,
                                struct lls_grammar **out, struct lls_error *err);

/* [main] A change of policies in a process that is not 0, besides its instance. */
struct lls_loop_change_ops {
  void *context;
  /* Begins to prepare what process 0 sends, or, without data, goes on: -EINPROGRESS; or
   * it is prepared; or why it cannot be. */
  int (*prepare)(void *context, const char *data, size_t n,
                 struct lls_loop_prepared **out, struct lls_error *err);
  /* It runs now; or it never will. */
  void (*over)(void *context, bool runs);
};

/* Instances of the list in other processes: those that have no engine here (far.h). */
struct lls_loop_far {
  struct lls_channel *channel; /* NULL: all are here. Outlives the loop */
  struct lls_channel *within;  /* likewise, to the engine's other ranks; NULL: none */
  bool gpu_aware;              /* the channel takes what is in a GPU's memory */
  int links;                   /* enum lls_link_use of fetch.h */
  int64_t timeout_ns;          /* of a process that is silent: it is taken for dead */
  lls_loop_grammar grammar;
  void *grammar_context;
  struct lls_loop_change_ops change;
};

struct lls_loop_options {
  struct lls_engine *engine; /* of the only instance, mixed, where there is no list */
  const struct lls_loop_instance *instances; /* (n_instances); of engines alike */
  uint32_t n_instances;
  struct lls_loop_far far; /* zeroed: all are here */
  struct lls_loop_policies policies;
  uint32_t max_requests; /* alive at once */
  struct lls_loop_limits limits;
  uint64_t seed; /* of the policies' random streams */
  /* The cache's keys are made with it (block_keys.h); zeroed where nobody guesses, so
   * that a simulation repeats. */
  struct lls_key_secret key_secret;
  const char *model_name; /* as clients know it, and its folder, or NULL; copied */
  const char *model_folder;
  const int32_t *eos_tokens; /* (n_eos_tokens); copied */
  uint32_t n_eos_tokens;
  /* Rates for the policies' estimates (core/cost/model.h), NULL = as measured while
   * serving; copied. */
  const struct lls_cost_rates *cost;
  /* Folder of what was measured at earlier starts, "" or NULL = none (measured.h). */
  const char *measurements;
  bool measure_always; /* whatever is there */
  struct lls_loop_prompts prompts;
  bool trial; /* nothing is measured: do the parts go together? None will be run. */
  const struct lls_log *log;
  struct lls_loop_observer observer; /* zeroed: none */
  /* [main] Of its arrivals and ends alone, as they pass here: for instances in several
   * processes, each of which has an observer of its own otherwise. */
  struct lls_loop_observer front;
  void (*wake)(
      void *context); /* [step] there are events; must be cheap and never block */
  void *wake_context;
  /* No step thread: the creator of the loop calls lls_loop_step (tests, the simulator).
   */
  bool manual;
  int64_t (*clock)(void *context); /* nanoseconds, NULL = CLOCK_MONOTONIC */
  /* Clock of plan calls; NULL = CPU time of the thread, which takes two system calls a
   * step. */
  int64_t (*plan_clock)(void *context);
  void *clock_context; /* of both */
};

/* [main] Creates the policies and starts the step thread. The sentence of a plugin that
 * fails to be created, or of policies and engine that don't go together, is in err. */
int lls_loop_create(const struct lls_loop_options *, struct lls_loop **out,
                    struct lls_error *err);
/* [main] One step of a manual loop, of each instance in turn. 1: something ran, 0:
 * nothing to run now, -EIO: an engine has failed. */
int lls_loop_step(struct lls_loop *);
/* [main] After a step of a manual loop that ran nothing: how long nothing needs to be
 * done, LLS_NEVER = until something is submitted or cancelled. */
int64_t lls_loop_idle_ns(struct lls_loop *);

/*
 * [main] A manual loop whose instances have a clock each: which of them comes next, and
 * when by its clock, which is then to be moved on to that time; LLS_NEVER: none before
 * something is submitted or cancelled. The next is the one that is furthest
 * behind, so that nothing that others do then can have been before.
 */
int64_t lls_loop_next_ns(struct lls_loop *, uint32_t *instance);
/* [main] One step of one instance, as lls_loop_step. */
int lls_loop_step_one(struct lls_loop *, uint32_t instance);

/*
 * The changes of a reload. A policy whose module is the running one gets reconfigure with
 * the new parameters, which its plugin must have; one with another module takes over from
 * the running one. Modules and parameters stay valid until the reload after the next, or
 * until lls_loop_destroy.
 */
struct lls_loop_change {
  struct lls_loop_policies policies;
  struct lls_loop_limits limits;
};

/*
 * [any] Makes room beside what runs for the policies of a change, which is copied. One at
 * a time, and while no change is between lls_loop_reload and lls_loop_reloaded. Cheap; to
 * be freed.
 */
int lls_loop_prepare(struct lls_loop *, const struct lls_loop_change *,
                     struct lls_loop_prepared **out, struct lls_error *err);
/* [any] Then creates them, which takes as long as their plugins take; others may be
 * prepared and change places meanwhile. A negative errno has the sentence of a plugin. */
int lls_loop_prepared_create(struct lls_loop_prepared *, struct lls_error *err);
/* [any] Then has the other processes, if there are any, prepare the same: data is what
 * they are sent. Waits for them, each at most so long (LLS_NEVER: for ever); a negative
 * errno has the sentence of one. */
int lls_loop_prepared_share(struct lls_loop_prepared *, const void *data, size_t n,
                            int64_t timeout_ns, struct lls_error *err);
/* [main] As lls_loop_look, of the thread that creates them; why names the plugin. */
bool lls_loop_prepared_hangs(struct lls_loop_prepared *, int64_t now_ns, int64_t limit_ns,
                             struct lls_error *why);
/* [main] Instead of lls_loop_reload; NULL is allowed. */
void lls_loop_prepared_free(struct lls_loop_prepared *);
/*
 * [main] Begins to change policies under live requests, which lose no token: those that
 * were created take over at the next step boundary. 0: lls_loop_reloaded will tell, and
 * what was prepared is the loop's; -EBUSY: the change before is not over; or why it
 * cannot be, and nothing changed.
 */
int lls_loop_reload(struct lls_loop *, struct lls_loop_prepared *, struct lls_error *err);
/* [main] All of it, for who has nothing else to do while plugins are created. */
int lls_loop_reload_at_once(struct lls_loop *, const struct lls_loop_change *,
                            struct lls_error *err);
/*
 * [main] To be asked after each wake. True once: the change is over, *rc says how. 0:
 * what was replaced has been destroyed and its modules may be closed. Negative, with the
 * sentence: the old policies go on, and the new ones are gone.
 */
bool lls_loop_reloaded(struct lls_loop *, int *rc, struct lls_error *err);

/* [main] To be asked now and then: a step thread that is in a callback of a plugin for
 * limit_ns or longer hangs until that returns; 0 = none does. now_ns: of any clock that
 * goes on steadily. True: since the last look one hangs, or none does any more. */
bool lls_loop_look(struct lls_loop *, int64_t now_ns, int64_t limit_ns);
/* [main] Whether one did at the last look; why (may be NULL) names plugin and callback.
 */
bool lls_loop_hangs(struct lls_loop *, struct lls_error *why);
/* [main] Asks the step threads to end and waits for them. False: one has not ended within
 * timeout_ns, and the loop cannot be destroyed. */
bool lls_loop_stop(struct lls_loop *, int64_t timeout_ns);
/* [main] Ends the step thread at the next step boundary; what is still alive is dropped.
 */
void lls_loop_destroy(struct lls_loop *);

/* [main] 0 and the request's id; -EINVAL (empty prompt, token id outside the vocabulary),
 * -E2BIG (prompt leaves no room in the context: err has both numbers), -ENOSPC (queue
 * full), -ESHUTDOWN (draining or failed). */
int lls_loop_submit(struct lls_loop *, const struct lls_submission *, uint64_t *id,
                    struct lls_error *err);
/* [main] The request ends soon with CANCELLED (or what it ended with before). */
void lls_loop_cancel(struct lls_loop *, uint64_t id);

/* [main] Hands out all events so far, in order; the callback may submit and cancel. */
void lls_loop_events(struct lls_loop *,
                     void (*on_event)(void *context, const struct lls_event *),
                     void *context);

/* [any] All instances together; names and what cannot be summed are of the first. */
void lls_loop_status(struct lls_loop *, struct lls_loop_status *out);
/* [any] Appends steps that the instances of this process have run, as T lines of a
 * decision log. */
void lls_loop_write_steps(struct lls_loop *, struct lls_text *out);
/* [any] */
uint32_t lls_loop_n_instances(const struct lls_loop *);
void lls_loop_instance_status(struct lls_loop *, uint32_t instance, uint32_t *role,
                              struct lls_loop_status *out);
/* SILENT: nothing was heard of its process for 2 s, or for as long a step waits for
 * another rank of it; LOST: for good. */
enum lls_instance_state {
  LLS_INSTANCE_UP,
  LLS_INSTANCE_SILENT,
  LLS_INSTANCE_LOST,
};
struct lls_instance_life {
  uint32_t state;
  struct lls_error why; /* not UP: a sentence that names it */
};
/* [main] */
void lls_loop_instance_life(struct lls_loop *, uint32_t instance,
                            struct lls_instance_life *out);
/* [main] False with the sentence of the first that is not. */
bool lls_loop_all_up(struct lls_loop *, struct lls_error *why);
/* [main] Some that are up can prefill, and some decode; else requests wait. */
bool lls_loop_answers(struct lls_loop *, struct lls_error *why);
/* [any] What its policies say of themselves (policy_stats.h). */
void lls_loop_policy_stats(struct lls_loop *, uint32_t instance,
                           struct lls_loop_policy_stats *out);
/* [main] Each instance shows its queues at its next step. -EBUSY: it was asked to before,
 * -ENOMEM. */
int lls_loop_ask_snapshot(struct lls_loop *);
/* [main] To be asked after each wake: all have shown them. */
bool lls_loop_snapshot_ready(struct lls_loop *);
/* [main] Then, until they are asked again (snapshot.h). */
const struct lls_snapshot *lls_loop_snapshot(struct lls_loop *, uint32_t instance);
/* [main] No new submissions; running requests go on. */
void lls_loop_drain(struct lls_loop *);
/* [main] True once nothing is alive and every event has been handed out. */
bool lls_loop_idle(struct lls_loop *);
/* [any one] With instances in other processes: until all are there; the sentence of one
 * that does not start. give_up: read now and then, NULL = never. */
int lls_loop_await(struct lls_loop *, const _Atomic(bool) *give_up,
                   struct lls_error *err);
/* [main] In another process than 0, which hands requests out: until that says stop, 0; or
 * is gone, or the engine fails. */
int lls_loop_follow(struct lls_loop *, struct lls_error *err);
/* [main] The last instance that was lost with its process; a request that could not go on
 * elsewhere ended with an error; false: none was. The service goes on without it, or has
 * failed. */
bool lls_loop_lost(struct lls_loop *, struct lls_error *why);
/* [main] An engine failed: everything of its instance has ended or will end with
 * LLS_FINISH_ERROR, and nothing more is taken. */
bool lls_loop_failed(struct lls_loop *, struct lls_error *err);

#endif
