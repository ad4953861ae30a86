"""The process of a local model. `local_model` starts it as a script; it is never imported.

Rule 1: it serves on the loopback, and only clients with the key, which is the first line of its input.
Rule 2: it prints its address and nothing more; it exits when its input ends, so it never outlives its owner.
Rule 3: one thread computes. On the small machines that this is for, two get in each other's way and take 30 times as
long.
"""

import os
import sys

# The context that SmolLM2 was trained for.
CONTEXT_TOKENS = 8192

# Parallel conversations in one context, so that the members of a group progress together.
SLOTS = 4

# Cached beginnings of conversations; without a limit they would take gigabytes.
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
    _print_address(server.listening_address)
    _silence_output()
    sys.stdin.read()
    os._exit(0)  # there is nothing to clean up


def _print_address(address: str) -> None:
    """Prints on a new line: threads of the server log here too, and may be in the middle of a line."""
    os.write(1, f"\n{address}\n".encode())


def _silence_output() -> None:
    """Discards further output: it is not read, and a full pipe would block the server."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


if __name__ == "__main__":
    main()
