/* SPDX-License-Identifier: Apache-2.0 */
// First come, first served, in C++17: the SDK's headers and parameter macros as they
// come.
#include <llmserve/scheduler.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace
{

struct params {
  int64_t max_seqs;
  double share;
  bool whole;
  int64_t order;
};

struct plus {
  params p;
};

int run(const lls_step_view *view, lls_plan *out, const lls_request *r, uint32_t tokens)
{
  int rc = view->cache->reserve(view->cache->context, r, tokens, LLS_FORM_NONE, 0);
  if (rc == LLS_RESERVE_OK)
    lls_plan_run(out, r, tokens);
  else if (rc == LLS_RESERVE_NEVER)
    lls_plan_reject(out, r, LLS_FINISH_CAPACITY);
  return rc;
}

/* The newest goes, for the sake of one that is older. */
bool drop(const lls_step_view *view, lls_plan *out, const lls_request *r)
{
  if (view->cache->preempt(view->cache->context, r, LLS_PREEMPT_RECOMPUTE) < 0)
    return false;
  lls_plan_preempt(out, r, LLS_PREEMPT_RECOMPUTE);
  return true;
}

int plan(void *self, const lls_step_view *view, lls_plan *out)
{
  const params &p = static_cast<plus *>(self)->p;
  uint32_t tokens = view->max_tokens, newest = view->n_running;
  uint32_t seats =
      std::min<uint32_t>(view->max_sequences, static_cast<uint32_t>(p.max_seqs));
  auto one = [&](const lls_request *r) {
    uint32_t n = std::min(lls_request_pending(r), tokens);
    int rc = run(view, out, r, n);
    tokens -= rc == LLS_RESERVE_OK ? n : 0;
    seats -= rc == LLS_RESERVE_OK ? 1 : 0;
    return rc;
  };
  for (uint32_t i = 0; i < newest && tokens > 0 && seats > 0; i++)
    while (one(view->running[i]) == LLS_RESERVE_LATER && newest > i + 1)
      if (!drop(view, out, view->running[--newest]))
        return 0;
  for (uint32_t i = 0; i < view->n_waiting && newest == view->n_running; i++)
    if (tokens == 0 || seats == 0 || one(view->waiting[i]) == LLS_RESERVE_LATER)
      break;
  return 0;
}

void caps(void *, lls_scheduler_caps *out)
{
  out->needs = LLS_NEEDS_MIXED_BATCH | LLS_NEEDS_CHUNKED_PREFILL;
  out->preempt[out->n_preempt++] = LLS_PREEMPT_RECOMPUTE;
}

int reconfigure(void *self, const void *p)
{
  static_cast<plus *>(self)->p = *static_cast<const params *>(p);
  return 0;
}

int create(const lls_host *, const void *p, void **self)
{
  plus *made = new (std::nothrow) plus;
  if (made == nullptr)
    return -ENOMEM;
  *self = made;
  return reconfigure(made, p);
}

void destroy(void *self)
{
  delete static_cast<plus *>(self);
}

const lls_param parameters[] = {
    LLS_PARAM_INT(params, max_seqs, "256", 1, 65536, "sequences",
                  "most sequences that run in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(params, share, "0.5", 0, 1, "", "nothing",
                    .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_BOOL(params, whole, "off", "nothing", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_CHOICE(params, order, "come", "come|go", "nothing",
                     .flags = LLS_PARAM_RELOADABLE),
};

const lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .reconfigure = reconfigure,
};

} // namespace

extern "C" LLS_PLUGIN_EXPORT const lls_plugin llmserve_plugin = {
    .api_version = LLS_API_VERSION,
    .size = sizeof llmserve_plugin,
    .kind = LLS_KIND_SCHEDULER,
    .id = "plus",
    .version = "1.0",
    .description = "first come, first served, in C++",
    .licence = "Apache-2.0",
    LLS_PLUGIN_PARAMS(parameters, params),
    .vtable = &vtable,
};
