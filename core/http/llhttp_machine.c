/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles llhttp's state machine where llhttp is installed as sources (Debian 12's
 * node-llhttp) instead of as a library. Strict mode refuses input that request smuggling
 * uses.
 */
#define LLHTTP_STRICT_MODE 1
#include <llhttp.c>
