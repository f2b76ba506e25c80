// SPDX-License-Identifier: Apache-2.0
/*
 * The shortest request first, with ageing: the policy of `llmserve --new-plugin scheduler`, in Rust (1.63, Debian 12's,
 * or newer), without a crate.
 *
 *   rustc --edition 2021 -O -C panic=abort -C lto --crate-type cdylib --crate-name shortest -o scheduler_shortest.so \
 *     -L "$(pkg-config --variable=libdir llmserve-plugin)" -l static=llmserve-policy shortest.rs
 *   llmserve-plugin-check ./scheduler_shortest.so
 *
 * The structs of module `sdk` are those of the headers, up to the last member that is used: structs that grow do so
 * at their end, and are only passed by pointer. Step alone is made here, so it has all members. `bindgen` (a package
 * of Debian) makes all structs from <llmserve/policy/step.h>; this file shows which few a scheduler needs.
 *
 * What Rust has to keep of the contract: no panic leaves a callback, a plan allocates nothing, and a plugin has no
 * clock of its own. Rust's standard library brings one, so this is `no_std`, and its memory is C's.
 */
#![no_std]
use core::ffi::c_void;

#[allow(non_camel_case_types)]
type c_int = i32;
#[allow(non_camel_case_types)]
type c_char = u8;

extern "C" {
    fn calloc(n: usize, bytes: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
    fn abort() -> !;
}

/// A bug in this file ends the server, as in C; nothing here is meant to panic.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { abort() }
}

#[allow(dead_code)]
mod sdk {
    use super::*;

    pub const API_VERSION: u32 = 1;
    pub const KIND_SCHEDULER: u32 = 1;
    pub const TYPE_INT: u32 = 2;
    pub const TYPE_FLOAT: u32 = 3;
    pub const TYPE_CHOICE: u32 = 6;
    pub const RELOADABLE: u32 = 1;
    pub const NEEDS_MIXED_BATCH: u32 = 1;
    pub const NEEDS_CHUNKED_PREFILL: u32 = 2;
    pub const PREDICTED_NOT: u32 = 0;
    pub const ENOMEM: c_int = 12;

    // ---- <llmserve/plugin.h>

    #[repr(C)]
    pub struct Param {
        pub name: *const c_char,
        pub kind: u32,
        pub offset: usize, // of the member of Params
        pub default_value: *const c_char,
        pub min: f64,
        pub max: f64,
        pub choices: *const c_char,
        pub unit: *const c_char,
        pub sentence: *const c_char,
        pub flags: u32,
    }

    #[repr(C)]
    pub struct Plugin {
        pub api_version: u32,
        pub size: u32,
        pub kind: u32,
        pub reserved: u32,
        pub id: *const c_char,
        pub version: *const c_char,
        pub description: *const c_char,
        pub licence: *const c_char,
        pub params: *const Param,
        pub n_params: u32,
        pub param_size: u32,
        pub params_size: usize,
        pub vtable: *const SchedulerVtable,
    }
    unsafe impl Sync for Plugin {} // its pointers are those of constants

    // ---- <llmserve/host.h>

    #[repr(C)]
    pub struct EngineCaps {
        pub size: u32,
        pub max_step_tokens: u32,
        pub max_sequences: u32,
        pub max_context: u32,
        pub max_requests: u32,
    }

    #[repr(C)]
    pub struct Host {
        pub api_version: u32,
        pub size: u32,
        pub context: *mut c_void,
        unused: [*const c_void; 8], // now, random, log, fail, count, find, overrun, predicted
        pub engine: *const EngineCaps,
        pub topology: *const c_void,
        pub cost: *const c_void,
    }

    // ---- <llmserve/types.h>

    #[repr(C)]
    pub struct Prediction {
        pub length: u32,
        pub low: u32,
        pub high: u32,
        pub confidence: f32,
        pub source: u32,
        pub made_ns: i64,
    }

    #[repr(C)]
    pub struct Request {
        pub id: u64,
        pub request_class: u32,
        pub state: u32,
        pub residency: u32,
        pub form: u32,
        pub finish_reason: u32,
        pub instance: u32,
        pub slot: u32,
        pub priority: i32,
        pub tenant: u32,
        pub prompt_tokens: u32,
        pub generated_tokens: u32,
        pub cached_tokens: u32,
        pub missing_tokens: u32,
        pub shared_tokens: u32,
        pub max_new_tokens: u32,
        pub preemptions: u32,
        pub arrival_ns: i64,
        pub queue_enter_ns: i64,
        pub first_scheduled_ns: i64,
        pub last_token_ns: i64,
        pub slo: [i64; 4],
        pub prediction: Prediction,
    }

    impl Request {
        pub fn pending(&self) -> u32 {
            (self.prompt_tokens + self.generated_tokens).wrapping_sub(self.cached_tokens)
        }
    }

    // ---- <llmserve/scheduler.h>

    #[repr(C)]
    pub struct SchedulerCaps {
        pub size: u32,
        pub needs: u32,
        pub n_preempt: u32,
        pub preempt: [u32; 4],
    }

    #[repr(C)]
    pub struct StepView {
        pub size: u32,
        pub instance: u32,
        pub role: u32,
        pub preempt_mode: u32,
        pub step: u64,
        pub now_ns: i64,
        pub n_waiting: u32,
        pub n_running: u32,
        pub n_preempted: u32,
        pub n_moving: u32,
        pub waiting: *const *const Request,
        pub running: *const *const Request,
        pub preempted: *const *const Request,
    }

    pub enum Plan {} // filled by step.h

    #[repr(C)]
    pub struct SchedulerVtable {
        pub api_version: u32,
        pub size: u32,
        pub create: unsafe extern "C" fn(*const Host, *const Params, *mut *mut State) -> c_int,
        pub destroy: unsafe extern "C" fn(*mut State),
        pub caps: unsafe extern "C" fn(*mut State, *mut SchedulerCaps),
        pub plan: unsafe extern "C" fn(*mut State, *const StepView, *mut Plan) -> c_int,
        // calibrate, on_arrival, on_prediction, on_step, on_finish, on_transfer, on_refused, stats, dump
        pub unused: [usize; 9],
        pub reconfigure: unsafe extern "C" fn(*mut State, *const Params) -> c_int,
        pub unused_state: [usize; 3], // export_state, import_state, on_session_end
    }

    // ---- <llmserve/policy/step.h>, linked from libllmserve-policy.a

    #[repr(C)]
    pub struct Step {
        pub view: *const StepView,
        pub cache: *const c_void,
        pub plan: *mut Plan,
        pub tokens: u32,
        pub sequences: u32,
        pub prompts: u32,
        pub runs: u32,
        pub preempted: u32,
        pub order: *const *const Request,
        pub tail: u32,
        pub no_margin: bool,
        pub total_units: u32,
        pub watermark_units: u32,
        pub sure: u32,
        drafts: [u64; 3],
        draft_tokens: u32,
        spare: [u64; 8], // members of a later SDK, whose lls_pol_step_begin writes them
    }

    pub const NOT_NOW: c_int = 1; // enum lls_pol_step_answer
    pub const YES: c_int = 0;

    extern "C" {
        pub fn lls_pol_step_begin(step: *mut Step, view: *const StepView, plan: *mut Plan, watermark: f64);
        pub fn lls_pol_step_drafts(step: *mut Step, cost: *const c_void);
        pub fn lls_pol_step_end(step: *mut Step);
        pub fn lls_pol_step_run(step: *mut Step, r: *const Request, tokens: u32);
        pub fn lls_pol_step_pending(step: *const Step, r: *const Request) -> u32;
        pub fn lls_pol_step_grow(step: *mut Step, i: u32, tokens: u32) -> bool;
        pub fn lls_pol_step_admit(step: *mut Step, r: *const Request, pending: u32) -> c_int;
        pub fn lls_pol_step_bring_back(step: *mut Step, r: *const Request, pending: u32) -> c_int;
        pub fn lls_pol_step_preferences(caps: *mut SchedulerCaps, preempt: i64);
    }
}
use sdk::*;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Params {
    // what llmserve.ini sets; every member has 8 bytes
    max_seqs: i64,
    preempt: i64,
    ageing: f64,
    watermark: f64,
}

pub struct State {
    host: *const Host,
    params: Params,
    order: *mut Waiting, // (max_requests)
}

#[derive(Clone, Copy)]
struct Waiting {
    rank: f64,  // in tokens; the lowest runs first
    index: u32, // of the view's waiting requests, which are in order of arrival
}

// ---- the order -------------------------------------------------------------------------------------------

fn rank(params: &Params, now_ns: i64, r: &Request) -> f64 {
    let waited_s = (now_ns - r.queue_enter_ns) as f64 / 1e9;
    let answer = if r.prediction.source != PREDICTED_NOT { r.prediction.length } else { 0 };
    r.prompt_tokens as f64 + answer as f64 - params.ageing * waited_s
}

// ---- the plan --------------------------------------------------------------------------------------------

fn is_full(step: &Step) -> bool {
    step.tokens == 0 || step.sequences == 0
}

/// Running requests continue; if memory is short, the last of them are preempted.
unsafe fn go_on(step: &mut Step) {
    let mut i = 0;
    while i < step.tail && !is_full(step) {
        let r = *step.order.add(i as usize);
        let tokens = (*r).pending().min(step.tokens);
        if lls_pol_step_grow(step, i, tokens) {
            lls_pol_step_run(step, r, tokens);
        }
        i += 1;
    }
}

type MakeRoom = unsafe extern "C" fn(*mut Step, *const Request, u32) -> c_int;

/// Runs as much of r as the step has tokens for. Returns false if there is no room for r, nor for any after it.
unsafe fn let_in(step: &mut Step, r: *const Request, has_room: MakeRoom) -> bool {
    let pending = lls_pol_step_pending(step, r);
    let answer = has_room(step, r, pending);
    if answer == YES {
        let tokens = pending.min(step.tokens);
        lls_pol_step_run(step, r, tokens);
    }
    answer != NOT_NOW
}

/// Requests that were moved to the host return before any new request starts.
unsafe fn fill_up(s: &State, step: &mut Step, view: &StepView) {
    for i in 0..view.n_preempted as usize {
        if is_full(step) || !let_in(step, *view.preempted.add(i), lls_pol_step_bring_back) {
            return;
        }
    }
    let order = core::slice::from_raw_parts_mut(s.order, view.n_waiting as usize);
    for (i, w) in order.iter_mut().enumerate() {
        *w = Waiting { rank: rank(&s.params, view.now_ns, &**view.waiting.add(i)), index: i as u32 };
    }
    order.sort_unstable_by(|a, b| a.rank.total_cmp(&b.rank).then(a.index.cmp(&b.index)));
    for w in order.iter() {
        if is_full(step) || !let_in(step, *view.waiting.add(w.index as usize), lls_pol_step_admit) {
            return;
        }
    }
}

unsafe extern "C" fn plan(s: *mut State, view: *const StepView, out: *mut Plan) -> c_int {
    let (s, view) = (&*s, &*view);
    let mut step = core::mem::MaybeUninit::<Step>::uninit();
    lls_pol_step_begin(step.as_mut_ptr(), view, out, s.params.watermark);
    let step = &mut *step.as_mut_ptr();
    lls_pol_step_drafts(step, (*s.host).cost);
    step.sequences = step.sequences.min(s.params.max_seqs as u32);
    go_on(step);
    if step.preempted == 0 {
        fill_up(s, step, view); // else memory is short: no new request
    }
    lls_pol_step_end(step);
    0
}

unsafe extern "C" fn caps(s: *mut State, out: *mut SchedulerCaps) {
    (*out).needs = NEEDS_MIXED_BATCH | NEEDS_CHUNKED_PREFILL;
    lls_pol_step_preferences(out, (*s).params.preempt);
}

// ---- life ------------------------------------------------------------------------------------------------

unsafe extern "C" fn create(host: *const Host, params: *const Params, out: *mut *mut State) -> c_int {
    let s = calloc(1, core::mem::size_of::<State>()) as *mut State;
    if s.is_null() {
        return -ENOMEM;
    }
    *out = s; // destroyed if this fails
    (*s).host = host;
    (*s).params = *params;
    (*s).order = calloc((*(*host).engine).max_requests as usize, core::mem::size_of::<Waiting>()) as *mut Waiting;
    if (*s).order.is_null() { -ENOMEM } else { 0 }
}

unsafe extern "C" fn destroy(s: *mut State) {
    free((*s).order as *mut c_void);
    free(s as *mut c_void);
}

/// Sets all parameters but `preempt`, which the core knows from caps.
unsafe extern "C" fn reconfigure(s: *mut State, params: *const Params) -> c_int {
    (*s).params = Params { preempt: (*s).params.preempt, ..*params };
    0
}

macro_rules! text {
    ($s:expr) => {
        concat!($s, "\0").as_ptr() as *const c_char
    };
}

const NONE: *const c_char = core::ptr::null();
static PARAMETERS: Table = Table([
    Param { name: text!("max_seqs"), kind: TYPE_INT, offset: 0, default_value: text!("256"), min: 1.0, max: 65536.0,
        choices: NONE, unit: text!("sequences"), sentence: text!("most sequences that run in one step"), flags: RELOADABLE },
    Param { name: text!("ageing"), kind: TYPE_FLOAT, offset: 16, default_value: text!("100"), min: 0.0, max: 1e6,
        choices: NONE, unit: text!("tokens/s"),
        sentence: text!("tokens that a request counts less for each second it has waited"), flags: RELOADABLE },
    Param { name: text!("watermark"), kind: TYPE_FLOAT, offset: 24, default_value: text!("0.01"), min: 0.0, max: 0.2,
        choices: NONE, unit: text!(""),
        sentence: text!("part of the cache that must stay free when a request is let in"), flags: RELOADABLE },
    Param { name: text!("preempt"), kind: TYPE_CHOICE, offset: 8, default_value: text!("recompute"), min: 0.0, max: 0.0,
        choices: text!("recompute|swap"), unit: text!(""),
        sentence: text!("how running requests make room: dropped and prefilled again, or moved to the host"), flags: 0 },
]);
struct Table([Param; 4]);
unsafe impl Sync for Table {} // its pointers are those of constants

static VTABLE: SchedulerVtable = SchedulerVtable {
    api_version: API_VERSION,
    size: core::mem::size_of::<SchedulerVtable>() as u32,
    create,
    destroy,
    caps,
    plan,
    unused: [0; 9],
    reconfigure,
    unused_state: [0; 3],
};

#[allow(non_upper_case_globals)]
#[no_mangle]
pub static llmserve_plugin: Plugin = Plugin {
    api_version: API_VERSION,
    size: core::mem::size_of::<Plugin>() as u32,
    kind: KIND_SCHEDULER,
    reserved: 0,
    id: text!("shortest"),
    version: text!("1.0"),
    description: text!("shortest first, with ageing"),
    licence: text!("Apache-2.0"),
    params: PARAMETERS.0.as_ptr(),
    n_params: 4,
    param_size: core::mem::size_of::<Param>() as u32,
    params_size: core::mem::size_of::<Params>(),
    vtable: &VTABLE,
};
