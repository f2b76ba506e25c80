// SPDX-License-Identifier: Apache-2.0
/*
 * The shortest request first, with ageing: the policy of `llmserve --new-plugin scheduler`, in C++20.
 *
 *   g++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared $(pkg-config --cflags llmserve-plugin) \
 *     -o scheduler_shortest.so shortest.cc $(pkg-config --libs llmserve-plugin)
 *   llmserve-plugin-check ./scheduler_shortest.so
 *
 * What C++ has to keep of the contract: no exception leaves a callback, and a plan allocates nothing. The vector has
 * all of its memory from create on.
 */
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>
#include <vector>

namespace {

struct params { // what llmserve.ini sets
  int64_t max_seqs, preempt;
  double ageing, watermark;
};

struct waiting {
  double rank;    // in tokens; the lowest runs first
  uint32_t index; // of view->waiting, which is in order of arrival
  bool operator<(const waiting &other) const
  {
    return std::pair(rank, index) < std::pair(other.rank, other.index);
  }
};

struct state {
  lls_pol_scheduler base; // first; has the host
  struct params params;
  std::vector<waiting> *order; // a pointer: lls_pol_scheduler_new clears the memory and runs no constructor
};

double rank(const state &s, int64_t now_ns, const lls_request &r)
{
  double waited_s = double(now_ns - r.queue_enter_ns) / double(LLS_NS_PER_S);
  double answer = r.prediction.source != LLS_PREDICTED_NOT ? r.prediction.length : 0;
  return r.prompt_tokens + answer - s.params.ageing * waited_s;
}

bool is_full(const lls_pol_step &step)
{
  return step.tokens == 0 || step.sequences == 0;
}

// Running requests continue; if memory is short, the last of them are preempted.
void go_on(lls_pol_step &step)
{
  for (uint32_t i = 0; i < step.tail && !is_full(step); i++) {
    const lls_request *r = step.order[i];
    uint32_t tokens = std::min(lls_request_pending(r), step.tokens);
    if (lls_pol_step_grow(&step, i, tokens))
      lls_pol_step_run(&step, r, tokens);
  }
}

// Runs as much of r as the step has tokens for. Returns false if there is no room for r, nor for any after it.
template <typename MakeRoom> bool let_in(lls_pol_step &step, const lls_request *r, MakeRoom has_room)
{
  uint32_t pending = lls_pol_step_pending(&step, r);
  lls_pol_step_answer answer = has_room(&step, r, pending);
  if (answer == LLS_POL_STEP_YES)
    lls_pol_step_run(&step, r, std::min(pending, step.tokens));
  return answer != LLS_POL_STEP_NOT_NOW;
}

// Requests that were moved to the host return before any new request starts.
void fill_up(state &s, lls_pol_step &step)
{
  const lls_step_view *view = step.view;
  for (uint32_t i = 0; i < view->n_preempted && !is_full(step); i++)
    if (!let_in(step, view->preempted[i], lls_pol_step_bring_back))
      return;
  s.order->clear();
  for (uint32_t i = 0; i < view->n_waiting; i++)
    s.order->push_back({rank(s, view->now_ns, *view->waiting[i]), i});
  std::sort(s.order->begin(), s.order->end());
  for (const waiting &w : *s.order)
    if (is_full(step) || !let_in(step, view->waiting[w.index], lls_pol_step_admit))
      return;
}

int plan(void *self, const lls_step_view *view, lls_plan *out)
{
  state &s = *static_cast<state *>(self);
  lls_pol_step step;
  lls_pol_step_begin(&step, view, out, s.params.watermark);
  lls_pol_step_drafts(&step, s.base.host->cost);
  step.sequences = std::min(step.sequences, uint32_t(s.params.max_seqs));
  go_on(step);
  if (step.preempted == 0) // else memory is short: no new request
    fill_up(s, step);
  lls_pol_step_end(&step);
  return 0;
}

void caps(void *self, lls_scheduler_caps *out)
{
  out->needs = LLS_NEEDS_MIXED_BATCH | LLS_NEEDS_CHUNKED_PREFILL;
  lls_pol_step_preferences(out, static_cast<state *>(self)->params.preempt);
}

const lls_param parameters[] = {
    LLS_PARAM_INT(params, max_seqs, "256", 1, 65536, "sequences", "most sequences that run in one step", .flags = LLS_PARAM_RELOADABLE),
    LLS_PARAM_FLOAT(params, ageing, "100", 0, 1e6, "tokens/s",
                    "tokens that a request counts less for each second it has waited", .flags = LLS_PARAM_RELOADABLE),
    LLS_POL_STEP_PARAMETERS(params), // watermark, preempt
};

void destroy(void *self)
{
  delete static_cast<state *>(self)->order;
  free(self);
}

int create(const lls_host *host, const void *given, void **self)
{
  state *s = LLS_POL_SCHEDULER_NEW(state, host, parameters, given);
  if (s == nullptr)
    return -ENOMEM;
  *self = s; // destroyed if this fails
  try {
    s->order = new std::vector<waiting>;
    s->order->reserve(host->engine->max_requests);
  } catch (const std::bad_alloc &) {
    return -ENOMEM;
  }
  return 0;
}

const lls_scheduler_vtable vtable = {
    .api_version = LLS_API_VERSION,
    .size = sizeof vtable,
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .reconfigure = lls_pol_scheduler_reconfigure,
};

} // namespace

LLS_POL_SCHEDULER_PLUGIN("shortest", params, "shortest first, with ageing");
