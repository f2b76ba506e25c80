/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   READING (a job of the store) --> sent --all sent?---> READING ... --end--> over
 *                                            `--no--> TAKING --on_drained--^
 *
 * If the client disconnects during READING, the download ends when the job is done.
 */
#include "core/api/store/download.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/api/access.h"
#include "core/api/store/store_call.h"
#include "core/api/store/store_front.h"
#include "core/batch/file_table.h"

#define PIECE 262144

struct download {
  struct lls_store_job job;
  struct lls_api *api;
  struct lls_http_exchange *exchange; /* NULL: the client has disconnected */
  char tenant[LLS_TENANT_BYTES], id[LLS_STORE_WORD];
  bool found, reading;
  int64_t offset, n; /* n: bytes of the piece, or a negative errno */
  struct lls_error error;
  size_t size; /* bytes to read for a piece */
  char piece[PIECE];
};

static void run(struct lls_store_job *job, struct lls_store *store)
{
  struct download *download = (struct download *)job;
  struct lls_file file;
  if (!download->found) {
    int status =
        lls_files_find(store, download->tenant, download->id, &file, &download->error);
    download->n = status;
    if (status < 0)
      return;
  }
  download->n = lls_files_read(store, download->id, download->offset, download->piece,
                               download->size);
}

static void read_more(struct download *download)
{
  download->reading = true;
  lls_store_post(download->api->front->store, &download->job);
}

static void on_gone(void *owner)
{
  struct download *download = owner;
  download->exchange = NULL;
  if (!download->reading)
    free(download);
}

static void on_drained(void *owner)
{
  struct download *download = owner;
  if (!download->reading)
    read_more(download);
}

/* Ends the download, complete or not. */
static void finish(struct download *download)
{
  struct lls_http_exchange *exchange = download->exchange;
  struct lls_api_error error;
  exchange->on_gone = NULL;
  exchange->on_drained = NULL;
  if (download->n < 0 && !download->found) {
    lls_store_error((int)download->n, &download->error, "id", &error);
    lls_api_error_reply(exchange, &error);
  } else if (download->n < 0) {
    lls_http_stream_abort(exchange);
  } else {
    lls_http_stream_end(exchange);
  }
  free(download);
}

/* Sends the head of the answer; returns true if there is nothing more to send. */
static bool begin(struct download *download)
{
  struct lls_http_exchange *exchange = download->exchange;
  if (lls_http_is_head(exchange)) {
    lls_http_reply(exchange, 200, "application/octet-stream", NULL, 0);
    free(download);
    return true;
  }
  download->found = true;
  lls_http_stream_begin(exchange, 200, "application/octet-stream");
  return false;
}

static void done(struct lls_store_job *job)
{
  struct download *download = (struct download *)job;
  struct lls_http_exchange *exchange = download->exchange;
  download->reading = false;
  if (exchange == NULL) {
    free(download);
    return;
  }
  if (download->n >= 0 && !download->found && begin(download))
    return;
  if (download->n <= 0) {
    finish(download);
    return;
  }
  uv_buf_t piece = uv_buf_init(download->piece, (unsigned)download->n);
  download->offset += download->n;
  lls_http_stream_write(exchange, &piece, 1);
  if (lls_http_stream_unsent(exchange) == 0)
    read_more(download);
}

void lls_download(struct lls_api *api, struct lls_http_exchange *exchange, size_t length)
{
  LLS_API_ON_MAIN(api);
  if (lls_store_of(api, exchange) == NULL)
    return;
  struct download *download = calloc(1, sizeof *download);
  if (download == NULL) {
    lls_http_reply(exchange, 503, NULL, NULL, 0);
    return;
  }
  const char *tenant = lls_access_tenant(api, exchange);
  int64_t unsent = api->config.limits.http.max_unsent;
  download->job.run = run;
  download->job.done = done;
  download->api = api;
  download->exchange = exchange;
  download->size = unsent / 2 < PIECE ? (size_t)unsent / 2 : PIECE;
  snprintf(download->tenant, sizeof download->tenant, "%s", tenant != NULL ? tenant : "");
  snprintf(download->id, sizeof download->id, "%.*s", (int)length,
           exchange->request.tail);
  exchange->owner = download;
  exchange->on_gone = on_gone;
  exchange->on_drained = on_drained;
  read_more(download);
}
