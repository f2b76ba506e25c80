/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of a batch that was answered becomes a line of the output or the error file, or
 * is run again. The number of tries has a bound: after the last one the answer goes into
 * the error file.
 */
#ifndef LLS_API_LINE_ANSWER_H
#define LLS_API_LINE_ANSWER_H

#include <stdint.h>

/* After what says nothing of the line, such as an engine that failed as a whole. */
#define LLS_LINE_PAUSE_NS INT64_C(1000000000)

/* The delay before a line is run again that has been run `tries` times, the last time
 * with this status; 0: the answer stands. [any] */
int64_t lls_line_retry(unsigned status, uint32_t tries);

/* OpenAI's line of an output or error file: one line of text, the caller's to free; NULL
 * without memory. `json` is the answer's body, on one line. [main] */
char *lls_line_answer(const char *custom_id, unsigned status, const char *json);

#endif
