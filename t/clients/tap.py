# SPDX-License-Identifier: Apache-2.0
"""TAP for the clients of this folder (and t/api/openai_client.py), and where the server is: each is run by
judges.t as

    LLS_MODEL=NAME python CLIENT.py http://127.0.0.1:PORT

against the demo model, or t/api/fake_server, whose answers repeat the prompt: each message as
"role: content".
"""
import os
import sys

URL = sys.argv[1] + "/v1"
MODEL = os.environ.get("LLS_MODEL", "fake/model")
count = 0
failed = False


def ok(condition, name):
    global count, failed
    count += 1
    failed = failed or not condition
    print(f"{'ok' if condition else 'not ok'} {count} - {name}", flush=True)


def same(got, want, name):
    ok(got == want, name)
    if got != want:
        print(f"# got {got!r}, not {want!r}")


def raises(kind, call, name):
    try:
        call()
    except kind as error:
        ok(True, name)
        return error
    except Exception as error:
        print(f"# {type(error).__name__}: {error}")
    ok(False, name)
    return None


def end():
    print(f"1..{count}")
    sys.exit(failed)
