/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the answer to a batch line into a line of the output or error file, or has the
 * line run again. The number of tries is limited: the answer of the last try goes into
 * the error file.
 */
#ifndef LLS_API_LINE_ANSWER_H
#define LLS_API_LINE_ANSWER_H

#include <stdint.h>

/* Delay after a failure that is not the line's fault, such as a failed engine. */
#define LLS_LINE_PAUSE_NS INT64_C(1000000000)

/* [any] Returns the delay in ns before a line is run again that has been run `tries`
 * times, the last time with `status`; 0: the answer is final. */
int64_t lls_line_retry(unsigned status, uint32_t tries);

/* [main] Returns a line of an output or error file in OpenAI's format, which the caller
 * frees, or NULL if out of memory. `json` is the answer's body, on one line. */
char *lls_line_answer(const char *custom_id, unsigned status, const char *json);

#endif
