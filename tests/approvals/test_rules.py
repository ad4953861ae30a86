"""Rules: deny before ask before allow, and unclear asks."""

import pytest

from interlock.approvals.patterns import parse_pattern
from interlock.approvals.rules import NO_RULES, ApprovalRules, Verdict


def rules(deny: str = "", ask: str = "", allow: str = "") -> ApprovalRules:
    lists = [tuple(parse_pattern(each) for each in texts.split("; ") if each) for texts in (deny, ask, allow)]
    return ApprovalRules(deny=lists[0], ask=lists[1], allow=lists[2])


@pytest.mark.parametrize(
    ("deny", "ask", "allow", "arguments", "verdict", "rule"),
    [
        ("pay", "pay", "pay", "{}", Verdict.DENY, "pay"),
        ("", "pay", "pay", "{}", Verdict.ASK, "pay"),
        ("", "", "pay", "{}", Verdict.ALLOW, "pay"),
        ("", "", "", "{}", Verdict.NONE, ""),
        ("send", "send", "send", "{}", Verdict.NONE, ""),
        ("pay:n>5", "", "pay", '{"n": 6}', Verdict.DENY, "pay:n>5"),
        ("pay:n>5", "", "pay", '{"n": 5}', Verdict.ALLOW, "pay"),
        ("", "pay:n>5", "pay:n<9", '{"n": 6}', Verdict.ASK, "pay:n>5"),
        ("", "pay:n>5", "pay:n<9", '{"n": 5}', Verdict.ALLOW, "pay:n<9"),
        ("", "", "pay:n<9", '{"n": 9}', Verdict.NONE, ""),
        ("", "p*; pay:n>5", "", '{"n": 6}', Verdict.ASK, "p*"),
    ],
)
def test_deny_goes_before_ask_and_ask_before_allow(
    deny: str, ask: str, allow: str, arguments: str, verdict: Verdict, rule: str
) -> None:
    decided = rules(deny, ask, allow).decide("pay", arguments)
    assert (decided.verdict, decided.rule, decided.is_unclear) == (verdict, rule, False)


@pytest.mark.parametrize("arguments", ["{}", '{"n": "6"}', '{"n": null}', "not json", '{"n": 1, "n": 2}'])
@pytest.mark.parametrize("where", ["deny", "ask", "allow"])
def test_a_rule_that_is_unclear_asks_whatever_its_list_is(where: str, arguments: str) -> None:
    decided = rules(**{where: "pay:n>5"}).decide("pay", arguments)
    assert (decided.verdict, decided.rule, decided.is_unclear) == (Verdict.ASK, "pay:n>5", True)
    assert (
        rules(**{where: "pay:n>5", **({} if where == "allow" else {"allow": "pay"})}).decide("pay", arguments).verdict
        is Verdict.ASK
    )


def test_a_deny_that_fits_goes_before_one_that_is_unclear() -> None:
    assert rules(deny="pay:n>5; pay:to=bob").decide("pay", '{"to": "bob"}').rule == "pay:to=bob"
    assert rules(deny="pay:n>5; pay:to=bob").denial("pay", '{"to": "bob"}') == "pay:to=bob"
    assert rules(deny="pay:n>5").denial("pay", "{}") == ""


def test_rules_are_about_the_tools_that_they_name() -> None:
    assert rules(ask="pay_*").are_about("pay_out")
    assert not rules(ask="pay_*").are_about("send")
    assert not NO_RULES.are_about("pay")
