/* SPDX-License-Identifier: Apache-2.0 */
/* See hub_places.h; the order of the variables is that of huggingface_hub's
 * constants.py. */
#include "core/hub/hub_places.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/file.h"

#define TOKEN_FILE_MAX 4096

/* Returns a variable that is set and not empty, or NULL. */
static const char *variable(const char *name)
{
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_true(const char *name)
{
  static const char *const words[] = {"1", "ON", "YES", "TRUE"};
  const char *value = variable(name);
  for (size_t i = 0; value != NULL && i < sizeof words / sizeof *words; i++)
    if (strcasecmp(value, words[i]) == 0)
      return true;
  return false;
}

/* Finds HF_HOME. A service has no home, so its state folder is used, as for other files
 * that a next start reuses (lls_file_kept_folder). There is no last resort in /tmp, where
 * others could put a model. */
static int find_home(char *path, size_t size)
{
  const char *own = variable("HF_HOME"), *cache = variable("XDG_CACHE_HOME");
  const char *state = variable("STATE_DIRECTORY"), *user = variable("HOME");
  int n;
  if (own != NULL)
    n = snprintf(path, size, "%s", own);
  else if (cache != NULL)
    n = snprintf(path, size, "%s/huggingface", cache);
  else if (state != NULL)
    n = snprintf(path, size, "%.*s/huggingface", (int)strcspn(state, ":"), state);
  else if (user != NULL)
    n = snprintf(path, size, "%s/.cache/huggingface", user);
  else
    return -ENOENT;
  return n < (int)size ? 0 : -ENAMETOOLONG;
}

static int find_cache(const char *home, struct lls_hub_places *p)
{
  const char *own = variable("HF_HUB_CACHE");
  if (own == NULL)
    own = variable("HUGGINGFACE_HUB_CACHE"); /* its older name */
  int n = own != NULL ? snprintf(p->cache, sizeof p->cache, "%s", own)
                      : snprintf(p->cache, sizeof p->cache, "%s/hub", home);
  return n < (int)sizeof p->cache ? 0 : -ENAMETOOLONG;
}

static int find_endpoint(struct lls_hub_places *p, struct lls_error *err)
{
  const char *own = variable("HF_ENDPOINT");
  if (own == NULL)
    own = "https://huggingface.co";
  size_t length = strlen(own);
  while (length > 0 && own[length - 1] == '/')
    length--;
  if (strncmp(own, "http://", 7) != 0 && strncmp(own, "https://", 8) != 0)
    return lls_fail(err, -EINVAL,
                    "HF_ENDPOINT: expected a URL that begins with https:// or http://, "
                    "found '%s'",
                    own);
  if (length >= sizeof p->endpoint)
    return lls_fail(err, -ENAMETOOLONG, "HF_ENDPOINT is too long");
  memcpy(p->endpoint, own, length);
  p->endpoint[length] = '\0';
  return 0;
}

/* Keeps the first word. A token with control characters would forge header lines. */
static int take_token(const char *text, const char *from, struct lls_hub_places *p,
                      struct lls_error *err)
{
  text += strspn(text, " \t\r\n");
  size_t length = strcspn(text, " \t\r\n");
  if (length >= sizeof p->token)
    return lls_fail(err, -EINVAL, "%s: a token is shorter than %zu characters", from,
                    sizeof p->token);
  for (size_t i = 0; i < length; i++)
    if (text[i] < '!' || text[i] > '~')
      return lls_fail(err, -EINVAL, "%s: character %zu is none that a token has", from,
                      i + 1);
  memcpy(p->token, text, length);
  p->token[length] = '\0';
  return 0;
}

static int read_token_file(const char *path, struct lls_hub_places *p,
                           struct lls_error *err)
{
  char text[TOKEN_FILE_MAX + 1];
  FILE *file;
  int rc = lls_file_open(path, TOKEN_FILE_MAX, &file, err);
  if (rc == -ENOENT)
    return 0;
  if (rc < 0)
    return rc;
  text[fread(text, 1, TOKEN_FILE_MAX, file)] = '\0';
  fclose(file);
  return take_token(text, path, p, err);
}

static int find_token(const char *home, struct lls_hub_places *p, struct lls_error *err)
{
  const char *own = variable("HF_TOKEN"), *path = variable("HF_TOKEN_PATH");
  char file[PATH_MAX];
  if (own == NULL)
    own = variable("HUGGING_FACE_HUB_TOKEN"); /* its older name */
  if (own != NULL)
    return take_token(own, "HF_TOKEN", p, err);
  if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
    return 0;
  if (path == NULL && snprintf(file, sizeof file, "%s/token", home) < (int)sizeof file)
    path = file;
  return path != NULL ? read_token_file(path, p, err) : 0;
}

int lls_hub_places_read(struct lls_hub_places *p, struct lls_error *err)
{
  char home[PATH_MAX];
  *p = (struct lls_hub_places){.offline = is_true("HF_HUB_OFFLINE") ||
                                          is_true("TRANSFORMERS_OFFLINE")};
  int rc = find_home(home, sizeof home);
  if (rc == 0)
    rc = find_cache(home, p);
  if (rc == -ENOENT)
    return lls_fail(err, rc, "there is no place for a hub's models: set HF_HOME");
  if (rc < 0)
    return lls_fail(err, rc, "the path of the hub's cache (HF_HOME) is too long");
  rc = find_endpoint(p, err);
  return rc == 0 ? find_token(home, p, err) : rc;
}

void lls_hub_folder(const struct lls_hub_places *p, const struct lls_hub_name *name,
                    char path[PATH_MAX])
{
  snprintf(path, PATH_MAX, "%s/models--%s--%s", p->cache, name->owner, name->name);
}

void lls_hub_locks(const struct lls_hub_places *p, const struct lls_hub_name *name,
                   char path[PATH_MAX])
{
  snprintf(path, PATH_MAX, "%s/.locks/models--%s--%s", p->cache, name->owner, name->name);
}
