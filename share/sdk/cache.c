/*
 * example: the usual policy of cache managers (llmserve/policy/side.h), which is blocks
 * on demand, shared prefixes, and preemption by recompute or swap, for all kinds of
 * groups of layers; and one idea of its own: a request begins only if `spare` of the
 * memory stays free then, so that the answers that run seldom have to be preempted.
 *
 * To change more, write your own function for another member of the vtable and call the
 * usual one (llmserve/policy/face.h) where it does what you want. Below these are the
 * parts: tree.h knows what earlier requests have computed, rows.h has the lists of
 * sequences, and slabs.h gives out blocks of several sizes. Every word that a transaction
 * changes goes through the journal of the side, so that a rollback is exact.
 *
 * In a reload the next generation takes over every block, so that nothing is prefilled
 * again. It accepts the imported state if audit finds nothing wrong.
 */
#include <llmserve/policy/face.h>

#include <errno.h>
#include <stdlib.h>

struct params {
  double spare;
};

struct state {
  struct lls_pol_side side; /* first: the functions of face.h look for it there */
  struct params params;
};

/* ---- the idea -------------------------------------------------------------------- */

/* Is this request the only one with memory? Then it may have all of it, or it would wait
 * for ever. */
static bool is_alone(struct state *s, const struct lls_request *r)
{
  struct lls_capacity c = {.size = sizeof c};
  struct lls_cache_info info = {.size = sizeof info};
  return lls_pol_face_capacity(s, LLS_TIER_DEVICE, &c) == 0 &&
         lls_pol_face_info(s, r, &info) == 0 &&
         c.free_units + info.device_units >= c.total_units;
}

/* After LLS_RESERVE_LATER the core rolls back what has been taken. */
static int reserve(void *self, const struct lls_request *r, uint32_t tokens,
                   uint32_t form, uint32_t flags)
{
  struct state *s = self;
  struct lls_capacity c = {.size = sizeof c};
  bool is_free_to_begin = r->state != LLS_WAITING || is_alone(s, r);
  int rc = lls_pol_face_reserve(s, r, tokens, form, flags);
  if (rc != LLS_RESERVE_OK || is_free_to_begin)
    return rc;
  lls_pol_face_capacity(s, LLS_TIER_DEVICE, &c);
  return c.free_units < s->params.spare * c.total_units ? LLS_RESERVE_LATER : rc;
}

/* ---- life ------------------------------------------------------------------------ */

static void destroy(void *self)
{
  lls_pol_side_destroy(self);
  free(self);
}

static int create(const struct lls_host *host, const void *params,
                  const struct lls_cache_geometry *g, void **self)
{
  struct state *s = calloc(1, sizeof *s);
  if (s == NULL)
    return -ENOMEM;
  s->params = *(const struct params *)params;
  s->side.writer =
      "exam 1"; /* of a state; change the number when you change what is in it */
  int rc = lls_pol_side_create(&s->side, host, g);
  if (rc < 0) {
    destroy(s);
    return rc;
  }
  s->side.shares = true;
  *self = s;
  return 0;
}

/* ---- what the core reads --------------------------------------------------------- */

static const struct lls_param parameters[] = {
    LLS_PARAM_FLOAT(struct params, spare, "0.05", 0, 0.9, "",
                    "share of the memory that stays free when a request begins"),
};

static const struct lls_cache_caps caps = {
    .size = sizeof caps,
    .kinds = 1u << LLS_GROUP_FULL | 1u << LLS_GROUP_WINDOW | 1u << LLS_GROUP_CHUNK,
    .forms = 1u << LLS_FORM_KV,
    .groups = LLS_POL_MAX_GROUPS,
};

static const struct lls_cache_vtable vtable = {
    LLS_POL_FACE,
    .caps = &caps,
    .create = create,
    .destroy = destroy,
    .need = lls_pol_face_need,
    .reserve = reserve,
    .preempt = lls_pol_face_preempt,
    .prefix = lls_pol_face_prefix,
    .computed = lls_pol_face_computed,
    .stats = lls_pol_face_stats,
    .kept = lls_pol_face_kept,
    .adopt = lls_pol_face_adopt,
    .export_state = lls_pol_face_export,
    .import_state = lls_pol_face_import,
};

LLS_PLUGIN_EXPORT const struct lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_CACHE,
    .id = "example",
    .version = "1.0",
    .description = "the usual policy; requests begin while memory is left",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, struct params),
    .vtable = &vtable,
};
