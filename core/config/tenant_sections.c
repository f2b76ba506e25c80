/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections [tenant.NAME]: a key that a section does not
 * set has its value of [tenants]. The configuration owns the list, and the front end
 * borrows it with the limits.
 */
#include "core/config/loading.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "tenant.";

bool lls_section_is_tenant(const char *section)
{
  size_t length = sizeof prefix - 1;
  return strncmp(section, prefix, length) == 0 && section[length] != '\0';
}

static size_t count(const struct lls_ini *ini)
{
  size_t n = 0;
  for (size_t i = 0; i < ini->n; i++)
    n += ini->entries[i].key == NULL && lls_section_is_tenant(ini->entries[i].section);
  return n;
}

void lls_loading_tenants(struct lls_loading *l, const struct lls_param_table *table)
{
  struct lls_config *config = l->config;
  struct lls_api_limits *limits = &config->server.api;
  const struct lls_ini *ini = &config->ini;
  limits->tenant = config->tenants;
  size_t n = count(ini);
  struct lls_tenant_override *list = n > 0 ? calloc(n, sizeof *list) : NULL;
  if (n > 0 && list == NULL) {
    lls_loading_error(l, 0, "no memory");
    return;
  }
  size_t at = 0;
  for (size_t i = 0; i < ini->n; i++) {
    const struct lls_ini_entry *entry = &ini->entries[i];
    if (entry->key != NULL || !lls_section_is_tenant(entry->section))
      continue;
    struct lls_tenant_override *one = &list[at++];
    one->name = entry->section + sizeof prefix - 1;
    one->limits = config->tenants;
    lls_loading_bind(l, entry->section, table, &one->limits);
  }
  config->overrides = list;
  limits->tenants = list;
  limits->n_tenants = n;
}
