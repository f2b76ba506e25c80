/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paged cache manager: blocks on demand, recompute or swap, automatic prefix sharing.
 * That is the usual policy of libllmserve-policy (policy/side.h), so nothing is left here
 * but what a manager says of itself; see README for the paper.
 */
#include <llmserve/policy/face.h>

#include <stdlib.h>

struct params {
  bool prefix_sharing;
  double lease_share;
};

static int reconfigure(void *self, const void *params)
{
  struct lls_pol_side *m = self;
  const struct params *p = params;
  lls_pol_side_share(m, p->prefix_sharing);
  m->leases.share = p->lease_share;
  return 0;
}

static void destroy(void *self)
{
  lls_pol_side_destroy(self);
  free(self);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct lls_pol_side *m = calloc(1, sizeof *m);
  if (m == NULL)
    return -ENOMEM;
  m->writer = "paged 9"; /* and its version */
  int rc = lls_pol_side_create(m, host, g);
  if (rc < 0) {
    destroy(m);
    return rc;
  }
  reconfigure(m, params);
  *self = m;
  return 0;
}

static const struct lls_param parameters[] = {
    LLS_PARAM_BOOL(struct params, prefix_sharing, "on",
                   "keep full blocks of finished and running requests and give them to "
                   "later ones with the same prefix",
                   .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(struct params, lease_share, "0.3", 0, 1, "",
                    "part of a tier that sessions may retain blocks in",
                    .flags = LLS_PARAM_RELOADABLE),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL | 1u << LLS_GROUP_WINDOW | 1u << LLS_GROUP_CHUNK |
             1u << LLS_GROUP_STATE,
    .forms = 1u << LLS_FORM_KV | 1u << LLS_FORM_STATE,
    .groups = LLS_POL_MAX_GROUPS,
};

static const struct lls_cache_vtable vtable = {
    LLS_POL_FACE,
    .caps = &caps,
    .create = create,
    .destroy = destroy,
    .need = lls_pol_face_need,
    .reserve = lls_pol_face_reserve,
    .preempt = lls_pol_face_preempt,
    .prefix = lls_pol_face_prefix,
    .computed = lls_pol_face_computed,
    .stats = lls_pol_face_stats,
    .kept = lls_pol_face_kept,
    .adopt = lls_pol_face_adopt,
    .retain = lls_pol_face_retain,
    .fetch = lls_pol_face_fetch,
    .changes = lls_pol_face_changes,
    .reconfigure = reconfigure,
    .export_state = lls_pol_face_export,
    .import_state = lls_pol_face_import,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "paged",
    .version = "2.0",
    .description = "blocks on demand, recompute or swap, automatic prefix sharing",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
