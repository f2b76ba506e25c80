/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel over UCX: core/channel/channel.h, see ucx.h. This file opens and
 * ends it; ucx_places.c has connections and places, ucx_mail.c the messages, ucx_bulk.c
 * the pieces, ucx_join.c how processes join.
 */
#include "config.h"

#include "core/ucx/ucx_channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define END_NS 300000000 /* longest wait for connections to be closed in order */

static bool receive(struct lls_channel *c, struct lls_channel_message *out)
{
  lls_ucx_work(lls_ucx(c));
  lls_ucx_answer_guests(lls_ucx(c));
  return lls_ucx_receive(c, out);
}

/* A process that is lost before `joined` has returned it is reported after that. */
static uint32_t gone(struct lls_channel *c, struct lls_error *why)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  for (uint32_t i = 0; i < c->n; i++) {
    if (!u->others[i].broken || u->others[i].has_joined || (c->self != 0 && i != 0))
      continue;
    lls_fail(why, 0, "the connection to its process has broken (%s)", u->others[i].why);
    return i;
  }
  return LLS_NOBODY;
}

static uint32_t joined(struct lls_channel *c)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  for (uint32_t i = 0; i < c->n; i++)
    if (u->others[i].has_joined) {
      u->others[i].has_joined = false;
      return i;
    }
  return LLS_NOBODY;
}

static uint32_t cut_off(struct lls_channel *c)
{
  struct lls_ucx_channel *u = lls_ucx(c);
  for (uint32_t i = 0; i < c->n; i++)
    if (u->others[i].cut_off) {
      u->others[i].cut_off = false;
      return i;
    }
  return LLS_NOBODY;
}

static void forget(struct lls_channel *c, uint32_t index)
{
  lls_ucx_leave_place(lls_ucx(c), &lls_ucx(c)->others[index]);
}

/* The service manager restarts the process. */
static void end_hung(struct lls_channel *c, uint32_t index)
{
  (void)c;
  (void)index;
}

/* ---- creation and end -------------------------------------------------------------- */

static int set_handlers(struct lls_ucx_channel *u, struct lls_error *err)
{
  static const ucp_am_recv_callback_t handlers[LLS_UCX_KINDS] = {
      [LLS_UCX_MESSAGE] = lls_ucx_on_message, [LLS_UCX_PEER] = lls_ucx_on_peer,
      [LLS_UCX_TAKEN] = lls_ucx_on_taken,     [LLS_UCX_PIECE] = lls_ucx_on_piece,
      [LLS_UCX_CLOCK] = lls_ucx_on_clock,     [LLS_UCX_HELLO] = lls_ucx_on_hello,
      [LLS_UCX_WELCOME] = lls_ucx_on_welcome,
  };
  for (unsigned i = 0; i < LLS_UCX_KINDS; i++) {
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = i,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = handlers[i],
        .arg = u};
    ucs_status_t status = ucp_worker_set_am_recv_handler(u->worker, &param);
    if (status != UCS_OK)
      return lls_fail(err, -EIO, "UCX: %s", ucs_status_string(status));
  }
  return 0;
}

static int start(struct lls_ucx_channel *u, struct lls_error *err)
{
  const ucp_params_t params = {.field_mask =
                                   UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                               .features = UCP_FEATURE_AM,
                               .name = "llmserve"};
  const ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                      .thread_mode = UCS_THREAD_MODE_SERIALIZED};
  ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
  while (u->identity == 0)
    if (getrandom(&u->identity, sizeof u->identity, 0) < 0)
      return lls_fail(err, -errno, "no random number: %s", strerror(errno));
  ucs_status_t status = ucp_init(&params, NULL, &u->context);
  if (status == UCS_OK)
    status = ucp_worker_create(u->context, &worker, &u->worker);
  if (status == UCS_OK)
    status = ucp_worker_get_address(u->worker, &u->address, &u->address_bytes);
  if (status != UCS_OK)
    return lls_fail(err, -EIO, "UCX: %s", ucs_status_string(status));
  u->base.gpu_aware = ucp_context_query(u->context, &attr) == UCS_OK &&
                      (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  return set_handlers(u, err);
}

/* Closes all connections, those that are whole after everything sent has left. */
static void close_all(struct lls_ucx_channel *u)
{
  int64_t until_ns = lls_ucx_now() + END_NS;
  ucs_status_ptr_t closing[LLS_UCX_MOST] = {NULL};
  const ucp_request_param_t param = {.op_attr_mask = 0};
  for (uint32_t i = 0; u->others != NULL && i < u->base.n; i++) {
    struct lls_ucx_other *o = &u->others[i];
    if (o->ep == NULL || o->broken)
      continue;
    closing[i] = ucp_ep_close_nbx(o->ep, &param);
    o->ep = NULL;
  }
  for (uint32_t i = 0; i < u->base.n; i++) {
    while (UCS_PTR_IS_PTR(closing[i]) &&
           ucp_request_check_status(closing[i]) == UCS_INPROGRESS &&
           lls_ucx_now() < until_ns)
      ucp_worker_progress(u->worker);
    if (UCS_PTR_IS_PTR(closing[i]))
      ucp_request_free(closing[i]);
  }
  for (uint32_t i = 0; u->others != NULL && i < u->base.n; i++)
    lls_ucx_leave_place(u, &u->others[i]);
  lls_ucx_work(u);
}

static void end(struct lls_ucx_channel *u)
{
  if (u->worker != NULL) {
    close_all(u);
    lls_ucx_free_guests(u);
    if (u->listener != NULL)
      ucp_listener_destroy(u->listener);
    if (u->address != NULL)
      ucp_worker_release_address(u->worker, u->address);
    ucp_worker_destroy(u->worker);
  }
  if (u->context != NULL)
    ucp_cleanup(u->context);
  free(u->others);
  free(u);
}

static void destroy(struct lls_channel *c, bool orderly)
{
  (void)orderly;
  lls_ucx_close_bulk(c);
  end(lls_ucx(c));
}

static const struct lls_channel_ops ops = {
    .name = "ucx",
    .send = lls_ucx_send_message,
    .receive = receive,
    .is_flushed = lls_ucx_is_flushed,
    .count = lls_ucx_count,
    .open_bulk = lls_ucx_open_bulk,
    .bulk_room = lls_ucx_bulk_room,
    .bulk_send = lls_ucx_bulk_send,
    .bulk_receive = lls_ucx_bulk_receive,
    .close_bulk = lls_ucx_close_bulk,
    .gone = gone,
    .joined = joined,
    .cut_off = cut_off,
    .forget = forget,
    .end_hung = end_hung,
    .destroy = destroy,
};

/* Names what processes with the same clock have in common. */
static void name_machine(char *out, size_t size)
{
  char boot[64] = "", space[64] = "";
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (f != NULL && fgets(boot, sizeof boot, f) == NULL)
    boot[0] = '\0';
  if (f != NULL)
    fclose(f);
  if (readlink("/proc/self/ns/time", space, sizeof space - 1) < 0)
    space[0] = '\0';
  snprintf(out, size, "%s %s", boot, space);
}

static int open_channel(const struct lls_ucx_options *o, struct lls_channel **out,
                        struct lls_error *err)
{
  struct lls_ucx_channel *u = calloc(1, sizeof *u);
  if (u == NULL || o->n > LLS_UCX_MOST) {
    free(u);
    return lls_fail(err, -ENOMEM, "out of memory for %u processes", o->n);
  }
  u->base = (struct lls_channel){
      .ops = &ops, .n = o->n, .local_n = 1, .survives = true, .elastic = true};
  u->others = calloc(o->n, sizeof *u->others);
  memcpy(u->roles, o->roles, o->n * sizeof *o->roles);
  snprintf(u->secret, sizeof u->secret, "%s", o->secret);
  snprintf(u->model, sizeof u->model, "%s", o->model);
  u->say = o->say;
  u->say_context = o->context;
  name_machine(u->machine, sizeof u->machine);
  int rc = u->others != NULL ? start(u, err) : lls_fail(err, -ENOMEM, "no memory");
  if (rc == 0 && o->join == NULL)
    rc = lls_ucx_listen(u, o->listen, err);
  else if (rc == 0)
    rc = lls_ucx_join(u, o, err);
  if (rc < 0) {
    end(u);
    return rc;
  }
  *out = &u->base;
  return 0;
}

extern const struct lls_ucx_module lls_ucx_module;
__attribute__((visibility("default"))) const struct lls_ucx_module lls_ucx_module = {
    .size = sizeof(struct lls_ucx_module),
    .version = PACKAGE_VERSION,
    .open = open_channel,
};
