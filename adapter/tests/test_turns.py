"""The judgement at the end of a turn."""

from adapter.turns import CANCELLED, EMPTY, FAILURE, SUCCESS, Turn, Verdict, judge


def turn(*texts, **flags):
    flags = {"model_began": True, "model_ended": True, "model_text": texts[0] if texts else "", **flags}
    return Turn("r1", "c1", texts=list(texts), **flags)


def test_the_final_text_is_the_answer():
    assert judge(turn("42"), SUCCESS) == Verdict(answer="42")


def test_attachments_are_kept_as_text_below_the_answer():
    assert judge(turn("see", attachments=["[file: /a.pdf]"]), SUCCESS).answer == "see\n\n[file: /a.pdf]"


def test_an_explicit_reply_wins_and_nothing_more_is_said():
    for outcome in (SUCCESS, FAILURE, CANCELLED):
        assert judge(turn("42", replied=True), outcome).open


def test_a_text_that_hermes_wrote_about_a_failed_model_is_no_answer():
    verdict = judge(turn("The model provider failed.", model_ended=False, model_text=""), SUCCESS)
    assert verdict == Verdict(error="failed",
                              detail="The agent's turn ended with an error: The model provider failed.")


def test_a_turn_that_hermes_calls_failed_is_no_answer():
    assert judge(turn("oops", failed=True), SUCCESS).error == "failed"
    assert judge(turn("oops"), FAILURE).error == "failed"


def test_a_turn_without_a_text_is_empty():
    assert judge(turn(), SUCCESS).error == "empty"


def test_a_model_that_said_nothing_is_empty_whatever_hermes_writes_about_it():
    assert judge(turn("No reply: the model returned empty content", model_text=EMPTY), SUCCESS).error == "empty"


def test_a_model_that_chose_silence_is_empty_also_when_hermes_writes_a_notice():
    assert judge(turn("a notice", model_text="NO_REPLY"), SUCCESS).error == "empty"


def test_a_cancelled_turn_is_cancelled_and_an_interrupted_one_interrupted():
    assert judge(turn(model_ended=False), CANCELLED).error == "cancelled"
    assert judge(turn(model_ended=False, interrupted=True), SUCCESS).error == "interrupted"


def test_what_a_shutdown_cuts_short_stays_open():
    for outcome in (SUCCESS, FAILURE, CANCELLED):
        assert judge(turn(model_ended=False), outcome, draining=True).open
        assert judge(turn("going down", model_ended=False), outcome, draining=True).open


def test_an_answer_that_was_ready_before_the_shutdown_counts():
    assert judge(turn("42"), SUCCESS, draining=True).answer == "42"


def test_a_release_without_the_hooks_still_gives_its_answer():
    assert judge(Turn("r1", "c1", texts=["42"]), SUCCESS).answer == "42"


def test_the_detail_is_one_short_line():
    detail = judge(turn("a\nb " + "x" * 1000, failed=True), SUCCESS).detail
    assert "\n" not in detail and len(detail) < 500
