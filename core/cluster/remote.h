/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instances of one service in several processes, over a channel (core/channel/channel.h).
 * Process 0 has the front end, an instance like each of the others, and all that is said.
 *
 * To everything above and beside it an instance in another process is one more in the
 * list of peers: a stand-in, whose inbox takes requests, offers, returns and settlements
 * as any does, and whose load board and offered blocks can be read. The one difference is
 * who empties that inbox: not a step thread but the channel's thread here, which sends
 * what was in it to the other process, whose channel's thread puts it into the inbox of
 * the real one. Events go the other way: from the real one's delivery to that of process
 * 0.
 *
 *   main, step threads -> inbox of a stand-in -> channel -> inbox -> step thread
 *   main <- delivery of process 0 <- channel <- delivery <- step thread
 *
 * All messages go through process 0, blocks alone go straight (fetch.h). So process 0
 * sees each request move, in order with its tokens, and when a process is gone it knows
 * which requests that had, and each of their tokens that a client may have seen. One that
 * was offered to it and not settled comes back to the instance that has its blocks; all
 * others go on elsewhere: their tokens are prefilled, and the next is drawn as it would
 * have been (by seed and index). One that meets a second loss without a token more ends
 * with an error: it may be what they die of.
 *
 * A process that lives is heard each half second. One that is not for two seconds is
 * given up (remote_lives.c): it is as good as gone, but that it may come back. Then it
 * clears away all that it has, of which others have answered for meanwhile, and begins
 * empty.
 *
 * Order, as migrate.c wants it: `settled` before the end of its request, and tokens
 * before the request that they are of is handed on. In a round a stand-in's inbox is
 * emptied before the delivery, and once more after it: what was settled is sent first,
 * then the events, then the requests of the first time; those of the second wait for the
 * next round.
 */
#ifndef LLS_CLUSTER_REMOTE_H
#define LLS_CLUSTER_REMOTE_H

#include "core/cluster/remote_wire.h"

struct lls_remote;
struct lls_channel;
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
  /* [main] Not in process 0: a phase of a change, with data or to go on with it. */
  int (*take_phase)(void *context, uint32_t phase, const char *data, size_t n,
                    struct lls_error *err);
  /* [channel] The instance that takes an arrival now; LLS_NOBODY. */
  uint32_t (*place)(void *context);
  void *context; /* of both */
};

/* A change of policies in all processes, from one to the next; loop_phases.c. */
enum lls_remote_phase {
  LLS_PHASE_NONE,
  LLS_PHASE_PREPARE,
  LLS_PHASE_HOLD,
  LLS_PHASE_SETTLE,
  LLS_PHASE_APPROVE,
  LLS_PHASE_INSTALL,
  LLS_PHASE_CANCEL /* nobody waits for the end of this one */
};

/* [main] Once all stand-ins and the instance of this process are made. */
int lls_remote_create(const struct lls_remote_options *, struct lls_remote **out,
                      struct lls_error *err);
/* [main] Process 0: its thread. */
int lls_remote_start(struct lls_remote *, struct lls_error *err);
/* [any one] Process 0: until all others are ready; a failure of one is its sentence.
 * give_up: read now and then, NULL = never. */
int lls_remote_await(struct lls_remote *, const _Atomic(bool) *give_up,
                     struct lls_error *err);
/* [main] Process 0: the others end, and its thread. */
void lls_remote_stop(struct lls_remote *);
/* [main] The other processes: all that there is to do, until process 0 says stop (0) or
 * is gone, or the instance fails (negative, with the sentence). */
int lls_remote_follow(struct lls_remote *, struct lls_error *err);
/* [main] After the step threads have ended. */
void lls_remote_destroy(struct lls_remote *);

struct lls_instance_life;

/* [any] Process 0: what it knows of an instance. */
void lls_remote_life(struct lls_remote *, uint32_t index, struct lls_instance_life *out);

/* [any] Process 0: the last instance that was lost; false: none was. */
bool lls_remote_lost(struct lls_remote *, struct lls_error *why);
/* [any] Process 0: with what is left there is no service. */
bool lls_remote_failed(struct lls_remote *, struct lls_error *why);

/* [any] Process 0: the others begin a phase, once what was posted to them before is sent;
 * data: (n) for them, copied. One that does not answer within timeout_ns refuses;
 * LLS_NEVER: while it lives. */
void lls_remote_ask_change(struct lls_remote *, uint32_t phase, const void *data,
                           size_t n, int64_t timeout_ns);
/* [any] True: all have answered, 0 or why one refuses, which is woken for. */
bool lls_remote_change_answered(struct lls_remote *, int *rc, struct lls_error *why);

/* [main] Instead of all that, in a process that did not get so far: the others are told
 * why, and end. */
void lls_remote_give_up(struct lls_channel *, const char *why);

#endif
