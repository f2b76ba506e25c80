/* SPDX-License-Identifier: Apache-2.0 */
/* See compare.h. Values are compared as bound, so "1s" and "1000ms" are the same. */
#include "core/config/compare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool equal_texts(const char *a, const char *b)
{
  return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool equal_values(const struct lls_param *p, const void *a, const void *b)
{
  const char *in_a = (const char *)a + p->offset, *in_b = (const char *)b + p->offset;
  const char *text_a, *text_b;
  switch (p->type) {
  case LLS_TYPE_STRING:
  case LLS_TYPE_PATH:
    memcpy(&text_a, in_a, sizeof text_a);
    memcpy(&text_b, in_b, sizeof text_b);
    return equal_texts(text_a, text_b);
  default:
    return memcmp(in_a, in_b, lls_param_member_bytes(p->type)) == 0;
  }
}

/* ---- the core's keys -------------------------------------------------------------- */

/* Why a key's value changed: it was set (SAID), or its default follows from another key
 * (FOLLOWS). Keys that were set are reported first. */
enum reason { SAID, FOLLOWS, REASONS };

static int needs_restart(const struct lls_config *running,
                         const struct lls_config *wanted, const struct lls_section *s,
                         const struct lls_param *p, enum reason reason,
                         struct lls_error *err)
{
  const char *now = lls_config_text(running, s->name, p);
  const char *then = lls_config_text(wanted, s->name, p);
  bool follows = strcmp(now, then) == 0;
  if (follows != (reason == FOLLOWS))
    return 0;
  if (follows)
    return lls_config_fail(
        wanted, err, -EPERM, s->name, p->name,
        "its default has changed with another key; changing it needs a restart");
  return lls_config_fail(wanted, err, -EPERM, s->name, p->name,
                         "'%s' instead of '%s' needs a restart", then, now);
}

static int check_section(const struct lls_config *running,
                         const struct lls_config *wanted, const struct lls_section *s,
                         enum reason reason, struct lls_error *err)
{
  const char *a = (const char *)running + s->offset;
  const char *b = (const char *)wanted + s->offset;
  for (size_t i = 0; i < s->table.n; i++) {
    const struct lls_param *p = &s->table.params[i];
    if ((p->flags & LLS_PARAM_RELOADABLE) || equal_values(p, a, b))
      continue;
    int rc = needs_restart(running, wanted, s, p, reason, err);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* Files may change while connections are open; the addresses' protocol may not. */
static int check_tls(const struct lls_config *running, const struct lls_config *wanted,
                     struct lls_error *err)
{
  bool has = running->tls.certificate[0] != '\0';
  if (has == (wanted->tls.certificate[0] != '\0'))
    return 0;
  return lls_config_fail(wanted, err, -EPERM, "tls", "certificate",
                         "turning TLS %s needs a restart", has ? "off" : "on");
}

/* Steps have room for adapters only if the server started with some. */
static int check_lora(const struct lls_config *running, const struct lls_config *wanted,
                      struct lls_error *err)
{
  if (lls_lora_is_on(&running->lora) || !lls_lora_is_on(&wanted->lora))
    return 0;
  return lls_config_fail(wanted, err, -EPERM, "lora", wanted->lora.adapters[0].name,
                         "the server has started without [lora]: the first adapter needs "
                         "a restart");
}

int lls_config_check_reload(const struct lls_config *running,
                            const struct lls_config *wanted, struct lls_error *err)
{
  for (enum reason reason = SAID; reason < REASONS; reason++)
    for (const struct lls_section *s = lls_sections; s->name != NULL; s++) {
      int rc = check_section(running, wanted, s, reason, err);
      if (rc < 0)
        return rc;
    }
  int rc = check_tls(running, wanted, err);
  return rc == 0 ? check_lora(running, wanted, err) : rc;
}

int lls_config_check_router(const struct lls_config *running,
                            const struct lls_config *wanted, struct lls_error *err)
{
  const struct lls_section *server = lls_sections;
  while (strcmp(server->name, "server") != 0)
    server++;
  int rc = check_section(running, wanted, server, SAID, err);
  return rc == 0 ? check_tls(running, wanted, err) : rc;
}

/* ---- the policies ----------------------------------------------------------------- */

static enum lls_policy_change compare_policy(const struct lls_policy *running,
                                             const struct lls_policy *wanted)
{
  const struct lls_param_table *table = &running->module->params;
  enum lls_policy_change change = LLS_POLICY_SAME;
  if (!lls_image_equal(&running->module->image, &wanted->module->image))
    return LLS_POLICY_REPLACED;
  for (size_t i = 0; i < table->n; i++) {
    if (equal_values(&table->params[i], running->params, wanted->params))
      continue;
    if (!(table->params[i].flags & LLS_PARAM_RELOADABLE) ||
        lls_plugin_common(running->module).reconfigure == NULL)
      return LLS_POLICY_REPLACED;
    change = LLS_POLICY_RENEWED;
  }
  return change;
}

struct lls_config_change lls_config_compare(const struct lls_config *running,
                                            const struct lls_config *wanted)
{
  struct lls_config_change change;
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    change.by_kind[i] =
        compare_policy(&running->policies.by_kind[i], &wanted->policies.by_kind[i]);
  return change;
}

static void describe_policy(const struct lls_policy *running,
                            const struct lls_policy *wanted,
                            enum lls_policy_change change, char *text, size_t size)
{
  const struct lls_plugin *a = running->module->descriptor;
  const struct lls_plugin *b = wanted->module->descriptor;
  size_t used = strlen(text);
  if (change == LLS_POLICY_SAME)
    return;
  snprintf(text + used, size - used, "%s%s: %s %s", used > 0 ? "; " : "",
           lls_plugin_kind_name(a->kind), a->id, a->version);
  used = strlen(text);
  if (change == LLS_POLICY_RENEWED)
    snprintf(text + used, size - used, " has new parameters");
  else if (lls_image_equal(&running->module->image, &wanted->module->image))
    snprintf(text + used, size - used, " created anew");
  else
    snprintf(text + used, size - used, " replaced by %s %s", b->id, b->version);
}

void lls_config_describe_change(const struct lls_config *running,
                                const struct lls_config *wanted,
                                const struct lls_config_change *change, char *text,
                                size_t size)
{
  text[0] = '\0';
  for (uint32_t i = 0; i < LLS_KINDS; i++)
    describe_policy(&running->policies.by_kind[i], &wanted->policies.by_kind[i],
                    change->by_kind[i], text, size);
  if (text[0] == '\0')
    snprintf(text, size, "policies as before");
}
