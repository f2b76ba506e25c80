/* SPDX-License-Identifier: Apache-2.0 */
/* The table of llmserve-sim's own options. */
#include "tools/sim/options.h"

typedef struct lls_sim_tool_options options;

static const struct lls_param params[] = {
    LLS_PARAM_STRING(
        options, config, "",
        "policies and engine as in llmserve.ini (also -c); [server] is ignored",
        .flags = LLS_OPTION_FILE),
    LLS_PARAM_STRING(options, policies, "",
                     "several configurations A.ini,B.ini: a run with each; the same as "
                     "--sweep config=A.ini,B.ini",
                     .flags = LLS_OPTION_APART),
    LLS_PARAM_STRING(options, set, "",
                     "settings that count before the file's, as SECTION.KEY=VALUE: "
                     "scheduler.sarathi.chunk=256",
                     .flags = LLS_OPTION_LIST),
    LLS_PARAM_STRING(options, profile, "a100-80g",
                     "the simulated device: a profile that ships (a100-80g, h100-80g, "
                     "rtx4090, ...) or a file",
                     .flags = LLS_OPTION_FILE),
    LLS_PARAM_FLOAT(options, profile_error, "0", -0.9, 9, "",
                    "a part by which steps take longer than the profile says, or, below "
                    "0, less long"),
    LLS_PARAM_STRING(options, estimate, "same",
                     "basis of the policies' estimates: same as --profile, another "
                     "profile, or none: measured while they run",
                     .flags = LLS_OPTION_FILE),
    LLS_PARAM_FLOAT(options, estimate_error, "0", -0.9, 9, "",
                    "relative error of the policies' estimates of a step: above 0 too "
                    "long, below 0 too short"),
    LLS_PARAM_STRING(options, model, "",
                     "a model that ships (opt-13b, llama-3-8b, ...) or a folder with "
                     "config.json; the configuration's by default",
                     .flags = LLS_OPTION_FOLDER),
    LLS_PARAM_INT(options, ranks, "auto", 1, 1024, "devices",
                  "devices that share the model (tensor parallel); auto is [engine] "
                  "tensor_parallel_size",
                  .flags = LLS_PARAM_AUTO),
    LLS_PARAM_INT(options, stages, "1", 1, 1024, "devices",
                  "such groups in a line, each with its part of the layers (pipeline "
                  "parallel)"),
    LLS_PARAM_CHOICE(options, device, "sim", "sim|cpu|cuda",
                     "cpu, cuda: the real engine with random weights, in real time, for "
                     "comparison; on a GPU it does not sleep until the next arrival"),
    LLS_PARAM_BOOL(
        options, cpu_time, "false",
        "--device cpu with one thread: its time is processor time, and nobody "
        "sleeps until the next arrival, on a machine that does other things too"),
    LLS_PARAM_DURATION(options, plan_time, "0", 0, 10e9,
                       "virtual time that each plan takes"),
    LLS_PARAM_FLOAT(options, draft_acceptance, "0", 0, 1, "",
                    "guess each next token right with this probability, up to [plugins] "
                    "max_drafts of them, which steps verify; a trace's column "
                    "draft_acceptance says it for its row; 0: the configured drafter "
                    "guesses"),
    LLS_PARAM_CHOICE(
        options, placing, "work", "work|load|session",
        "choice among several instances: by what waits there and what of "
        "the prompt is not cached there, as servers do; by what waits alone; "
        "by a hash of the session's name"),
    LLS_PARAM_INT(options, max_concurrency, "0", 0, 1 << 20, "requests",
                  "most requests under way at once; 0 is no limit"),
    LLS_PARAM_STRING(options, json, "", "write the report there",
                     .flags = LLS_OPTION_APART | LLS_OPTION_FILE),
    LLS_PARAM_STRING(options, record, "",
                     "write all arrivals and plans there: the decision log",
                     .flags = LLS_OPTION_APART | LLS_OPTION_FILE),
    LLS_PARAM_STRING(options, write_lengths, "",
                     "write the answers' true lengths there first, as the predictor "
                     "fixed reads them: an oracle",
                     .flags = LLS_OPTION_APART | LLS_OPTION_FILE),
    LLS_PARAM_STRING(options, against, "",
                     "compare this run's plans with such a log of the same load, and say "
                     "where they part",
                     .flags = LLS_OPTION_FILE),
    LLS_PARAM_STRING(options, replay, "",
                     "take arrivals, times and ends from such a log, of the daemon "
                     "([server] decisions) or of a simulation, and say where this "
                     "configuration's plans part from it",
                     .flags = LLS_OPTION_FILE),
    LLS_PARAM_BOOL(options, save_detailed, "false",
                   "with a value for each request and step in it"),
    LLS_PARAM_BOOL(options, measure_plans, "false",
                   "report the real time that plans took; such a report is never twice "
                   "the same"),
    LLS_PARAM_BOOL(options, quiet, "false", "no progress bar and no table",
                   .flags = LLS_OPTION_APART),
    LLS_PARAM_STRING(options, goodput, "",
                     "SLOs of all requests in place of their own, as KEY:MILLISECONDS",
                     .flags = LLS_OPTION_LIST),
    LLS_PARAM_STRING(options, metric_percentiles, "90,99", "percentiles reported"),
    LLS_PARAM_STRING(options, metadata, "", "KEY=VALUE to put into the report",
                     .flags = LLS_OPTION_LIST),
    LLS_PARAM_STRING(options, label, "", "name of the run in the report"),
    LLS_PARAM_DURATION(options, warm_up, "0", 0, 1e15,
                       "requests that come earlier are left out of the metrics"),
    LLS_PARAM_BOOL(options, help, "false", "show this", .flags = LLS_OPTION_APART),
    LLS_PARAM_BOOL(options, version, "false", "show the version",
                   .flags = LLS_OPTION_APART),
};

const struct lls_option_group lls_sim_option_group = {
    .title = "Simulation",
    .table = {.params = params,
              .n = sizeof params / sizeof *params,
              .size = sizeof(options)},
};
