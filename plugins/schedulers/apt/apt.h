/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apt-Serve's scheduler, shared by its files: the data a plan is made from, and the steps
 * of making it.
 *
 * Sizes are units (half blocks of the paper): n tokens take m = lls_pol_fit_units(n)
 * units as K and V, eta * m as hidden vectors. Times in formulas are seconds, as in the
 * paper. A plan allocates nothing: every array has engine->max_requests entries.
 *
 * Formulas choose requests; each choice is then reserved in the step's transaction, and a
 * request that can't be reserved is left out of the plan.
 */
#ifndef APT_H
#define APT_H

#include <llmserve/policy/ends.h>
#include <llmserve/policy/fit.h>
#include <llmserve/policy/heap.h>
#include <llmserve/policy/scheduler.h>
#include <llmserve/policy/step.h>

enum apt_mode { APT_SEPARATE, APT_CHUNKED };
enum apt_violated { APT_DEMOTE, APT_DECAY, APT_OFF };
enum apt_hidden { APT_HIDDEN_AUTO, APT_HIDDEN_ON, APT_HIDDEN_OFF };
enum apt_fill { APT_BREAK, APT_SKIP };
enum apt_decode_mode { APT_INCUMBENT, APT_LITERAL };
enum apt_upgrade {
  APT_UPGRADE_COST,
  APT_UPGRADE_ROOM,
  APT_UPGRADE_IDLE,
  APT_UPGRADE_NEVER
};
enum apt_clip { APT_CLIP_NONE, APT_CLIP_SLO };

/* The standing of a request: whether a further late token makes it miss its SLO
 * (standing.c). */
enum apt_standing {
  APT_IN_TIME, /* one more late token, and the request counts as late */
  APT_SPARE,   /* one more pause is within late_share, or it is in one now */
  APT_LOST     /* the request counts as late already */
};

struct apt_params {
  int64_t mode, max_tokens, max_seqs, chunk_tokens;
  double watermark;
  int64_t preempt;
  int64_t ttft_slo, tbt_slo, max_wait, max_stall; /* ns */
  int64_t violated;
  double decay, violated_reserve, late_share;
  bool sticky, n_excludes_violated;
  double rho, rho_scale; /* s/unit; NaN = as measured */
  int64_t hidden;
  int64_t fill, decode_mode;
  int64_t upgrade, urgency_clip;
  int64_t look;
};

/* A request, as input of the greedy algorithm. */
struct candidate {
  const struct lls_request *request;
  double pending;    /* p, decayed with violated = decay */
  uint32_t kv;       /* m */
  uint32_t hidden;   /* units in hidden form; 0: not allowed */
  uint32_t tokens;   /* tokens to compute if the request is admitted */
  uint32_t held;     /* enum lls_form it must keep; NONE: any */
  uint32_t form;     /* out: enum lls_form, NONE = not chosen */
  uint32_t standing; /* enum apt_standing */
  bool violated;     /* the request's SLO was missed: its value is eps */
  bool stalled;      /* began, then waited off the device over max_stall */
  bool no_upgrade;   /* may be chosen in hidden form only */
  bool gone;         /* preempted or admitted in this plan */
};

struct greedy_problem {
  struct candidate *candidates; /* (n) in order of arrival */
  uint32_t n;
  uint64_t memory;            /* M, units */
  double n_rho;               /* N * rho, s/unit: cost of a hidden unit to all */
  double eps;                 /* density of violated requests */
  bool skip;                  /* continue after a request that does not fit */
  bool hidden_pays;           /* hidden form for all: KV is not worth its memory */
  uint32_t tokens, sequences; /* limits for the chosen; UINT32_MAX: none */
};

struct greedy_solution {
  double value;    /* V = sum of g */
  uint64_t used;   /* units */
  uint32_t n;      /* number of requests in `taken` */
  bool single_won; /* the blocked request alone was worth more than all the others */
};

struct apt {
  struct lls_pol_scheduler base;
  struct apt_params params;
  struct lls_pol_fit fit; /* tokens in units */
  double restore_ns;      /* per token, measured at calibrate; negative: not measured */
  struct lls_pol_dropped dropped;
  struct lls_pol_urgent urgent;     /* requests without a token, by TTFT limit */
  struct lls_pol_heap heap;         /* increments, or running requests */
  struct candidate *candidates;     /* (max_requests) running first, then waiting */
  uint32_t *taken;                  /* (max_requests) indices of a solution */
  uint32_t *stays;                  /* (max_requests) the same, for decode = literal */
  const struct lls_request **order; /* (max_requests) running, the dearest first */

  /* state of the current plan */
  int64_t now_ns;
  uint32_t block_tokens, n_running, n_waiting, n_stalled;
  double eta;       /* 0: no hidden form */
  bool hidden_pays; /* result of apt_hidden_pays */
  double n_rho, eps;
  double urgency_running, urgency_waiting; /* U_R, U_W */
};

/* ---- values.c: computes p, m, eta, rho, N, eps for all requests of a view */
void apt_value_all(struct apt *, const struct lls_step_view *, uint32_t total_units);
/* Returns the units that `tokens` take in a form. */
uint32_t apt_units(const struct apt *, uint32_t tokens, uint32_t form);
/* Returns the time that a request may wait for its first token. */
static inline int64_t apt_first_limit_ns(const struct apt *a, const struct lls_request *r)
{
  return r->slo.ttft_ns != LLS_NEVER ? r->slo.ttft_ns : a->params.ttft_slo;
}
/* Returns the time that a request may wait for each later token. */
static inline int64_t apt_gap_limit_ns(const struct apt *a, const struct lls_request *r)
{
  return r->slo.tbt_ns != LLS_NEVER ? r->slo.tbt_ns : a->params.tbt_slo;
}
/* Word 0 of a request's user words: time of admission, ns. Word 1: these flags. */
enum {
  APT_HAS_VIOLATED = 1,
  APT_WANTS_HIDDEN = 2,
  APT_MISSED_FIRST = 4,
  APT_MISSED = 8 /* a limit was exceeded: it counts as late for good */
};

/* ---- standing.c: which requests a further pause would make late */
/* Returns the standing of a request that has generated a token. */
uint32_t apt_standing_later(const struct apt *, const struct lls_request *,
                            int64_t waited_ns, bool on_device);
/* Inline, because nearly all of the thousands of waiting requests have no token yet. */
static inline uint32_t apt_standing(const struct apt *a, const struct lls_request *r,
                                    int64_t waited_ns, bool on_device)
{
  if (a->params.late_share <= 0)
    return APT_IN_TIME;
  if (r->generated_tokens == 0)
    return waited_ns > apt_first_limit_ns(a, r) ? APT_LOST : APT_IN_TIME;
  return apt_standing_later(a, r, waited_ns, on_device);
}
/* Returns the units of running requests whose standing is APT_SPARE or APT_LOST. */
uint64_t apt_spare_units(const struct apt *);
/* Preempts such requests until `units` are free; none if all of them would not free
 * enough. */
bool apt_make_room(struct apt *, struct lls_pol_step *, uint64_t units);
/* Preempts a running request to make room for another one. */
bool apt_pause(struct apt *, struct lls_pol_step *, struct candidate *);

/* ---- stall.c: the longest pause a request may have */
/* Admits stalled requests, the longest waiting first, if need be by preempting others.
 * Returns false if one of them found no room: then no other request should begin. */
bool apt_resume(struct apt *, struct lls_pol_step *, uint32_t budget, bool whole);

/* ---- rho.c: the cost of hidden form to a step, from the cost model */
int apt_calibrate(void *self, const struct lls_cost *);
/* True if a cache full of hidden vectors gives more tokens a second than one full of K
 * and V, when each hidden token adds restore_ns to a step. */
bool apt_hidden_pays(const struct apt *, double restore_ns, uint32_t total_units);
/* Returns the units that upgrades to KV in this step must leave free; UINT64_MAX: no
 * upgrade pays. */
uint64_t apt_dearer_than_upgrades(const struct apt *);

/* ---- greedy.c */
/* Writes the indices of the chosen to `taken`, the densest first; heap is scratch of n
 * entries. */
struct greedy_solution apt_greedy(const struct greedy_problem *,
                                  struct lls_pol_heap *heap, uint32_t *taken);
/* Orders by density, the densest first; ties as in section 4 of the README. */
struct lls_pol_heap_entry apt_by_density(double density, bool upgrade, uint32_t units,
                                         uint32_t index);

/* ---- prefill.c */
bool apt_admit(struct apt *, struct lls_pol_step *, struct candidate *, uint32_t budget,
               bool whole);
void apt_prefill(struct apt *, struct lls_pol_step *);
/* Returns the units that must stay free when a violated request is admitted. Its value
 * eps is that of one step, but it holds its units until it ends, and requests that
 * arrive before then wait: experiments/papers/apt-serve-why, part held. */
uint64_t apt_kept_from_violated(const struct apt *, const struct lls_pol_step *);
/* For an empty plan: admits the oldest waiting request, or rejects it. */
void apt_last_resort(struct apt *, struct lls_pol_step *);

/* ---- decode.c */
/* Plans a token of each running request, or of those kept if memory is short. On return
 * s->order[0, s->tail) are the requests still on the device. */
void apt_decode(struct apt *, struct lls_pol_step *);

/* ---- chunked.c */
void apt_chunked(struct apt *, struct lls_pol_step *);

#endif
