/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the lists of instances; see instance_list.h. */
#include "core/config/instance_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"

static const char *const names[] = {"mixed", "prefill", "decode"};

const char *lls_role_name(uint32_t role)
{
  return role < sizeof names / sizeof *names ? names[role] : "unknown";
}

/* Finds the next word of a list. Returns false at the end, or if a comma has no word
 * before it. */
static bool next_word(const char **list, const char **word, int *length)
{
  *list += strspn(*list, " \t");
  *word = *list;
  size_t n = strcspn(*list, ", \t");
  *length = (int)n;
  *list += n;
  *list += strspn(*list, " \t");
  if (**list == ',')
    (*list)++;
  return n > 0;
}

static int read_role(const char *word, int length, uint32_t *out, struct lls_error *err)
{
  for (uint32_t role = 0; role < sizeof names / sizeof *names; role++)
    if (strlen(names[role]) == (size_t)length &&
        strncmp(names[role], word, (size_t)length) == 0) {
      *out = role;
      return 0;
    }
  return lls_fail(err, -EINVAL, "expected mixed, prefill or decode; found '%.*s'", length,
                  word);
}

static int read_gpu(const char *word, int length, uint32_t *out, struct lls_error *err)
{
  char *end;
  unsigned long number = strtoul(word, &end, 10);
  if (end != word + length || number > 1023)
    return lls_fail(err, -EINVAL, "expected numbers of GPUs, as in '0, 1'; found '%.*s'",
                    length, word);
  *out = (uint32_t)number;
  return 0;
}

/* Reads a list. Returns 0 with *n = 0 if it is empty. */
static int read_list(const char *list, uint32_t out[LLS_MAX_INSTANCES], uint32_t *n,
                     int (*read)(const char *, int, uint32_t *, struct lls_error *),
                     struct lls_error *err)
{
  const char *word;
  int length;
  *n = 0;
  if (list[strspn(list, " \t")] == '\0')
    return 0;
  do {
    if (*n == LLS_MAX_INSTANCES)
      return lls_fail(err, -E2BIG, "at most %d instances", LLS_MAX_INSTANCES);
    if (!next_word(&list, &word, &length))
      return lls_fail(err, -EINVAL, "expected words with commas between them");
    int rc = read(word, length, &out[(*n)++], err);
    if (rc < 0)
      return rc;
  } while (*list != '\0');
  return 0;
}

static bool has(const struct lls_instances *all, uint32_t role)
{
  for (uint32_t i = 0; i < all->n; i++)
    if (all->role[i] == role)
      return true;
  return false;
}

static int check_roles(const struct lls_instances *all, struct lls_error *err)
{
  bool prefill = has(all, LLS_ROLE_PREFILL), decode = has(all, LLS_ROLE_DECODE);
  if (decode && !prefill)
    return lls_fail(err, -EINVAL,
                    "decode instances get their requests from prefill instances, and "
                    "there is none");
  if (prefill && !decode)
    return lls_fail(err, -EINVAL,
                    "prefill instances hand their requests over to decode instances, and "
                    "there is none");
  return 0;
}

int lls_instances_read(const struct lls_engine_config *c, struct lls_instances *out,
                       const char **key, struct lls_error *err)
{
  uint32_t n_roles, n_gpus;
  *out = (struct lls_instances){0};
  *key = "roles";
  int rc = read_list(c->roles, out->role, &n_roles, read_role, err);
  if (rc < 0)
    return rc;
  out->n = c->instances != LLS_NEVER ? (uint32_t)c->instances : n_roles > 0 ? n_roles : 1;
  if (n_roles > 0 && n_roles != out->n)
    return lls_fail(err, -EINVAL, "%u roles for %u instances", n_roles, out->n);
  rc = check_roles(out, err);
  if (rc < 0)
    return rc;
  *key = "gpus";
  rc = read_list(c->gpus, out->gpu, &n_gpus, read_gpu, err);
  if (rc == 0 && n_gpus > 0 && n_gpus != out->n)
    return lls_fail(err, -EINVAL, "%u GPUs for %u instances", n_gpus, out->n);
  for (uint32_t i = 0; i < out->n && n_gpus == 0; i++)
    out->gpu[i] = i;
  return rc;
}
