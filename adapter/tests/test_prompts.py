"""Prompts for a human are decided at once."""

from adapter.prompts import NEEDS_INPUT, Prompts


def said_of_rm_x(said, conversation="c1", mode="ask"):
    """Prompts whose asker was asked about `rm x` in c1, and said this in a conversation."""
    prompts = Prompts(mode)
    prompts.approval("c1", "rm x", "", answerable=True)
    prompts.next_message(conversation, said)
    return prompts


def allows_rm_x(prompts, conversation="c1"):
    return prompts.approval(conversation, "rm x", "", answerable=True).allow


def test_by_default_a_clarify_is_answered_with_decide_yourself():
    decision = Prompts("deny").clarify("red?", ["red", "blue"], answerable=True)
    assert "No human is present" in decision.for_model and decision.for_asker is None


def test_by_default_a_command_is_denied_with_a_reason():
    decision = Prompts("deny").approval("c1", "rm -rf x", "dangerous", answerable=True)
    assert not decision.allow and decision.for_asker is None and "denied" in decision.for_model


def test_a_question_goes_back_to_the_asker_with_its_choices():
    decision = Prompts("ask").clarify("Which colour?", ["red", "blue"], answerable=True)
    assert decision.for_asker.splitlines()[:3] == [f"{NEEDS_INPUT} Which colour?", "1. red", "2. blue"]
    assert "End your turn now" in decision.for_model


def test_where_nobody_waits_for_the_turn_nothing_is_asked_back():
    assert Prompts("ask").clarify("x", None, answerable=False).for_asker is None
    assert Prompts("ask").approval("c1", "x", "", answerable=False).for_asker is None


def test_the_asker_allows_exactly_one_command_once():
    prompts = Prompts("ask")
    asked = prompts.approval("c1", "rm -rf x", "recursive delete", answerable=True)
    assert not asked.allow and "rm -rf x" in asked.for_asker and "recursive delete" in asked.for_asker
    prompts.next_message("c1", ' "Approve." ')
    assert not prompts.approval("c1", "rm -rf y", "", answerable=True).allow
    prompts.next_message("c1", "approve")
    assert not prompts.approval("c1", "rm -rf x", "", answerable=True).allow, "y was asked about, not x"
    prompts.next_message("c1", "approve")
    assert prompts.approval("c1", "rm -rf x", "", answerable=True).allow
    assert not prompts.approval("c1", "rm -rf x", "", answerable=True).allow


def test_anything_else_than_the_word_refuses():
    assert allows_rm_x(said_of_rm_x("approve"))
    for said in ("no", "approve it, but carefully", "yes", "", "do not approve"):
        assert not allows_rm_x(said_of_rm_x(said)), said


def test_one_conversation_cannot_allow_what_another_was_asked():
    assert not allows_rm_x(said_of_rm_x("approve", conversation="c2"), conversation="c2")


def test_an_approval_is_void_once_the_turn_it_was_given_for_is_followed_by_another():
    prompts = said_of_rm_x("approve")
    prompts.next_message("c1", "something else")
    assert not allows_rm_x(prompts)


def test_under_deny_the_word_approve_means_nothing():
    assert not allows_rm_x(said_of_rm_x("approve", mode="deny"))
