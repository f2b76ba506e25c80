/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: this process's end of what connects processes that have an instance each.
 * Two kinds of things go over it: messages, which come in the order they were sent,
 * however many; and bulk, of which so much is under way to each and no more, and which
 * comes in its own order.
 *
 * Nothing here waits. A process that takes nothing, because it is stopped, holds up
 * nobody else: what is sent to it waits here, so that who sends what is soon out of date
 * looks first whether the one before was taken (count). A process that is gone takes
 * nothing down: what was meant for it is dropped, once it has been forgotten. Whether one
 * is gone is told of those on the same machine; of others it is who waits for their
 * messages that has to decide.
 *
 * MPI implements it (core/ranks/mpi_channel.c, in a module of its own, so that nothing
 * else needs MPI). All is called by one thread at a time, the one of
 * core/cluster/remote.c.
 */
#ifndef LLS_CHANNEL_CHANNEL_H
#define LLS_CHANNEL_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

struct lls_channel;

struct lls_channel_message {
  uint32_t from;
  size_t bytes;
  char *data; /* a message's: malloc's, the receiver's to free */
};

/* Memory for bulk, which a device may want to be of its own kind. */
struct lls_channel_memory {
  void *context;
  void *(*take)(void *context, size_t bytes);
  void (*give_back)(void *context, void *memory);
  bool at_once; /* whatever can be wanted is taken at the start: later there is none */
};

#define LLS_NOBODY UINT32_MAX

/* Messages to one process, since the start: those that it has begun to take are the
 * first. */
struct lls_channel_count {
  uint64_t sent, taken;
};

struct lls_channel_ops {
  const char *name; /* "mpi" */
  /* Takes the data over, malloc's. */
  void (*send)(struct lls_channel *, uint32_t to, char *data, size_t bytes);
  /* False: there is none now. Moves on what is being sent, too. */
  bool (*receive)(struct lls_channel *, struct lls_channel_message *out);
  bool (*is_flushed)(struct lls_channel *); /* all messages were taken */
  struct lls_channel_count (*count)(struct lls_channel *, uint32_t to);

  /* Before any bulk: pieces are of at most so many bytes. -ENOMEM. */
  int (*open_bulk)(struct lls_channel *, size_t bytes, const struct lls_channel_memory *);
  /* Room for a piece, to be filled and sent; NULL: enough are under way to that one. */
  char *(*bulk_room)(struct lls_channel *, uint32_t to);
  void (*bulk_send)(struct lls_channel *, uint32_t to, size_t bytes);
  /* A piece, valid until the next call. */
  bool (*bulk_receive)(struct lls_channel *, struct lls_channel_message *out);
  /* Before the memory for it goes. */
  void (*close_bulk)(struct lls_channel *);

  /* One on this machine that has ended and was not forgotten, NOBODY; why names it. */
  uint32_t (*gone)(struct lls_channel *, struct lls_error *why);
  void (*forget)(struct lls_channel *, uint32_t index);
  /* Kills one that was not seen to end and that nobody waits for any more; where this
   * process cannot, the launcher does so when process 0 destroys its channel. */
  void (*end_hung)(struct lls_channel *, uint32_t index);
  /* orderly: all others do the same now. */
  void (*destroy)(struct lls_channel *, bool orderly);
};

struct lls_channel {
  const struct lls_channel_ops *ops;
  uint32_t self, n;             /* this process, of so many */
  uint32_t local_rank, local_n; /* among those on this machine */
  bool shares_cores;            /* which may run on the same cores */
  bool gpu_aware;               /* memory for bulk may be a GPU's */
  bool survives;                /* the launcher leaves the others alone when one ends */
  int64_t clock_ahead_ns;       /* process 0's clock before this one's */
  bool orderly;                 /* all others end when this one does; remote.c */
};

#endif
