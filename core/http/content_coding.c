/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See content_coding.h. A body may be several gzip members or zstd frames in a row (RFC
 * 1952, 2.2; RFC 8878, 3). A zstd frame's window is at most 8 MiB, as RFC 9659 asks of
 * every sender; the library touches only as much of it as it has decoded.
 */
#include "config.h"

#include "core/http/content_coding.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#ifdef LLS_ZLIB
#include <zlib.h>
#define GZIP "gzip"
#else
#define GZIP ""
#endif
#ifdef LLS_ZSTD
#include <zstd.h>
#define ZSTD "zstd"
#else
#define ZSTD ""
#endif

#if defined LLS_ZLIB && defined LLS_ZSTD
const char lls_content_codings[] = GZIP ", " ZSTD;
#elif defined LLS_ZLIB || defined LLS_ZSTD
const char lls_content_codings[] = GZIP ZSTD;
#else
const char lls_content_codings[] = "identity";
#endif

#define OUTPUT_BYTES   32768
#define MAX_WINDOW_LOG 23

struct lls_content_decoder {
  enum lls_content_coding coding;
  bool begun;    /* a byte has been taken */
  bool complete; /* at the end of a member or frame */
#ifdef LLS_ZLIB
  z_stream gzip;
#endif
#ifdef LLS_ZSTD
  ZSTD_DCtx *zstd;
#endif
};

enum lls_content_coding lls_content_coding_named(const char *value)
{
  if (value == NULL || strcasecmp(value, "identity") == 0)
    return LLS_CODING_NONE;
  if (GZIP[0] != '\0' &&
      (strcasecmp(value, "gzip") == 0 || strcasecmp(value, "x-gzip") == 0))
    return LLS_CODING_GZIP;
  if (ZSTD[0] != '\0' && strcasecmp(value, "zstd") == 0)
    return LLS_CODING_ZSTD;
  return LLS_CODING_UNKNOWN;
}

/* ---- gzip ------------------------------------------------------------------------ */

#ifdef LLS_ZLIB
static bool begin_gzip(struct lls_content_decoder *decoder)
{
  enum { ONLY_GZIP = 16 }; /* zlib's flag in the window's size */
  return inflateInit2(&decoder->gzip, MAX_WBITS + ONLY_GZIP) == Z_OK;
}

static void end_gzip(struct lls_content_decoder *decoder)
{
  inflateEnd(&decoder->gzip);
}

/* Inflates into `out`; returns the bytes written. */
static int step_gzip(struct lls_content_decoder *decoder, const char **data,
                     size_t *length, char *out, size_t *written, const char **why)
{
  z_stream *z = &decoder->gzip;
  if (decoder->complete && inflateReset(z) != Z_OK)
    return -ENOMEM;
  z->next_in = (unsigned char *)*data;
  z->avail_in = (unsigned)*length;
  z->next_out = (unsigned char *)out;
  z->avail_out = OUTPUT_BYTES;
  int result = inflate(z, Z_NO_FLUSH);
  *data = (const char *)z->next_in;
  *length = z->avail_in;
  *written = OUTPUT_BYTES - z->avail_out;
  decoder->complete = result == Z_STREAM_END;
  if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
    return 0;
  *why = z->msg != NULL ? z->msg : "malformed";
  return result == Z_MEM_ERROR ? -ENOMEM : -EPROTO;
}
#else
static bool begin_gzip(struct lls_content_decoder *decoder)
{
  (void)decoder;
  return false;
}

static void end_gzip(struct lls_content_decoder *decoder)
{
  (void)decoder;
}

static int step_gzip(struct lls_content_decoder *decoder, const char **data,
                     size_t *length, char *out, size_t *written, const char **why)
{
  (void)decoder, (void)data, (void)length, (void)out, (void)written, (void)why;
  return -ENOTSUP;
}
#endif

/* ---- zstd ------------------------------------------------------------------------ */

#ifdef LLS_ZSTD
static bool begin_zstd(struct lls_content_decoder *decoder)
{
  decoder->zstd = ZSTD_createDCtx();
  return decoder->zstd != NULL &&
         !ZSTD_isError(
             ZSTD_DCtx_setParameter(decoder->zstd, ZSTD_d_windowLogMax, MAX_WINDOW_LOG));
}

static void end_zstd(struct lls_content_decoder *decoder)
{
  ZSTD_freeDCtx(decoder->zstd);
}

static int step_zstd(struct lls_content_decoder *decoder, const char **data,
                     size_t *length, char *out, size_t *written, const char **why)
{
  ZSTD_inBuffer in = {.src = *data, .size = *length};
  ZSTD_outBuffer to = {.dst = out, .size = OUTPUT_BYTES};
  size_t result = ZSTD_decompressStream(decoder->zstd, &to, &in);
  *data += in.pos;
  *length -= in.pos;
  *written = to.pos;
  decoder->complete = result == 0;
  if (!ZSTD_isError(result))
    return 0;
  *why = ZSTD_getErrorName(result);
  return -EPROTO;
}
#else
static bool begin_zstd(struct lls_content_decoder *decoder)
{
  (void)decoder;
  return false;
}

static void end_zstd(struct lls_content_decoder *decoder)
{
  (void)decoder;
}

static int step_zstd(struct lls_content_decoder *decoder, const char **data,
                     size_t *length, char *out, size_t *written, const char **why)
{
  (void)decoder, (void)data, (void)length, (void)out, (void)written, (void)why;
  return -ENOTSUP;
}
#endif

/* ---- decoders -------------------------------------------------------------------- */

struct lls_content_decoder *lls_content_decoder_create(enum lls_content_coding coding)
{
  struct lls_content_decoder *decoder = calloc(1, sizeof *decoder);
  if (decoder == NULL)
    return NULL;
  decoder->coding = coding;
  if (coding == LLS_CODING_GZIP ? begin_gzip(decoder) : begin_zstd(decoder))
    return decoder;
  lls_content_decoder_free(decoder);
  return NULL;
}

void lls_content_decoder_free(struct lls_content_decoder *decoder)
{
  if (decoder == NULL)
    return;
  if (decoder->coding == LLS_CODING_GZIP)
    end_gzip(decoder);
  else
    end_zstd(decoder);
  free(decoder);
}

int lls_content_decoder_take(struct lls_content_decoder *decoder, const char *data,
                             size_t length, lls_content_decoder_write write, void *owner,
                             const char **why)
{
  char out[OUTPUT_BYTES];
  size_t written = 0;
  decoder->begun |= length > 0;
  /* after a full output more of the same input may be left */
  while (length > 0 || (written == sizeof out && !decoder->complete)) {
    int rc = (decoder->coding == LLS_CODING_GZIP ? step_gzip : step_zstd)(
        decoder, &data, &length, out, &written, why);
    if (rc == 0 && written > 0)
      rc = write(owner, out, written);
    if (rc < 0)
      return rc;
  }
  return 0;
}

bool lls_content_decoder_is_complete(const struct lls_content_decoder *decoder)
{
  return decoder->begun && decoder->complete;
}
