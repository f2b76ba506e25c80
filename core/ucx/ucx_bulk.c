/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of bulk data, always by UCX's rendezvous: the sender keeps a piece until its
 * receiver has memory for it, which limits what is under way to each process, and UCX
 * then moves it by the best way that both ends have.
 */
#include "core/ucx/ucx_channel.h"

#include <errno.h>
#include <string.h>

int lls_ucx_open_bulk(struct lls_channel *c, size_t bytes,
                      const struct lls_channel_memory *memory)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  u->memory = *memory;
  u->piece_bytes = bytes;
  for (uint32_t i = 0; i < LLS_UCX_POSTED; i++) {
    u->posted[i] = (struct lls_ucx_piece){.from = LLS_NOBODY};
    u->posted[i].data = memory->take(memory->context, bytes);
    if (u->posted[i].data == NULL)
      return -ENOMEM;
  }
  for (uint32_t to = 0; memory->at_once && to < c->n; to++)
    for (uint32_t i = 0; i < LLS_UCX_WINDOW && to != c->self; i++) {
      char **data = &u->others[to].window[i].data;
      *data = memory->take(memory->context, bytes);
      if (*data == NULL)
        return -ENOMEM;
    }
  return 0;
}

/* ---- sending ----------------------------------------------------------------------- */

char *lls_ucx_bulk_room(struct lls_channel *c, uint32_t to)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  struct lls_ucx_other *o = &u->others[to];
  if (u->piece_bytes == 0 || o->broken || (o->ep == NULL && !lls_ucx_connect(u, o)))
    return NULL;
  for (uint32_t i = 0; i < LLS_UCX_WINDOW; i++) {
    struct lls_ucx_piece *p = &o->window[i];
    if (p->busy)
      continue;
    if (p->data == NULL)
      p->data = u->memory.take(u->memory.context, u->piece_bytes);
    o->filled = i;
    return p->data;
  }
  return NULL;
}

static void on_sent(void *request, ucs_status_t status, void *piece)
{
  (void)status; /* a failure breaks the connection */
  ((struct lls_ucx_piece *)piece)->busy = false;
  ucp_request_free(request);
}

void lls_ucx_bulk_send(struct lls_channel *c, uint32_t to, size_t bytes)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  struct lls_ucx_other *o = &u->others[to];
  struct lls_ucx_piece *p = &o->window[o->filled];
  const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                     UCP_OP_ATTR_FIELD_USER_DATA |
                                                     UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = UCP_AM_SEND_FLAG_RNDV,
                                     .cb.send = on_sent,
                                     .user_data = p};
  if (o->ep == NULL)
    return;
  p->head = lls_ucx_head_to(u, o->identity, 0);
  ucs_status_ptr_t request = ucp_am_send_nbx(o->ep, LLS_UCX_PIECE, &p->head,
                                             sizeof p->head, p->data, bytes, &param);
  p->busy = UCS_PTR_IS_PTR(request);
}

/* ---- receiving --------------------------------------------------------------------- */

ucs_status_t lls_ucx_on_piece(void *context, const void *data, size_t head_bytes,
                              void *descriptor, size_t bytes,
                              const ucp_am_recv_param_t *param)
{
  struct lls_ucx_channel *u = context;
  struct lls_ucx_head head;
  if (!lls_ucx_is_known(u, data, head_bytes, &head) || bytes > u->piece_bytes ||
      (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0)
    return UCS_OK;
  struct lls_ucx_other *o = &u->others[head.from];
  if (o->n_coming == LLS_UCX_WINDOW) { /* some are of a connection that has broken */
    o->cut_off = true;
    return UCS_OK;
  }
  o->coming[o->n_coming].descriptor = descriptor;
  o->coming[o->n_coming++].bytes = bytes;
  return UCS_INPROGRESS; /* UCX keeps the descriptor */
}

static void on_received(void *request, ucs_status_t status, size_t bytes, void *piece)
{
  struct lls_ucx_piece *p = piece;
  p->busy = false;
  p->failed = status != UCS_OK || bytes != p->bytes;
  ucp_request_free(request);
}

/* Receives the first piece that a process has announced. */
static void begin(struct lls_ucx_channel *u, uint32_t from, struct lls_ucx_piece *p)
{
  struct lls_ucx_other *o = &u->others[from];
  void *descriptor = o->coming[0].descriptor;
  const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                     UCP_OP_ATTR_FIELD_USER_DATA,
                                     .cb.recv_am = on_received,
                                     .user_data = p};
  p->from = from;
  p->head.identity = o->identity;
  p->bytes = o->coming[0].bytes;
  o->n_coming--;
  memmove(o->coming, o->coming + 1, o->n_coming * sizeof *o->coming);
  ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(u->worker, descriptor, p->data, p->bytes, &param);
  p->busy = UCS_PTR_IS_PTR(request);
  p->failed = UCS_PTR_IS_ERR(request);
}

static void begin_all(struct lls_ucx_channel *u)
{
  uint32_t from = 0;
  for (uint32_t i = 0; i < LLS_UCX_POSTED; i++) {
    if (u->posted[i].from != LLS_NOBODY)
      continue;
    while (from < u->base.n && u->others[from].n_coming == 0)
      from++;
    if (from == u->base.n)
      return;
    begin(u, from, &u->posted[i]);
  }
}

bool lls_ucx_bulk_receive(struct lls_channel *c, struct lls_channel_message *out)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  if (u->piece_bytes == 0)
    return false;
  if (u->lent != NULL)
    u->lent->from = LLS_NOBODY;
  u->lent = NULL;
  lls_ucx_work(u);
  begin_all(u);
  for (uint32_t i = 0; i < LLS_UCX_POSTED; i++) {
    struct lls_ucx_piece *p = &u->posted[i];
    if (p->from == LLS_NOBODY || p->busy)
      continue;
    struct lls_ucx_other *o = &u->others[p->from];
    bool known = p->head.identity == o->identity; /* else its process is lost */
    o->cut_off |= known && p->failed;
    if (!known || p->failed) {
      p->from = LLS_NOBODY;
      continue;
    }
    *out =
        (struct lls_channel_message){.from = p->from, .bytes = p->bytes, .data = p->data};
    u->lent = p;
    return true;
  }
  return false;
}

/* ---- end --------------------------------------------------------------------------- */

/* Memory that UCX uses is left to it. */
static void give_back(struct lls_ucx_channel *u, struct lls_ucx_piece *p)
{
  if (p->data != NULL && !p->busy)
    u->memory.give_back(u->memory.context, p->data);
  p->data = NULL;
}

static bool is_busy(const struct lls_ucx_channel *u)
{
  bool busy = false;
  for (uint32_t i = 0; i < LLS_UCX_POSTED; i++)
    busy |= u->posted[i].busy;
  for (uint32_t to = 0; to < u->base.n; to++)
    for (uint32_t i = 0; i < LLS_UCX_WINDOW; i++)
      busy |= u->others[to].window[i].busy;
  return busy;
}

void lls_ucx_close_bulk(struct lls_channel *c)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  if (u->piece_bytes == 0)
    return;
  for (uint32_t i = 0; i < c->n; i++)
    lls_ucx_drop_coming(u, &u->others[i]);
  for (uint32_t i = 0; i < c->n && is_busy(u); i++) { /* this ends what is under way */
    lls_ucx_close_ep(u, u->others[i].ep, true);
    u->others[i].ep = NULL;
  }
  int64_t until_ns = lls_ucx_now() + 300000000;
  while (is_busy(u) && lls_ucx_now() < until_ns)
    lls_ucx_work(u);
  for (uint32_t i = 0; i < LLS_UCX_POSTED; i++)
    give_back(u, &u->posted[i]);
  for (uint32_t to = 0; to < c->n; to++)
    for (uint32_t i = 0; i < LLS_UCX_WINDOW; i++)
      give_back(u, &u->others[to].window[i]);
  u->lent = NULL;
  u->piece_bytes = 0;
}
