/* SPDX-License-Identifier: Apache-2.0 */
/* Reads key files, and compares a key with all keys in constant time; see keys.h. */
#include "core/api/keys.h"

#include "core/api/api_params.h"
#include "core/base/file.h"
#include "core/base/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define KEY_BYTES     256 /* buffer of a key; a file with a longer key is refused */
#define TENANT_SHARED "-" /* the tenant of clients without keys */
#define LINE_BYTES    1024
#define FILE_BYTES    (1 << 20)

struct key {
  unsigned char bytes[KEY_BYTES]; /* padded with zeros */
  char tenant[LLS_TENANT_BYTES];  /* "" for TENANT_SHARED */
};

struct lls_api_keys {
  struct key *keys; /* (count) */
  size_t count;
};

/* Names the tenant of a key without a tenant: by a hash, so that the name is stable and
 * does not reveal the key. */
static void name_after(struct key *key, size_t length)
{
  char hex[LLS_SHA256_HEX];
  struct lls_sha256 sum;
  lls_sha256_begin(&sum);
  lls_sha256_add(&sum, "llmserve tenant of the key ", 27);
  lls_sha256_add(&sum, key->bytes, length);
  lls_sha256_end(&sum, hex);
  snprintf(key->tenant, sizeof key->tenant, "key-%.16s", hex);
}

static bool has_controls(const char *text)
{
  for (; *text != '\0'; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f)
      return true;
  return false;
}

/* Adds the key of a line "KEY TENANT". Returns NULL, or a message about what is
 * wrong. */
static const char *add_key(struct lls_api_keys *keys, const char *line)
{
  struct key *key = &keys->keys[keys->count];
  size_t length = strcspn(line, " \t");
  const char *tenant = line + length + strspn(line + length, " \t");
  if (length >= KEY_BYTES)
    return "a key has at most 255 bytes";
  if (strlen(tenant) >= LLS_TENANT_BYTES)
    return "the name of a tenant has at most 128 bytes";
  if (has_controls(tenant))
    return "the name of a tenant has no control characters";
  *key = (struct key){0};
  memcpy(key->bytes, line, length);
  if (tenant[0] == '\0')
    name_after(key, length);
  else if (strcmp(tenant, TENANT_SHARED) != 0)
    snprintf(key->tenant, sizeof key->tenant, "%s", tenant);
  keys->count++;
  return NULL;
}

static int read_keys(FILE *file, const char *path, struct lls_api_keys *keys,
                     struct lls_error *err)
{
  char line[LINE_BYTES];
  for (unsigned number = 1; fgets(line, sizeof line, file) != NULL; number++) {
    size_t length = strlen(line);
    if (length + 1 == sizeof line && line[length - 1] != '\n')
      return lls_fail(err, -EINVAL, "%s:%u: the line is too long", path, number);
    while (length > 0 && strchr(" \t\r\n", line[length - 1]) != NULL)
      line[--length] = '\0';
    if (length == 0 || line[0] == '#')
      continue;
    struct key *more = realloc(keys->keys, (keys->count + 1) * sizeof *more);
    if (more == NULL)
      return lls_fail(err, -ENOMEM, "%s: out of memory", path);
    keys->keys = more;
    const char *wrong = add_key(keys, line);
    if (wrong != NULL)
      return lls_fail(err, -EINVAL, "%s:%u: %s", path, number, wrong);
  }
  if (ferror(file))
    return lls_fail(err, -EIO, "%s: %s", path, strerror(errno));
  if (keys->count == 0)
    return lls_fail(err, -EINVAL, "%s: there is no key in it, so no client could ask",
                    path);
  return 0;
}

int lls_api_keys_load(const char *path, struct lls_api_keys **out, struct lls_error *err)
{
  FILE *file;
  int rc = lls_file_open(path, FILE_BYTES, &file, err);
  if (rc < 0)
    return rc;
  struct lls_api_keys *keys = calloc(1, sizeof *keys);
  rc = keys != NULL ? read_keys(file, path, keys, err)
                    : lls_fail(err, -ENOMEM, "%s: out of memory", path);
  fclose(file);
  if (rc < 0)
    lls_api_keys_free(keys);
  else
    *out = keys;
  return rc;
}

void lls_api_keys_free(struct lls_api_keys *keys)
{
  if (keys == NULL)
    return;
  if (keys->keys != NULL)
    explicit_bzero(keys->keys, keys->count * sizeof *keys->keys);
  free(keys->keys);
  free(keys);
}

/* Returns 1 if equal, else 0, in constant time. */
static unsigned equal(const unsigned char *a, const unsigned char *b)
{
  unsigned differences = 0;
  for (size_t i = 0; i < KEY_BYTES; i++)
    differences |= (unsigned)(a[i] ^ b[i]);
  return 1 & ((differences - 1) >> 8);
}

bool lls_api_keys_have(const struct lls_api_keys *keys, const char *key,
                       const char **tenant)
{
  unsigned char given[KEY_BYTES] = {0};
  unsigned found = 0;
  size_t length = strlen(key);
  if (length == 0 || length >= KEY_BYTES)
    return false;
  memcpy(given, key, length);
  for (size_t i = 0; i < keys->count; i++) {
    unsigned same = equal(given, keys->keys[i].bytes);
    *tenant = same ? keys->keys[i].tenant : *tenant;
    found |= same;
  }
  return found != 0;
}

bool lls_api_keys_allow(const struct lls_api_keys *keys, const char *authorization,
                        const char **tenant)
{
  static const char scheme[] = "bearer ";
  if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
    return false;
  const char *key = authorization + sizeof scheme - 1;
  return lls_api_keys_have(keys, key + strspn(key, " "), tenant);
}

void lls_api_keyring_free(struct lls_api_keyring *keyring)
{
  lls_api_keys_free(keyring->users);
  lls_api_keys_free(keyring->admins);
  *keyring = (struct lls_api_keyring){0};
}

const char *lls_api_keys_first(const struct lls_api_keys *keys)
{
  return (const char *)keys->keys[0].bytes;
}
