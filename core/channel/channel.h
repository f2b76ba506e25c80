/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: one process's end of the connection between processes that have an
 * instance each. It carries two kinds of data: messages, which arrive in the order they
 * were sent, without a limit on their number; and bulk data, in an order of its own,
 * with a limit on the pieces under way to each process.
 *
 * No function here waits. A process that is stopped, and receives nothing, delays no
 * other process: messages to it are queued at the sender. So before sending data that
 * soon becomes outdated, a sender should check with `count` whether the previous
 * message was received. A process that has ended does not affect the rest: after
 * `forget`, data for it is dropped. `gone` reports the end of processes on the same
 * machine; for other machines, the process that waits for messages must decide.
 *
 * MPI implements it for processes that a launcher has started together
 * (core/ranks/mpi_channel.c), and UCX for those that come and go (core/ucx), each in a
 * module of its own, so that no other code needs either. One thread at a time may call
 * it: the thread of core/cluster/remote.c.
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
  char *data; /* the message's bytes: malloc'ed, freed by the receiver */
};

/* Allocates memory for bulk data, of a kind that a device may require. */
struct lls_channel_memory {
  void *context;
  void *(*take)(void *context, size_t bytes);
  void (*give_back)(void *context, void *memory);
  bool at_once; /* all memory is allocated at the start: later it is unavailable */
};

#define LLS_NOBODY UINT32_MAX

/* Messages to one process since the start; the first `taken` ones were received. */
struct lls_channel_count {
  uint64_t sent, taken;
};

struct lls_channel_ops {
  const char *name; /* "mpi", "ucx" */
  /* Takes over data, which must be malloc'ed. */
  void (*send)(struct lls_channel *, uint32_t to, char *data, size_t bytes);
  /* Returns false if there is no message now. Also makes progress with sending. */
  bool (*receive)(struct lls_channel *, struct lls_channel_message *out);
  /* Returns true if all messages were received. Also makes progress with sending. */
  bool (*is_flushed)(struct lls_channel *);
  struct lls_channel_count (*count)(struct lls_channel *, uint32_t to);

  /* Call it before any bulk data: pieces have at most `bytes` bytes. Returns 0 or
   * -ENOMEM. */
  int (*open_bulk)(struct lls_channel *, size_t bytes, const struct lls_channel_memory *);
  /* Returns the memory for a piece, to be filled and sent; NULL if the limit of pieces
   * under way to that process is reached. */
  char *(*bulk_room)(struct lls_channel *, uint32_t to);
  void (*bulk_send)(struct lls_channel *, uint32_t to, size_t bytes);
  /* Receives a piece, which is valid until the next call. */
  bool (*bulk_receive)(struct lls_channel *, struct lls_channel_message *out);
  /* Call it before the memory for bulk data is freed. */
  void (*close_bulk)(struct lls_channel *);

  /* Returns a process on this machine that has ended and was not forgotten; NOBODY if
   * there is none. why names the process. */
  uint32_t (*gone)(struct lls_channel *, struct lls_error *why);
  /* Process 0, if `elastic`: returns a process that has come and was not returned, to a
   * number that is forgotten or never had a process; NOBODY if there is none. Its
   * messages are received only afterwards. */
  uint32_t (*joined)(struct lls_channel *);
  /* If `elastic`: returns a process between which and this one bulk data was lost,
   * since the connection broke or a piece could not be received, and that was not
   * returned; NOBODY if there is none. The process itself may be well. */
  uint32_t (*cut_off)(struct lls_channel *);
  void (*forget)(struct lls_channel *, uint32_t index);
  /* Kills a process that may hang, and for which no other process waits any more. If
   * this process cannot do so, the launcher does when process 0 destroys its channel. */
  void (*end_hung)(struct lls_channel *, uint32_t index);
  /* orderly: all other processes destroy their channels now, too. */
  void (*destroy)(struct lls_channel *, bool orderly);
};

struct lls_channel {
  const struct lls_channel_ops *ops;
  uint32_t self, n;             /* number of this process; number of processes */
  uint32_t local_rank, local_n; /* index and number among the processes on this machine */
  bool shares_cores;            /* the processes on this machine may run on the same
                                 * cores */
  bool gpu_aware;               /* memory for bulk data may be a GPU's */
  bool elastic;                 /* processes may come and go: at the start all numbers but
                                 * 0 and self are without one */
  bool survives;                /* the launcher does not end all processes when one
                                 * ends */
  int64_t clock_ahead_ns;       /* process 0's clock minus this one's */
  bool orderly;                 /* all processes end when this one does; remote.c */
};

#endif
