/* SPDX-License-Identifier: Apache-2.0 */
/* The options of multiple runs, the same for all tools. */
#include "tools/sweep/sweep.h"

#define RATE_MAX 1e6

#define OPTIONS struct lls_sweep_options
#include "tools/cli/table.h"

static const struct lls_param params[] = {
    LIST(
        sweep,
        "run a grid: OPTION=A,B,C or OPTION=FIRST..LAST[:STEP], several give "
        "their product. Each run's JSON goes to --result-dir under its name. A run whose "
        "file is there is left out if program, options, files, plugins and server are "
        "those that made it"),
    INT(num_runs, "1", 1, 10000, "",
        "repeat every run with so many seeds; the table then has means with 95 % "
        "bootstrap intervals"),
    INT(jobs, "auto", 1, 1024, "runs",
        "so many at a time; auto: as many as there are cores where they are simulated, "
        "else 1, since real ones would disturb each other",
        AUTO),
    TEXT(result_dir, ".", "folder of the results; created if it does not exist",
         FOLDER_OPTION),
    LLS_PARAM_FLOAT(struct lls_sweep_options, find_rate, "auto", 0.01, 1, "",
                    "find the highest --request-rate at which this share of all requests "
                    "meets its SLOs, by bisection; with --sweep (of other options) or "
                    "--policies one for each point, with --num-runs a mean with its 95 % "
                    "interval over the seeds. Also written to find-rate.json in "
                    "--result-dir",
                    .flags = LLS_PARAM_AUTO),
    LLS_PARAM_FLOAT(struct lls_sweep_options, find_rate_low, "0.5", 1e-6, RATE_MAX,
                    "req/s", "where the search begins"),
    LLS_PARAM_FLOAT(struct lls_sweep_options, find_rate_high, "1000", 1e-6, RATE_MAX,
                    "req/s", "where it gives up"),
    LLS_PARAM_FLOAT(struct lls_sweep_options, find_rate_tolerance, "0.05", 1e-4, 1, "",
                    "it ends when the bracket is narrower than this share of the rate"),
    TEXT(plot, "",
         "draw an SVG, or a page if it ends in .html, which needs no other file: "
         "attainment and latency against the rate, and CDFs; of a single run its "
         "timeline, requests as bars of their phases, and CDFs. Needs gnuplot",
         OUTPUT),
    LIST(plot_results,
         "run nothing: draw --plot from the results in these folders, NAME=FOLDER each; "
         "the name stands before their curves' labels"),
    LIST(
        compare,
        "run nothing: compare two results, or two folders of results (repeats by seed, "
        "points by name), and name a winner: where three seeds or more are on both sides "
        "and the 95 % interval of their differences (paired t) leaves out zero, else "
        "where "
        "the 95 % intervals of three runs or more do not overlap"),
};

const struct lls_option_group lls_sweep_option_group = {
    .title = "Many runs",
    .table = {.params = params,
              .n = sizeof params / sizeof *params,
              .size = sizeof(struct lls_sweep_options)},
};
