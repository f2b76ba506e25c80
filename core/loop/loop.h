/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step loops of the instances, as the rest of the daemon sees them: submit a
 * request, get its tokens as events, cancel it, drain, read the status. Callers need not
 * know which instance has a request: the loop gives it to one that takes arrivals (mixed
 * or prefill; placing.h), and schedulers may hand it over.
 *
 * Several threads meet here. [main] is the libuv thread: it owns connections and text.
 * [step] is an instance's own thread: it owns its request table, its plugins and its
 * engine. They share one inbox for each instance (submissions, cancels, control) and one
 * delivery of events (outbox.h), each behind a mutex that is held for a few pointer
 * moves; a step thread wakes main through the `wake` callback (uv_async_send).
 *
 * Invariants: every submission that returned 0 gets exactly one LLS_EVENT_FINISHED,
 * after all its tokens, whatever fails; no later event names its owner.
 */
#ifndef LLS_LOOP_LOOP_H
#define LLS_LOOP_LOOP_H

#include "core/instance/event.h"
#include "core/instance/loop_options.h"
#include "core/instance/loop_status.h"
#include "core/instance/submission.h"

struct lls_loop;
struct lls_block_event_list;
struct lls_loop_policy_stats;
struct lls_session_row;
struct lls_snapshot;
struct lls_text;

/* [main] Creates the policies and starts the step threads. If a plugin cannot be
 * created, or policies and engine do not go together, err has the reason. */
int lls_loop_create(const struct lls_loop_options *, struct lls_loop **out,
                    struct lls_error *err);
/* [main] Runs one step of each instance of a manual loop, in turn. Returns 1 if
 * something ran, 0 if not, -EIO if an engine has failed. */
int lls_loop_step(struct lls_loop *);
/* [main] After a step of a manual loop that ran nothing: returns for how long no step
 * is needed; LLS_NEVER: until a request is submitted or cancelled. */
int64_t lls_loop_idle_ns(struct lls_loop *);

/*
 * [main] For a manual loop whose instances have a clock each. Chooses the instance that
 * runs next, and returns the time of its step by its clock, to which the caller advances
 * the clock; LLS_NEVER: none until a request is submitted or cancelled. The earliest
 * instance is chosen, so that no other instance can later act at an earlier time.
 */
int64_t lls_loop_next_ns(struct lls_loop *, uint32_t *instance);
/* [main] Runs one step of one instance; returns as lls_loop_step. */
int lls_loop_step_one(struct lls_loop *, uint32_t instance);

/*
 * [any] First stage of a reload: allocates the new policies of a change, which is
 * copied. One caller at a time, and never between lls_loop_reload and lls_loop_reloaded.
 * Quick; the result is to be freed.
 */
int lls_loop_prepare(struct lls_loop *, const struct lls_loop_change *,
                     struct lls_loop_prepared **out, struct lls_error *err);
/* [any] Second stage: calls the create callbacks, which may take long. Other changes
 * may be prepared and installed meanwhile. On failure err has the plugin's reason. */
int lls_loop_prepared_create(struct lls_loop_prepared *, struct lls_error *err);
/* [any] Third stage: if there are other processes, sends them `data` and waits until
 * they have prepared the same change, each for timeout_ns at most (LLS_NEVER: no
 * limit). On failure err has the reason of one of them. */
int lls_loop_prepared_share(struct lls_loop_prepared *, const void *data, size_t n,
                            int64_t timeout_ns, struct lls_error *err);
/* [main] As lls_loop_look, for the thread that calls the create callbacks. why names
 * plugin and callback. */
bool lls_loop_prepared_hangs(struct lls_loop_prepared *, int64_t now_ns, int64_t limit_ns,
                             struct lls_error *why);
/* [main] Gives the change up, instead of lls_loop_reload. NULL is allowed. */
void lls_loop_prepared_free(struct lls_loop_prepared *);
/*
 * [main] Last stage: begins to change policies under live requests, which lose no token.
 * The new policies take over at the next step boundary. Returns 0: lls_loop_reloaded
 * will report the end, and the loop owns the prepared change; -EBUSY: the previous
 * change has not ended; -ESHUTDOWN: an engine has failed. On failure nothing has
 * changed.
 */
int lls_loop_reload(struct lls_loop *, struct lls_loop_prepared *, struct lls_error *err);
/* [main] All stages at once, for a caller that can wait while plugins are created. */
int lls_loop_reload_at_once(struct lls_loop *, const struct lls_loop_change *,
                            struct lls_error *err);
/*
 * [main] To be called after each wake. Returns true once, when the change has ended; *rc
 * is its result. 0: the replaced policies are destroyed and their modules may be closed.
 * Negative (err has the reason): the old policies continue and the new ones are
 * destroyed.
 */
bool lls_loop_reloaded(struct lls_loop *, int *rc, struct lls_error *err);

/* [main] To be called at intervals. A step thread hangs if it has been in a plugin's
 * callback for limit_ns or longer (0: never), until the callback returns. now_ns may
 * come from any steady clock. Returns true if since the last call a first thread hangs,
 * or none does any more. */
bool lls_loop_look(struct lls_loop *, int64_t now_ns, int64_t limit_ns);
/* [main] Returns true if a thread hung at the last lls_loop_look; why (may be NULL)
 * names plugin and callback. */
bool lls_loop_hangs(struct lls_loop *, struct lls_error *why);
/* [main] Asks the step threads to end and waits for them. Returns false if one has not
 * ended within timeout_ns: then the loop cannot be destroyed. */
bool lls_loop_stop(struct lls_loop *, int64_t timeout_ns);
/* [main] Ends the step threads at their next step boundary and drops live requests. */
void lls_loop_destroy(struct lls_loop *);

/* [main] Returns 0 and the request's id; -EINVAL (empty prompt, token id outside the
 * vocabulary), -E2BIG (prompt leaves no room in the context: err has both numbers),
 * -ENOSPC (queue full), -ESHUTDOWN (draining or failed). */
int lls_loop_submit(struct lls_loop *, const struct lls_submission *, uint64_t *id,
                    struct lls_error *err);
/* [main] Called while lls_loop_events hands out the end of a request: its answer was cut
 * by a stop string, or calls this tool. Otherwise the end of its session's turn is what
 * the event says. */
void lls_loop_session_stopped(struct lls_loop *);
void lls_loop_session_calls(struct lls_loop *, const struct lls_event *,
                            const char *tool);

/* [main] Counts the sessions with a request, and those without. */
void lls_loop_count_sessions(struct lls_loop *, uint32_t *alive, uint32_t *idle);
/* [main] Calls `each` for every session (sessions.h). Returns the time now. */
int64_t lls_loop_each_session(struct lls_loop *,
                              void (*each)(void *context, const struct lls_session_row *),
                              void *context);

/* [main] To be called after each wake, with the option block_events: calls `each` for
 * every instance of this process that has events of blocks (block_events.h). */
void lls_loop_block_events(struct lls_loop *,
                           void (*each)(void *context, uint32_t instance,
                                        const struct lls_block_event_list *),
                           void *context);

/* [main] Ends the request soon, with CANCELLED unless it has already ended
 * otherwise. */
void lls_loop_cancel(struct lls_loop *, uint64_t id);

/* [main] Passes all events so far to the callback, in order. The callback may submit
 * and cancel. */
void lls_loop_events(struct lls_loop *,
                     void (*on_event)(void *context, const struct lls_event *),
                     void *context);

/* [any] The status of all instances together. Names, and other members that cannot be
 * summed, are the first instance's. */
void lls_loop_status(struct lls_loop *, struct lls_loop_status *out);
/* [any] Appends samples of steps that this process's instances have run, as T lines of
 * a decision log. */
void lls_loop_write_steps(struct lls_loop *, struct lls_text *out);
/* [any] */
uint32_t lls_loop_n_instances(const struct lls_loop *);
void lls_loop_instance_status(struct lls_loop *, uint32_t instance, uint32_t *role,
                              struct lls_loop_status *out);
/* [main] */
void lls_loop_instance_life(struct lls_loop *, uint32_t instance,
                            struct lls_instance_life *out);
/* [main] Returns false if an instance is not up; why names the first such instance. */
bool lls_loop_all_up(struct lls_loop *, struct lls_error *why);
/* [main] Returns true if some instance that is up can prefill, and some can decode;
 * else requests wait, and why names the missing part. */
bool lls_loop_answers(struct lls_loop *, struct lls_error *why);
/* [any] The figures that an instance's policies report (policy_stats.h). */
void lls_loop_policy_stats(struct lls_loop *, uint32_t instance,
                           struct lls_loop_policy_stats *out);
/* [main] Requests a snapshot of each instance's queues at its next step. Returns -EBUSY
 * if the last one is not ready; -ENOMEM. */
int lls_loop_ask_snapshot(struct lls_loop *);
/* [main] To be called after each wake. Returns true once all snapshots are ready. */
bool lls_loop_snapshot_ready(struct lls_loop *);
/* [main] Returns an instance's snapshot (snapshot.h), valid until the next request for
 * one. */
const struct lls_snapshot *lls_loop_snapshot(struct lls_loop *, uint32_t instance);
/* [main] Refuses new submissions; running requests continue. */
void lls_loop_drain(struct lls_loop *);
/* [main] Returns true once no request is alive and all events have been handed out. */
bool lls_loop_idle(struct lls_loop *);
/* [any one] With instances in other processes: waits until all have started. On failure
 * err has the reason of one that does not start. give_up: polled, NULL: never. */
int lls_loop_await(struct lls_loop *, const _Atomic(bool) *give_up,
                   struct lls_error *err);
/* [main] Runs the loop of a process other than 0 (process 0 takes submissions). Returns
 * 0 when process 0 sends stop; -errno if process 0 is lost or the engine fails. */
int lls_loop_follow(struct lls_loop *, struct lls_error *err);
/* [main] Returns true if an instance was lost with its process; why names the last one.
 * Its requests that could not be moved elsewhere ended with an error. The service
 * continues without the instance, or has failed. */
bool lls_loop_lost(struct lls_loop *, struct lls_error *why);
/* [main] Returns true if an engine failed: the requests of its instance end with
 * LLS_FINISH_ERROR, and submissions are refused. */
bool lls_loop_failed(struct lls_loop *, struct lls_error *err);

#endif
