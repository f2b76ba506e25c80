/* SPDX-License-Identifier: Apache-2.0 */
/* Data shared by the files of the module ucx.so, which alone is linked with UCX. */
#ifndef LLS_UCX_UCX_CHANNEL_H
#define LLS_UCX_UCX_CHANNEL_H

#include <stdlib.h>
#include <ucp/api/ucp.h>

#include "core/ucx/ucx.h"

#define LLS_UCX_WINDOW 4   /* pieces under way to each process */
#define LLS_UCX_MOST   256 /* places */
#define LLS_UCX_POSTED 8   /* pieces for which there is memory to receive into */

/* Active messages. HELLO and CLOCK are all that a process without a place may send. */
enum lls_ucx_kind {
  LLS_UCX_MESSAGE, /* head.number counts MESSAGE and PEER from 1 */
  LLS_UCX_PEER,    /* from process 0: struct lls_ucx_peer, who has a place now */
  LLS_UCX_TAKEN,   /* head.number: messages received so far */
  LLS_UCX_PIECE,
  LLS_UCX_CLOCK,   /* to process 0, which answers with a struct lls_ucx_clock */
  LLS_UCX_HELLO,   /* struct lls_ucx_hello */
  LLS_UCX_WELCOME, /* struct lls_ucx_welcome */
  LLS_UCX_KINDS
};

/* Precedes every message. */
struct lls_ucx_head {
  uint32_t magic, from;
  uint64_t identity, to; /* identities of sender and receiver */
  uint64_t number;
};

struct lls_ucx_clock {
  uint64_t nonce; /* new for each connection */
  int64_t now_ns;
};

struct lls_ucx_hello {
  uint32_t magic, n, role, address_bytes;
  uint64_t identity;
  char version[32], machine[192];
  char model[LLS_SHA256_HEX], proof[LLS_SHA256_HEX]; /* proof: the secret is known */
  uint8_t roles[LLS_UCX_MOST];                       /* (n) */
}; /* then the address (address_bytes) of its worker */

struct lls_ucx_welcome {
  uint32_t magic, index; /* LLS_NOBODY: refused */
  uint64_t identity;
  char machine[192], proof[LLS_SHA256_HEX];
  char why[LLS_ERROR_MAX];
  uint32_t again; /* 1: the refusal is not for good */
};

struct lls_ucx_peer {
  uint32_t index, address_bytes;
  uint64_t identity;
}; /* then the address */

/* A message, on its way to another process, or from it. */
struct lls_ucx_mail {
  struct lls_ucx_mail *next;
  struct lls_ucx_head head;
  enum lls_ucx_kind kind;
  bool complete;          /* data has arrived */
  bool coming, abandoned; /* UCX writes to data; it is freed then */
  char *data;             /* (bytes) */
  size_t bytes;
};

/* Memory for a piece. from: whose piece it is; NOBODY: it is free. */
struct lls_ucx_piece {
  char *data;
  struct lls_ucx_head head;
  size_t bytes;
  uint32_t from;
  bool busy;   /* UCX uses the memory */
  bool failed; /* it was not received */
};

/* A place. */
struct lls_ucx_other {
  uint64_t identity; /* 0: the place is empty */
  ucp_ep_h ep;       /* NULL: there is no connection */
  bool broken;       /* the connection is */
  bool has_joined;   /* `joined` has not reported it */
  bool cut_off;      /* pieces were lost, which `cut_off` has not reported */
  char why[80];
  uint64_t n_sent, n_taken;    /* messages sent; of these, received there */
  uint64_t n_received, n_said; /* messages received; of these, reported with TAKEN */
  bool says;                   /* TAKEN is on its way */
  struct lls_ucx_head taken;
  struct lls_ucx_mail *first, *last; /* messages received, in order of their numbers */
  struct lls_ucx_piece window[LLS_UCX_WINDOW];
  uint32_t filled; /* index of the piece that bulk_room has handed out */
  /* pieces that have no memory yet: UCX's descriptors */
  struct {
    void *descriptor;
    size_t bytes;
    struct lls_ucx_head head;
  } coming[LLS_UCX_WINDOW];
  uint32_t n_coming;
  void *address; /* (address_bytes) of its worker */
  size_t address_bytes;
};

/* Process 0: a connection without a place. */
struct lls_ucx_guest {
  struct lls_ucx_guest *next;
  ucp_conn_request_h request; /* NULL: accepted */
  ucp_ep_h ep;
  int64_t since_ns;
  uint64_t nonce;
  bool broken, done; /* done: it has its answer */
  char *hello;       /* (hello_bytes) */
  size_t hello_bytes;
};

struct lls_ucx_channel {
  struct lls_channel base; /* first */
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_listener_h listener;
  uint64_t identity;
  char secret[LLS_SHA256_HEX], model[LLS_SHA256_HEX], machine[192];
  void (*say)(void *context, const char *text);
  void *say_context;
  uint32_t roles[LLS_UCX_MOST]; /* (n) */
  struct lls_ucx_other *others; /* (n) */
  uint32_t next;                /* index of the process whose messages are read first */
  struct lls_ucx_guest *guests;
  ucp_address_t *address; /* (address_bytes) of the worker */
  size_t address_bytes;

  size_t piece_bytes; /* 0: bulk data not opened yet */
  struct lls_channel_memory memory;
  struct lls_ucx_piece posted[LLS_UCX_POSTED];
  struct lls_ucx_piece *lent; /* the piece that bulk_receive has handed out */

  /* while it joins */
  ucp_ep_h joining;
  bool joining_broken;
  char trying[264]; /* HOST:PORT of the front end that it tries */
  struct lls_ucx_clock clock;
  bool has_clock, has_welcome;
  struct lls_ucx_welcome welcome;
};

static inline struct lls_ucx_channel *lls_ucx(struct lls_channel *c)
{
  return (struct lls_ucx_channel *)c;
}

static inline void lls_ucx_free_mail(struct lls_ucx_mail *m)
{
  free(m->data);
  free(m);
}

/* ---- ucx_places.c */
int64_t lls_ucx_now(void);
/* Calls UCX's progress. */
void lls_ucx_work(struct lls_ucx_channel *);
/* Begins with a process at a place: its numbers and queues. */
void lls_ucx_admit(struct lls_ucx_channel *, uint32_t index, uint64_t identity,
                   ucp_ep_h ep);
/* Empties a place. The memory of its pieces stays: UCX may still use it. */
void lls_ucx_leave_place(struct lls_ucx_channel *, struct lls_ucx_other *);
/* Connects to the process that PEER names. */
void lls_ucx_meet(struct lls_ucx_channel *, const char *data, size_t bytes);
/* Connects to a process that has a place. Returns false if that is impossible. */
bool lls_ucx_connect(struct lls_ucx_channel *, struct lls_ucx_other *);
void lls_ucx_close_ep(struct lls_ucx_channel *, ucp_ep_h, bool at_once);
/* The error handler of every endpoint. context: the channel. */
void lls_ucx_on_error(void *context, ucp_ep_h, ucs_status_t);
/* Drops the pieces of a place that have no memory yet. */
void lls_ucx_drop_coming(struct lls_ucx_channel *, struct lls_ucx_other *);
/* Returns the guest whose connection this is; NULL if there is none. */
struct lls_ucx_guest *lls_ucx_find_guest(struct lls_ucx_channel *, ucp_ep_h);

/* ---- ucx_mail.c */
struct lls_ucx_head lls_ucx_head_to(const struct lls_ucx_channel *, uint64_t to,
                                    uint64_t number);
/* Sends data (taken over) to a place. */
void lls_ucx_send(struct lls_ucx_channel *, uint32_t to, enum lls_ucx_kind, char *data,
                  size_t bytes);
/* Sends a copy of data to an endpoint, with the endpoint to reply to. */
void lls_ucx_send_first(struct lls_ucx_channel *, ucp_ep_h, enum lls_ucx_kind,
                        const void *data, size_t bytes);
void lls_ucx_send_message(struct lls_channel *, uint32_t to, char *data, size_t bytes);
bool lls_ucx_is_flushed(struct lls_channel *);
struct lls_channel_count lls_ucx_count(struct lls_channel *, uint32_t to);
bool lls_ucx_receive(struct lls_channel *, struct lls_channel_message *out);
/* Returns true if the message is of the process that has its place. */
bool lls_ucx_is_known(const struct lls_ucx_channel *, const void *head, size_t bytes,
                      struct lls_ucx_head *out);
ucs_status_t lls_ucx_on_message(void *context, const void *head, size_t head_bytes,
                                void *data, size_t bytes,
                                const ucp_am_recv_param_t *param);
ucs_status_t lls_ucx_on_peer(void *context, const void *head, size_t head_bytes,
                             void *data, size_t bytes, const ucp_am_recv_param_t *param);
ucs_status_t lls_ucx_on_taken(void *context, const void *head, size_t head_bytes,
                              void *data, size_t bytes, const ucp_am_recv_param_t *param);

/* ---- ucx_bulk.c */
int lls_ucx_open_bulk(struct lls_channel *, size_t bytes,
                      const struct lls_channel_memory *);
char *lls_ucx_bulk_room(struct lls_channel *, uint32_t to);
void lls_ucx_bulk_send(struct lls_channel *, uint32_t to, size_t bytes);
bool lls_ucx_bulk_receive(struct lls_channel *, struct lls_channel_message *out);
void lls_ucx_close_bulk(struct lls_channel *);
ucs_status_t lls_ucx_on_piece(void *context, const void *head, size_t head_bytes,
                              void *data, size_t bytes, const ucp_am_recv_param_t *param);

/* ---- ucx_join.c */
int lls_ucx_listen(struct lls_ucx_channel *, const char *address, struct lls_error *err);
/* Process 0: answers those who want to join. */
void lls_ucx_answer_guests(struct lls_ucx_channel *);
void lls_ucx_free_guests(struct lls_ucx_channel *);
int lls_ucx_join(struct lls_ucx_channel *, const struct lls_ucx_options *,
                 struct lls_error *err);
ucs_status_t lls_ucx_on_clock(void *context, const void *head, size_t head_bytes,
                              void *data, size_t bytes, const ucp_am_recv_param_t *param);
ucs_status_t lls_ucx_on_hello(void *context, const void *head, size_t head_bytes,
                              void *data, size_t bytes, const ucp_am_recv_param_t *param);
ucs_status_t lls_ucx_on_welcome(void *context, const void *head, size_t head_bytes,
                                void *data, size_t bytes,
                                const ucp_am_recv_param_t *param);

#endif
