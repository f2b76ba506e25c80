/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders: texts to vectors of unit length, by a BERT-type model on the CPU device, as
 * sentence-transformers does: tokens, layers, the mean of the last layer's rows or its
 * first row, divided by its length.
 *
 * An encoder has an engine, a device and threads of its own: it shares nothing with the
 * serving engine. One thread at a time may use it, such as the thread of service.h.
 */
#ifndef LLS_ENCODER_ENCODER_H
#define LLS_ENCODER_ENCODER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/device/devices.h"

struct lls_encoder;

struct lls_encoder_options {
  const struct lls_device_module *cpu; /* the CPU device */
  const char *folder;  /* config.json, *.safetensors, tokenizer.json or vocab.txt; or a
                        * GGUF file */
  uint32_t threads;    /* threads, the caller's included; 0 = one for each core */
  uint32_t max_tokens; /* most tokens of a text, the rest is cut off; 0 = the limit of the
                          model */
  uint32_t max_rows;   /* most tokens of a pass, which takes whole texts; 0 = 512 */
  enum lls_weight_format weights;
  const char *isa; /* instruction set; NULL = the best that the CPU has */
};

struct lls_encoder_text {
  const char *text; /* UTF-8, `bytes` long */
  size_t bytes;
};

int lls_encoder_create(const struct lls_encoder_options *, struct lls_encoder **out,
                       struct lls_error *err);
void lls_encoder_destroy(struct lls_encoder *); /* NULL is fine */

uint32_t lls_encoder_dims(const struct lls_encoder *);
/* Returns a hash of the files that determine the vectors. Vectors of encoders with
 * different fingerprints are not comparable. */
uint64_t lls_encoder_fingerprint(const struct lls_encoder *);

/* Encodes n texts into vectors (n, dims), whose contents are undefined after an error. */
int lls_encoder_encode(struct lls_encoder *, const struct lls_encoder_text *, size_t n,
                       float *vectors, struct lls_error *err);

#endif
