// SPDX-License-Identifier: Apache-2.0
//! The shortest request first, with ageing: the policy of `llmserve --new-plugin scheduler`, in Zig (0.17, which is
//! `pip install ziglang`; Debian 12 has none). Zig translates the SDK's headers itself:
//!
//!   sdk=$(pkg-config --variable=includedir llmserve-plugin) lib=$(pkg-config --variable=libdir llmserve-plugin)
//!   zig translate-c -lc -I"$sdk" "$sdk/llmserve/policy/step.h" >sdk.zig
//!   zig build-lib -dynamic -O ReleaseFast -fPIC -lc -femit-bin=scheduler_shortest.so shortest.zig "$lib/libllmserve-policy.a"
//!   llmserve-plugin-check ./scheduler_shortest.so
//!
//! What Zig has to keep of the contract: nothing but the descriptor is exported, and a plan allocates nothing. Memory
//! is C's. The order has all of its memory from create on.
const std = @import("std");
const c = @import("sdk.zig"); // beside this file

const enomem: c_int = @intFromEnum(std.os.linux.E.NOMEM);

const Step = c.struct_lls_pol_step;
const View = c.struct_lls_step_view;
const Request = c.struct_lls_request;

const Params = extern struct { max_seqs: i64, preempt: i64, ageing: f64, watermark: f64 }; // what llmserve.ini sets

const Waiting = struct {
    rank: f64, // in tokens; the lowest runs first
    index: u32, // of view.waiting, which is in order of arrival

    fn before(_: void, a: Waiting, b: Waiting) bool {
        return a.rank < b.rank or (a.rank == b.rank and a.index < b.index);
    }
};

const State = struct { host: *const c.struct_lls_host, params: Params, order: []Waiting };

fn of(self: ?*anyopaque) *State {
    return @ptrCast(@alignCast(self.?));
}

fn rank(params: *const Params, now_ns: i64, r: *const Request) f64 {
    const waited_s = @as(f64, @floatFromInt(now_ns - r.queue_enter_ns)) / 1e9;
    const answer: u32 = if (r.prediction.source != c.LLS_PREDICTED_NOT) r.prediction.length else 0;
    return @as(f64, @floatFromInt(r.prompt_tokens)) + @as(f64, @floatFromInt(answer)) - params.ageing * waited_s;
}

fn isFull(step: *const Step) bool {
    return step.tokens == 0 or step.sequences == 0;
}

/// Running requests continue; if memory is short, the last of them are preempted.
fn goOn(step: *Step) void {
    var i: u32 = 0;
    while (i < step.tail and !isFull(step)) : (i += 1) {
        const r = step.order[i];
        const tokens = @min(c.lls_request_pending(r), step.tokens);
        if (c.lls_pol_step_grow(step, i, tokens)) c.lls_pol_step_run(step, r, tokens);
    }
}

/// Runs as much of r as the step has tokens for. Returns false if there is no room for r, nor for any after it.
fn letIn(step: *Step, r: [*c]const Request, comptime hasRoom: anytype) bool {
    const pending = c.lls_pol_step_pending(step, r);
    const answer = hasRoom(step, r, pending);
    if (answer == c.LLS_POL_STEP_YES) c.lls_pol_step_run(step, r, @min(pending, step.tokens));
    return answer != c.LLS_POL_STEP_NOT_NOW;
}

/// Requests that were moved to the host return before any new request starts.
fn fillUp(s: *State, step: *Step, view: *const View) void {
    for (0..view.n_preempted) |i|
        if (isFull(step) or !letIn(step, view.preempted[i], c.lls_pol_step_bring_back)) return;
    const order = s.order[0..view.n_waiting];
    for (order, 0..) |*w, i| w.* = .{ .rank = rank(&s.params, view.now_ns, view.waiting[i]), .index = @intCast(i) };
    std.sort.heap(Waiting, order, {}, Waiting.before);
    for (order) |w|
        if (isFull(step) or !letIn(step, view.waiting[w.index], c.lls_pol_step_admit)) return;
}

fn plan(self: ?*anyopaque, view: [*c]const View, out: [*c]c.struct_lls_plan) callconv(.c) c_int {
    const s = of(self);
    var step: Step = .{};
    c.lls_pol_step_begin(&step, view, out, s.params.watermark);
    c.lls_pol_step_drafts(&step, s.host.cost);
    step.sequences = @min(step.sequences, @as(u32, @intCast(s.params.max_seqs)));
    goOn(&step);
    if (step.preempted == 0) fillUp(s, &step, view); // else memory is short: no new request
    c.lls_pol_step_end(&step);
    return 0;
}

fn caps(self: ?*anyopaque, out: [*c]c.struct_lls_scheduler_caps) callconv(.c) void {
    out.*.needs = c.LLS_NEEDS_MIXED_BATCH | c.LLS_NEEDS_CHUNKED_PREFILL;
    c.lls_pol_step_preferences(out, of(self).params.preempt);
}

fn create(host: [*c]const c.struct_lls_host, params: ?*const anyopaque, out: [*c]?*anyopaque) callconv(.c) c_int {
    const s = std.heap.c_allocator.create(State) catch return -enomem;
    const given: *const Params = @ptrCast(@alignCast(params.?));
    s.* = .{ .host = host, .params = given.*, .order = &.{} };
    out.* = s; // destroyed if this fails
    s.order = std.heap.c_allocator.alloc(Waiting, host.*.engine.*.max_requests) catch return -enomem;
    return 0;
}

fn destroy(self: ?*anyopaque) callconv(.c) void {
    std.heap.c_allocator.free(of(self).order);
    std.heap.c_allocator.destroy(of(self));
}

/// Sets all parameters but `preempt`, which the core knows from caps.
fn reconfigure(self: ?*anyopaque, params: ?*const anyopaque) callconv(.c) c_int {
    const given: *const Params = @ptrCast(@alignCast(params.?));
    const preempt = of(self).params.preempt;
    of(self).params = given.*;
    of(self).params.preempt = preempt;
    return 0;
}

const parameters = [_]c.struct_lls_param{
    .{ .name = "max_seqs", .type = c.LLS_TYPE_INT, .offset = @offsetOf(Params, "max_seqs"), .default_value = "256", .min = 1, .max = 65536, .unit = "sequences", .sentence = "most sequences that run in one step", .flags = c.LLS_PARAM_RELOADABLE },
    .{ .name = "ageing", .type = c.LLS_TYPE_FLOAT, .offset = @offsetOf(Params, "ageing"), .default_value = "100", .min = 0, .max = 1e6, .unit = "tokens/s", .sentence = "tokens that a request counts less for each second it has waited", .flags = c.LLS_PARAM_RELOADABLE },
    .{ .name = "watermark", .type = c.LLS_TYPE_FLOAT, .offset = @offsetOf(Params, "watermark"), .default_value = "0.01", .min = 0, .max = 0.2, .unit = "", .sentence = "part of the cache that must stay free when a request is let in", .flags = c.LLS_PARAM_RELOADABLE },
    .{ .name = "preempt", .type = c.LLS_TYPE_CHOICE, .offset = @offsetOf(Params, "preempt"), .default_value = "recompute", .choices = "recompute|swap", .unit = "", .sentence = "how running requests make room: dropped and prefilled again, or moved to the host" },
};

const vtable: c.struct_lls_scheduler_vtable = .{
    .api_version = c.LLS_API_VERSION,
    .size = @sizeOf(c.struct_lls_scheduler_vtable),
    .create = create,
    .destroy = destroy,
    .caps = caps,
    .plan = plan,
    .reconfigure = reconfigure,
};

export const llmserve_plugin: c.struct_lls_plugin = .{
    .api_version = c.LLS_API_VERSION,
    .size = @sizeOf(c.struct_lls_plugin),
    .kind = c.LLS_KIND_SCHEDULER,
    .id = "shortest",
    .version = "1.0",
    .description = "shortest first, with ageing",
    .licence = "Apache-2.0",
    .params = &parameters,
    .n_params = parameters.len,
    .param_size = @sizeOf(c.struct_lls_param),
    .params_size = @sizeOf(Params),
    .vtable = &vtable,
};
