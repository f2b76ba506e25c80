/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages are active messages with a number, so that they are handed out in order even
 * if UCX uses several rails. The receiver reports with TAKEN how many it has handed out.
 * UCX completes all sends to a process whose connection breaks, so nothing is abandoned.
 */
#include "core/ucx/ucx_channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x6c6c7531u
/* No message of this server is longer: the longest are prompts of a request. */
#define MOST_BYTES ((size_t)256 << 20)

/* ---- sending ----------------------------------------------------------------------- */

static void on_sent(void *request, ucs_status_t status, void *mail)
{
  (void)status; /* a failure breaks the connection */
  lls_ucx_free_mail(mail);
  ucp_request_free(request);
}

static void post(ucp_ep_h ep, struct lls_ucx_mail *m, uint32_t flags)
{
  const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                     UCP_OP_ATTR_FIELD_USER_DATA |
                                                     UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = flags,
                                     .cb.send = on_sent,
                                     .user_data = m};
  ucs_status_ptr_t request = ucp_am_send_nbx(ep, (unsigned)m->kind, &m->head,
                                             sizeof m->head, m->data, m->bytes, &param);
  if (!UCS_PTR_IS_PTR(request))
    lls_ucx_free_mail(m); /* sent, or the connection is broken */
}

struct lls_ucx_head lls_ucx_head_to(const struct lls_ucx_channel *u, uint64_t to,
                                    uint64_t number)
{
  return (struct lls_ucx_head){.magic = MAGIC,
                               .from = u->base.self,
                               .identity = u->identity,
                               .to = to,
                               .number = number};
}

void lls_ucx_send(struct lls_ucx_channel *u, uint32_t to, enum lls_ucx_kind kind,
                  char *data, size_t bytes)
{
  struct lls_ucx_other *o = &u->others[to];
  bool there = o->ep != NULL && !o->broken;
  struct lls_ucx_mail *m = there ? calloc(1, sizeof *m) : NULL;
  if (m == NULL) {
    o->broken |= there; /* without memory no message may be left out */
    free(data);
    return;
  }
  *m = (struct lls_ucx_mail){.head = lls_ucx_head_to(u, o->identity, ++o->n_sent),
                             .kind = kind,
                             .data = data,
                             .bytes = bytes};
  post(o->ep, m, 0);
}

void lls_ucx_send_first(struct lls_ucx_channel *u, ucp_ep_h ep, enum lls_ucx_kind kind,
                        const void *data, size_t bytes)
{
  struct lls_ucx_mail *m = calloc(1, sizeof *m);
  if (m != NULL)
    m->data = malloc(bytes + 1);
  if (m == NULL || m->data == NULL) {
    free(m);
    return;
  }
  memcpy(m->data, data, bytes);
  m->head = lls_ucx_head_to(u, 0, 0);
  m->kind = kind;
  m->bytes = bytes;
  post(ep, m, UCP_AM_SEND_FLAG_REPLY);
}

void lls_ucx_send_message(struct lls_channel *c, uint32_t to, char *data, size_t bytes)
{
  lls_ucx_send(lls_ucx(c), to, LLS_UCX_MESSAGE, data, bytes);
}

static void on_said(void *request, ucs_status_t status, void *other)
{
  (void)status;
  ((struct lls_ucx_other *)other)->says = false;
  ucp_request_free(request);
}

/* Reports how many messages of a process were received, unless such a report is under
 * way. */
static void say_taken(struct lls_ucx_channel *u, struct lls_ucx_other *o)
{
  const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                     UCP_OP_ATTR_FIELD_USER_DATA,
                                     .cb.send = on_said,
                                     .user_data = o};
  if (o->ep == NULL || o->broken || o->says || o->n_said == o->n_received)
    return;
  o->n_said = o->n_received;
  o->taken = lls_ucx_head_to(u, o->identity, o->n_received);
  ucs_status_ptr_t request =
      ucp_am_send_nbx(o->ep, LLS_UCX_TAKEN, &o->taken, sizeof o->taken, NULL, 0, &param);
  o->says = UCS_PTR_IS_PTR(request);
}

static void say_all_taken(struct lls_ucx_channel *u)
{
  for (uint32_t i = 0; i < u->base.n; i++)
    say_taken(u, &u->others[i]);
}

bool lls_ucx_is_flushed(struct lls_channel *c)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  bool flushed = true;
  lls_ucx_work(u);
  say_all_taken(u);
  for (uint32_t i = 0; i < c->n; i++) {
    const struct lls_ucx_other *o = &u->others[i];
    bool there = o->ep != NULL && !o->broken;
    flushed &= !there || (o->n_taken == o->n_sent && !o->says);
  }
  return flushed;
}

struct lls_channel_count lls_ucx_count(struct lls_channel *c, uint32_t to)
{
  const struct lls_ucx_other *o = &lls_ucx(c)->others[to];
  return (struct lls_channel_count){.sent = o->n_sent, .taken = o->n_taken};
}

/* ---- receiving --------------------------------------------------------------------- */

bool lls_ucx_is_known(const struct lls_ucx_channel *u, const void *head, size_t bytes,
                      struct lls_ucx_head *out)
{
  if (bytes != sizeof *out)
    return false;
  memcpy(out, head, sizeof *out);
  return out->magic == MAGIC && out->from < u->base.n && out->from != u->base.self &&
         out->to == u->identity && out->identity != 0 &&
         out->identity == u->others[out->from].identity;
}

/* Adds a message in the order of the numbers. Returns false if there is one with its
 * number. */
static bool insert(struct lls_ucx_other *o, struct lls_ucx_mail *m)
{
  struct lls_ucx_mail **at = &o->first;
  if (o->last != NULL && o->last->head.number < m->head.number)
    at = &o->last->next;
  while (*at != NULL && (*at)->head.number < m->head.number)
    at = &(*at)->next;
  if (m->head.number <= o->n_received ||
      (*at != NULL && (*at)->head.number == m->head.number))
    return false;
  m->next = *at;
  *at = m;
  if (m->next == NULL)
    o->last = m;
  return true;
}

static void on_read(void *request, ucs_status_t status, size_t bytes, void *mail)
{
  struct lls_ucx_mail *m = mail;
  m->coming = false;
  m->complete = status == UCS_OK && bytes == m->bytes;
  if (m->abandoned)
    lls_ucx_free_mail(m);
  ucp_request_free(request);
}

/* Begins to receive a message that UCX has announced. */
static void read_later(struct lls_ucx_channel *u, struct lls_ucx_mail *m, void *data)
{
  const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                     UCP_OP_ATTR_FIELD_USER_DATA,
                                     .cb.recv_am = on_read,
                                     .user_data = m};
  m->coming = true;
  ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(u->worker, data, m->data, m->bytes, &param);
  if (UCS_PTR_IS_PTR(request))
    return;
  m->coming = false;
  m->complete = !UCS_PTR_IS_ERR(request);
}

static ucs_status_t on_mail(struct lls_ucx_channel *u, enum lls_ucx_kind kind,
                            const struct lls_ucx_head *head, void *data, size_t bytes,
                            bool is_announced)
{
  struct lls_ucx_other *o = &u->others[head->from];
  struct lls_ucx_mail *m = bytes <= MOST_BYTES ? calloc(1, sizeof *m) : NULL;
  if (m != NULL)
    m->data = malloc(bytes + 1);
  if (m == NULL || m->data == NULL) {
    free(m);
    o->broken = true;
    snprintf(o->why, sizeof o->why, "a message of %zu bytes cannot be taken", bytes);
    return UCS_OK;
  }
  m->head = *head;
  m->kind = kind;
  m->bytes = bytes;
  if (!insert(o, m)) {
    lls_ucx_free_mail(m);
    return UCS_OK;
  }
  if (is_announced) {
    read_later(u, m, data);
    return UCS_OK;
  }
  memcpy(m->data, data, bytes);
  m->complete = true;
  return UCS_OK;
}

static bool is_announced(const ucp_am_recv_param_t *param)
{
  return (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
}

ucs_status_t lls_ucx_on_message(void *context, const void *data, size_t head_bytes,
                                void *body, size_t bytes,
                                const ucp_am_recv_param_t *param)
{
  struct lls_ucx_head head;
  if (!lls_ucx_is_known(context, data, head_bytes, &head))
    return UCS_OK;
  return on_mail(context, LLS_UCX_MESSAGE, &head, body, bytes, is_announced(param));
}

ucs_status_t lls_ucx_on_peer(void *context, const void *data, size_t head_bytes,
                             void *body, size_t bytes, const ucp_am_recv_param_t *param)
{
  struct lls_ucx_head head;
  if (!lls_ucx_is_known(context, data, head_bytes, &head) || head.from != 0)
    return UCS_OK;
  return on_mail(context, LLS_UCX_PEER, &head, body, bytes, is_announced(param));
}

ucs_status_t lls_ucx_on_taken(void *context, const void *data, size_t head_bytes,
                              void *body, size_t bytes, const ucp_am_recv_param_t *param)
{
  struct lls_ucx_channel *u = context;
  struct lls_ucx_head head;
  (void)body;
  (void)bytes;
  (void)param;
  if (!lls_ucx_is_known(u, data, head_bytes, &head))
    return UCS_OK;
  struct lls_ucx_other *o = &u->others[head.from];
  if (head.number <= o->n_sent && head.number > o->n_taken)
    o->n_taken = head.number;
  return UCS_OK;
}

/* Takes the next message of a process, if it has arrived. One that UCX could not read
 * breaks the connection: the messages after it would wait for ever. */
static struct lls_ucx_mail *take_next(struct lls_ucx_other *o)
{
  struct lls_ucx_mail *m = o->first;
  if (m == NULL || m->head.number != o->n_received + 1)
    return NULL;
  if (!m->complete && !m->coming && !o->broken) {
    o->broken = true;
    snprintf(o->why, sizeof o->why, "a message of %zu bytes was not received", m->bytes);
  }
  if (!m->complete)
    return NULL;
  o->first = m->next;
  o->last = m->next != NULL ? o->last : NULL;
  o->n_received++;
  return m;
}

bool lls_ucx_receive(struct lls_channel *c, struct lls_channel_message *out)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  say_all_taken(u);
  for (uint32_t i = 0; i < c->n; i++) {
    uint32_t from = (u->next + i) % c->n;
    struct lls_ucx_mail *m;
    while (!u->others[from].has_joined && (m = take_next(&u->others[from])) != NULL) {
      if (m->kind == LLS_UCX_PEER) {
        lls_ucx_meet(u, m->data, m->bytes);
        lls_ucx_free_mail(m);
        continue;
      }
      *out =
          (struct lls_channel_message){.from = from, .bytes = m->bytes, .data = m->data};
      free(m);
      u->next = (from + 1) % c->n;
      return true;
    }
  }
  return false;
}
