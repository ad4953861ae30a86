"""The process that a local model lives in. `local_model` starts it as a script, and nobody imports it.

Rule 1: it serves on the loopback and only whoever has the key, which is the first line of its input.
Rule 2: it says its address, then nothing more; when its input ends it ends, so that it never outlives its owner.
Rule 3: one thread computes. On the small machines that this is for, two get in each other's way and take 30 times as
long.
"""

import os
import sys

# What SmolLM2 was trained for.
CONTEXT_TOKENS = 8192

# Conversations at once, in one context, so that the members of a group go on together.
SLOTS = 4

# Beginnings of conversations that are kept, and not read anew; unless told, it would be gigabytes.
CACHE_MIB = 256


def main() -> None:
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = sys.argv[1]
    params.api_keys = [sys.stdin.readline().strip()]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_parallel, params.kv_unified = SLOTS, True
    params.n_ctx, params.cache_ram_mib = CONTEXT_TOKENS, CACHE_MIB
    params.ui, params.endpoint_slots = False, False
    server = Server(params)
    _say(server.listening_address)
    _fall_silent()
    sys.stdin.read()
    os._exit(0)  # nothing here is worth an orderly end


def _say(address: str) -> None:
    """On a line of its own: threads of the server log here too, and may be in the middle of one."""
    os.write(1, f"\n{address}\n".encode())


def _fall_silent() -> None:
    """Nobody reads on, and a full pipe would stop the server."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


if __name__ == "__main__":
    main()
