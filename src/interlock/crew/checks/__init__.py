"""Whether a crew makes sense: one function a rule, every problem at once, each with its place and a fix.

Rule 1: a check reports and goes on; it never raises and never repairs.
Rule 2: one mistake, one problem: what only follows from another problem is not reported again.
Rule 3: the code names the fact; the severity may be lower where an old file is entitled to it.
"""

from interlock.crew.checks.agents import (
    agents_hand_over_to_agents,
    agents_narrow_to_known_signals,
    prompts_use_known_fields,
    prompts_use_known_marks,
    providers_exist,
    tools_can_be_called,
    tools_exist,
    tools_have_their_place,
)
from interlock.crew.checks.bounds import groups_end_before_the_run, groups_have_members, strict_settings_are_written_out
from interlock.crew.checks.definitions import (
    definitions_agree_with_themselves,
    definitions_are_unique,
    definitions_name_what_exists,
    deprecated_signals_lead_on,
    required_signals_are_routed,
)
from interlock.crew.checks.filling import fields_are_filled_before_use, prompts_have_values_for_their_fields
from interlock.crew.checks.flow import agents_can_be_reached, agents_can_reach_an_ending, agents_have_a_way_on
from interlock.crew.checks.hearing import (
    delegation_is_a_tree,
    reports_that_are_measured_are_checked,
    subscriptions_can_match,
)
from interlock.crew.checks.models import (
    addresses_are_addresses,
    addresses_are_listed,
    agents_have_models,
    cost_budgets_have_prices,
    cost_budgets_have_prices_below,
    keys_are_set,
    providers_are_installed,
)
from interlock.crew.checks.modes import (
    constrained_agents_rely_on_marks,
    constrained_models_can_be_held,
    emit_signal_is_for_tool_mode,
    only_texts_are_cut,
    signal_modes_have_marks,
)
from interlock.crew.checks.names import (
    ids_are_well_formed,
    names_are_unique,
    spoken_names_are_unique,
    the_entry_point_exists,
    there_are_agents,
)
from interlock.crew.checks.routes import (
    a_reply_can_tell_signals_apart,
    an_agent_routes_a_signal_once,
    broadcasts_name_agents,
    calls_in_one_reply_return_to_one_agent,
    calls_name_sub_crews,
    deprecated_signals_are_not_used,
    emitters_are_allowed,
    every_key_of_a_route_has_an_effect,
    routes_have_fitting_targets,
    routing_names_agents,
    templates_use_known_fields,
)
from interlock.crew.checks.subject import Check, Subject
from interlock.crew.checks.usage import groups_are_used, memory_is_read, prompts_fit_their_limits, sub_crews_are_used
from interlock.crew.definition import Crew
from interlock.crew.host import Host
from interlock.crew.problem import Problems
from interlock.crew.source import CrewSource

CHECKS: tuple[Check, ...] = (
    the_entry_point_exists,
    there_are_agents,
    ids_are_well_formed,
    names_are_unique,
    spoken_names_are_unique,
    definitions_are_unique,
    definitions_name_what_exists,
    definitions_agree_with_themselves,
    required_signals_are_routed,
    deprecated_signals_lead_on,
    routing_names_agents,
    an_agent_routes_a_signal_once,
    a_reply_can_tell_signals_apart,
    emitters_are_allowed,
    routes_have_fitting_targets,
    every_key_of_a_route_has_an_effect,
    broadcasts_name_agents,
    calls_name_sub_crews,
    calls_in_one_reply_return_to_one_agent,
    templates_use_known_fields,
    deprecated_signals_are_not_used,
    groups_have_members,
    groups_end_before_the_run,
    strict_settings_are_written_out,
    agents_hand_over_to_agents,
    agents_narrow_to_known_signals,
    tools_exist,
    tools_can_be_called,
    tools_have_their_place,
    agents_have_models,
    providers_exist,
    providers_are_installed,
    addresses_are_addresses,
    addresses_are_listed,
    keys_are_set,
    cost_budgets_have_prices,
    cost_budgets_have_prices_below,
    prompts_use_known_fields,
    prompts_use_known_marks,
    signal_modes_have_marks,
    only_texts_are_cut,
    constrained_agents_rely_on_marks,
    constrained_models_can_be_held,
    emit_signal_is_for_tool_mode,
    delegation_is_a_tree,
    reports_that_are_measured_are_checked,
    subscriptions_can_match,
    agents_can_be_reached,
    agents_have_a_way_on,
    agents_can_reach_an_ending,
    fields_are_filled_before_use,
    prompts_have_values_for_their_fields,
    prompts_fit_their_limits,
    sub_crews_are_used,
    groups_are_used,
    memory_is_read,
)


def check_crew(crew: Crew, source: CrewSource, problems: Problems, host: Host | None = None) -> None:
    """Runs every rule over the crew, adding what it finds to `problems`."""
    subject = Subject(crew, source, problems, host or Host())
    for check in CHECKS:
        check(subject)
