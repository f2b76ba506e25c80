/* SPDX-License-Identifier: Apache-2.0 */
// First come, first served, in C++17: the SDK's headers, parameter macros and
// libllmserve-policy as they come.
#include <llmserve/policy/step.h>

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

int plan(void *self, const lls_step_view *view, lls_plan *out)
{
  const params &p = static_cast<plus *>(self)->p;
  lls_pol_step step;
  lls_pol_step_begin(&step, view, out, 0);
  step.sequences = std::min(step.sequences, static_cast<uint32_t>(p.max_seqs));
  auto has_room = [&] { return step.tokens > 0 && step.sequences > 0; };
  for (uint32_t i = 0; i < step.tail && has_room(); i++) {
    const lls_request *r = step.order[i];
    uint32_t tokens = lls_pol_min(lls_request_pending(r), step.tokens);
    if (lls_pol_step_grow(&step, i, tokens))
      lls_pol_step_run(&step, r, tokens);
  }
  for (uint32_t i = 0; i < view->n_waiting && step.preempted == 0 && has_room(); i++) {
    uint32_t pending = lls_pol_step_pending(&step, view->waiting[i]);
    auto answer = lls_pol_step_admit(&step, view->waiting[i], pending);
    if (answer == LLS_POL_STEP_NOT_NOW)
      break;
    if (answer == LLS_POL_STEP_YES)
      lls_pol_step_run(&step, view->waiting[i], std::min(pending, step.tokens));
  }
  lls_pol_step_end(&step);
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

LLS_PLUGIN_EXPORT const lls_plugin llmserve_plugin = {
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
