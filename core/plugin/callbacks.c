/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a vtable by the rules of its kind; see callbacks.h. */
#include "core/plugin/callbacks.h"

#include <llmserve/plugin.h>

#include <errno.h>
#include <stdio.h>

#define BUILD_IT                                                                         \
  "; build it with the headers of this llmserve, whose doc/abi.md says what has changed"

typedef void (*any_callback)(void);

static bool is_given(const void *vtable, const struct lls_callback *callback)
{
  any_callback pointer;
  memcpy(&pointer, (const char *)vtable + callback->offset, sizeof pointer);
  return pointer != NULL;
}

/* Writes "1 to 3", or "1" if both are equal. */
static void format_range(char buffer[48], size_t least, size_t most)
{
  if (least == most)
    snprintf(buffer, 48, "%zu", least);
  else
    snprintf(buffer, 48, "%zu to %zu", least, most);
}

int lls_struct_check(const char *name, size_t version_1_size, size_t size,
                     const uint32_t found[2], struct lls_error *err)
{
  char expected[48];
  if (found[0] < 1 || found[0] > LLS_API_VERSION) {
    format_range(expected, 1, LLS_API_VERSION);
    return lls_fail(err, -EPROTO, "%s: api_version: expected %s, found %u" BUILD_IT, name,
                    expected, found[0]);
  }
  if (found[1] < version_1_size || found[1] > size) {
    format_range(expected, version_1_size, size);
    return lls_fail(err, -EPROTO, "%s: size: expected %s, found %u" BUILD_IT, name,
                    expected, found[1]);
  }
  return 0;
}

int lls_caps_check(const struct lls_cache_caps *caps, struct lls_error *err)
{
  const size_t least = LLS_SIZE_UP_TO(struct lls_cache_caps, groups);
  char expected[48];
  format_range(expected, least, sizeof *caps);
  /* A vtable of before caps has a callback in this place, at any address. */
  bool aligned = (uintptr_t)caps % _Alignof(struct lls_cache_caps) == 0;
  if (!aligned || caps->size < least || caps->size > sizeof *caps)
    return lls_fail(err, -EPROTO,
                    "struct lls_cache_vtable: caps: expected a struct of %s bytes, found "
                    "something else" BUILD_IT,
                    expected);
  if (caps->kinds == 0 || caps->forms == 0)
    return lls_fail(err, -EPROTO,
                    "struct lls_cache_vtable: caps: expected a group kind and a form, "
                    "found none");
  return 0;
}

int lls_vtable_read(const struct lls_vtable_rules *rules, const void *vtable, void *full,
                    struct lls_error *err)
{
  const uint32_t *head = vtable;
  if (head == NULL)
    return lls_fail(err, -EPROTO, "vtable: expected a %s, found NULL", rules->name);
  int rc = lls_struct_check(rules->name, rules->version_1_size, rules->size, head, err);
  if (rc < 0)
    return rc;
  memset(full, 0, rules->size);
  memcpy(full, vtable, head[1]);
  for (size_t i = 0; i < rules->n_required; i++)
    if (!is_given(full, &rules->required[i]))
      return lls_fail(err, -EPROTO, "%s: expected the callback %s, found NULL",
                      rules->name, rules->required[i].name);
  for (size_t i = 0; i < rules->n_pairs; i++) {
    const struct lls_callback_pair *pair = &rules->pairs[i];
    if (is_given(full, &pair->given) && !is_given(full, &pair->needed))
      return lls_fail(err, -EPROTO, "%s: expected %s beside %s, found NULL", rules->name,
                      pair->needed.name, pair->given.name);
  }
  return 0;
}
