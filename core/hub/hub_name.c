/* SPDX-License-Identifier: Apache-2.0 */
/* See hub_name.h. The rules are those of huggingface_hub's validate_repo_id, so that
 * every accepted name is also safe as a part of a path and of a URL. */
#include "core/hub/hub_name.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

/* Copies a part of a name. Returns false if it has other characters than letters, digits
 * and ._- , begins or ends with one of -. , or contains "--" or "..". */
static bool take_part(const char *text, size_t length, char *out, size_t size)
{
  if (length == 0 || length >= size)
    return false;
  memcpy(out, text, length);
  out[length] = '\0';
  return strspn(out, LETTERS DIGITS "._-") == length && strchr("-.", out[0]) == NULL &&
         strchr("-.", out[length - 1]) == NULL && strstr(out, "--") == NULL &&
         strstr(out, "..") == NULL;
}

/* A quantisation, or the path of a file in the repository. */
static bool take_quant(const char *text, char *out, size_t size)
{
  size_t length = strlen(text);
  if (length == 0 || length >= size || text[0] == '/' || strstr(text, "..") != NULL)
    return false;
  memcpy(out, text, length + 1);
  return strspn(out, LETTERS DIGITS "._-+/") == length;
}

static bool is_gguf(const char *text)
{
  size_t length = strlen(text);
  return length > 5 && strcasecmp(text + length - 5, ".gguf") == 0;
}

bool lls_hub_name_read(const char *text, struct lls_hub_name *out)
{
  *out = (struct lls_hub_name){0};
  size_t all = strcspn(text, ":"), owner = strcspn(text, "/");
  if (owner >= all || !take_part(text, owner, out->owner, sizeof out->owner) ||
      !take_part(text + owner + 1, all - owner - 1, out->name, sizeof out->name))
    return false;
  if (text[all] == ':')
    return take_quant(text + all + 1, out->quant, sizeof out->quant);
  return !is_gguf(out->name);
}
