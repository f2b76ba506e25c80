/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embeds texts: a service of the core, obtained with
 *
 *   const struct lls_embed *embed = host->extension(host->context, LLS_EMBED);
 *
 * which returns NULL if this core has none. Vectors have length 1, so the dot product
 * of two is their cosine. The model is a BERT-type Hugging Face folder. A thread of the
 * core runs it on the CPU, batching the texts that wait; the step thread never does.
 */
#ifndef LLMSERVE_EMBED_H
#define LLMSERVE_EMBED_H

#include <llmserve/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_EMBED "llmserve.embed"

struct lls_embedder; /* one open encoder */

struct lls_embed_options {
  uint32_t size;
  uint32_t threads;    /* threads that compute together; 1 or more */
  uint32_t max_tokens; /* most tokens of a text, the rest is cut off; 0 = all that the
                          model takes */
  uint32_t max_queued; /* most texts that wait; submit refuses more */
  const char *folder;  /* NULL or "": the folder `encoder` in the folder of the served
                        * model */
  /* [worker] Returns the result of a submitted text: 0 and its vector (dims), valid
   * during the call; or a negative errno and NULL. Called once for each submit that
   * returned 0, unless the embedder is closed first. It may submit, but must not
   * close. */
  void (*done)(void *context, uint64_t tag, int rc, const float *vector);
  void *done_context;
  char *why; /* (why_bytes) a failing open writes the reason here, for host->fail */
  size_t why_bytes;
  /* version 1 ends here */
};

struct lls_embedder_info {
  uint32_t size;
  uint32_t dims;
  uint64_t fingerprint; /* hash of the encoder's files: only vectors with equal
                           fingerprints are comparable */
  const char *folder;   /* valid until close */
  /* version 1 ends here */
};

struct lls_embed {
  uint32_t size;
  void *context;
  const char *model; /* the served model's name for clients */
  /* [main] Returns -ENOENT if the folder does not exist. */
  int (*open)(void *context, const struct lls_embed_options *, struct lls_embedder **out);
  /* [main] Waits for a running `done`; queued texts are dropped. */
  void (*close)(struct lls_embedder *);
  /* [any] The caller must set out->size. */
  void (*describe)(const struct lls_embedder *, struct lls_embedder_info *out);
  /* [any] Copies the text. Returns -ENOSPC if max_queued texts are waiting. */
  int (*submit)(struct lls_embedder *, uint64_t tag, const char *text, size_t bytes);
  /* [any] Embeds in the calling thread; vector (dims). */
  int (*encode)(struct lls_embedder *, const char *text, size_t bytes, float *vector);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
