/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of one service in several processes, connected by a channel
 * (core/channel/channel.h). Process 0 has the front end, an instance like every other
 * process, and writes all output.
 *
 * To all other code an instance in another process is an entry in the list of peers
 * like any other: a stand-in, whose inbox accepts requests, offers, returns and
 * settlements, and whose load board and offered blocks can be read. The only difference
 * is which thread empties that inbox: not a step thread but the channel's thread, which
 * sends the contents to the other process, whose channel's thread posts them to the
 * inbox of the real instance. Events travel in the opposite direction: from the real
 * instance's delivery to the delivery of process 0.
 *
 *   main, step threads -> inbox of a stand-in -> channel -> inbox -> step thread
 *   main <- delivery of process 0 <- channel <- delivery <- step thread
 *
 * All messages pass through process 0; only blocks are sent directly (fetch.h). So
 * process 0 sees each request move, in order with its tokens; when a process ends, it
 * knows the requests which that process had, and each token that a client may have
 * seen. A request that was offered to the lost process and not settled returns to the
 * instance that has its blocks. Every other request continues on another instance: its
 * tokens are prefilled, and the next token is the same as it would have been (by seed
 * and index). A request that is lost twice without a new token ends with an error: it
 * may be the cause of the losses.
 *
 * A living process sends a message at least every half second. One that is silent for
 * two seconds is given up (remote_lives.c): it is treated as ended, except that it may
 * come back. Then it drops everything that it has, since other instances have taken its
 * requests over, and starts empty.
 *
 * Order, as migrate.c requires: `settled` is sent before the end of its request, and
 * tokens before their request is handed on. In each round a stand-in's inbox is emptied
 * before the delivery, and again after it: the first round's settlements are sent
 * first, then events, then the first round's requests; the requests of the second
 * emptying wait for the next round.
 */
#ifndef LLS_CLUSTER_REMOTE_H
#define LLS_CLUSTER_REMOTE_H

#include "core/cluster/remote_wire.h"

struct lls_remote;
struct lls_channel;
struct lls_guests;
struct lls_step_thread;

struct lls_remote_options {
  struct lls_channel *channel;
  const struct lls_loop_options *options;
  struct lls_step_thread *threads; /* (channel->n) */
  const struct lls_slots *slots;
  struct lls_delivery *delivery;
  _Atomic uint64_t *cancelled; /* (slots) */
  struct lls_live_context live;
  size_t events_per_step;
  struct lls_guests *guests; /* except in process 0 */
  /* [main] Except in process 0: begins a phase of a change, with data, or continues
   * it. */
  int (*take_phase)(void *context, uint32_t phase, const char *data, size_t n,
                    struct lls_error *err);
  /* [channel] Returns the instance that takes an arrival now; LLS_NOBODY if none can. */
  uint32_t (*place)(void *context, uint32_t prompt_tokens);
  void *context; /* argument of both functions */
};

/* The phases of a change of policies in all processes, in order; loop_phases.c. */
enum lls_remote_phase {
  LLS_PHASE_NONE,
  LLS_PHASE_PREPARE,
  LLS_PHASE_HOLD,
  LLS_PHASE_SETTLE,
  LLS_PHASE_APPROVE,
  LLS_PHASE_INSTALL,
  LLS_PHASE_CANCEL /* the change is abandoned */
};

/* [main] Call it when all stand-ins and the instance of this process exist. */
int lls_remote_create(const struct lls_remote_options *, struct lls_remote **out,
                      struct lls_error *err);
/* [main] Process 0: starts the channel's thread. */
int lls_remote_start(struct lls_remote *, struct lls_error *err);
/* [any one] Process 0: waits until all other processes are ready; a failure of one
 * returns its sentence. give_up: checked regularly, NULL = never give up. */
int lls_remote_await(struct lls_remote *, const _Atomic(bool) *give_up,
                     struct lls_error *err);
/* [main] Process 0: ends all other processes, and the channel's thread. */
void lls_remote_stop(struct lls_remote *);
/* [main] All other processes: runs until process 0 sends STOP (returns 0), or this
 * process has left an elastic channel (0), or the instance fails (returns a negative
 * errno with the sentence). Returns -ECONNABORTED if process 0 has ended, in an elastic
 * channel also after STOP; -EPERM if process 0 has refused this process. */
int lls_remote_follow(struct lls_remote *, struct lls_error *err);
/* [main] Call it after the step threads have ended. */
void lls_remote_destroy(struct lls_remote *);

struct lls_instance_life;

/* [any] Process 0: returns the state of an instance's process. */
void lls_remote_life(struct lls_remote *, uint32_t index, struct lls_instance_life *out);

/* [any] Process 0: returns the last instance that was lost; false if none was. */
bool lls_remote_lost(struct lls_remote *, struct lls_error *why);
/* [any] Process 0: returns true if the remaining instances cannot provide the service. */
bool lls_remote_failed(struct lls_remote *, struct lls_error *why);

/* [any] Process 0: begins a phase in all other processes, after everything posted to
 * them earlier is sent; data: (n) for them, copied. A process that does not answer
 * within timeout_ns counts as refusing; LLS_NEVER: while it lives. */
void lls_remote_ask_change(struct lls_remote *, uint32_t phase, const void *data,
                           size_t n, int64_t timeout_ns);
/* [any] Returns true if all processes have answered: *rc is 0, or the error of one that
 * refuses. The wake callback runs when that is so. */
bool lls_remote_change_answered(struct lls_remote *, int *rc, struct lls_error *why);

/* [main] For a process that cannot create its lls_remote: sends the reason to all other
 * processes, which then end. */
void lls_remote_give_up(struct lls_channel *, const char *why);

#endif
