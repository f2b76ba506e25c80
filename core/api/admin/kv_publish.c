/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes KV events over ZeroMQ as vLLM does: a PUB socket sends each batch as three
 * frames (topic, number in 8 bytes, the highest first, payload); a ROUTER socket answers
 * a request with a number by all kept batches from that number on, and an end.
 *
 * A batch is kept once, however many sockets still have to send it: ZeroMQ's thread gives
 * it back when it has. Both sockets are main's.
 */
#include "config.h"

#include "core/api/kv_events.h"

#include <errno.h>

#ifdef LLS_ZMQ
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define KEPT_BATCHES 10000
#define KEPT_BYTES   (16 * 1024 * 1024)
#define MOST_WAITING 1000 /* batches that a slow reader may have to read */
#define MOST_REQUEST 64   /* bytes of a request for missed batches */
#define MOST_ANSWERS 16   /* requests answered at a time */

struct batch {
  atomic_uint holders;
  uint64_t number;
  void *data; /* (bytes) */
  size_t bytes;
};

struct lls_kv_publisher {
  void *context, *pub, *router; /* router NULL: no replay */
  char *topic;
  struct batch *kept[KEPT_BATCHES]; /* (n) a ring from `first` on */
  uint32_t first, n;
  size_t kept_bytes;
};

/* ---- batches ----------------------------------------------------------------------- */

static void let_go(struct batch *b)
{
  if (atomic_fetch_sub(&b->holders, 1) > 1)
    return;
  free(b->data);
  free(b);
}

/* [any] ZeroMQ has sent it. */
static void on_sent(void *data, void *hint)
{
  (void)data;
  let_go(hint);
}

static void drop_oldest(struct lls_kv_publisher *p)
{
  struct batch *b = p->kept[p->first];
  p->first = (p->first + 1) % KEPT_BATCHES;
  p->n--;
  p->kept_bytes -= b->bytes;
  let_go(b);
}

static void keep(struct lls_kv_publisher *p, struct batch *b)
{
  while (p->n > 0 && (p->n == KEPT_BATCHES || p->kept_bytes + b->bytes > KEPT_BYTES))
    drop_oldest(p);
  atomic_fetch_add(&b->holders, 1);
  p->kept[(p->first + p->n++) % KEPT_BATCHES] = b;
  p->kept_bytes += b->bytes;
}

/* ---- frames ------------------------------------------------------------------------ */

static bool send_bytes(void *socket, const void *data, size_t bytes, int more)
{
  return zmq_send(socket, data, bytes, ZMQ_DONTWAIT | more) >= 0;
}

static bool send_number(void *socket, uint64_t number)
{
  uint8_t text[8];
  for (unsigned i = 0; i < sizeof text; i++)
    text[i] = (uint8_t)(number >> (56 - 8 * i));
  return send_bytes(socket, text, sizeof text, ZMQ_SNDMORE);
}

static bool send_batch(void *socket, struct batch *b)
{
  zmq_msg_t message;
  if (!send_number(socket, b->number))
    return false;
  atomic_fetch_add(&b->holders, 1);
  if (zmq_msg_init_data(&message, b->data, b->bytes, on_sent, b) != 0) {
    let_go(b);
    return false;
  }
  if (zmq_msg_send(&message, socket, ZMQ_DONTWAIT) >= 0)
    return true;
  zmq_msg_close(&message); /* calls on_sent */
  return false;
}

void lls_kv_publisher_send(struct lls_kv_publisher *p, uint64_t number, void *data,
                           size_t bytes)
{
  struct batch *b = malloc(sizeof *b);
  if (b == NULL) {
    free(data);
    return;
  }
  *b = (struct batch){.number = number, .data = data, .bytes = bytes};
  atomic_init(&b->holders, 1);
  if (send_bytes(p->pub, p->topic, strlen(p->topic), ZMQ_SNDMORE))
    send_batch(p->pub, b);
  if (p->router != NULL)
    keep(p, b);
  let_go(b);
}

/* ---- missed batches ---------------------------------------------------------------- */

/* Receives a frame of at most `room` bytes. Returns its size, also if that is more; -1:
 * there is none. */
static int receive(void *socket, void *data, size_t room, bool *more)
{
  int flag = 0;
  size_t size = sizeof flag;
  int n = zmq_recv(socket, data, room, ZMQ_DONTWAIT);
  if (n >= 0)
    zmq_getsockopt(socket, ZMQ_RCVMORE, &flag, &size);
  *more = flag != 0;
  return n;
}

static bool send_to(void *router, const void *who, size_t bytes)
{
  return send_bytes(router, who, bytes, ZMQ_SNDMORE) &&
         send_bytes(router, "", 0, ZMQ_SNDMORE);
}

static void answer(struct lls_kv_publisher *p, const void *who, size_t bytes,
                   uint64_t from)
{
  for (uint32_t i = 0; i < p->n; i++) {
    struct batch *b = p->kept[(p->first + i) % KEPT_BATCHES];
    if (b->number >= from &&
        (!send_to(p->router, who, bytes) || !send_batch(p->router, b)))
      return;
  }
  if (send_to(p->router, who, bytes) && send_number(p->router, UINT64_MAX))
    send_bytes(p->router, "", 0, 0);
}

/* A request is: who asks, an empty frame, the number in 8 bytes. Others are dropped. */
static bool take_request(struct lls_kv_publisher *p)
{
  uint8_t who[MOST_REQUEST], number[MOST_REQUEST], rest[MOST_REQUEST];
  bool more = false;
  uint64_t from = 0;
  int n_who = receive(p->router, who, sizeof who, &more), n_empty = -1, n = -1;
  if (n_who < 0)
    return false;
  if (more)
    n_empty = receive(p->router, rest, sizeof rest, &more);
  if (more)
    n = receive(p->router, number, sizeof number, &more);
  bool good = n_who <= MOST_REQUEST && n_empty == 0 && n == sizeof from && !more;
  while (more)
    receive(p->router, rest, sizeof rest, &more);
  for (unsigned i = 0; good && i < sizeof from; i++)
    from = from << 8 | number[i];
  if (good)
    answer(p, who, (size_t)n_who, from);
  return true;
}

void lls_kv_publisher_answer(struct lls_kv_publisher *p)
{
  for (int i = 0; p->router != NULL && i < MOST_ANSWERS && take_request(p); i++)
    ;
}

/* ---- life -------------------------------------------------------------------------- */

static void set(void *socket, int option, int value)
{
  zmq_setsockopt(socket, option, &value, sizeof value);
}

static int open_socket(struct lls_kv_publisher *p, int type, const char *endpoint,
                       const char *key, void **out, struct lls_error *err)
{
  int64_t most = MOST_REQUEST;
  *out = zmq_socket(p->context, type);
  if (*out == NULL)
    return lls_fail(err, -ENOMEM, "[server] %s: %s", key, zmq_strerror(zmq_errno()));
  set(*out, ZMQ_LINGER, 0);
  set(*out, ZMQ_SNDHWM, type == ZMQ_PUB ? MOST_WAITING : KEPT_BATCHES + 1);
  zmq_setsockopt(*out, ZMQ_MAXMSGSIZE, &most, sizeof most);
  if (zmq_bind(*out, endpoint) == 0)
    return 0;
  return lls_fail(err, -EADDRNOTAVAIL, "[server] %s: %s: %s", key, endpoint,
                  zmq_strerror(zmq_errno()));
}

int lls_kv_publisher_open(const struct lls_kv_config *c, struct lls_kv_publisher **out,
                          struct lls_error *err)
{
  struct lls_kv_publisher *p = calloc(1, sizeof *p);
  if (p == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  p->context = zmq_ctx_new();
  p->topic = strdup(c->topic);
  int rc = p->context != NULL && p->topic != NULL
               ? open_socket(p, ZMQ_PUB, c->endpoint, "kv_events", &p->pub, err)
               : lls_fail(err, -ENOMEM, "out of memory");
  if (rc == 0 && c->replay[0] != '\0')
    rc = open_socket(p, ZMQ_ROUTER, c->replay, "kv_events_replay", &p->router, err);
  if (rc < 0)
    lls_kv_publisher_close(p);
  else
    *out = p;
  return rc;
}

/* The end of the context gives back all batches that were not sent. */
void lls_kv_publisher_close(struct lls_kv_publisher *p)
{
  if (p->pub != NULL)
    zmq_close(p->pub);
  if (p->router != NULL)
    zmq_close(p->router);
  if (p->context != NULL)
    zmq_ctx_term(p->context);
  while (p->n > 0)
    drop_oldest(p);
  free(p->topic);
  free(p);
}

#else

int lls_kv_publisher_open(const struct lls_kv_config *c, struct lls_kv_publisher **out,
                          struct lls_error *err)
{
  (void)out;
  return lls_fail(err, -ENOTSUP,
                  "[server] kv_events: %s cannot be used: llmserve was built without "
                  "ZeroMQ (Debian: libzmq3-dev); kv_events = stream needs none",
                  c->endpoint);
}

void lls_kv_publisher_send(struct lls_kv_publisher *p, uint64_t number, void *data,
                           size_t bytes)
{
  (void)p;
  (void)number;
  (void)bytes;
  free(data);
}

void lls_kv_publisher_answer(struct lls_kv_publisher *p)
{
  (void)p;
}

void lls_kv_publisher_close(struct lls_kv_publisher *p)
{
  (void)p;
}
#endif
