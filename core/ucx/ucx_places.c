/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, and the places of processes. */
#include "core/ucx/ucx_channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORK 256 /* calls of ucp_worker_progress in a row */

int64_t lls_ucx_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* ---- connections ------------------------------------------------------------------- */

struct lls_ucx_guest *lls_ucx_find_guest(struct lls_ucx_channel *u, ucp_ep_h ep)
{
  struct lls_ucx_guest *g = u->guests;
  while (g != NULL && g->ep != ep)
    g = g->next;
  return ep != NULL ? g : NULL;
}

static void lose_guest(struct lls_ucx_channel *u, ucp_ep_h ep)
{
  struct lls_ucx_guest *g = lls_ucx_find_guest(u, ep);
  if (g != NULL)
    g->broken = true;
}

void lls_ucx_on_error(void *context, ucp_ep_h ep, ucs_status_t status)
{
  struct lls_ucx_channel *u = context;
  for (uint32_t i = 0; i < u->base.n; i++) {
    struct lls_ucx_other *o = &u->others[i];
    if (o->ep != ep)
      continue;
    o->broken = true;
    snprintf(o->why, sizeof o->why, "%s", ucs_status_string(status));
    return;
  }
  if (u->joining == ep)
    u->joining_broken = true;
  else
    lose_guest(u, ep);
}

void lls_ucx_close_ep(struct lls_ucx_channel *u, ucp_ep_h ep, bool at_once)
{
  const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = at_once ? UCP_EP_CLOSE_FLAG_FORCE : 0};
  (void)u;
  if (ep == NULL)
    return;
  ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);
  if (UCS_PTR_IS_PTR(request))
    ucp_request_free(request); /* once it is complete */
}

void lls_ucx_drop_coming(struct lls_ucx_channel *u, struct lls_ucx_other *o)
{
  for (uint32_t i = 0; i < o->n_coming; i++)
    ucp_am_data_release(u->worker, o->coming[i].descriptor);
  o->n_coming = 0;
}

/* In all processes but process 0: closes broken connections to others, which are opened
 * again if they are needed; pieces that were under way are lost. Whether a process is
 * lost is for process 0 to say. */
static void close_broken(struct lls_ucx_channel *u)
{
  for (uint32_t i = 1; i < u->base.n && u->base.self != 0; i++) {
    struct lls_ucx_other *o = &u->others[i];
    if (!o->broken)
      continue;
    lls_ucx_close_ep(u, o->ep, true);
    lls_ucx_drop_coming(u, o);
    o->ep = NULL;
    o->broken = false;
    o->cut_off = true;
  }
}

void lls_ucx_work(struct lls_ucx_channel *u)
{
  for (int i = 0; i < WORK && ucp_worker_progress(u->worker) > 0; i++)
    ;
  close_broken(u);
}

/* ---- places ------------------------------------------------------------------------ */

static void drop_mails(struct lls_ucx_other *o)
{
  struct lls_ucx_mail *next;
  for (struct lls_ucx_mail *m = o->first; m != NULL; m = next) {
    next = m->next;
    if (m->coming)
      m->abandoned = true;
    else
      lls_ucx_free_mail(m);
  }
  o->first = o->last = NULL;
}

/* Empties a place. The memory of its pieces stays: UCX may still use it. */
void lls_ucx_leave_place(struct lls_ucx_channel *u, struct lls_ucx_other *o)
{
  lls_ucx_drop_coming(u, o);
  drop_mails(o);
  lls_ucx_close_ep(u, o->ep, true);
  free(o->address);
  o->address = NULL;
  o->ep = NULL;
  o->broken = o->has_joined = o->cut_off = false;
  o->identity = o->n_sent = o->n_taken = o->n_received = o->n_said = 0;
}

void lls_ucx_admit(struct lls_ucx_channel *u, uint32_t index, uint64_t identity,
                   ucp_ep_h ep)
{
  struct lls_ucx_other *o = &u->others[index];
  lls_ucx_leave_place(u, o);
  o->identity = identity;
  o->ep = ep;
}

bool lls_ucx_connect(struct lls_ucx_channel *u, struct lls_ucx_other *o)
{
  if (o->address == NULL || u->base.self == 0)
    return false;
  const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                  .address = o->address,
                                  .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                  .err_handler = {.cb = lls_ucx_on_error, .arg = u}};
  if (ucp_ep_create(u->worker, &params, &o->ep) == UCS_OK)
    return true;
  o->ep = NULL;
  return false;
}

void lls_ucx_meet(struct lls_ucx_channel *u, const char *data, size_t bytes)
{
  struct lls_ucx_peer peer;
  if (bytes < sizeof peer)
    return;
  memcpy(&peer, data, sizeof peer);
  if (peer.index == 0 || peer.index >= u->base.n || peer.index == u->base.self ||
      peer.identity == 0 || bytes != sizeof peer + peer.address_bytes)
    return;
  struct lls_ucx_other *o = &u->others[peer.index];
  lls_ucx_admit(u, peer.index, peer.identity, NULL);
  o->address = malloc(peer.address_bytes + (size_t)1);
  if (o->address == NULL)
    return;
  memcpy(o->address, data + sizeof peer, peer.address_bytes);
  o->address_bytes = peer.address_bytes;
}
