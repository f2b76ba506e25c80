/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See hub_listing.h. The answer of GET /api/models/OWNER/NAME/revision/main?blobs=true,
 * as far as it is used:
 *
 *   {"sha": COMMIT, "siblings": [{"rfilename": NAME, "size": N, "blobId": SHA-1,
 *                                 "lfs": {"sha256": SHA-256, "size": N}}]}
 */
#include "core/hub/hub_listing.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json_parse.h"
#include "core/hub/git_blob.h"

#define FILE_NAME 512 /* longest path in a repository that is used */

static bool copy_hex(const char *text, size_t digits, char out[LLS_SHA256_HEX])
{
  if (text == NULL || strlen(text) != digits ||
      strspn(text, "0123456789abcdef") != digits)
    return false;
  memcpy(out, text, digits + 1);
  return true;
}

/* Returns true if the name is a path in a folder: no part of it is empty or begins with
 * two dots, and no character is a control character. */
static bool is_inside(const char *name)
{
  if (name[0] == '\0' || strlen(name) >= FILE_NAME)
    return false;
  for (const char *part = name; part != NULL;) {
    if (part[0] == '/' || part[0] == '\0' || strncmp(part, "..", 2) == 0 ||
        strcmp(part, ".") == 0 || strncmp(part, "./", 2) == 0)
      return false;
    part = strchr(part, '/');
    part = part != NULL ? part + 1 : NULL;
  }
  for (const char *c = name; *c != '\0'; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f)
      return false;
  return true;
}

/* Adds a file; one without a usable name is left out. */
static int add_listed(struct lls_hub_listing *l, json_t *sibling)
{
  const char *name = json_string_value(json_object_get(sibling, "rfilename"));
  json_t *lfs = json_object_get(sibling, "lfs");
  const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
  struct lls_hub_listed *f = &l->files[l->n];
  if (name == NULL || !is_inside(name))
    return 0;
  *f = (struct lls_hub_listed){.file.name = strdup(name), .is_sha256 = sha256 != NULL};
  if (f->file.name == NULL)
    return -ENOMEM;
  json_int_t size =
      json_integer_value(json_object_get(sha256 != NULL ? lfs : sibling, "size"));
  f->size = size > 0 ? (uint64_t)size : 0;
  if (!copy_hex(sha256 != NULL ? sha256
                               : json_string_value(json_object_get(sibling, "blobId")),
                sha256 != NULL ? LLS_SHA256_HEX - 1 : LLS_GIT_BLOB_HEX - 1, f->hash))
    f->hash[0] = '\0'; /* an error only if the file is wanted */
  l->n++;
  return 0;
}

static int read_listing(struct lls_hub_listing *l, json_t *root)
{
  json_t *siblings = json_object_get(root, "siblings"), *sibling;
  size_t i, n = json_array_size(siblings);
  const char *commit = json_string_value(json_object_get(root, "sha"));
  int rc = 0;
  if (!json_is_array(siblings) || !copy_hex(commit, LLS_GIT_BLOB_HEX - 1, l->commit))
    return -EPROTO;
  l->files = calloc(n + 1, sizeof *l->files);
  if (l->files == NULL)
    return -ENOMEM;
  json_array_foreach(siblings, i, sibling) if (rc == 0) rc = add_listed(l, sibling);
  return rc;
}

int lls_hub_listing_read(const char *text, size_t length, struct lls_hub_listing *l)
{
  json_t *root = text != NULL ? lls_json_parse(text, length, 0, NULL) : NULL;
  *l = (struct lls_hub_listing){0};
  int rc = read_listing(l, root);
  json_decref(root);
  if (rc < 0)
    lls_hub_listing_free(l);
  return rc;
}

void lls_hub_listing_free(struct lls_hub_listing *l)
{
  for (size_t i = 0; i < l->n; i++)
    free(l->files[i].file.name);
  free(l->files);
  *l = (struct lls_hub_listing){0};
}
