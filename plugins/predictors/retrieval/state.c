/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that a reload hands over: the running statistics, and the history if it is in
 * no file. A successor with a file reads the rows its predecessor wrote since then.
 */
#include "plugins/predictors/retrieval/retrieval.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1

struct head {
  uint64_t space;
  uint32_t dims, n; /* entries that follow: a length, then (dims) floats */
  struct judge judge;
};

struct writer {
  char *at;
  uint32_t dims;
};

static size_t entry_bytes(uint32_t dims)
{
  return sizeof(uint32_t) + dims * sizeof(float);
}

static void write_entry(void *context, const float *vector, uint32_t length)
{
  struct writer *w = context;
  memcpy(w->at, &length, sizeof length);
  memcpy(w->at + sizeof length, vector, w->dims * sizeof *vector);
  w->at += entry_bytes(w->dims);
}

static int export_locked(struct retrieval *r, struct lls_blob *out)
{
  struct head head = {.space = r->space, .dims = r->dims, .judge = r->judge};
  history_commit(r->history);
  if (!history_is_stored(r->history))
    head.n = history_count(r->history);
  size_t bytes = sizeof head + head.n * entry_bytes(r->dims);
  char *data = malloc(bytes);
  if (data == NULL)
    return -ENOMEM;
  memcpy(data, &head, sizeof head);
  struct writer w = {.at = data + sizeof head, .dims = r->dims};
  if (head.n > 0)
    history_each(r->history, write_entry, &w);
  *out = (struct lls_blob){.version = VERSION, .bytes = bytes, .data = data};
  return 0;
}

/* Stops the worker: no prediction is made after this, since the successor takes over. */
int state_export(struct retrieval *r, struct lls_blob *out)
{
  worker_stop(r);
  pthread_mutex_lock(&r->work);
  int rc = export_locked(r, out);
  pthread_mutex_unlock(&r->work);
  return rc;
}

int retrieval_load(struct retrieval *r)
{
  int rc = history_load(r->history);
  if (rc == 0 && !r->params.async)
    rc = history_load_some(r->history, UINT32_MAX);
  r->loading = rc == 0 && r->params.async;
  return rc;
}

static int import_entries(struct retrieval *r, const struct head *head, const char *at)
{
  float *vector = malloc(r->dims * sizeof *vector);
  int rc = vector != NULL ? 0 : -ENOMEM;
  for (uint32_t i = 0; rc == 0 && i < head->n; i++, at += entry_bytes(r->dims)) {
    uint32_t length;
    memcpy(&length, at, sizeof length);
    memcpy(vector, at + sizeof length, r->dims * sizeof *vector);
    rc = history_add(r->history, vector, length);
  }
  free(vector);
  return rc;
}

int state_import(struct retrieval *r, const struct lls_blob *blob)
{
  struct head head;
  if (blob->version != VERSION || blob->bytes < sizeof head)
    return -ENOTSUP;
  memcpy(&head, blob->data, sizeof head);
  if ((blob->bytes - sizeof head) / entry_bytes(head.dims) < head.n)
    return -ENOTSUP;
  pthread_mutex_lock(&r->work);
  r->judge = head.judge;
  r->median = head.judge.median;
  int rc = 0;
  /* vectors of another encoder are not comparable */
  if (head.space == r->space && head.dims == r->dims)
    rc = import_entries(r, &head, (const char *)blob->data + sizeof head);
  if (rc == 0)
    rc = retrieval_load(r);
  pthread_mutex_unlock(&r->work);
  return rc;
}
