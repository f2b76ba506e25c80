#!/bin/sh
# A test in TAP: does @KIND@_example.so keep its side of the contract?
cd "$(dirname "$0")" || exit 1
exec "$(${PKG_CONFIG:-pkg-config} --variable=bindir llmserve-plugin)/llmserve-plugin-check" \
  ./@KIND@_example.so
