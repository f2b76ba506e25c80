/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types that core and plugins share: times, request views, cache forms and tiers,
 * block tables, the plan. There are no functions except a few inline helpers.
 *
 * Conventions of every SDK header
 *
 *   Times are int64_t nanoseconds of the instance's clock (virtual under the simulator);
 *   a member that is a time or a duration ends in _ns. LLS_NEVER means "has not happened"
 *   or "not set". Lengths are in tokens. Memory is in *units* (unit blocks, see cache.h)
 *   or bytes, as the name says.
 *
 *   Structs grow by appending only; "version N ends here" marks the members that every
 *   plugin of that API version may read. A struct that begins with `size` may grow: the
 *   owner of its memory sets `size` to what it knows, and the other side writes nothing
 *   beyond it. All other structs never grow and say so, except lls_request, which is only
 *   passed by pointer, and lls_param, whose stride is in the descriptor. doc/abi.md has
 *   the complete rules.
 *
 *   Callbacks return 0 or a negative errno, unless their comment says otherwise. Thread
 *   tags, which apply to a callback or to all that follow until the next tag:
 *     [main]    the libuv thread: load, create, destroy, reload
 *     [step]    the instance's own thread, inside or between steps
 *     [worker]  a thread of the core's, neither of the two above
 *     [any]     any thread
 *   Callbacks of one plugin instance tagged [main] or [step] never run at the same time.
 *
 *   A pointer to a struct lls_request is a handle: valid from on_arrival until on_finish
 *   returns, read-only; its members change only between two callbacks. Every other
 *   pointer passed to a callback is valid until the callback returns, unless its comment
 *   says otherwise.
 */
#ifndef LLMSERVE_TYPES_H
#define LLMSERVE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LLS_NEVER    INT64_C(-1)
#define LLS_NS_PER_S INT64_C(1000000000)

/* Returns ns + delay_ns, both not negative; the last possible time if the sum is later,
 * as it may be for a deadline that a client chose, or in a replayed log. */
static inline int64_t lls_time_after(int64_t ns, int64_t delay_ns)
{
  return ns > INT64_MAX - delay_ns ? INT64_MAX : ns + delay_ns;
}

/* ---- requests ------------------------------------------------------------------- */

/* The urgency that the client requested; policies may ignore it. */
enum lls_class {
  LLS_CLASS_NONE,
  LLS_CLASS_REALTIME,
  LLS_CLASS_BEST_EFFORT,
};

enum lls_request_state {
  LLS_WAITING,    /* nothing usable is cached: it never ran, or lost its cache */
  LLS_PREFILLING, /* some, but not all, of the tokens known at admission are cached */
  /* All tokens are cached except the newest one and the forced ones before it (see
   * forced_tokens): a step that computes all pending tokens emits a token. */
  LLS_DECODING,
  LLS_PREEMPTED, /* taken off the device, wholly or in part; see residency */
  LLS_MOVING,    /* an asynchronous transfer is under way: it cannot run */
  LLS_FINISHED,
};

/* Where the cached tokens are. */
enum lls_residency {
  LLS_RESIDENT_NONE,
  LLS_RESIDENT_DEVICE,
  LLS_RESIDENT_HOST,
  LLS_RESIDENT_PARTIAL, /* some slots on the device, the rest on the host */
  LLS_RESIDENT_MOVING,  /* a transfer is under way */
};

/* Forms in which the state of a token is cached. */
enum lls_form {
  LLS_FORM_NONE,
  LLS_FORM_KV,     /* K and V, or the latent they are made of, in the cache's own type */
  LLS_FORM_HIDDEN, /* X, the input of each layer's q, k, v, of which K and V are made */
  /* K and V of a full block in 8 bits, with scales for each layer, head and channel: a
   * byte q stands for least + step q */
  LLS_FORM_INT8,
  LLS_FORM_FP8,   /* K and V of a full block in 8 bits of floating point */
  LLS_FORM_STATE, /* what a layer has made of all tokens before */
};

/* Where blocks are kept. */
enum lls_tier {
  LLS_TIER_DEVICE,
  LLS_TIER_HOST,
  LLS_TIER_DISK,
};

enum lls_finish_reason {
  LLS_FINISH_NONE,
  LLS_FINISH_STOP,      /* end-of-sequence or a stop sequence */
  LLS_FINISH_LENGTH,    /* max_new_tokens or the model's context is reached */
  LLS_FINISH_CANCELLED, /* the client disconnected or cancelled it */
  LLS_FINISH_CAPACITY,  /* can never fit the cache, or cannot grow although alone in it */
  LLS_FINISH_REJECTED,  /* the scheduler refused it */
  LLS_FINISH_ERROR,     /* the engine failed, or the answer's grammar has no next token */
};

enum lls_prediction_source {
  LLS_PREDICTED_NOT,     /* no prediction (yet): schedulers must work without one */
  LLS_PREDICTED_PRIOR,   /* the same for all requests: a bound, or a usual value */
  LLS_PREDICTED_MODEL,   /* a trained model */
  LLS_PREDICTED_HISTORY, /* earlier answers */
  LLS_PREDICTED_ORACLE,  /* the truth */
};

/* Deadlines; LLS_NEVER where the client set none. A member of struct lls_request, so
 * the struct never grows. */
struct lls_slo {
  int64_t ttft_ns;       /* first token after arrival */
  int64_t tbt_ns;        /* longest time between two tokens */
  int64_t tpot_ns;       /* mean of the times between tokens */
  int64_t completion_ns; /* last token after arrival */
};

/* A prediction of the total output length. A member of struct lls_request, so the
 * struct never grows. */
struct lls_prediction {
  uint32_t length;    /* tokens */
  uint32_t low, high; /* bounds of about 80 %; both = length if unknown */
  float confidence;   /* 0..1 */
  uint32_t source;    /* enum lls_prediction_source */
  int64_t made_ns;    /* when */
};

#define LLS_USER_WORDS 4

/* Identifies a full block by everything that its contents depend on: its tokens, the
 * tokens before it, and who may share it. Equal keys mean equal contents. The core
 * makes keys; a key has no meaning outside of the server. */
struct lls_key { /* an array element: it never grows */
  uint64_t word[2];
};

/* An image, or another input that is no text, within a prompt. No server of this version
 * makes one. */
struct lls_input {
  uint32_t size;
  uint32_t first_token, n_tokens; /* the places of the prompt that it takes */
  uint32_t encode_units;          /* work of its encoder, see LLS_PLAN_ENCODE */
  uint32_t whole; /* 1: its tokens attend to each other both ways, and run in one step */
  uint32_t encoded;       /* 1: its encoder has run */
  struct lls_key content; /* equal for equal inputs; part of its blocks' keys */
  /* version 1 ends here */
};

/* How the last answer of a session ended. */
enum lls_session_end {
  LLS_SESSION_STOPPED = 1,
  LLS_SESSION_LENGTH,
  LLS_SESSION_TOOL_CALL, /* the client runs a tool, and comes back with its result */
  LLS_SESSION_CANCELLED,
};

/*
 * Requests of one conversation, which come one after the other and begin alike. A handle
 * like a request's: read-only, valid from its first request until on_session_end returns.
 * Each instance of a server has its own handle of a session, of what the session did
 * there.
 */
struct lls_session {
  uint32_t size;
  uint32_t tenant;
  uint64_t id;
  const char *name;  /* the client's, "" without one; another tenant may have the same */
  uint32_t alive;    /* requests of it */
  uint32_t ended_by; /* enum lls_session_end */
  /* what its last answer left, as the cache manager says */
  uint32_t tokens, on_device, on_host, on_disk;
  int64_t ended_ns;
  int64_t returns_ns;         /* when its next request is expected, or LLS_NEVER */
  int64_t until_ns;           /* until when RETAIN keeps it, or LLS_NEVER */
  const struct lls_key *keys; /* (n_keys) of its full blocks */
  uint32_t n_keys;
  /* version 1 ends here */
};

static inline bool lls_key_equal(const struct lls_key *a, const struct lls_key *b)
{
  return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/*
 * One request as policies see it. Papers count waiting from different moments: since the
 * last token (Apt-Serve, BROS) or since the queue was entered (AccelGen).
 */
struct lls_request {
  uint64_t id;            /* unique for the life of the process, increases with arrival */
  uint32_t request_class; /* enum lls_class */
  uint32_t state;         /* enum lls_request_state */
  uint32_t residency;     /* enum lls_residency */
  uint32_t form;          /* enum lls_form of the cached tokens; NONE if nothing is
                           * cached */
  uint32_t finish_reason; /* enum lls_finish_reason, NONE while alive */
  uint32_t instance;      /* index of its instance */
  uint32_t slot;          /* below engine->max_requests; no other living request has
                           * the same */
  int32_t priority;       /* lower first, 0 by default */
  uint32_t tenant;        /* number of the fairness key, 0 if none; any number in a
                           * trace */

  uint32_t prompt_tokens;
  uint32_t generated_tokens; /* emitted so far */
  uint32_t cached_tokens;    /* tokens with a cache entry, on any tier */
  uint32_t missing_tokens;   /* cached tokens that are not on the device */
  uint32_t shared_tokens;    /* cached tokens shared with other requests */
  /* hard bound on generated_tokens; 0: the request computes a vector of the prompt (an
   * embedding), and ends with LLS_FINISH_LENGTH when the whole prompt is computed */
  uint32_t max_new_tokens;
  uint32_t preemptions; /* so far */

  int64_t arrival_ns;
  int64_t queue_enter_ns;     /* when it began to wait: arrival, or preemption */
  int64_t first_scheduled_ns; /* LLS_NEVER until it first runs */
  /* When the last token was computed, and handed over for sending; arrival_ns before
   * the first one. Policies do not see the time that the network takes afterwards. */
  int64_t last_token_ns;
  struct lls_slo slo;
  struct lls_prediction prediction;

  const int32_t *tokens; /* (prompt_tokens + generated_tokens) */
  const char *label;     /* the client's request id or "": stable name in traces */
  uint64_t *user;        /* (LLS_USER_WORDS) for the scheduler to write, zero at
                          * on_arrival */
  /* The number of newest tokens that were not sampled, because the answer's grammar
   * allowed no other. They were emitted with the token before them, and are computed
   * together. */
  uint32_t forced_tokens;
  /* The fairness key itself, "" if none: the name that operators use for a tenant. If
   * there are more keys than numbers, several keys share one number. In the simulator
   * it is "tenant-7", as llmserve-bench sends for 7. */
  const char *tenant_name;
  /* (n_keys) the keys of its full blocks in order, each of the geometry's block_tokens
   * tokens, so n_keys = length / block_tokens. A cache manager finds cached blocks by
   * these keys, not by token ids. */
  const struct lls_key *keys;
  uint32_t n_keys;
  /* The members from here to `inputs` are of what later versions do: 0 and NULL in this
   * one, but for drafts. */
  /* tokens that its state has seen, in groups of kind STATE; at most cached_tokens */
  uint32_t state_tokens;
  uint32_t drafted_tokens; /* guesses of its next tokens */
  uint32_t n_inputs;
  const int32_t *drafts;   /* (drafted_tokens) */
  const float *draft_odds; /* (drafted_tokens) of acceptance, if those before are */
  const struct lls_input *const *inputs; /* (n_inputs) in the order of its tokens */
  const struct lls_session *session;     /* NULL: of none */
  /* The LoRA adapter that computes the request: a number that no other adapter of the
   * process has, 0 without one; and its name, "" without one. This version sets both. A
   * step with requests of one adapter is cheaper than one with several. */
  uint32_t adapter;
  const char *adapter_name;
  /* (n_expected) what the client says that the answer will be, or be like: for drafters
   */
  const int32_t *expected;
  uint32_t n_expected;
  /* tokens of its beginning that the disk had when it came; 0: none, or no disk */
  uint32_t disk_tokens;
  /* version 1 ends here */
};

/* Returns the tokens of the sequence: prompt and answer. */
static inline uint32_t lls_request_length(const struct lls_request *r)
{
  return r->prompt_tokens + r->generated_tokens;
}

/*
 * Returns the tokens that must be computed before the next token is emitted: the rest
 * of the prompt while prefilling (with the outputs, after a dropped cache), 1 while
 * decoding, or at most 1 + forced_tokens.
 */
static inline uint32_t lls_request_pending(const struct lls_request *r)
{
  return lls_request_length(r) - r->cached_tokens;
}

/* Returns true if the next tokens to compute are the answer's last one and the forced
 * ones before it, on whatever tier the request is. */
static inline bool lls_request_decodes(const struct lls_request *r)
{
  return r->generated_tokens > 0 && lls_request_pending(r) <= 1 + r->forced_tokens;
}

/* ---- cache ---------------------------------------------------------------------- */

/* The end of a block from which its slots are filled. */
enum lls_direction {
  LLS_LEFT_TO_RIGHT, /* token j of the entry is in slot j */
  LLS_RIGHT_TO_LEFT, /* token j of the entry is in slot block_tokens - 1 - j */
};

/*
 * Groups. A group is a set of layers that keep, forget and share alike; the engine makes
 * them from the model's configuration, and no policy sees a layer. A block is what a
 * group keeps of block_tokens tokens, in one form, K and V together: consecutive units of
 * the pool, as many as that form takes. Its number is that of its first unit.
 */
enum lls_group_kind {
  LLS_GROUP_FULL = 1, /* steps read it for all later tokens */
  LLS_GROUP_WINDOW,   /* ... for the next `window` - 1 tokens */
  LLS_GROUP_CHUNK,    /* ... for later tokens in its chunk of `window` tokens */
  LLS_GROUP_STATE, /* folded into one state of the sequence, which each step rewrites */
};

enum lls_form_flags {
  LLS_FORM_WRITTEN = 1, /* by steps; else by copies of full blocks in forms[0] alone */
  LLS_FORM_READ = 2,    /* by steps where it lies; else it only waits in a tier */
};

/* How a group keeps its blocks. */
struct lls_group_form { /* in arrays: it never grows */
  uint32_t form;        /* enum lls_form */
  uint32_t block_units; /* consecutive units that a block takes */
  uint32_t flags;       /* enum lls_form_flags */
  float ratio;          /* bytes of a block over those in forms[0] */
};

struct lls_group {
  uint32_t size;
  uint32_t kind;   /* enum lls_group_kind */
  uint32_t window; /* tokens, of WINDOW and CHUNK; 0 for the other kinds */
  uint32_t layers; /* how many, for sentences only */
  /* STATE: number of tokens after the state that its block has room for */
  uint32_t tail_tokens;
  uint32_t n_forms;
  const struct lls_group_form *forms; /* (n_forms) the first is what steps compute in */
  /* version 1 ends here */
};

/* Returns the group's description of a form, of the first one for NONE; NULL if it keeps
 * no blocks in that form. */
static inline const struct lls_group_form *lls_group_form_of(const struct lls_group *g,
                                                             uint32_t form)
{
  for (uint32_t i = 0; i < g->n_forms; i++)
    if (g->forms[i].form == form || form == LLS_FORM_NONE)
      return &g->forms[i];
  return NULL;
}

/* The first token that a step which computes tokens from position `context` on reads in
 * this group. */
static inline uint32_t lls_group_begin(const struct lls_group *g, uint32_t context)
{
  switch (g->kind) {
  case LLS_GROUP_WINDOW:
    return context >= g->window ? context + 1 - g->window : 0;
  case LLS_GROUP_CHUNK:
    return context - context % g->window;
  case LLS_GROUP_STATE:
    return context;
  default:
    return 0;
  }
}

/*
 * One entry of a block table: `count` consecutive tokens from `first_token` on, in one
 * block. Entries of a list are in token order and leave no gap; the list may reach
 * beyond what is stored. A block in a form that steps do not write is full, and all of
 * its tokens are cached. 16 bytes, since the kernels read one per block and sequence: it
 * never grows.
 */
struct lls_block_entry {
  uint32_t block;       /* its first unit in the device pool */
  uint32_t first_token; /* logical index of the entry's first token */
  uint16_t count;       /* tokens it has room for, 1..block_tokens */
  uint8_t direction;    /* enum lls_direction */
  uint8_t form;         /* enum lls_form; NONE: the first of the group's */
  uint32_t reserved;    /* 0 */
};

/* The blocks of a sequence in one group. */
struct lls_group_list {                   /* in arrays: it never grows */
  const struct lls_block_entry *entries;  /* (n_entries) of one form, or KV and INT8 */
  const struct lls_block_entry *restored; /* (n_restored) see lls_block_table */
  uint32_t n_entries, n_restored;
};

/*
 * Where one sequence's cached state lies in a step: a list for each of the engine's
 * groups, in their order. Lists are the cache manager's. They begin with token 0 or any
 * token up to lls_group_begin of the sequence's cached_tokens: what is before may have
 * been given back. Entries in HIDDEN form, and `restored` ones, begin with token 0. Where
 * a sequence goes over from HIDDEN to KV form, `restored` has the HIDDEN blocks of its
 * cached tokens, which this step restores into the blocks of `entries`. It never grows.
 *
 * In a group of kind STATE an entry is a state: its count is 0, and first_token says how
 * many tokens it has seen. The first entry is read, the last one is written and is the
 * sequence's from then on; one alone is both. Those between, rising, each get a copy of
 * the state after first_token tokens. A state that others have too is never the last.
 */
struct lls_block_table {
  uint32_t n_groups, reserved;
  const struct lls_group_list *lists; /* (n_groups) */
};

enum lls_copy_order {
  LLS_COPY_BEFORE_STEP, /* ends before the forward pass reads or writes any block */
  LLS_COPY_ASYNC,       /* may run concurrently with the step; has ended when the step
                         * has */
};

/*
 * Moves slots of one block in every layer of a group. Copies are carried out in list
 * order; within a block, slots stay where they are (shift 0). If the forms differ the
 * numbers are quantised or made wide again on the way, to another block; with INT8 on
 * either side it is all slots. In arrays: it never grows.
 */
struct lls_copy {
  uint8_t source_tier, target_tier; /* enum lls_tier */
  uint8_t order;                    /* enum lls_copy_order */
  uint8_t group;                    /* index of the engine's groups */
  uint8_t source_form, target_form; /* enum lls_form; NONE: the first of the group's */
  uint16_t slot;                    /* first slot */
  uint16_t n_slots;                 /* how many, slot order kept */
  int16_t shift;                    /* the target's first slot is slot + shift */
  uint16_t reserved[2];             /* 0 */
  uint32_t source, target;          /* first units of the blocks, in their tiers */
  uint32_t transfer;                /* that an ASYNC copy is of, if any */
};

/* ---- plan ----------------------------------------------------------------------- */

enum lls_plan_kind {
  LLS_PLAN_RUN = 1, /* compute `tokens` of it in this step; `form` if it is the first
                     * chunk */
  LLS_PLAN_PREEMPT, /* take it off the device; `mode` says how */
  /* Start moving it to the host, or back, concurrently with steps. For an offer: on the
   * instance that has its blocks, which starts an upload as soon as it has memory. */
  LLS_PLAN_OFFLOAD,
  LLS_PLAN_UPLOAD,
  LLS_PLAN_MIGRATE, /* hands the request to instance `target`; to this instance: takes
                       over an offer */
  LLS_PLAN_REJECT,  /* end it, for a reason REJECTED or CAPACITY */
  /* This version refuses a plan with it. */
  LLS_PLAN_ENCODE, /* run the encoder of its input number `mode`, before RUN covers it */
  LLS_PLAN_RETAIN, /* keep the blocks of session `request` in tier `mode`, to until_ns */
  LLS_PLAN_FETCH,  /* bring the blocks of session `request` to tier `mode` */
};

enum lls_preempt_mode {
  LLS_PREEMPT_NONE,
  LLS_PREEMPT_RECOMPUTE, /* drop the cache; all its tokens are prefilled again later */
  LLS_PREEMPT_SWAP,      /* move to the host; running it again moves it back */
  LLS_PREEMPT_DEFER,     /* keep the cache, skip this step (same as not mentioning it) */
};

struct lls_plan_item { /* an array element: it never grows */
  uint32_t kind;       /* enum lls_plan_kind */
  uint32_t tokens;     /* RUN: 1..lls_request_pending */
  /* RUN of all pending tokens: 0..drafted_tokens guesses of the next tokens, which the
   * step verifies, and which count as tokens of the step; at most the engine's
   * max_drafts, and in a whole plan the view's max_sequences, or max_drafts if that is
   * more: the first items have them. A step that lacks memory for them runs without them.
   */
  uint32_t drafts;
  uint32_t form;   /* RUN, nothing cached yet: enum lls_form, NONE = the cache's choice */
  uint32_t mode;   /* PREEMPT: enum lls_preempt_mode; see the last three kinds */
  uint32_t reason; /* REJECT: enum lls_finish_reason */
  uint32_t target; /* MIGRATE: instance */
  uint32_t reserved; /* 0 */
  int64_t until_ns;  /* RETAIN, else 0 */
  uint64_t request;  /* id; RETAIN, FETCH: of a session */
};

/*
 * The scheduler's plan for this step. It is empty, or runnable as a whole: the core
 * refuses all of it if one item is bad. Items are an array of the core's, filled
 * through the helpers of scheduler.h.
 */
struct lls_plan {
  uint32_t size;
  uint32_t n_items, max_items;
  uint32_t overflow;           /* items that did not fit; the core refuses such a plan */
  struct lls_plan_item *items; /* (max_items) */
  /* For an empty plan: nothing to do before this time, unless an event happens.
   * LLS_NEVER: unknown; plan is called again within a millisecond. */
  int64_t idle_until_ns;
  /* version 1 ends here */
};

/* ---- sinks ---------------------------------------------------------------------- */

/* Where stats, dump and audit write, one call per line; arguments are copied. It never
 * grows. */
struct lls_sink {
  void *context; /* first argument of both */
  void (*number)(void *context, const char *name, double value);
  void (*text)(void *context, const char *line);
};

#ifdef __cplusplus
}
#endif

#endif
