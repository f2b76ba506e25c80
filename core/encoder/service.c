/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of texts and a thread that encodes them, at most LLS_EMBED_BATCH at a time. A
 * batch has all texts that were queued while the previous one ran, even if that is a
 * single text: none is held back to fill a batch.
 *
 * The holder of `encoding` owns the encoder: the thread while it runs a batch, or a
 * caller of encode. `lock` guards the queue only and is never held while anything is
 * computed, so that submit is short enough for the step path.
 */
#include "core/encoder/service.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/encoder/encoder.h"

#define LLS_EMBED_BATCH 32

struct job {
  struct job *prev, *next;
  uint64_t tag;
  size_t bytes;
  char text[];
};

struct lls_embedder {
  struct lls_embed_options options;
  char folder[PATH_MAX];
  struct lls_encoder *encoder;
  pthread_mutex_t encoding;
  float *vectors; /* (LLS_EMBED_BATCH, dims) used by the thread */
  pthread_t thread;
  bool running;

  pthread_mutex_t lock; /* guards the following members */
  pthread_cond_t filled;
  struct job *queue;
  uint32_t queued;
  bool stop;
};

/* ---- the thread --------------------------------------------------------------- */

/* Waits for texts and takes them from the queue. Returns how many, 0 = stop. */
static uint32_t take(struct lls_embedder *e, struct job *batch[LLS_EMBED_BATCH])
{
  uint32_t n = 0;
  pthread_mutex_lock(&e->lock);
  while (e->queue == NULL && !e->stop)
    pthread_cond_wait(&e->filled, &e->lock);
  while (!e->stop && e->queue != NULL && n < LLS_EMBED_BATCH) {
    batch[n] = e->queue;
    DL_DELETE(e->queue, batch[n]);
    n++;
  }
  e->queued -= n;
  pthread_mutex_unlock(&e->lock);
  return n;
}

static void serve(struct lls_embedder *e, struct job **batch, uint32_t n)
{
  struct lls_encoder_text texts[LLS_EMBED_BATCH];
  struct lls_error err;
  for (uint32_t i = 0; i < n; i++)
    texts[i] = (struct lls_encoder_text){batch[i]->text, batch[i]->bytes};
  pthread_mutex_lock(&e->encoding);
  int rc = lls_encoder_encode(e->encoder, texts, n, e->vectors, &err);
  pthread_mutex_unlock(&e->encoding);
  uint32_t dims = lls_encoder_dims(e->encoder);
  for (uint32_t i = 0; i < n; i++) {
    const float *vector = rc == 0 ? e->vectors + (size_t)i * dims : NULL;
    e->options.done(e->options.done_context, batch[i]->tag, rc, vector);
    free(batch[i]);
  }
}

static void *thread_main(void *argument)
{
  struct lls_embedder *e = argument;
  struct job *batch[LLS_EMBED_BATCH];
  for (uint32_t n; (n = take(e, batch)) > 0;)
    serve(e, batch, n);
  return NULL;
}

/* ---- the service -------------------------------------------------------------- */

static int open_encoder(struct lls_embedder *e, const struct lls_device_module *cpu,
                        struct lls_error *err)
{
  const struct lls_encoder_options encoder = {
      .cpu = cpu,
      .folder = e->folder,
      .threads = e->options.threads > 0 ? e->options.threads : 1,
      .max_tokens = e->options.max_tokens,
      .weights = LLS_WEIGHTS_BF16,
  };
  int rc = lls_encoder_create(&encoder, &e->encoder, err);
  if (rc < 0)
    return rc;
  e->vectors = calloc(LLS_EMBED_BATCH, lls_encoder_dims(e->encoder) * sizeof *e->vectors);
  if (e->vectors == NULL)
    return lls_fail(err, -ENOMEM, "out of memory");
  /* without `done` only encode is called, which needs no thread */
  if (e->options.done == NULL)
    return 0;
  rc = -pthread_create(&e->thread, NULL, thread_main, e);
  if (rc < 0)
    return lls_fail(err, rc, "cannot start a thread for the encoder: %s", strerror(-rc));
  e->running = true;
  pthread_setname_np(e->thread, "llmserve-embed");
  return 0;
}

static void close_embedder(struct lls_embedder *e)
{
  struct job *job, *next;
  if (e == NULL)
    return;
  if (e->running) {
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_signal(&e->filled);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
  }
  DL_FOREACH_SAFE (e->queue, job, next)
    free(job);
  lls_encoder_destroy(e->encoder);
  free(e->vectors);
  pthread_mutex_destroy(&e->encoding);
  pthread_mutex_destroy(&e->lock);
  pthread_cond_destroy(&e->filled);
  free(e);
}

static int name_folder(const struct lls_embed_service *s, struct lls_embedder *e,
                       struct lls_error *err)
{
  const char *folder = e->options.folder;
  int n;
  if (folder != NULL && *folder != '\0')
    n = snprintf(e->folder, sizeof e->folder, "%s", folder);
  else if (s->model_folder != NULL)
    n = snprintf(e->folder, sizeof e->folder, "%s/encoder", s->model_folder);
  else
    return lls_fail(err, -ENOENT, "no encoder is named, and no model is served");
  return n >= 0 && (size_t)n < sizeof e->folder
             ? 0
             : lls_fail(err, -ENAMETOOLONG, "the encoder's path is too long");
}

static int open_embedder(void *context, const struct lls_embed_options *options,
                         struct lls_embedder **out)
{
  struct lls_embed_service *s = context;
  struct lls_error err = {0};
  struct lls_embedder *e = calloc(1, sizeof *e);
  if (e == NULL)
    return -ENOMEM;
  memcpy(&e->options, options,
         options->size < sizeof e->options ? options->size : sizeof e->options);
  pthread_mutex_init(&e->encoding, NULL);
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->filled, NULL);
  int rc = name_folder(s, e, &err);
  if (rc == 0)
    rc = open_encoder(e, s->cpu, &err);
  if (rc < 0) {
    if (e->options.why != NULL)
      snprintf(e->options.why, e->options.why_bytes, "%s", lls_error_text(&err, rc));
    close_embedder(e);
    return rc;
  }
  *out = e;
  return 0;
}

static void describe(const struct lls_embedder *e, struct lls_embedder_info *out)
{
  struct lls_embedder_info info = {
      .size = out->size,
      .dims = lls_encoder_dims(e->encoder),
      .fingerprint = lls_encoder_fingerprint(e->encoder),
      .folder = e->folder,
  };
  memcpy(out, &info, out->size < sizeof info ? out->size : sizeof info);
}

static int submit(struct lls_embedder *e, uint64_t tag, const char *text, size_t bytes)
{
  struct job *job = malloc(sizeof *job + bytes);
  if (job == NULL)
    return -ENOMEM;
  *job = (struct job){.tag = tag, .bytes = bytes};
  memcpy(job->text, text, bytes);
  pthread_mutex_lock(&e->lock);
  int rc = e->queued < e->options.max_queued ? 0 : -ENOSPC;
  if (rc == 0) {
    DL_APPEND(e->queue, job);
    e->queued++;
    pthread_cond_signal(&e->filled);
  }
  pthread_mutex_unlock(&e->lock);
  if (rc < 0)
    free(job);
  return rc;
}

static int encode(struct lls_embedder *e, const char *text, size_t bytes, float *vector)
{
  struct lls_error err;
  pthread_mutex_lock(&e->encoding);
  int rc = lls_encoder_encode(e->encoder, &(struct lls_encoder_text){text, bytes}, 1,
                              vector, &err);
  pthread_mutex_unlock(&e->encoding);
  return rc;
}

void lls_embed_service_init(struct lls_embed_service *s,
                            const struct lls_device_module *cpu, const char *model_name,
                            const char *model_folder)
{
  *s = (struct lls_embed_service){
      .model_folder = model_folder,
      .cpu = cpu,
      .embed =
          {
              .size = sizeof s->embed,
              .context = s,
              .model = model_name != NULL ? model_name : "",
              .open = open_embedder,
              .close = close_embedder,
              .describe = describe,
              .submit = submit,
              .encode = encode,
          },
  };
}
