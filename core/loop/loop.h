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

#include "core/instance/event.h"
#include "core/instance/loop_options.h"
#include "core/instance/loop_status.h"
#include "core/instance/submission.h"

struct lls_loop;
struct lls_loop_policy_stats;
struct lls_snapshot;
struct lls_text;

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
