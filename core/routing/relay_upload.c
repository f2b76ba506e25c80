/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upload on its way: its body is passed on as it arrives, in chunks, and never held as
 * a whole.
 *
 *   head --> receiving, while pieces go to the process --> body complete: waits for its
 *                |                                         answer, as any other relay
 *                +-- failed: the rest is dropped, and the error is the answer
 *
 * While the model is loaded the connection is not read. Later it is not read while HIGH
 * bytes of the upload, or ALL of all uploads, wait for the process.
 */
#include "core/routing/routing_internal.h"

#include "core/http/server.h"

#define HIGH (256 << 10)
#define LOW  (HIGH / 4)
#define ALL  (16 << 20)

/* Appends a chunk (RFC 9112, 7.1); the one without data is the last. */
static void append_chunk(struct lls_text *to, const char *data, size_t length)
{
  lls_text_printf(to, "%zx\r\n", length);
  lls_text_append(to, data, length);
  lls_text_puts(to, "\r\n");
}

/* Passes a chunk on, or keeps it while there is no process. Returns false without memory:
 * the relay has failed then. */
static bool pass_on(struct lls_relay *r, const char *data, size_t length)
{
  struct lls_text chunk = {0};
  struct lls_api_error error;
  bool kept = r->upstream == NULL;
  append_chunk(kept ? &r->body : &chunk, data, length);
  if (kept ? !r->body.failed : lls_upstream_send(r->upstream, &chunk) == 0)
    return true;
  lls_api_fail(&error, 503, "out_of_memory", NULL, "out of memory");
  lls_relay_fail(r, &error);
  return false;
}

static void on_piece(void *owner, const char *data, size_t length)
{
  struct lls_relay *r = owner;
  const struct lls_upstreams *all = &r->routing->upstreams;
  if (r->model == NULL || length == 0 || !pass_on(r, data, length))
    return;
  /* with nothing unsent no on_taken would follow, and the hold would never end */
  size_t unsent = r->upstream != NULL ? lls_upstream_unsent(r->upstream) : 0;
  if (unsent >= HIGH || (unsent > 0 && all->unsent >= ALL))
    lls_http_hold(r->exchange);
}

static void on_taken(void *context)
{
  struct lls_relay *r = context;
  if (r->receiving && lls_upstream_unsent(r->upstream) <= LOW)
    lls_http_go_on(r->exchange);
}

bool lls_relay_begin_upload(struct lls_routing *routing, struct lls_hosted *m,
                            struct lls_http_exchange *exchange)
{
  struct lls_relay *r = lls_relay_new(routing, m, exchange);
  LLS_ROUTING_ON_MAIN(routing);
  if (r == NULL)
    return false;
  exchange->request.sink = (struct lls_http_sink){
      .write = on_piece,
      .close = lls_relay_gone,
      .owner = r,
      .max_bytes = (uint64_t)routing->config->server.api.max_upload};
  r->arrival_ns = r->quiet_ns = (int64_t)uv_hrtime();
  r->receiving = true;
  r->taken = on_taken;
  if (!lls_relay_send(r))
    lls_http_hold(exchange);
  return true;
}

/* Sends the last chunk, after which the answer can be read. */
static void end_body(struct lls_relay *r)
{
  if (pass_on(r, "", 0) && r->upstream != NULL)
    lls_upstream_resume(r->upstream);
}

bool lls_relay_end_upload(struct lls_http_exchange *exchange)
{
  struct lls_http_sink *sink = &exchange->request.sink;
  if (sink->write != on_piece)
    return false;
  struct lls_relay *r = sink->owner;
  LLS_ROUTING_ON_MAIN(r->routing);
  *sink = (struct lls_http_sink){0};
  r->receiving = false;
  exchange->owner = r;
  exchange->on_gone = lls_relay_gone;
  if (r->failure.status != 0)
    lls_relay_fail(r, &r->failure);
  else
    end_body(r);
  return true;
}
