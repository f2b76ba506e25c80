/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apt-Serve's scheduler, shared by its files: what a plan looks at and decides.
 *
 * Sizes are units (half blocks of the paper): n tokens take m = 2 ceil(n / block_tokens)
 * units as K and V, eta * m as hidden vectors. Times in formulas are seconds, as in the
 * paper. A plan allocates nothing: every array has engine->max_requests entries.
 *
 * Arithmetic decides what is wanted; what is got is decided by reserving it in the step's
 * transaction, and what can't be reserved is left out.
 */
#ifndef APT_H
#define APT_H

#include <llmserve/policy/ends.h>
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

/* The standing of a request: what it has to lose (standing.c). */
enum apt_standing {
  APT_IN_TIME, /* a late token more, and it counts as late */
  APT_SPARE,   /* a pause of any length would be overlooked, or it is in one */
  APT_LOST     /* it is late whatever comes */
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

/* One request as greedy sees it. */
struct candidate {
  const struct lls_request *request;
  double pending;    /* p, decayed if that is wanted */
  uint32_t kv;       /* m */
  uint32_t hidden;   /* units in hidden form; 0: not offered to it */
  uint32_t tokens;   /* to compute if it is let in */
  uint32_t held;     /* enum lls_form it has and keeps, NONE if it is free to choose */
  uint32_t form;     /* out: enum lls_form, NONE = not chosen */
  uint32_t standing; /* enum apt_standing */
  bool violated;     /* its value is next to nothing */
  bool stalled;      /* has begun, and waited longer than max_stall off the device */
  bool no_upgrade;   /* hidden form or none */
  bool gone;         /* taken off the device, or let in, in this plan */
};

struct greedy_problem {
  struct candidate *candidates; /* (n) in order of arrival */
  uint32_t n;
  uint64_t memory;  /* M, units */
  double n_rho;     /* N * rho, s/unit: what a unit used through hidden form costs all */
  double eps;       /* density of the violated */
  bool skip;        /* go on after what does not fit */
  bool hidden_pays; /* it is for all: K and V are not worth their room */
  uint32_t tokens, sequences; /* most of the chosen together, UINT32_MAX = any */
};

struct greedy_solution {
  double value;    /* V = sum of g */
  uint64_t used;   /* units */
  uint32_t n;      /* chosen, in the order of taken */
  bool single_won; /* the blocked request alone was worth more than all the others */
};

struct apt {
  struct lls_pol_scheduler base;
  struct apt_params params;
  double restore_ns; /* measured at calibrate, of a token; negative: not */
  struct lls_pol_dropped dropped;
  struct lls_pol_urgent urgent;     /* that wait for their first token, by its limit */
  struct lls_pol_heap heap;         /* of increments, or of running requests */
  struct candidate *candidates;     /* (max_requests) running first, then waiting */
  uint32_t *taken;                  /* (max_requests) indices of a solution */
  uint32_t *stays;                  /* likewise, of the literal decode's, within a plan */
  const struct lls_request **order; /* (max_requests) running, the dearest first */

  /* of the plan in the making */
  int64_t now_ns;
  uint32_t block_tokens, n_running, n_waiting, n_stalled;
  double eta;       /* 0: no hidden form */
  bool hidden_pays; /* it is for all: see apt_hidden_pays */
  double n_rho, eps;
  double urgency_running, urgency_waiting; /* U_R, U_W */
};

/* ---- values.c: p, m, eta, rho, N, eps of all requests of a view */
void apt_value_all(struct apt *, const struct lls_step_view *, uint32_t total_units);
/* Units of so many tokens in a form. */
uint32_t apt_units(const struct apt *, uint32_t tokens, uint32_t form);
/* The time that a request may wait for its first token. */
static inline int64_t apt_first_limit_ns(const struct apt *a, const struct lls_request *r)
{
  return r->slo.ttft_ns != LLS_NEVER ? r->slo.ttft_ns : a->params.ttft_slo;
}
/* And for each other one. */
static inline int64_t apt_gap_limit_ns(const struct apt *a, const struct lls_request *r)
{
  return r->slo.tbt_ns != LLS_NEVER ? r->slo.tbt_ns : a->params.tbt_slo;
}
/* Word 0 of a request's user words: when it was let in, ns. Word 1: these. */
enum {
  APT_HAS_VIOLATED = 1,
  APT_WANTS_HIDDEN = 2,
  APT_MISSED_FIRST = 4,
  APT_MISSED = 8 /* has been beyond a limit, so that it can't be in time any more */
};

/* ---- standing.c: requests with something to lose */
/* The standing of a request that has a token. */
uint32_t apt_standing_later(const struct apt *, const struct lls_request *,
                            int64_t waited_ns, bool on_device);
/* Inline for those that wait for their first one: most of thousands. */
static inline uint32_t apt_standing(const struct apt *a, const struct lls_request *r,
                                    int64_t waited_ns, bool on_device)
{
  if (a->params.late_share <= 0)
    return APT_IN_TIME;
  if (r->generated_tokens == 0)
    return waited_ns > apt_first_limit_ns(a, r) ? APT_LOST : APT_IN_TIME;
  return apt_standing_later(a, r, waited_ns, on_device);
}
/* Units of running requests that have nothing to lose by a pause. */
uint64_t apt_spare_units(const struct apt *);
/* Takes so many of them off that `units` are free; none if all would not be enough. */
bool apt_make_room(struct apt *, struct lls_pol_step *, uint64_t units);
/* Takes a running request off the device, for another one's sake. */
bool apt_pause(struct apt *, struct lls_pol_step *, struct candidate *);

/* ---- stall.c: the bound of a pause */
/* Lets stalled requests in, the longest waiting first, at the cost of others. False: one
 * of them found no room; nobody else should begin. */
bool apt_resume(struct apt *, struct lls_pol_step *, uint32_t budget, bool whole);

/* ---- rho.c: what a step pays for hidden form, by the cost model */
int apt_calibrate(void *self, const struct lls_cost *);
/* True if a cache full of hidden form gives more tokens a second than one full of K and
 * V, if a token of it costs a step so much. */
bool apt_hidden_pays(const struct apt *, double restore_ns, uint32_t total_units);
/* Units that the upgrades of this step may not take, UINT64_MAX: none is worth it. */
uint64_t apt_dearer_than_upgrades(const struct apt *);

/* ---- greedy.c */
/* `taken` gets indices of the chosen, the densest first; heap is scratch of n entries. */
struct greedy_solution apt_greedy(const struct greedy_problem *,
                                  struct lls_pol_heap *heap, uint32_t *taken);
/* Orders by density, the densest first; ties as in section 4 of the README. */
struct lls_pol_heap_entry apt_by_density(double density, bool upgrade, uint32_t units,
                                         uint32_t index);

/* ---- prefill.c */
bool apt_admit(struct apt *, struct lls_pol_step *, struct candidate *, uint32_t budget,
               bool whole);
void apt_prefill(struct apt *, struct lls_pol_step *);
/* Units that stay free when a violated request is let in. Its value of next to nothing is
 * that of one step, while it holds its units until it ends and those that come meanwhile
 * wait: bench/papers/apt-serve-why, part held. */
uint64_t apt_kept_from_violated(const struct apt *, const struct lls_pol_step *);
/* Nothing else would be in the plan: the oldest waiting request alone, or its end. */
void apt_last_resort(struct apt *, struct lls_pol_step *);

/* ---- decode.c */
/* One token of all that run; if memory is short, of those to keep. s->order and
 * s->tail are those left. */
void apt_decode(struct apt *, struct lls_pol_step *);

/* ---- chunked.c */
void apt_chunked(struct apt *, struct lls_pol_step *);

#endif
