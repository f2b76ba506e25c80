/* SPDX-License-Identifier: Apache-2.0 */
/* Packs a file that one process has read, for other processes: its path, then its
 * entries. */
#include <errno.h>
#include <stdint.h>

#include "core/config/ini.h"

/* Writes a text as its length with the terminator (0 = NULL) and that many bytes. */
static void put_text(struct lls_pack *p, const char *text)
{
  uint64_t bytes = text != NULL ? strlen(text) + 1 : 0;
  LLS_PACK(p, bytes);
  lls_pack_put(p, text, bytes);
}

static int take_text(struct lls_unpack *u, char **out)
{
  uint64_t bytes = 0;
  *out = NULL;
  LLS_UNPACK(u, bytes);
  if (u->failed || bytes == 0)
    return u->failed ? -EPROTO : 0;
  const char *text = lls_unpack_bytes(u, bytes);
  if (text == NULL || text[bytes - 1] != '\0')
    return -EPROTO;
  *out = strdup(text);
  return *out != NULL ? 0 : -ENOMEM;
}

void lls_ini_pack(const struct lls_ini *ini, struct lls_pack *p)
{
  uint64_t n = ini->n;
  put_text(p, ini->path);
  LLS_PACK(p, n);
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *e = &ini->entries[i];
    LLS_PACK(p, e->line);
    put_text(p, e->section);
    put_text(p, e->key);
    put_text(p, e->value);
  }
}

static int take_entry(struct lls_unpack *u, struct lls_ini_entry *e)
{
  LLS_UNPACK(u, e->line);
  int rc = take_text(u, &e->section);
  if (rc == 0)
    rc = take_text(u, &e->key);
  if (rc == 0)
    rc = take_text(u, &e->value);
  return rc == 0 && e->section == NULL ? -EPROTO : rc;
}

int lls_ini_unpack(struct lls_unpack *u, struct lls_ini *out)
{
  uint64_t n = 0;
  *out = (struct lls_ini){0};
  int rc = take_text(u, &out->path);
  LLS_UNPACK(u, n);
  if (rc == 0 && (u->failed || out->path == NULL || n > u->n))
    rc = -EPROTO;
  if (rc == 0 && n > 0) {
    out->entries = calloc(n, sizeof *out->entries);
    rc = out->entries != NULL ? 0 : -ENOMEM;
  }
  for (; rc == 0 && out->n < n; out->n++)
    rc = take_entry(u, &out->entries[out->n]);
  if (rc < 0)
    lls_ini_free(out);
  return rc;
}
