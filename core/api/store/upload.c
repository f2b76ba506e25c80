/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/files: receives a form and writes its file to the store as it arrives.
 *
 *   head --> RECEIVING --pieces, as jobs--> whole: finish, a call --> the file's object
 *               +------anything else------> the exchange is over: abandon, a job
 *
 * At most HIGH bytes of an upload wait for the disk, and ALL of all uploads together;
 * above either the connection is not read. `stored` belongs to [store] from the first
 * piece to the last job, everything else to [main].
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/api/access.h"
#include "core/api/accounts.h"
#include "core/api/store/store_call.h"
#include "core/api/store/store_front.h"
#include "core/batch/file_table.h"
#include "core/http/multipart.h"
#include "text/base/utf8.h"

#define HIGH (1 << 20)
#define LOW  (HIGH / 4)
/* limit of all uploads together; each may exceed it by one piece */
#define ALL (32 << 20)

/* OpenAI's bounds of expires_after[seconds]. */
#define EXPIRES_LEAST 3600
#define EXPIRES_MOST  2592000

#define FORM_BYTES 65536 /* most bytes of a form without its file */

#define WORD 24 /* most bytes of a field that is a word */

/* Fields of the form, words first. */
enum field {
  FIELD_PURPOSE,
  FIELD_ANCHOR,
  FIELD_SECONDS,
  N_WORDS,
  FIELD_FILE,
  FIELD_OTHER
};
_Static_assert(WORD == LLS_FILE_PURPOSE, "a purpose is a word");

static const char *const word_names[N_WORDS] = {
    [FIELD_PURPOSE] = "purpose",
    [FIELD_ANCHOR] = "expires_after[anchor]",
    [FIELD_SECONDS] = "expires_after[seconds]",
};

struct upload {
  /* job that drops the upload if it does not become a file */
  struct lls_store_job abandon;
  struct lls_api *api;
  struct lls_http_exchange *exchange; /* NULL: the exchange is over */
  struct lls_multipart form;
  enum field field;
  bool has_file;
  char words[N_WORDS][WORD]; /* longer words are cut */
  char tenant[LLS_TENANT_BYTES];
  size_t waiting; /* bytes that the store has not written */
  struct lls_upload stored;
};

static void free_upload(struct upload *upload)
{
  lls_multipart_free(&upload->form);
  free(upload);
}

/* ---- pieces ------------------------------------------------------------------------ */

struct piece {
  struct lls_store_job job;
  struct upload *upload;
  size_t length;
  char data[];
};

static void write_piece(struct lls_store_job *job, struct lls_store *store)
{
  const struct piece *piece = (const struct piece *)job;
  lls_upload_write(&piece->upload->stored, store, piece->data, piece->length);
}

static void piece_written(struct lls_store_job *job)
{
  struct piece *piece = (struct piece *)job;
  struct upload *upload = piece->upload;
  upload->waiting -= piece->length;
  upload->api->front->unwritten -= piece->length;
  if (upload->exchange != NULL && upload->waiting <= LOW)
    lls_http_go_on(upload->exchange);
  free(piece);
}

/* Queues a piece for the store. Without memory for it the form is marked broken. */
static void store_piece(struct upload *upload, const char *data, size_t length)
{
  struct piece *piece = malloc(sizeof *piece + length);
  if (piece == NULL) {
    upload->form.state = LLS_MULTIPART_BROKEN;
    upload->form.why = "out of memory";
    return;
  }
  piece->job = (struct lls_store_job){.run = write_piece, .done = piece_written};
  piece->upload = upload;
  piece->length = length;
  memcpy(piece->data, data, length);
  upload->waiting += length;
  upload->api->front->unwritten += length;
  lls_store_post(upload->api->front->store, &piece->job);
  if (upload->waiting >= HIGH || upload->api->front->unwritten >= ALL)
    lls_http_hold(upload->exchange);
}

/* ---- the form ---------------------------------------------------------------------- */

static void set_name(struct upload *upload, const char *filename)
{
  struct lls_bytes valid = {0};
  char *name = upload->stored.file.name;
  lls_utf8_repair(filename, strlen(filename), &valid);
  bool fits = valid.length > 0 && valid.length < sizeof upload->stored.file.name;
  snprintf(name, sizeof upload->stored.file.name, "%.*s", fits ? (int)valid.length : 6,
           fits ? (const char *)valid.data : "upload");
  lls_bytes_free(&valid);
}

static void on_part(void *context, const struct lls_multipart_part *part)
{
  struct upload *upload = context;
  upload->field = FIELD_OTHER;
  for (enum field i = 0; i < N_WORDS; i++)
    if (strcmp(part->name, word_names[i]) == 0)
      upload->field = i;
  if (strcmp(part->name, "file") != 0 || upload->has_file)
    return;
  upload->field = FIELD_FILE;
  upload->has_file = true;
  set_name(upload, part->filename);
}

static void on_data(void *context, const char *data, size_t length)
{
  struct upload *upload = context;
  if (upload->field == FIELD_FILE)
    store_piece(upload, data, length);
  if (upload->field >= N_WORDS)
    return;
  char *word = upload->words[upload->field];
  size_t had = strlen(word);
  snprintf(word + had, WORD - had, "%.*s", (int)(length < WORD ? length : WORD), data);
}

static void on_body(void *owner, const char *data, size_t length)
{
  struct upload *upload = owner;
  lls_multipart_feed(&upload->form, data, length);
}

/* ---- the end without a file -------------------------------------------------------- */

static void abandon(struct lls_store_job *job, struct lls_store *store)
{
  lls_upload_abandon(&((struct upload *)job)->stored, store);
}

static void abandoned(struct lls_store_job *job)
{
  free_upload((struct upload *)job);
}

static void on_over(void *owner)
{
  struct upload *upload = owner;
  upload->exchange = NULL;
  upload->abandon = (struct lls_store_job){.run = abandon, .done = abandoned};
  lls_store_post(upload->api->front->store, &upload->abandon);
}

/* ---- the beginning ----------------------------------------------------------------- */

static struct upload *begin(struct lls_api *api, struct lls_http_exchange *exchange,
                            const char *tenant)
{
  const char *type = lls_http_request_header(&exchange->request, "content-type");
  struct upload *upload = calloc(1, sizeof *upload);
  if (upload == NULL)
    return NULL;
  const struct lls_multipart_events events = {
      .context = upload, .on_part = on_part, .on_data = on_data};
  if (!lls_multipart_begin(&upload->form, type, &events)) {
    free_upload(upload);
    return NULL;
  }
  upload->api = api;
  upload->exchange = exchange;
  upload->stored.fd = -1;
  upload->stored.file.tenant = upload->tenant;
  snprintf(upload->tenant, sizeof upload->tenant, "%s", tenant);
  upload->stored.most_bytes = lls_limits_of(api, tenant).file_bytes;
  return upload;
}

/* Returns the most bytes of the body, so that a body above its tenant's limit is refused
 * by its announced length. */
static uint64_t most_bytes(const struct lls_api *api, const struct upload *upload)
{
  int64_t most = upload->stored.most_bytes, all = api->config.limits.max_upload;
  return (uint64_t)(most > 0 && most + FORM_BYTES < all ? most + FORM_BYTES : all);
}

bool lls_upload_on_head(struct lls_api *api, struct lls_http_exchange *exchange)
{
  LLS_API_ON_MAIN(api);
  const char *tenant = lls_access_tenant(api, exchange);
  struct upload *upload =
      tenant != NULL && api->front != NULL ? begin(api, exchange, tenant) : NULL;
  if (upload == NULL)
    return false;
  exchange->request.sink = (struct lls_http_sink){.write = on_body,
                                                  .close = on_over,
                                                  .owner = upload,
                                                  .max_bytes = most_bytes(api, upload)};
  return true;
}

/* ---- the complete form ----------------------------------------------------------- */

static void ask_finish(struct lls_store_call *call, struct lls_store *store)
{
  struct upload *upload = call->more;
  call->status = lls_upload_finish(&upload->stored, store);
  call->error = upload->stored.error;
  if (call->status == 0)
    call->answer = lls_file_json(&upload->stored.file);
}

static void after_finish(struct lls_store_call *call)
{
  free_upload(call->more);
}

/* Reads when the file expires, if the form says so. Returns 0, or -1 and what is
 * wrong. */
static int read_expiry(struct upload *upload, struct lls_api_error *error)
{
  const char *anchor = upload->words[FIELD_ANCHOR],
             *seconds = upload->words[FIELD_SECONDS];
  char *end;
  if (anchor[0] == '\0' && seconds[0] == '\0')
    return 0;
  int64_t after_s = strtoll(seconds, &end, 10);
  if (strcmp(anchor, "created_at") != 0 || *end != '\0' || after_s < EXPIRES_LEAST ||
      after_s > EXPIRES_MOST)
    return lls_api_fail(error, 400, NULL, "expires_after",
                        "'expires_after' must have the anchor \"created_at\" and %d to "
                        "%d seconds",
                        EXPIRES_LEAST, EXPIRES_MOST);
  upload->stored.expires_after_s = after_s;
  return 0;
}

/* Checks the form. Returns 0, or -1 and what is wrong with it. */
static int check(struct upload *upload, struct lls_api_error *error)
{
  if (upload == NULL)
    return lls_api_fail(error, 400, NULL, NULL,
                        "the body must be multipart/form-data with the fields 'purpose' "
                        "and 'file'");
  if (!lls_multipart_is_over(&upload->form))
    return lls_api_fail(error, 400, "invalid_form", NULL, "the form is not complete: %s",
                        upload->form.why != NULL ? upload->form.why
                                                 : "its last delimiter is missing");
  if (!upload->has_file)
    return lls_api_fail(error, 400, NULL, "file", "'file' is missing");
  const char *purpose = upload->words[FIELD_PURPOSE];
  if (strcmp(purpose, "batch") != 0)
    return lls_api_fail(error, 400, NULL, "purpose",
                        "'purpose' must be \"batch\", not \"%s\"", purpose);
  return read_expiry(upload, error);
}

void lls_handle_file_create(void *context, struct lls_http_exchange *exchange)
{
  struct lls_api *api = context;
  struct lls_http_sink *sink = &exchange->request.sink;
  struct lls_api_error error;
  struct upload *upload = sink->write == on_body ? sink->owner : NULL;
  if (lls_store_of(api, exchange) == NULL)
    return;
  if (check(upload, &error) != 0) {
    lls_api_error_reply(exchange, &error);
    return;
  }
  struct lls_store_call *call = lls_store_call_new(api, exchange);
  if (call == NULL)
    return;
  *sink = (struct lls_http_sink){0}; /* the call owns the upload from here on */
  upload->exchange = NULL;
  strcpy(upload->stored.file.purpose, upload->words[FIELD_PURPOSE]);
  call->ask = ask_finish;
  call->after = after_finish;
  call->more = upload;
  lls_store_call_post(call);
}
