/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts to vectors: a service of the core, found with
 *
 *   const struct lls_embed *embed = host->extension(host->context, LLS_EMBED);
 *
 * NULL: this core has none. The vectors have length 1, so that a dot product of two is
 * their cosine. The model is a BERT-type Hugging Face folder, run on the CPU by a thread
 * of the core that takes what is waiting together, never by the one that steps.
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
  uint32_t threads;    /* that compute together; 1 or more */
  uint32_t max_tokens; /* of a text: the rest is cut off; 0 = all that the model takes */
  uint32_t max_queued; /* texts that wait at most, submit refuses more */
  const char *folder;  /* NULL or "": `encoder` in the folder of the served model */
  /* [worker] What became of a submitted text: 0 and its vector (dims), valid during the
   * call, or a negative errno and NULL. Once for each submit that returned 0, unless the
   * embedder is closed before. May submit, must not close. */
  void (*done)(void *context, uint64_t tag, int rc, const float *vector);
  void *done_context;
  char *why; /* (why_bytes) where a failing open says what was wrong, for host->fail */
  size_t why_bytes;
  /* version 1 ends here */
};

struct lls_embedder_info {
  uint32_t size;
  uint32_t dims;
  uint64_t fingerprint; /* of the encoder's files: vectors of others are not comparable */
  const char *folder;   /* valid until close */
  /* version 1 ends here */
};

struct lls_embed {
  uint32_t size;
  void *context;
  const char *model; /* name of the served model, as clients know it */
  /* [main] -ENOENT: no such folder. */
  int (*open)(void *context, const struct lls_embed_options *, struct lls_embedder **out);
  /* [main] Waits for a `done` under way; what is queued is dropped. */
  void (*close)(struct lls_embedder *);
  /* [any] The caller has set out->size. */
  void (*describe)(const struct lls_embedder *, struct lls_embedder_info *out);
  /* [any] The text is copied. -ENOSPC: max_queued texts are waiting. */
  int (*submit)(struct lls_embedder *, uint64_t tag, const char *text, size_t bytes);
  /* [any] In the calling thread, which waits for it; vector (dims). */
  int (*encode)(struct lls_embedder *, const char *text, size_t bytes, float *vector);
  /* version 1 ends here */
};

#ifdef __cplusplus
}
#endif

#endif
