/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llhttp's functions around its state machine; a file of their own because the two
 * declare each other's functions with different types.
 */
#define LLHTTP_STRICT_MODE 1
#include <http.c>
#include <api.c>
