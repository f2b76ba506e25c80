/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel over MPI: core/channel/channel.h.
 *
 * Messages and bulk data have a communicator each. All operations are nonblocking and
 * tested, so that no call waits for another process, which may be dead. A message is
 * received once its size is known, one at a time per sender, which keeps their order;
 * pieces of bulk data are received into memory posted before. MPI sends a large piece
 * when its receiver is ready and keeps the memory until then, so no more than WINDOW
 * pieces are under way to each process.
 *
 * MPI considers a small message sent when it is in a buffer that all peers share: a
 * stopped process, which receives nothing, would fill this buffer, and no process would
 * receive anything more. So messages are sent synchronously (complete when the receiver
 * has begun to receive them), at most NEAR_OUT to each process of this machine at a
 * time, and the rest is queued here: 8 to each of at most 63 other processes are fewer
 * than the 512 buffers of Open MPI's shared memory. Connections to other machines have
 * no such buffers, and there the acknowledgement of a message follows the blocks that
 * fill the same link: with 8 at a time, a stream's tokens were delayed by 4.9 s
 * (t/api/instances_net.t). FAR_OUT only bounds memory.
 *
 * MPI guarantees nothing about dead processes. Open MPI 4.1, started with
 * --enable-recovery, behaves so: the remaining processes continue, and operations with
 * the dead one never complete. Such operations are abandoned together with their
 * memory, which stays MPI's. MPI is finalised only if all processes do so together.
 */
#include "core/ranks/mpi_world.h"

#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TAG 1
/* messages sent to a process of this machine that it has not received */
#define NEAR_OUT 8
/* messages sent to a process of another machine that it has not received */
#define FAR_OUT 16384
#define WINDOW  4  /* pieces under way to each process */
#define POSTED  8  /* pieces for which receive memory is posted */
#define ROUNDS  16 /* checks between two readings of the clock */

struct sent {
  struct sent *next;
  MPI_Request request;
  char *data; /* (bytes) */
  size_t bytes;
};

struct piece {
  MPI_Request request;
  char *data;
};

/* Another process. */
struct other {
  bool forgotten, hangs;
  struct sent *first, **last; /* messages not yet received, oldest first */
  struct sent *waiting;       /* the first of these that is not begun, NULL: all are */
  uint32_t n_out;             /* begun */
  uint64_t n_sent, n_taken;   /* messages since the start */
  int pidfd;                  /* -1: on another machine, or the kernel has no pidfds */
  pid_t pid;                  /* 0: on another machine */
  bool receiving;
  MPI_Request request;
  struct lls_channel_message message; /* the message being received */
  struct piece window[WINDOW];
  uint32_t filled; /* index of the piece of the window that bulk_room has handed out */
};

struct mpi_channel {
  struct lls_channel base; /* first */
  MPI_Comm messages, bulk;
  /* processes that end MPI together when the channel is destroyed; n = 0: another object
   * ends MPI */
  struct lls_mpi_end end;
  struct other *others; /* (n) */
  uint32_t next;        /* index of the process whose messages are checked first */
  size_t piece_bytes;   /* 0: bulk data not opened yet */
  struct lls_channel_memory memory;
  struct piece *posted; /* (n_posted) of (POSTED + n WINDOW) */
  uint32_t n_posted;
  uint32_t to_post;      /* index of the piece that bulk_receive has handed out,
                          * LLS_NOBODY: none */
  MPI_Request *requests; /* scratch: requests of posted pieces */
};

static struct mpi_channel *mpi(struct lls_channel *c)
{
  return (struct mpi_channel *)c;
}

/* An operation with an error counts as not complete: deaths are detected in other
 * ways. */
static bool is_done(MPI_Request *request)
{
  int done = 0;
  if (*request == MPI_REQUEST_NULL)
    return true;
  return MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
}

/* ---- messages ----------------------------------------------------------------- */

static void begin_waiting(struct mpi_channel *m, uint32_t to)
{
  struct other *o = &m->others[to];
  uint32_t most = o->pid > 0 ? NEAR_OUT : FAR_OUT;
  for (; o->waiting != NULL && o->n_out < most; o->n_out++) {
    struct sent *s = o->waiting;
    MPI_Issend(s->data, (int)s->bytes, MPI_BYTE, (int)to, TAG, m->messages, &s->request);
    o->waiting = s->next;
  }
}

static void send_message(struct lls_channel *c, uint32_t to, char *data, size_t bytes)
{
  struct mpi_channel *m = mpi(c);
  struct other *o = &m->others[to];
  struct sent *s = o->forgotten ? NULL : calloc(1, sizeof *s);
  if (s == NULL) {
    free(data);
    return;
  }
  *s = (struct sent){.data = data, .bytes = bytes, .request = MPI_REQUEST_NULL};
  *o->last = s;
  o->last = &s->next;
  o->waiting = o->waiting != NULL ? o->waiting : s;
  o->n_sent++;
  begin_waiting(m, to);
}

static void take_first(struct other *o)
{
  struct sent *s = o->first;
  o->first = s->next;
  if (o->first == NULL)
    o->last = &o->first;
  free(s);
}

/* Removes messages that were received, and begins others. */
static void move_sent(struct mpi_channel *m)
{
  for (uint32_t to = 0; to < m->base.n; to++) {
    struct other *o = &m->others[to];
    for (; o->n_out > 0 && is_done(&o->first->request); o->n_out--) {
      free(o->first->data);
      o->n_taken++;
      take_first(o);
    }
    begin_waiting(m, to);
  }
}

/* Drops the messages to a dead process. Those that were begun stay MPI's, with their
 * memory. */
static void drop_sent(struct other *o)
{
  for (bool begun = true; o->first != NULL; take_first(o)) {
    begun = begun && o->first != o->waiting;
    if (!begun)
      free(o->first->data);
  }
  o->waiting = NULL;
  o->n_out = 0;
}

static bool is_flushed(struct lls_channel *c)
{
  bool flushed = true;
  move_sent(mpi(c));
  for (uint32_t to = 0; to < c->n; to++)
    flushed = flushed && mpi(c)->others[to].first == NULL;
  return flushed;
}

static struct lls_channel_count count(struct lls_channel *c, uint32_t to)
{
  const struct other *o = &mpi(c)->others[to];
  return (struct lls_channel_count){.sent = o->n_sent, .taken = o->n_taken};
}

static void begin_receiving(struct mpi_channel *m, uint32_t from)
{
  struct other *o = &m->others[from];
  MPI_Status status;
  int there = 0, bytes = 0;
  MPI_Iprobe((int)from, TAG, m->messages, &there, &status);
  if (!there)
    return;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  o->message = (struct lls_channel_message){
      .from = from, .bytes = (size_t)bytes, .data = malloc((size_t)bytes + 1)};
  if (o->message.data == NULL) /* the next check finds the message again */
    return;
  MPI_Irecv(o->message.data, bytes, MPI_BYTE, (int)from, TAG, m->messages, &o->request);
  o->receiving = true;
}

static bool receive(struct lls_channel *c, struct lls_channel_message *out)
{
  struct mpi_channel *m = mpi(c);
  move_sent(m);
  for (uint32_t i = 0; i < c->n; i++) {
    uint32_t from = (m->next + i) % c->n;
    struct other *o = &m->others[from];
    if (from == c->self || o->forgotten)
      continue;
    if (!o->receiving)
      begin_receiving(m, from);
    if (!o->receiving || !is_done(&o->request))
      continue;
    o->receiving = false;
    *out = o->message;
    m->next = (from + 1) % c->n;
    return true;
  }
  return false;
}

/* ---- bulk --------------------------------------------------------------------- */

static void post(struct mpi_channel *m, struct piece *p)
{
  MPI_Irecv(p->data, (int)m->piece_bytes, MPI_BYTE, MPI_ANY_SOURCE, TAG, m->bulk,
            &p->request);
}

/* Posts receive memory for n more pieces. */
static int post_more(struct mpi_channel *m, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    struct piece *p = &m->posted[m->n_posted];
    p->data = m->memory.take(m->memory.context, m->piece_bytes);
    if (p->data == NULL)
      return -ENOMEM;
    post(m, p);
    m->n_posted++;
  }
  return 0;
}

/* Allocates the windows to all other processes. */
static int take_windows(struct mpi_channel *m)
{
  for (uint32_t to = 0; to < m->base.n; to++)
    for (uint32_t i = 0; i < WINDOW && to != m->base.self; i++) {
      struct piece *p = &m->others[to].window[i];
      p->data = m->memory.take(m->memory.context, m->piece_bytes);
      if (p->data == NULL)
        return -ENOMEM;
    }
  return 0;
}

static int open_bulk(struct lls_channel *c, size_t bytes,
                     const struct lls_channel_memory *memory)
{
  struct mpi_channel *m = mpi(c);
  size_t most = POSTED + (size_t)WINDOW * c->n;
  m->memory = *memory;
  m->to_post = LLS_NOBODY;
  m->posted = calloc(most, sizeof *m->posted);
  m->requests = calloc(most, sizeof(MPI_Request));
  if (m->posted == NULL || m->requests == NULL)
    return -ENOMEM;
  m->piece_bytes = bytes;
  int rc = memory->at_once ? take_windows(m) : 0;
  return rc == 0 ? post_more(m, POSTED) : rc;
}

static char *bulk_room(struct lls_channel *c, uint32_t to)
{
  struct mpi_channel *m = mpi(c);
  struct other *o = &m->others[to];
  for (uint32_t i = 0; i < WINDOW && !o->forgotten; i++) {
    struct piece *p = &o->window[i];
    if (!is_done(&p->request))
      continue;
    if (p->data == NULL)
      p->data = m->memory.take(m->memory.context, m->piece_bytes);
    o->filled = i;
    return p->data;
  }
  return NULL;
}

static void bulk_send(struct lls_channel *c, uint32_t to, size_t bytes)
{
  struct mpi_channel *m = mpi(c);
  struct piece *p = &m->others[to].window[m->others[to].filled];
  MPI_Isend(p->data, (int)bytes, MPI_BYTE, (int)to, TAG, m->bulk, &p->request);
}

static bool bulk_receive(struct lls_channel *c, struct lls_channel_message *out)
{
  struct mpi_channel *m = mpi(c);
  MPI_Status status;
  int done = 0, bytes = 0, index = MPI_UNDEFINED;
  if (m->piece_bytes == 0)
    return false;
  if (m->to_post != LLS_NOBODY)
    post(m, &m->posted[m->to_post]);
  m->to_post = LLS_NOBODY;
  for (uint32_t i = 0; i < m->n_posted; i++)
    m->requests[i] = m->posted[i].request;
  int code = MPI_Testany((int)m->n_posted, m->requests, &index, &done, &status);
  if (code != MPI_SUCCESS || !done || index == MPI_UNDEFINED)
    return false;
  m->posted[index].request = MPI_REQUEST_NULL;
  m->to_post = (uint32_t)index;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  *out = (struct lls_channel_message){.from = (uint32_t)status.MPI_SOURCE,
                                      .bytes = (size_t)bytes,
                                      .data = m->posted[index].data};
  return true;
}

/* Ends a piece. A piece under way stays MPI's: its memory is abandoned. */
static void end_piece(struct mpi_channel *m, struct piece *p, bool receives)
{
  int done = 0;
  if (p->data == NULL)
    return;
  if (receives && p->request != MPI_REQUEST_NULL) {
    MPI_Cancel(&p->request);
    MPI_Test(&p->request, &done, MPI_STATUS_IGNORE);
  }
  if (done || is_done(&p->request))
    m->memory.give_back(m->memory.context, p->data);
  p->data = NULL;
}

static void close_bulk(struct lls_channel *c)
{
  struct mpi_channel *m = mpi(c);
  for (uint32_t i = 0; i < m->n_posted; i++)
    end_piece(m, &m->posted[i], true);
  for (uint32_t to = 0; to < c->n && m->piece_bytes > 0; to++)
    for (uint32_t i = 0; i < WINDOW; i++)
      end_piece(m, &m->others[to].window[i], false);
  m->n_posted = 0;
  m->piece_bytes = 0;
}

/* ---- dead processes ----------------------------------------------------------- */

static uint32_t gone(struct lls_channel *c, struct lls_error *why)
{
  struct mpi_channel *m = mpi(c);
  for (uint32_t i = 0; i < c->n; i++) {
    struct other *o = &m->others[i];
    struct pollfd fd = {.fd = o->pidfd, .events = POLLIN};
    if (o->forgotten || o->pidfd < 0 || poll(&fd, 1, 0) < 1)
      continue;
    lls_fail(why, 0, "process %d has died", (int)o->pid);
    return i;
  }
  return LLS_NOBODY;
}

static void forget(struct lls_channel *c, uint32_t index)
{
  struct other *o = &mpi(c)->others[index];
  if (o->forgotten)
    return;
  o->forgotten = true;
  drop_sent(o);
  if (mpi(c)->piece_bytes > 0) /* replaces pieces into which the dead process may have
                                * begun to send */
    post_more(mpi(c), WINDOW);
}

static void end_hung(struct lls_channel *c, uint32_t index)
{
  struct other *o = &mpi(c)->others[index];
  o->hangs =
      o->pidfd < 0 || syscall(SYS_pidfd_send_signal, o->pidfd, SIGKILL, NULL, 0) < 0;
}

/* Ends the launcher's job. The launcher waits for all processes it has started,
 * including hanging ones that no signal of this process can reach; called when no
 * others are left. */
static void end_launcher(struct mpi_channel *m)
{
  bool any = false;
  for (uint32_t i = 0; i < m->base.n; i++)
    any |= m->others[i].hangs && m->others[i].pidfd < 0;
  if (any && m->base.self == 0)
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

static void destroy(struct lls_channel *c, bool orderly)
{
  struct mpi_channel *m = mpi(c);
  close_bulk(c);
  if (orderly && m->end.n > 0)
    lls_mpi_end(&m->end);
  else
    end_launcher(m);
  for (uint32_t i = 0; i < c->n; i++) {
    if (m->others[i].pidfd >= 0)
      close(m->others[i].pidfd);
    drop_sent(&m->others[i]);
  }
  free(m->posted);
  free(m->requests);
  free(m->others);
  free(m);
}

static const struct lls_channel_ops ops = {
    .name = "mpi",
    .send = send_message,
    .receive = receive,
    .is_flushed = is_flushed,
    .count = count,
    .open_bulk = open_bulk,
    .bulk_room = bulk_room,
    .bulk_send = bulk_send,
    .bulk_receive = bulk_receive,
    .close_bulk = close_bulk,
    .gone = gone,
    .forget = forget,
    .end_hung = end_hung,
    .destroy = destroy,
};

/* ---- creation and end --------------------------------------------------------- */

static int64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Returns process 0's clock minus that of `rank`: read at the middle of the shortest
 * round trip. Both processes call it. */
static int64_t compare_clocks(struct mpi_channel *m, int rank)
{
  int64_t ahead_ns = 0, shortest_ns = INT64_MAX;
  for (int i = 0; i < ROUNDS; i++) {
    int64_t began_ns = now_ns(), there_ns = 0;
    if (m->base.self == 0) {
      MPI_Recv(&there_ns, 8, MPI_BYTE, rank, TAG, m->messages, MPI_STATUS_IGNORE);
      MPI_Send(&began_ns, 8, MPI_BYTE, rank, TAG, m->messages);
      continue;
    }
    MPI_Sendrecv(&began_ns, 8, MPI_BYTE, 0, TAG, &there_ns, 8, MPI_BYTE, 0, TAG,
                 m->messages, MPI_STATUS_IGNORE);
    int64_t took_ns = now_ns() - began_ns;
    if (took_ns >= shortest_ns)
      continue;
    shortest_ns = took_ns;
    ahead_ns = there_ns - (began_ns + took_ns / 2);
  }
  return ahead_ns;
}

static void set_clock(struct mpi_channel *m, const struct lls_hello *all)
{
  for (uint32_t i = 1; i < m->base.n; i++)
    if (strcmp(all[i].machine, all[0].machine) != 0 &&
        (m->base.self == 0 || m->base.self == i))
      m->base.clock_ahead_ns = compare_clocks(m, (int)i);
  if (m->base.self == 0)
    m->base.clock_ahead_ns = 0;
}

static void watch(struct mpi_channel *m, const pid_t *pids)
{
  for (uint32_t i = 0; i < m->base.n; i++) {
    struct other *o = &m->others[i];
    o->pid = pids[i];
    o->pidfd = pids[i] > 0 ? (int)syscall(SYS_pidfd_open, pids[i], 0) : -1;
    o->request = MPI_REQUEST_NULL;
    o->last = &o->first;
    for (uint32_t k = 0; k < WINDOW; k++)
      o->window[k].request = MPI_REQUEST_NULL;
  }
}

/* Returns whether this MPI accepts pointers to GPU memory. MPI is asked at run time,
 * since the same build may run with different versions. Open MPI, MPICH and their
 * derivatives have the function; without it the answer is no. */
static bool is_gpu_aware(void)
{
  int (*ask)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
  return ask != NULL && ask() == 1;
}

static void begin(struct mpi_channel *m, const struct lls_mpi_members *members)
{
  MPI_Comm_dup(members->comm, &m->messages);
  MPI_Comm_dup(members->comm, &m->bulk);
  MPI_Comm_set_errhandler(m->messages, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(m->bulk, MPI_ERRORS_RETURN);
  m->base.self = members->self;
  m->base.n = members->n;
  m->base.local_rank = members->near.local_rank;
  m->base.local_n = members->near.local_size;
  m->base.shares_cores = members->near.shares_cores;
  if (members->end != NULL)
    m->end = *members->end;
  /* Open MPI up to 4 sets this for processes under mpirun --enable-recovery */
  const char *recovers = getenv("OMPI_MCA_orte_enable_recovery");
  m->base.gpu_aware = is_gpu_aware();
  m->base.survives = recovers != NULL && strcmp(recovers, "0") != 0;
  watch(m, members->pids);
  set_clock(m, members->hellos);
}

int lls_mpi_channel_open(const struct lls_mpi_members *members, struct lls_channel **out,
                         struct lls_error *err)
{
  struct mpi_channel *m = calloc(1, sizeof *m);
  struct other *others = calloc(members->n, sizeof *others);
  if (m == NULL || others == NULL) {
    free(m);
    free(others);
    return lls_fail(err, -ENOMEM, "out of memory for %u processes", members->n);
  }
  m->base.ops = &ops;
  m->others = others;
  begin(m, members);
  *out = &m->base;
  return 0;
}
