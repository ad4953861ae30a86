"""What a host decides by, beside its models and tools: functions, rules of approval, hooks, types of results."""

from typing import NamedTuple

from interlock.ports import NoValidator, OutputValidator
from interlock.runtime.calls.approvals import NO_APPROVALS, HostApprovals
from interlock.runtime.calls.host_decisions import NO_HOST_DECISIONS, HostDecisions
from interlock.runtime.calls.host_hooks import HostHooks


class HostPolicies(NamedTuple):
    decisions: HostDecisions = NO_HOST_DECISIONS
    approvals: HostApprovals = NO_APPROVALS
    hooks: HostHooks = HostHooks()
    outputs: OutputValidator = NoValidator()


NO_POLICIES = HostPolicies()
