/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a vtable by the rules of its kind; see callbacks.h. */
#include "core/plugin/callbacks.h"

#include <llmserve/plugin.h>

#include <errno.h>

typedef void (*any_callback)(void);

static bool is_given(const void *vtable, const struct lls_callback *callback)
{
  any_callback pointer;
  memcpy(&pointer, (const char *)vtable + callback->offset, sizeof pointer);
  return pointer != NULL;
}

struct head { /* what every vtable starts with */
  uint32_t api_version, size;
};

static int check_head(const struct lls_vtable_rules *rules, const struct head *head,
                      struct lls_error *err)
{
  if (head->api_version < 1 || head->api_version > LLS_API_VERSION)
    return lls_fail(err, -EPROTO, "%s: api_version: expected 1 to %d, found %u",
                    rules->name, LLS_API_VERSION, head->api_version);
  if (head->size < rules->version_1_size || head->size > rules->size)
    return lls_fail(err, -EPROTO, "%s: size: expected %zu to %zu, found %u", rules->name,
                    rules->version_1_size, rules->size, head->size);
  return 0;
}

int lls_vtable_read(const struct lls_vtable_rules *rules, const void *vtable, void *full,
                    struct lls_error *err)
{
  const struct head *head = vtable;
  if (head == NULL)
    return lls_fail(err, -EPROTO, "vtable: expected a %s, found NULL", rules->name);
  int rc = check_head(rules, head, err);
  if (rc < 0)
    return rc;
  memset(full, 0, rules->size);
  memcpy(full, vtable, head->size);
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
