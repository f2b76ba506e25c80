/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles llhttp's functions around its state machine. They have a file of their own
 * because llhttp's two source files declare each other's functions with different types.
 */
#define LLHTTP_STRICT_MODE 1
#include <http.c>
#include <api.c>
