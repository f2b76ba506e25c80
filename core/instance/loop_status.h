/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of an instance, and of all instances of a loop together. */
#ifndef LLS_INSTANCE_LOOP_STATUS_H
#define LLS_INSTANCE_LOOP_STATUS_H

#include <llmserve/types.h>

#include "core/base/error.h"
#include "core/config/limits.h"
#include "core/cost/cost.h"
#include "core/obs/metrics.h"
#include "core/plugin/kinds.h"

#define LLS_POLICY_NAME_MAX 64

struct lls_policy_status {
  char name[LLS_POLICY_NAME_MAX]; /* the policy's name in the log */
  uint64_t refusals;              /* requests it refused since it took over */
  uint64_t breaches;              /* answers that broke its contract, since then */
};

/* A snapshot of the end of each step; for /metrics, /health and tests. */
struct lls_loop_status {
  uint64_t arrived;                 /* requests */
  uint64_t handed_over, taken_over; /* requests, to and from other instances */
  uint64_t handed_bytes;            /* cached bytes copied here with requests */
  int64_t handed_ns; /* time of transfers from other processes, summed over requests */
  uint32_t
      offered; /* requests that other instances offer and this one has not taken yet */
  uint64_t steps, plans_refused, plans_late, items_refused;
  uint32_t waiting, running, preempted;
  uint64_t pending_tokens; /* of all these: tokens that the next steps have to compute */
  uint32_t reading;        /* not arrived: they wait for their beginning from disk */
  uint32_t device_units_total, device_units_free, host_units_total, host_units_free;
  uint64_t prompt_tokens, generated_tokens, shared_tokens; /* counters */
  uint64_t forced_tokens; /* generated tokens that the grammar forced, not drawn */
  /* guesses of next tokens that steps verified, and those that became text */
  uint64_t drafted_tokens, accepted_tokens;
  /* verifications of guesses; accepted guesses by their place in one */
  uint64_t drafts, accepted_at[LLS_MAX_DRAFTS];
  int64_t draft_ns_sum; /* time of the drafter */
  /* work for masks of next tokens, in units of compiled_grammar.h */
  uint64_t grammar_work;
  uint64_t postponed_draws; /* draws that waited a step for their mask */
  /* of shared_tokens: those that were copied to the device first */
  uint64_t shared_on_host, shared_on_disk;
  /* the disk tier, by blocks of tokens in all groups of layers */
  uint64_t disk_blocks_total, disk_blocks_used;
  uint64_t disk_blocks_held;    /* by leases of sessions */
  uint64_t disk_fetched_tokens; /* counter; read for sessions that had no request */
  uint64_t disk_written_bytes, disk_read_bytes, disk_failed; /* counters; reads, writes */
  uint64_t sessions_retained, sessions_fetched; /* leases and fetches of sessions */
  uint32_t sessions_leased;                     /* sessions with a lease now */
  uint64_t preempted_recompute, preempted_swap;
  uint64_t displaced; /* requests that lost slots to others and were preempted for it */
  /* requests with a prediction that ended by themselves; the sum of the differences
   * between predicted and actual tokens */
  uint64_t predicted, prediction_error;
  uint64_t copied_bytes;
  uint64_t finished[LLS_FINISH_ERROR + 1]; /* by enum lls_finish_reason */
  uint64_t reload_recomputed;              /* requests that a reload made prefill again */
  int64_t plan_ns_sum, step_ns_sum, device_ns_sum;
  uint64_t batch_tokens_sum, batch_sequences_sum;
  struct lls_histogram plan_seconds, step_tokens; /* distributions over all steps */
  /* errors of the estimated durations of recent steps */
  struct lls_cost_accuracy estimates;
  /* cached tokens by enum lls_form, of preempted requests too */
  uint64_t cached_on_device[LLS_FORM_HIDDEN + 1], cached_on_host[LLS_FORM_HIDDEN + 1];
  struct {
    LLS_EACH_KIND_OF(struct lls_policy_status);
  } policies;
  bool fallen_back; /* the built-in order has replaced the scheduler */
  bool draining;
  char fallback_reason[LLS_ERROR_MAX];
};

/* Sets the histograms' bounds to this process's, in a status that is new or came from
 * another process. */
void lls_loop_status_bind(struct lls_loop_status *);
/* Adds the counters and levels of `more` to `sum`. */
void lls_loop_status_add(struct lls_loop_status *sum, const struct lls_loop_status *more);

/* SILENT: its process sent nothing for 2 s, or a step waits that long for another rank;
 * LOST: for good, or until another process joins for it; ABSENT: no process has joined
 * for it yet, or one still loads. */
enum lls_instance_state {
  LLS_INSTANCE_UP,
  LLS_INSTANCE_SILENT,
  LLS_INSTANCE_LOST,
  LLS_INSTANCE_ABSENT,
};
struct lls_instance_life {
  uint32_t state;
  struct lls_error why; /* reason why the state is not UP, with the instance */
};

#endif
