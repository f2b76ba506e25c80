/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content codings of request bodies (RFC 9110, 8.4): gzip by zlib, zstd by libzstd, each
 * if the build has the library. A decoder gets a body piece by piece and passes on what
 * each piece decodes to, so that the reader of the output can stop it at a limit: a
 * megabyte may decode to a gigabyte.
 */
#ifndef LLS_HTTP_CONTENT_CODING_H
#define LLS_HTTP_CONTENT_CODING_H

#include <stdbool.h>
#include <stddef.h>

enum lls_content_coding {
  LLS_CODING_NONE, /* also "identity" */
  LLS_CODING_GZIP,
  LLS_CODING_ZSTD,
  LLS_CODING_UNKNOWN, /* also a known one whose library the build lacks */
};

/* Codings of this build for Accept-Encoding, as in "gzip, zstd"; "identity" if none. */
extern const char lls_content_codings[];

/* Returns the coding of a Content-Encoding's value. */
enum lls_content_coding lls_content_coding_named(const char *value);

/* Memory that a decoder is counted with, besides what it decodes to. */
#define LLS_CONTENT_DECODER_BYTES 65536

struct lls_content_decoder;

/* Returns NULL without memory. */
struct lls_content_decoder *lls_content_decoder_create(enum lls_content_coding coding);
void lls_content_decoder_free(struct lls_content_decoder *decoder); /* NULL is allowed */

/* Receives decoded bytes; decoding ends if it returns a negative number. */
typedef int (*lls_content_decoder_write)(void *owner, const char *data, size_t length);

/* Decodes a piece. Returns 0, what write returned if it was negative, or -EPROTO with
 * *why if the body is malformed. */
int lls_content_decoder_take(struct lls_content_decoder *decoder, const char *data,
                             size_t length, lls_content_decoder_write write, void *owner,
                             const char **why);

/* True if the bytes so far are a whole body. */
bool lls_content_decoder_is_complete(const struct lls_content_decoder *decoder);

#endif
