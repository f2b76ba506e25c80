/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders: texts to vectors of unit length, by a BERT-type model on the CPU device, as
 * sentence-transformers does: tokens, layers, the mean of the last layer's rows or the
 * first of them, divided by its length.
 *
 * An encoder has an engine, a device and threads of its own: it shares nothing with the
 * engine that serves. One thread at a time may use it; service.h has that
 * thread.
 */
#ifndef LLS_ENCODER_ENCODER_H
#define LLS_ENCODER_ENCODER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/device/device.h"

struct lls_encoder;

struct lls_encoder_options {
  const char *folder; /* config.json, *.safetensors, tokenizer.json or vocab.txt; or a
                       * GGUF file */
  uint32_t threads;   /* the caller's among them; 0 = as many as cores */
  uint32_t
      max_tokens;    /* of a text, the rest is cut off; 0 = as many as the model takes */
  uint32_t max_rows; /* tokens of one pass, whole texts; 0 = 512 */
  enum lls_weight_format weights;
  const char *isa; /* NULL = the best */
};

struct lls_encoder_text {
  const char *text; /* UTF-8, (bytes) */
  size_t bytes;
};

int lls_encoder_create(const struct lls_encoder_options *, struct lls_encoder **out,
                       struct lls_error *err);
void lls_encoder_destroy(struct lls_encoder *); /* NULL is fine */

uint32_t lls_encoder_dims(const struct lls_encoder *);
/* A number of what makes the vectors: those of another are not comparable. */
uint64_t lls_encoder_fingerprint(const struct lls_encoder *);

/* vectors (n, dims); what is in them after an error is of no use. */
int lls_encoder_encode(struct lls_encoder *, const struct lls_encoder_text *, size_t n,
                       float *vectors, struct lls_error *err);

#endif
