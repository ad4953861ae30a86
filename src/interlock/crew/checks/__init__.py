"""Checks that a crew makes sense: one function per rule; all problems at once, each with its place and a fix.

Rule 1: a check reports and continues; it never raises and never repairs.
Rule 2: one mistake is one problem: a consequence of another problem is not reported again.
Rule 3: the code names the fact; for old files the severity may be lower.
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
    replacements_of_deprecated_signals_exist,
    signals_that_must_be_routed_are,
)
from interlock.crew.checks.flow import agents_can_be_reached, agents_can_reach_an_ending, agents_have_a_way_on
from interlock.crew.checks.listeners import (
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
    settings_are_taken,
)
from interlock.crew.checks.names import (
    ids_are_well_formed,
    names_are_unique,
    spoken_names_are_unique,
    the_entry_point_exists,
    there_are_agents,
)
from interlock.crew.checks.outputs import (
    endings_give_the_output,
    outputs_are_asked_for,
    routes_take_what_is_given,
    sub_crews_give_what_is_expected,
    templates_use_parts_that_results_have,
)
from interlock.crew.checks.routes import (
    a_reply_can_tell_signals_apart,
    an_agent_routes_a_signal_once,
    broadcasts_name_agents,
    calls_in_one_reply_return_to_one_agent,
    calls_name_sub_crews,
    emitters_are_allowed,
    every_key_of_a_route_has_an_effect,
    routes_have_fitting_targets,
    routes_use_no_deprecated_signals,
    routing_names_agents,
    templates_use_known_fields,
)
from interlock.crew.checks.signal_modes import (
    agents_under_constraint_rely_on_marks,
    emit_signal_is_for_tool_mode,
    models_under_constraint_support_it,
    only_texts_are_cut,
    signal_modes_have_marks,
)
from interlock.crew.checks.subject import Check, CheckSubject
from interlock.crew.checks.template_fields import fields_are_filled_before_use, prompts_have_values_for_their_fields
from interlock.crew.checks.unused import groups_are_used, memory_is_read, prompts_fit_their_limits, sub_crews_are_used
from interlock.crew.definition import CrewDefinition
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
    signals_that_must_be_routed_are,
    replacements_of_deprecated_signals_exist,
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
    routes_use_no_deprecated_signals,
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
    settings_are_taken,
    cost_budgets_have_prices,
    cost_budgets_have_prices_below,
    prompts_use_known_fields,
    prompts_use_known_marks,
    signal_modes_have_marks,
    only_texts_are_cut,
    agents_under_constraint_rely_on_marks,
    models_under_constraint_support_it,
    emit_signal_is_for_tool_mode,
    delegation_is_a_tree,
    reports_that_are_measured_are_checked,
    subscriptions_can_match,
    agents_can_be_reached,
    agents_have_a_way_on,
    agents_can_reach_an_ending,
    endings_give_the_output,
    routes_take_what_is_given,
    sub_crews_give_what_is_expected,
    templates_use_parts_that_results_have,
    outputs_are_asked_for,
    fields_are_filled_before_use,
    prompts_have_values_for_their_fields,
    prompts_fit_their_limits,
    sub_crews_are_used,
    groups_are_used,
    memory_is_read,
)


def check_crew(crew: CrewDefinition, source: CrewSource, problems: Problems, host: Host | None = None) -> None:
    """Runs every rule over the crew, adding what it finds to `problems`."""
    subject = CheckSubject(crew, source, problems, host or Host())
    for check in CHECKS:
        check(subject)
