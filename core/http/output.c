/* SPDX-License-Identifier: Apache-2.0 */
/* See output.h for why there are two buffers. */
#include "core/http/output.h"

#include <errno.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/least.h"

static void on_written(uv_write_t *write, int status);

/* Hands the waiting bytes to libuv, which keeps the pointer until on_written. */
static int start_write(struct lls_http_output *output)
{
  struct lls_text empty = output->in_flight;
  LLS_CHECK(!output->writing && empty.length == 0 && output->waiting.length > 0);
  output->in_flight = output->waiting;
  output->waiting = empty;
  uv_buf_t buffer =
      uv_buf_init(output->in_flight.data, (unsigned)output->in_flight.length);
  output->write.data = output;
  int error = uv_write(&output->write, output->stream, &buffer, 1, on_written);
  output->writing = error == 0;
  return error;
}

static void on_written(uv_write_t *write, int status)
{
  struct lls_http_output *output = write->data;
  LLS_CHECK(output->writing);
  output->writing = false;
  *output->unread -= output->in_flight.length;
  lls_text_free(&output->in_flight);
  if (status == 0 && output->waiting.length > 0)
    status = start_write(output);
  if (status != 0)
    output->on_failed(output);
  else if (!output->writing)
    output->on_drained(output);
}

/* Keeps the bytes that the socket did not take: the pieces without their first `skip`
 * bytes. */
static void keep_rest(struct lls_http_output *output, const uv_buf_t *pieces,
                      unsigned count, size_t skip)
{
  size_t before = output->waiting.length;
  for (unsigned i = 0; i < count; i++) {
    size_t gone = skip < pieces[i].len ? skip : pieces[i].len;
    lls_text_append(&output->waiting, pieces[i].base + gone, pieces[i].len - gone);
    skip -= gone;
  }
  *output->unread += output->waiting.length - before;
  LLS_CHECK(skip == 0);
}

static int send_bytes(struct lls_http_output *output, const uv_buf_t *pieces,
                      unsigned count, struct lls_http_room room)
{
  size_t length = 0, sent = 0;
  for (unsigned i = 0; i < count; i++)
    length += pieces[i].len;
  output->total += length;
  if (!output->writing) {
    int taken = uv_try_write(output->stream, pieces, count);
    if (taken < 0 && taken != UV_EAGAIN)
      return taken;
    sent = taken > 0 ? (size_t)taken : 0;
  }
  if (sent == length)
    return 0;
  if (lls_http_output_unsent(output) + length - sent > room.own ||
      *output->unread >= room.all)
    return -ENOBUFS;
  keep_rest(output, pieces, count, sent);
  if (output->waiting.failed)
    return -ENOMEM;
  return output->writing ? 0 : start_write(output);
}

int lls_http_output_flush(struct lls_http_output *output, struct lls_http_room room)
{
  uv_buf_t due = {0};
  due.len = lls_tls_due(output->tls, &due.base);
  int error = due.len > 0 ? send_bytes(output, &due, 1, room) : 0;
  lls_tls_sent(output->tls);
  return error;
}

static int seal(struct lls_http_output *output, const char *record, size_t length,
                struct lls_http_room room)
{
  int error = lls_tls_seal(output->tls, record, length);
  return error < 0 ? error : lls_http_output_flush(output, room);
}

/* Fills records with the pieces, so that those of a token are one. */
static int send_sealed(struct lls_http_output *output, const uv_buf_t *pieces,
                       unsigned count, struct lls_http_room room)
{
  char record[LLS_TLS_RECORD];
  size_t length = 0;
  int error = 0;
  for (unsigned i = 0; i < count; i++)
    for (size_t at = 0; at < pieces[i].len && error == 0;) {
      size_t more = lls_least_size(sizeof record - length, pieces[i].len - at);
      memcpy(record + length, pieces[i].base + at, more);
      length += more;
      at += more;
      if (length == sizeof record) {
        error = seal(output, record, length, room);
        length = 0;
      }
    }
  return error == 0 && length > 0 ? seal(output, record, length, room) : error;
}

int lls_http_output_send(struct lls_http_output *output, const uv_buf_t *pieces,
                         unsigned count, struct lls_http_room room)
{
  return output->tls != NULL ? send_sealed(output, pieces, count, room)
                             : send_bytes(output, pieces, count, room);
}

size_t lls_http_output_unsent(const struct lls_http_output *output)
{
  size_t in_flight = output->writing ? uv_stream_get_write_queue_size(output->stream) : 0;
  return in_flight + output->waiting.length;
}

void lls_http_output_free(struct lls_http_output *output)
{
  if (output->unread != NULL)
    *output->unread -= output->in_flight.length + output->waiting.length;
  lls_text_free(&output->in_flight);
  lls_text_free(&output->waiting);
}
