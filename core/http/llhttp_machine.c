/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llhttp's state machine, where llhttp comes as sources (Debian 12's node-llhttp) instead
 * of as a library; in its strict mode, which refuses what request smuggling is made of.
 */
#define LLHTTP_STRICT_MODE 1
#include <llhttp.c>
