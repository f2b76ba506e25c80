/* SPDX-License-Identifier: Apache-2.0 */
/* See gguf_cursor.h. */
#include "core/model/gguf_cursor.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MAX_NAME (1u << 16) /* bytes of a key or a tensor's name */

const unsigned char *lls_gguf_take(struct lls_gguf_cursor *c, size_t n, const char *what)
{
  const unsigned char *bytes = c->at;
  if (n > (size_t)(c->end - c->at)) {
    lls_fail(c->err, -EINVAL, "%s: the file ends inside of %s: it was cut off",
             c->file->path, what);
    return NULL;
  }
  c->at += n;
  return bytes;
}

static uint32_t u32_at(const unsigned char *bytes)
{
  uint32_t value;
  memcpy(&value, bytes, sizeof value);
  return le32toh(value);
}

static uint64_t u64_at(const unsigned char *bytes)
{
  uint64_t value;
  memcpy(&value, bytes, sizeof value);
  return le64toh(value);
}

int lls_gguf_take_u32(struct lls_gguf_cursor *c, uint32_t *out, const char *what)
{
  const unsigned char *bytes = lls_gguf_take(c, sizeof *out, what);
  if (bytes == NULL)
    return -EINVAL;
  *out = u32_at(bytes);
  return 0;
}

int lls_gguf_take_u64(struct lls_gguf_cursor *c, uint64_t *out, const char *what)
{
  const unsigned char *bytes = lls_gguf_take(c, sizeof *out, what);
  if (bytes == NULL)
    return -EINVAL;
  *out = u64_at(bytes);
  return 0;
}

int lls_gguf_take_text(struct lls_gguf_cursor *c, const unsigned char **text,
                       uint64_t *length, const char *what)
{
  int rc = lls_gguf_take_u64(c, length, what);
  if (rc < 0)
    return rc;
  if (*length > (size_t)(c->end - c->at))
    return lls_fail(c->err, -EINVAL,
                    "%s: %s claims a text of %" PRIu64 " bytes, of which the file has "
                    "%zu: it was cut off or is damaged",
                    c->file->path, what, *length, (size_t)(c->end - c->at));
  *text = lls_gguf_take(c, *length, what);
  return 0;
}

int lls_gguf_take_name(struct lls_gguf_cursor *c, const unsigned char **name,
                       uint64_t *length, const char *what)
{
  int rc = lls_gguf_take_text(c, name, length, what);
  if (rc == 0 &&
      (*length == 0 || *length > MAX_NAME || memchr(*name, '\0', *length) != NULL))
    rc = lls_fail(c->err, -EINVAL,
                  "%s: %s of %" PRIu64 " bytes is empty, too long or no text",
                  c->file->path, what, *length);
  return rc;
}
